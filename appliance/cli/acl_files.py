"""Shared by the `headrace acl` commands: where the ACL files are, and errors as one line."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from appliance.cli.broker_store import store_of
from appliance.cli.options import broker_option, data_option
from appliance.cli.supervisor_client import paths_of
from appliance.errors import ApplianceError
from broker.access.acl_folder import PLAIN_FILE, AclFolder
from broker.access.errors import BadAclFile

_home_option = click.option(
    "--home",
    metavar="DIR",
    help="Folder that contains conf/, if broker.conf sets rocketmqHome. Default: the data folder.",
)
_plain_file_option = click.option(
    "--plain-file", metavar="FILE", default=PLAIN_FILE, show_default=True,
    help="The main file, if broker.conf sets rocketmq.acl.plain.file.",
)  # fmt: skip


def files_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --data, --broker, --home and --plain-file."""
    return data_option(broker_option(_home_option(_plain_file_option(command))))


def folder_of(data: str, broker: str | None, home: str | None, plain_file: str) -> AclFolder:
    """The ACL files of a broker. Raises ApplianceError if it is not clear which broker, or its folder does not exist."""
    if home is None and broker is None:
        store_of(data, None)  # refuses to choose between several brokers
    folder = Path(home if home is not None else paths_of(data).broker(broker or "").folder)
    if not folder.is_dir():
        if home is None and broker is not None and folder.parent.is_dir():
            raise ApplianceError(
                f"{folder.parent} has no broker {broker}; check --broker, or omit it if DIR has one broker"
            )
        raise ApplianceError(
            f"{folder}: no such folder; give the data folder with --data DIR or rocketmqHome with --home DIR"
        )
    return AclFolder(folder, plain_file)


@contextmanager
def errors_as_lines() -> Iterator[None]:
    """Turns what the files have wrong into an ApplianceError."""
    try:
        yield
    except BadAclFile as error:
        raise ApplianceError(str(error).replace("\n", " ")) from None
    except OSError as error:
        raise ApplianceError(f"{error.filename or 'ACL file'}: {error.strerror or error}") from None
