"""Divides long work for a client on the event loop into slices, so that other work is not delayed.

The slices are turns of the client (`turns`): however many requests with long work it sends, they use no more than its share of the loop's time.
"""

import asyncio
from collections.abc import Generator
from time import monotonic_ns
from typing import Generic, TypeVar, final

from headrace.remoting.client_usage import ClientUsage
from headrace.remoting.connection import Connection
from headrace.remoting.turns import Turns

T = TypeVar("T")


async def in_slices(connection: Connection, steps: Generator[None, None, T]) -> T:
    """Runs the steps of a generator, each of which is short, in turns of the connection's client, and returns its result. Raises what it raises."""
    turns = connection.turns or Turns(connection.loop)
    work: _Work[T] = _Work(turns, connection.channel.usage, steps, connection.loop.create_future())
    turns.wait(work.usage, work)
    return await work.done


@final
class _Work(Generic[T]):
    """Steps that wait for a turn."""

    __slots__ = ("_steps", "_turns", "done", "usage")

    def __init__(
        self, turns: Turns, usage: ClientUsage, steps: Generator[None, None, T], done: "asyncio.Future[T]"
    ) -> None:
        self._turns = turns
        self._steps = steps
        self.usage = usage
        self.done = done

    def take_turn(self) -> None:
        """Continues until the turn is over; waits for another one if steps are left."""
        if self.done.done():  # cancelled: the connection is lost
            self._steps.close()
            return
        try:
            next(self._steps)
            while monotonic_ns() < self._turns.ends_ns:
                next(self._steps)
        except StopIteration as done:
            self.done.set_result(done.value)
        except Exception as error:  # noqa: BLE001 - whoever waits for the result raises it
            self.done.set_exception(error)
        else:
            self._turns.wait(self.usage, self)
