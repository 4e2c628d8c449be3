"""docs/reference/configuration.md, made from the packages' option dataclasses."""

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from appliance.config import ApplianceConfig
from broker.config import ACCEPTED_UNUSED as BROKER_UNUSED
from broker.config import BrokerConfig
from headrace.model.option import format_value, help_of, is_changeable_by_request, keys_of
from nameserver.config import NameServerConfig
from store.config import ACCEPTED_UNUSED as STORE_UNUSED
from store.config import StoreConfig

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "reference" / "configuration.md"

_HEAD: Final = """\
<!-- made by `make docs` from the packages' config.py: do not edit -->

# Configuration

`headrace run` reads up to three files and single keys:

| flag | file | keys | unknown keys |
|---|---|---|---|
| `-c FILE` | RocketMQ's `broker.conf`, in Java properties format | [broker](#broker) and [store](#store) | warning |
| `--config FILE` | `appliance.toml` | [appliance](#appliance) | error |
| `--nameserver-conf FILE` | the name server's file, in Java properties format | [name server](#name-server) | warning |
| `--set KEY=VALUE` | | keys of `broker.conf` and `appliance.toml` | error |

Flags (`--host`, `--port`, `--nameserver-port`, `--data`) override `--set`, `--set` overrides the file, and the file overrides
the default. `storePathRootDir` is always `store` in the data folder; a different value is an error. `brokerIP1` defaults to
`--host`, unless that is `0.0.0.0`; `namesrvAddr` defaults to the appliance's own name server. `headrace config check FILE`
checks a file without starting anything.

`appliance.toml` can also define [several brokers](../operations/several-brokers.md): `brokers = 3`, or one `[[broker]]` table each.

Keys marked with `*` can be changed while the broker is running (`updateBrokerConfig`, `updateNamesrvConfig`). Requests cannot change any other key:
paths, addresses, ports and what concerns access are only read from the files.
"""


def format_page() -> str:
    """The page as it should be."""
    return "\n".join([
        _HEAD,
        *_section("Appliance", "`appliance.toml`", ApplianceConfig),
        *_section("Broker", "`broker.conf`", BrokerConfig),
        *_section("Store", "`broker.conf` too", StoreConfig),
        *_section("Name server", "its own file", NameServerConfig),
        *_unused({**BROKER_UNUSED, **STORE_UNUSED}),
    ])  # fmt: skip


def _section(title: str, where: str, configuration: type[Any]) -> Iterator[str]:
    yield f"## {title}\n"
    yield f"Keys of {where}.\n"
    yield "| key | default | description |"
    yield "|---|---|---|"
    for key, field in keys_of(configuration).items():
        default = "" if field.default is dataclasses.MISSING else format_value(field.default)
        mark = "*" if is_changeable_by_request(field) else ""
        yield f"| `{key}`{mark} | {f'`{default}`' if default else ''} | {help_of(field).replace('|', '&#124;')} |"
    yield ""


def _unused(reasons: Mapping[str, str]) -> Iterator[str]:
    yield "## Keys without effect\n"
    yield "Headrace accepts these keys of RocketMQ brokers with a warning, and ignores them.\n"
    yield "| key | reason |"
    yield "|---|---|"
    for key in sorted(reasons):
        yield f"| `{key}` | {reasons[key]} |"
    yield ""


def main() -> None:
    """Write the page."""
    PAGE.write_text(format_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
