"""A role: a kind of process, as data. `role_table` lists the roles."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

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


@dataclass(frozen=True, slots=True)
class Role(Generic[C, S]):
    """One row of a role table. `C` is the context in which its roles run, `S` their settings.

    Roles stop in the order of `stops`, lowest first; those with the same number stop together.
    """

    name: str
    run: Callable[[C, S], None]
    """Called in the forked child when it is let go; returns when told to stop and its work is done."""

    after: tuple[str, ...]
    """Roles that must have been running (or, running once, have ended well) before this one is let go: of the same table, or the appliance's own."""

    stops: int
    prepare: Callable[[], None] = _nothing
    """Called in the forked child at once, while it waits for its turn: imports what is heavy, and does nothing else."""

    starts_when: Callable[[ControlBlock], bool] = _no_condition
    """What the offsets must say before it is let go, each time."""

    stops_when: Callable[[ControlBlock], bool] = _no_condition
    """What the offsets must say before it is told to stop, when the appliance stops."""

    runs_once: bool = False
    """It does its work and exits 0, and is not started again."""

    afterwards: Callable[[S], None] | None = None
    """What the supervisor does when a role that runs once has ended well, before it starts another."""

    outlives: tuple[str, ...] = ()
    """Those whose end it awaits before it stops even when the supervisor is gone, who keeps this order otherwise."""

    ends_with: str = ""
    """The role with whose process its own ends: it is of no use to the next one."""

    is_expendable: bool = False
    """It runs foreign code, which may do to its process what it likes: it shows no heartbeat, is told to stop by SIGKILL, is started again
    however often it dies, and neither ends the appliance nor lets its stop count as unclean."""

    holds_store: bool = True
    """It may write to the store, and so keeps the store's lock for as long as it lives."""
