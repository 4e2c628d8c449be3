"""docs/reference/configuration.md, made from the packages' option dataclasses."""

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from appliance.config import ApplianceConfig
from broker.config import ACCEPTED_UNUSED as BROKER_UNUSED
from broker.config import BrokerConfig
from headrace.model.option import format_value, help_of, is_changeable_by_request, keys_of
from headrace.model.server_options import ServerOptions
from nameserver.config import NameServerConfig
from store.config import ACCEPTED_UNUSED as STORE_UNUSED
from store.config import StoreConfig
from web.config import ConsoleConfig

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "reference" / "configuration.md"

_HEAD: Final = """\
<!-- made by `make docs` from the packages' config.py: do not edit -->

# Configuration

`headrace run` reads up to three files and single keys:

| flag | file | keys | unknown keys |
|---|---|---|---|
| `-c FILE` | RocketMQ's `broker.conf`, in Java properties format | [broker](#broker), [store](#store) and [both servers](#broker-and-name-server) | warning |
| `--config FILE` | `appliance.toml` | [appliance](#appliance) and [console](#console) | error |
| `--nameserver-conf FILE` | the name server's file, in Java properties format | [name server](#name-server) and [both servers](#broker-and-name-server) | warning |
| `--set KEY=VALUE` | | keys of `broker.conf` and `appliance.toml` | error |

Flags (`--host`, `--port`, `--nameserver-port`, `--console-port`, `--data`) override `--set`, `--set` overrides the file, and the file overrides
the default. `storePathRootDir` is always `store` in the data folder; a different value is an error. `brokerIP1` defaults to
`--host`, unless that is `0.0.0.0`; `namesrvAddr` defaults to the appliance's own name server. `headrace config check FILE`
checks a file without starting anything.

`appliance.toml` can also define [several brokers](../operations/several-brokers.md): `brokers = 3`, or one `[[broker]]` table for each broker.

Keys marked with `*` can be changed while the broker is running (`updateBrokerConfig`, `updateNamesrvConfig`). Requests cannot change any other key:
paths, addresses, ports and what concerns access are only read from the files.
"""

_SHARED: Final = """\
Keys of `broker.conf` and of the name server's own file; each server uses the value in its own file. If the name server's file does not set
`adminAllow` or `allowUnauthenticatedAdmin`, the value in `broker.conf` applies. The name server's `adminAllow` must include other hosts' brokers,
because registration is an admin request."""


def format_page() -> str:
    """The page as it should be."""
    return "\n".join([
        _HEAD,
        *_section("Appliance", "Keys of `appliance.toml`.", ApplianceConfig),
        *_section("Console", "Keys of `appliance.toml`, too.", ConsoleConfig),
        *_section("Broker", "Keys of `broker.conf`.", BrokerConfig, ServerOptions),
        *_section("Store", "Keys of `broker.conf`, too.", StoreConfig),
        *_section("Name server", "Keys of the name server's own file.", NameServerConfig, ServerOptions),
        *_section("Broker and name server", _SHARED, ServerOptions),
        *_unused({**BROKER_UNUSED, **STORE_UNUSED}),
    ])  # fmt: skip


def _section(title: str, intro: str, configuration: type[Any], base: type[Any] | None = None) -> Iterator[str]:
    """The options of a configuration, without those that its `base` declares."""
    inherited = keys_of(base) if base is not None else {}
    yield f"## {title}\n"
    yield f"{intro}\n"
    yield "| key | default | description |"
    yield "|---|---|---|"
    for key, field in keys_of(configuration).items():
        if key in inherited:
            continue
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
