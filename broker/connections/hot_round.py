# cython: wraparound=False

"""HotRound: the sends that the hot path took in one turn of the event loop, from all connections.

    read ──┐
    read ──┼─► appended ──► end of the turn: published once ──► rung once ──► answered, or one entry at the ack gate
    read ──┘

One publication for each read would ring flush after the first of many reads, so that its sync covers one message instead of all of them.
Where answers wait for a slave only, a turn is published in parts: the slave copies one while the next is appended.
Called for every read that appended, so this is a hot module (types in the `.pxd`).
"""

from functools import partial

import cython

from broker.appending.appender import Appender
from broker.response_codes import code_of_put
from headrace.protocol.frame import FrameDecoder
from headrace.remoting.channel import Channel
from headrace.remoting.connection import Connection
from store.status import PutMessageStatus

if not cython.compiled:
    from time import monotonic_ns

_PART = 32  # limit: messages that a slave gets at once; fewer cost more wake-ups
_OK = PutMessageStatus.PUT_OK  # a member of an enum takes as long to find as a batch to answer


class HotBatch:
    """The sends of one read: `puts` requests since `began_ns`, and their answers. `held` wait for the ack gate, `answers` do not."""

    connection: Connection
    channel: Channel
    began_ns: int
    puts: int
    answers: bytes
    held: bytes


class HotRound:
    """Collects batches until the turn ends. One for each broker: `add` for each read that appended."""

    def __init__(self, appender: Appender) -> None:
        self._log = appender.log
        self._gate = appender.gate
        self._ring = appender.ring
        self._puts = appender.stats.puts
        self._batches: list[HotBatch] = []
        self._in_parts = self._gate.is_for_slave_only
        self._held = 0

    def add(
        self, connection: Connection, channel: Channel, began_ns: int, puts: int, answers: bytes, held: bytes
    ) -> None:
        """What a read brought is appended. It is published and answered at the end of the turn."""
        # Without a call of the class, which would take as long as all the rest.
        batch = HotBatch.__new__(HotBatch)
        batch.connection = connection
        batch.channel = channel
        batch.began_ns = began_ns
        batch.puts = puts
        batch.answers = answers
        batch.held = held
        if held:
            # order: before they wait. The connection takes no more requests at its limit.
            connection.count_requests(puts)
        is_first = not self._batches
        self._batches.append(batch)
        if self._in_parts and held:
            self._held += puts
        if self._held >= _PART:
            self.end()
        elif is_first:
            connection.loop.call_soon(self.end)

    def end(self) -> None:
        """Publishes all batches and answers them. Does nothing without batches."""
        batches, self._batches, self._held = self._batches, [], 0
        if not batches:
            return
        # order: before anything is answered.
        try:
            if self._log.publish():
                self._ring()
        except OSError:  # the log says why
            self._refuse(batches)
            return
        held = []
        now_ns = monotonic_ns()
        for batch in batches:
            if batch.answers:
                batch.channel.write(batch.answers)
            if batch.held:
                held.append(batch)
            else:
                self._puts.add_until(now_ns, batch.began_ns, batch.puts)
        if held:
            self._gate.wait(self._log.wrote_offset, partial(self._answer_held, held))
        else:
            # order: last, because it takes as long as some sends. Where answers wait for a sync, zeros written during it would slow it.
            self._log.raise_ahead()

    def _refuse(self, batches: list[HotBatch]) -> None:
        for batch in batches:
            if batch.held:
                batch.connection.count_requests(-batch.puts)
            batch.channel.write(b"".join(_recoded(batch.answers + batch.held, PutMessageStatus.SERVICE_NOT_AVAILABLE)))

    def _answer_held(self, batches: list[HotBatch], status: PutMessageStatus) -> None:
        now_ns = monotonic_ns()
        for batch in batches:
            self._puts.add_until(now_ns, batch.began_ns, batch.puts)
            answers = batch.held
            batch.connection.count_requests(-batch.puts)
            if status is not _OK:
                answers = b"".join(_recoded(answers, status))
            batch.channel.write(answers)


def _recoded(answers: bytes, status: PutMessageStatus) -> list[bytes]:
    """The same answers with the response code of `status`."""
    commands = FrameDecoder().feed(answers)
    for command in commands:
        command.code = code_of_put(status)
    return [command.encode() for command in commands]
