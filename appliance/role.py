"""A role: a kind of process, as data. `role_table` lists the roles."""

from collections.abc import Callable
from typing import Generic, TypeVar

from msgspec import Struct

from ipc.control_block import ControlBlock
from ipc.role_context import ApplianceRoleContext

C = TypeVar("C", bound=ApplianceRoleContext)
S = TypeVar("S")


def _nothing() -> None:
    pass


def _no_condition(_block: ControlBlock) -> bool:
    return True


def qualified_name(broker: str, role: str) -> str:
    """What operators call a role: `broker-b/flush`, or the role's name alone where `broker` is empty."""
    return f"{broker}/{role}" if broker else role


class Role(Struct, Generic[C, S], frozen=True):
    """One row of a role table. `C` is the context in which its roles run, `S` their settings.

    Roles stop in the order of `stops`, lowest first; those with the same number stop together.
    """

    name: str
    run: Callable[[C, S], None]
    """Called in the forked child when it is released; returns when it is stopped and its work is done."""

    after: tuple[str, ...]
    """Roles that must have been running (or have ended well, if they run once) before this one is released: of the same table, or the appliance's own."""

    stops: int
    prepare: Callable[[], None] = _nothing
    """Called in the forked child at once, while it waits at its gate: only imports heavy modules."""

    starts_when: Callable[[ControlBlock], bool] = _no_condition
    """Condition of the offsets before it is released, each time."""

    stops_when: Callable[[ControlBlock], bool] = _no_condition
    """Condition of the offsets before it is stopped, when the appliance stops."""

    runs_once: bool = False
    """It does its work and exits with 0, and is not restarted."""

    afterwards: Callable[[S], None] | None = None
    """Called in the supervisor when a role that runs once has ended well, before another is started."""

    outlives: tuple[str, ...] = ()
    """Roles whose end it awaits before it stops if the supervisor has died, which otherwise keeps this order."""

    ends_with: str = ""
    """The role whose process it serves: it ends with that process, because the next one cannot use it."""

    is_expendable: bool = False
    """It runs foreign code, which may do anything to its process: it has no heartbeat, is stopped by SIGKILL, is restarted
    however often it dies, and affects neither the appliance nor whether its stop is clean."""

    is_optional: bool = False
    """The appliance serves clients without it: nobody waits for it, it is restarted with a back-off however often it fails to start, and it
    does not affect whether the appliance's stop is clean."""

    holds_store: bool = True
    """It may write to the store, so it keeps the store's lock while it lives."""
