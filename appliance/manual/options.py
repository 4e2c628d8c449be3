"""docs/reference/configuration.md, made from the packages' option dataclasses."""

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from appliance.config import ApplianceConfig
from broker.config import ACCEPTED_UNUSED as BROKER_UNUSED
from broker.config import BrokerConfig
from headrace.model.option import format_value, help_of, is_changeable, keys_of
from nameserver.config import NameServerConfig
from store.config import ACCEPTED_UNUSED as STORE_UNUSED
from store.config import StoreConfig

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "reference" / "configuration.md"

_HEAD: Final = """\
<!-- made by `make docs` from the packages' config.py: do not edit -->

# Configuration

`headrace run` takes three files, each of them optional, and single keys:

| given with | file | its keys | an unknown key is |
|---|---|---|---|
| `-c FILE` | `broker.conf`, RocketMQ's own, in Java's properties syntax | [broker](#broker) and [store](#store) | a warning |
| `--config FILE` | `appliance.toml` | [appliance](#appliance) | an error |
| `--nameserver-conf FILE` | the name server's, in Java's properties syntax | [name server](#name-server) | a warning |
| `--set KEY=VALUE` | | those of the first two | an error |

Of several values for a key the flag (`--host`, `--port`, `--nameserver-port`, `--data`) counts most, then `--set`, then the
file, then the default. `storePathRootDir` is always `store` in the data folder; a file that says otherwise is refused.
`brokerIP1` is what `--host` says unless that is `0.0.0.0`; `namesrvAddr` is the appliance's own name server unless it is given.
`headrace config check FILE` looks at a file without starting anything.

`appliance.toml` may also list [several brokers](../operations/several-brokers.md): `brokers = 3`, or a `[[broker]]` table for each.

A key marked with `*` may be changed while the broker runs (`updateBrokerConfig`, `updateNamesrvConfig`).
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
    yield "| key | default | |"
    yield "|---|---|---|"
    for key, field in keys_of(configuration).items():
        default = "" if field.default is dataclasses.MISSING else format_value(field.default)
        mark = "*" if is_changeable(field) else ""
        yield f"| `{key}`{mark} | {f'`{default}`' if default else ''} | {help_of(field).replace('|', '&#124;')} |"
    yield ""


def _unused(reasons: Mapping[str, str]) -> Iterator[str]:
    yield "## Keys without effect\n"
    yield "Keys of a RocketMQ broker that are known here and have no effect, and why. In `broker.conf` each is a warning.\n"
    yield "| key | because |"
    yield "|---|---|"
    for key in sorted(reasons):
        yield f"| `{key}` | {reasons[key]} |"
    yield ""


def main() -> None:
    """Write the page."""
    PAGE.write_text(format_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
