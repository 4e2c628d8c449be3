"""Shared by the `headrace acl` commands: where the ACL files are, and errors as one line."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from appliance.cli.broker_store import store_of
from appliance.cli.options import broker_option, data_option
from appliance.cli.supervisor_client import paths_of
from appliance.errors import ApplianceError
from appliance.service_files import CONFIGURATION_FILES, configuration_of, service_of
from broker.access.acl_folder import PLAIN_FILE, AclFolder
from broker.access.errors import BadAclFile

if TYPE_CHECKING:
    from broker.config import BrokerConfig

_home_option = click.option(
    "--home",
    metavar="DIR",
    help="Folder that contains conf/, if broker.conf sets rocketmqHome. Default: the data folder; for an installed service, as configured.",
)
_plain_file_option = click.option(
    "--plain-file",
    metavar="FILE",
    help=f"The main file, if broker.conf sets rocketmq.acl.plain.file. Default: {PLAIN_FILE}; for an installed service, as configured.",
)


def files_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --data, --broker, --home and --plain-file."""
    return data_option(broker_option(_home_option(_plain_file_option(command))))


def folder_of(data: str, broker: str | None, home: str | None, plain_file: str | None) -> AclFolder:
    """The ACL files of a broker, by default those that the configuration of the installed service names.

    Raises ApplianceError if it is not clear which broker, or their folder does not exist.
    """
    if home is None and broker is None:
        store_of(data, None)  # refuses to choose between several brokers
    configured = None if home is not None else _configured(data, broker)
    if configured is not None:
        folder, plain_file = Path(configured.rocketmq_home), plain_file or configured.acl_plain_file
    else:
        folder = Path(home if home is not None else paths_of(data).broker(broker or "").folder)
    if folder.is_dir():
        return AclFolder(folder, plain_file or PLAIN_FILE)
    if home is None and broker is not None and configured is None and folder.parent.is_dir():
        raise ApplianceError(
            f"{folder.parent} has no broker {broker}; check --broker, or omit it if DIR has one broker"
        )
    raise ApplianceError(
        f"{folder}: no such folder; "
        + (
            "give the data folder with --data DIR or rocketmqHome with --home DIR"
            if configured is None
            else "check rocketmqHome in the service's broker.conf; the data folder is created when the service starts"
        )
    )


def _configured(data: str, broker: str | None) -> "BrokerConfig | None":
    folder = Path(paths_of(data).data)
    unit = service_of(folder)
    if unit is None:
        return None
    from appliance.configuration_reader import Sources, read_configuration  # noqa: PLC0415  slow to import

    toml, conf, nameserver = (str(configuration_of(unit) / name) for name in CONFIGURATION_FILES)
    brokers = read_configuration(Sources(str(folder), conf, toml, nameserver)).brokers
    return next((each.broker for each in brokers if broker in (None, each.name)), None)


@contextmanager
def errors_as_lines() -> Iterator[None]:
    """Turns what the files have wrong into an ApplianceError."""
    try:
        yield
    except BadAclFile as error:
        raise ApplianceError(str(error).replace("\n", " ")) from None
    except OSError as error:
        raise ApplianceError(f"{error.filename or 'ACL file'}: {error.strerror or error}") from None
