"""An appliance with toy roles controlled by the test: real supervisor, boot, logs and command line.

    python -m support.toy_appliance scenario [arguments of `headrace run`]

Roles: logger (the real one), recover, worker (a plain loop), sink (stops after worker). What they do is the scenario's.
"""

import functools
import logging
import os
import signal
import sys
import time
from pathlib import Path

from appliance import boot
from appliance.cli import main as cli
from appliance.effective_configuration import BrokerConfiguration
from appliance.installed_program import InstalledProgram
from appliance.role import Role
from appliance.role_table import ApplianceRole, ApplianceSettings, BrokerRole, RoleTables, _mark_store, _run_logger
from ipc.publish.recover import RecoverPublisher
from ipc.role_context import ApplianceRoleContext, RoleContext

RECOVER_KILLS = 3
"""How often recover is killed in the scenario `recover-is-killed`."""

log = logging.getLogger("toy")


def recover(context: RoleContext, broker: BrokerConfiguration) -> None:
    context.running()
    if scenario == "recover-fails":
        raise OSError("the disk is on fire")
    if scenario == "recover-is-killed" and context.instance.health.read()[context.name].start_count <= RECOVER_KILLS:
        os.kill(os.getpid(), signal.SIGKILL)
    if scenario == "recover-crashes-always":
        os.kill(os.getpid(), signal.SIGSEGV)
    RecoverPublisher(context.control).first_values(min_offset=0, wrote_offset=0, allocated_offset=0, reput_offset=0)
    log.info("recovered")


def live(context: RoleContext, broker: BrokerConfiguration) -> None:
    starts = context.instance.health.read()[context.name].start_count
    if scenario == f"{context.name}-cannot-start" or (scenario == f"{context.name}-cannot-start-again" and starts > 1):
        raise OSError("its port is taken")
    if scenario == f"{context.name}-dies-before-it-is-ready":
        os._exit(9)
    context.running()
    if scenario == f"{context.name}-dies-once-it-is-ready":
        os._exit(9)
    log.info("lives: name=%s", context.name)
    told = os.path.join(broker.paths.folder, f"{context.name}.do")
    while not context.take_stop_order():
        context.nap(20)
        if os.path.exists(told):
            with open(told, encoding="utf-8") as file:
                what = file.read()
            os.unlink(told)
            do(context, what, f"{told}.end")
    if scenario == f"{context.name}-never-stops":
        while True:
            time.sleep(0.05)
            context.beat()
    if scenario == f"{context.name}-stops-badly":
        raise OSError("could not sync")
    log.info("ends: name=%s", context.name)


def do(context: RoleContext, what: str, end: str) -> None:
    """Carries out the commands in `<role>.do`; lasting ones until a file `end` exists."""
    match what:
        case "hang":
            time.sleep(3600)
        case "long call":
            with context.long_call("a toy's long call", 60_000):
                while not os.path.exists(end):
                    time.sleep(0.02)
        case "raise":
            raise RuntimeError("a toy broke")
        case "flood":
            for number in range(20_000):
                log.info("flood number=%d %s", number, "x" * 500)
        case "shout":
            log.warning("a line\nthat is two")
            try:
                raise ValueError("inside")
            except ValueError:
                log.exception("caught")
        case _:
            log.info("%s", what)


def run_broken_logger(context: ApplianceRoleContext, settings: ApplianceSettings) -> None:
    if scenario == "logger-sleeps":
        settings.log_channel.sender.close()
        context.running()
        while not context.take_stop_order():
            context.nap(100)
        return
    _run_logger(context, settings)


scenario = sys.argv[1]
OWN_ROLES: tuple[ApplianceRole, ...] = (
    Role(name="logger", run=run_broken_logger, after=(), stops=1, holds_store=False),
)
ROLES: tuple[BrokerRole, ...] = (
    Role(name="recover", run=recover, after=("logger",), stops=0, runs_once=True, afterwards=_mark_store),
    Role(name="sink", run=live, after=("recover",), stops=2),
    Role(name="worker", run=live, after=("sink",), stops=1),
)

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for background jobs
    if scenario == "is-installed":  # in the current folder
        boot.InstalledProgram = functools.partial(InstalledProgram, Path.cwd())  # type: ignore[attr-defined,assignment]
    sys.argv = ["headrace", "run", *sys.argv[2:]]
    boot.run_appliance = functools.partial(boot.run_appliance, tables=RoleTables(lambda _: OWN_ROLES, lambda _: ROLES))
    cli.main()
