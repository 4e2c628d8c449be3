"""The console's options: keys of `appliance.toml`, and flags of `headrace console`; and what an appliance says of its servers' options."""

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.model.address_list import parse_networks
from headrace.model.host import format_host
from headrace.model.option import option

_BASE_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)*")


@dataclass(frozen=True)
class ConsoleConfig:
    """The options of the console."""

    console_host: str = option("127.0.0.1", help="Address on which the console listens.")
    console_port: int = option(8080, help="Port of the console (flag: --console-port).")
    console_base_path: str = option(
        "",
        help="Path prefix of all pages, such as `/headrace`, for a reverse proxy that passes the prefix on; empty: none.",
    )
    console_trusted_proxies: str = option(
        "",
        help="Addresses and networks of reverse proxies, separated by commas, whose X-Forwarded-For and X-Forwarded-Proto headers are used.",
    )

    console_access_key: str = option(
        "",
        help="Access key of the console's account at brokers with aclEnable=true; the account needs admin: true. Empty: ROCKETMQ_ACCESS_KEY of the environment.",
    )
    console_secret_key: str = option(
        "",
        help="Secret key of that account. Nobody but the appliance's user should be able to read the file. Empty: ROCKETMQ_SECRET_KEY of the environment.",
        secret=True,
    )

    @property
    def url(self) -> str:
        """Its address for a browser on this machine; behind a proxy it is another."""
        host = "127.0.0.1" if self.console_host in {"", "0.0.0.0", "::"} else self.console_host
        return f"http://{format_host((host, self.console_port))}{self.console_base_path}/"

    def __post_init__(self) -> None:
        """Raises ValueError, which names the key, for an invalid value."""
        if not 1 <= self.console_port <= 65_535:
            raise ValueError(f"consolePort={self.console_port}: expected a number from 1 to 65535")
        if not _BASE_PATH.fullmatch(self.console_base_path):
            raise ValueError(
                f"consoleBasePath={self.console_base_path}: expected a path such as /headrace, without a trailing slash"
            )
        parse_networks("consoleTrustedProxies", self.console_trusted_proxies)
        if bool(self.console_access_key) != bool(self.console_secret_key):
            raise ValueError("consoleAccessKey and consoleSecretKey must be set together")


class OptionOrigin(enum.Enum):
    """Where the value of an option comes from: words of the console."""

    DEFAULT = "default"
    FILE = "file"
    COMMAND_LINE = "command line"
    DERIVED = "derived"
    """From another option, or from the machine."""


@dataclass(frozen=True, slots=True)
class OwnOption:
    """An option of a server of the appliance, as it was when the appliance started."""

    value: str
    origin: OptionOrigin
    source: str
    """The file, the flag, or the option it is derived from; empty for a default."""
    is_changeable: bool
    """Whether a request may change it while the server runs."""
    help: str


@dataclass(frozen=True, slots=True)
class OwnServer:
    """A broker or name server of the appliance to which the console belongs."""

    options: Mapping[str, OwnOption]
    broker_conf: str = ""
    """The file into which it writes options that requests change; empty: such changes are lost at its next restart."""
