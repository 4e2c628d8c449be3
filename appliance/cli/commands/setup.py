"""`headrace setup`."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.errors import ApplianceError
from appliance.service_files import SERVICE_CONFIGURATION, SERVICE_DATA

if TYPE_CHECKING:
    from appliance.setup_files import Answers, Written


@click.command("setup", short_help="Ask five questions and write a configuration.")
@click.option(
    "--host", metavar="ADDRESS", help="Address to listen on; clients must be able to reach it.  [default: 127.0.0.1]"
)
@click.option("--data", metavar="DIR", help="Data folder.  [default: $HEADRACE_DATA, or ./data]")
@click.option("--memory", "memory_mb", type=int, metavar="MB", help="Memory of the machine.  [default: detected]")
@click.option("--tls/--no-tls", default=None, help="Create certificates and offer TLS.  [default: no]")
@click.option(
    "--admin",
    metavar="NAME",
    help="Enable access control and create this administrator; empty: no access control.  [default: empty]",
)
@click.option(
    "--folder",
    metavar="DIR",
    help="Folder of the configuration.  [default: /etc/headrace, or ./conf if not installed as a package]",
)
@click.option("--yes", is_flag=True, help="Do not ask: use the defaults of omitted options.")
def command(
    host: str | None,
    data: str | None,
    memory_mb: int | None,
    tls: bool | None,
    admin: str | None,
    folder: str | None,
    yes: bool,
) -> None:
    """Ask for address, data folder, memory, TLS and an administrator's account, and write appliance.toml, broker.conf and namesrv.conf.

    In existing files, only the lines that these answers set are changed. Starts nothing; prints the commands to run next.
    """
    from appliance.setup_files import SERVICE_PROGRAM, Answers, write_configuration  # noqa: PLC0415  slow to import

    is_packaged = Path(sys.prefix) == SERVICE_PROGRAM
    target = (Path(folder) if folder else SERVICE_CONFIGURATION if is_packaged else Path("conf")).absolute()
    given = (host, data, memory_mb, tls, admin)
    if not yes and None in given and not sys.stdin.isatty():
        raise ApplianceError("standard input is not a terminal: pass all five options, or --yes for the defaults")
    ask = _Questions(is_silent=yes)
    answers = Answers(
        host=ask.text(host, "Address to listen on, which clients must be able to reach", "127.0.0.1"),
        data=Path(ask.text(data, "Data folder", os.environ.get("HEADRACE_DATA", "data"))).absolute(),
        memory_mb=ask.number(memory_mb, "Memory of the machine in MB", _memory_mb()),
        tls=ask.decision(tls, "Create certificates and offer TLS"),
        admin=ask.text(admin, "Access key of an administrator; empty: no accounts", ""),
    )
    _print_result(answers, write_configuration(answers, target), target, is_service=target == SERVICE_CONFIGURATION)
    if target == SERVICE_CONFIGURATION and answers.data != SERVICE_DATA:
        print(f"\nuse this data folder in other commands:\n  export HEADRACE_DATA={answers.data}")


class _Questions:
    """Asks for what was not given."""

    def __init__(self, *, is_silent: bool) -> None:
        self._is_silent = is_silent

    def text(self, given: str | None, question: str, default: str) -> str:
        if given is not None or self._is_silent:
            return default if given is None else given
        answer: str = click.prompt(question, default=default, show_default=bool(default))
        return answer.strip()

    def number(self, given: int | None, question: str, default: int) -> int:
        if given is not None or self._is_silent:
            return default if given is None else given
        answer: int = click.prompt(question, default=default, type=int)
        return answer

    def decision(self, given: bool | None, question: str) -> bool:
        if given is not None or self._is_silent:
            return bool(given)
        return click.confirm(question, default=False)


def _memory_mb() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20


def _print_result(answers: "Answers", written: "Written", folder: Path, *, is_service: bool) -> None:
    print("\nwritten:")
    for path in written.files:
        print(f"  {path}")
    if written.secret:
        print(f"\naccess key: {answers.admin}\nsecret key: {written.secret}")
    start = (
        "systemctl daemon-reload && systemctl restart headrace"
        if is_service
        else f"headrace run --data {answers.data} --config {folder}/appliance.toml -c {folder}/broker.conf"
        f" --nameserver-conf {folder}/namesrv.conf"
    )
    client = "127.0.0.1" if answers.host in ("0.0.0.0", "::") else answers.host
    print(f"\nstart:\n  {start}")
    print(f"\nsend and receive with RocketMQ's examples:\n  export NAMESRV_ADDR={client}:9876")
    print("  sh bin/tools.sh org.apache.rocketmq.example.quickstart.Producer")
