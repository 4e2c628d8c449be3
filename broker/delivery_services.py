"""DeliveryServices: creates and runs delay levels, timers and the transaction check. Only a master delivers."""

import asyncio
import os
import re
from collections.abc import Awaitable
from functools import partial
from typing import Final

from broker.appending.appender import Appender
from broker.appending.final_sync import sync_log
from broker.delays.delay_redirect import DelayRedirect
from broker.delays.delivery import DelayDelivery
from broker.pulling.store_reader import StoreReader
from broker.settings import Settings
from broker.tables import Tables
from broker.timers.bucket_files import BucketFiles
from broker.timers.checkpoint import CheckpointFile
from broker.timers.delivery import TimerDelivery
from broker.timers.entry import ENTRY
from broker.timers.rocketmq5_progress import read_progress
from broker.timers.timer_redirect import TimerRedirect, TimerRules
from broker.transactions.check import TransactionCheck
from broker.transactions.check_requests import CheckRequests
from broker.transactions.verdict import Rules
from headrace.model.delay_level import parse_delay_levels
from headrace.model.names import (
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRANSACTION_CHECK_MAX_TIME_TOPIC,
    TRANSACTION_GROUP,
    TRANSACTION_HALF_TOPIC,
)
from ipc.control_block import ControlBlock
from store.commit_log.message import MessageToStore, PutResult
from store.query.get import GetResult
from store.status import GetMessageStatus, PutMessageStatus

_WARM_BYTES: Final = 256 << 20  # limit: records nearer to the end of the log are assumed to be in memory
_MAX_WARMED: Final = 1024  # limit: descriptors; further records are read when they are delivered
_DELAY_LEVEL: Final = re.compile(rb"(?:^|\x02)DELAY\x01([0-9]{1,9})")


class DeliveryServices:
    """`delays` and `timers` redirect sent messages; the others run in the background."""

    def __init__(
        self, settings: Settings, control: ControlBlock, tables: Tables, reading: StoreReader, appender: Appender
    ) -> None:
        self._settings = settings
        self._control = control
        self._tables = tables
        self._reading = reading
        self._appender = appender
        levels_ms = parse_delay_levels(settings.store.message_delay_level)
        self._levels = len(levels_ms)
        self.delays = DelayRedirect(levels_ms)
        self._delay_delivery = self._make_delay_delivery(levels_ms)
        self.timers = TimerRedirect(self._timer_rules, lambda: tables.topics.create_on_send_back(TIMER_TOPIC, 1))
        self._timer_delivery = self._make_timer_delivery()
        self._transaction_check = self._make_transaction_check()

    def start(self) -> list[asyncio.Task[None]]:
        """Starts all services. A slave delivers nothing: its log is its master's."""
        if not self._settings.may_append:
            return []
        return [
            asyncio.create_task(self._delay_delivery.run()),
            asyncio.create_task(
                self._tables.delay_offsets.keep(
                    self._settings.store.flush_delay_offset_interval / 1000,
                    self._delay_delivery.unknown_since,
                    lambda: self._control.wrote_offset,
                    lambda: self._control.flushed_offset,
                )
            ),
            asyncio.create_task(self._timer_delivery.run()),
            asyncio.create_task(self._transaction_check.run(lambda: self._settings.broker.transaction_check_interval)),
        ]

    def waiting_timers(self) -> int:
        """The number of timer messages that are not due yet."""
        return self._timer_delivery.waiting

    async def deliver_timers(self) -> int:
        """Delivers all pending timer messages at once. Returns their number."""
        return await self._timer_delivery.deliver_all()

    def persist(self) -> None:
        """Writes the progress of all services, which must have stopped."""
        if self._settings.may_append:
            # order: messages that the files below count as delivered must not be lost if the machine dies now.
            log = self._reading.log
            sync_log(
                self._settings.paths.commit_log, log.file_size, self._control.flushed_offset, self._control.wrote_offset
            )
        self._transaction_check.save(all_of_it=True)
        self._tables.offsets.persist()  # order: after the check, whose offsets are among them
        self._tables.delay_offsets.persist(self._delay_delivery.unknown_since())
        self._timer_delivery.stop()

    # -- delay levels -----------------------------------------------------------------------------------------------------

    def _make_delay_delivery(self, levels_ms: tuple[int, ...]) -> DelayDelivery:
        queues, appender = self._reading.queues, self._appender
        if self._settings.may_append:
            self._tables.delay_offsets.clamp(queues.bounds)
        delivery = DelayDelivery(
            levels_ms,
            self._tables.delay_offsets,
            queues,
            self._deliver_delayed,
            appender.log.queues_of(SCHEDULE_TOPIC.encode()).next_offset,
            self._reading.log,
            lambda: self._control.wrote_offset,
            self._warm_delayed,
            unreadable=partial(self._reading.unreadable.met, SCHEDULE_TOPIC),
        )
        appender.on_append(SCHEDULE_TOPIC, lambda message, _: delivery.appended(message.queue_id))
        return delivery

    def _deliver_delayed(self, message: MessageToStore) -> PutResult | None:
        result = self._appender.append(message)
        if result is not None and result.status is PutMessageStatus.PUT_OK:
            level = _DELAY_LEVEL.search(message.properties)
            queue_id = min(int(level[1]), self._levels) - 1 if level else 0
            self._tables.stats.taken_from_level(queue_id, result.size_bytes)
            self._tables.stats.delivered(message.topic, result.size_bytes)
        return result

    def _warm_delayed(self, queue_id: int, offset: int, count: int) -> Awaitable[None] | None:
        getter = self._reading.getter
        if not getter.is_cold(SCHEDULE_TOPIC, queue_id, offset):
            return None
        return self._reading.warm(getter.plan_warming(SCHEDULE_TOPIC, queue_id, offset, count))

    # -- any time ---------------------------------------------------------------------------------------------------------

    def _timer_rules(self) -> TimerRules:
        config = self._settings.broker
        # A waiting message must still be stored when it is due.
        longest_s = min(config.timer_max_delay_sec, self._settings.store.file_reserved_time * 3600)
        return TimerRules(config.timer_wheel_enable, longest_s * 1000)

    def _make_timer_delivery(self) -> TimerDelivery:
        appender, directory = self._appender, self._settings.paths.root / "timer"
        delivery = TimerDelivery(
            BucketFiles(directory),
            CheckpointFile(directory),
            self._reading.queues,
            self._reading.log,
            self._control,
            self._deliver_timed,
            lambda: appender.log.queues_of(TIMER_TOPIC.encode()).next_offset(0),
            self._warm_timed,
            rocketmq5_progress=lambda: read_progress(self._settings.paths.config / "timercheck"),
            stored=self._tables.stats.timer_stored,
        )
        appender.on_append(TIMER_TOPIC, delivery.appended)
        return delivery

    def _deliver_timed(self, message: MessageToStore) -> PutResult | None:
        result = self._appender.append(message)
        # Messages that wait longer than one turn of the wheel return to the timer topic.
        if result is not None and result.status is PutMessageStatus.PUT_OK and message.topic != TIMER_TOPIC:
            self._tables.stats.delivered(message.topic, result.size_bytes)
            self._tables.stats.timer_delivered(message.topic)
        return result

    def _warm_timed(self, entries: list[bytes]) -> Awaitable[None] | None:
        """Reads old records from disk before they are delivered, because a page fault would stall every request."""
        oldest_warm, log = self._control.wrote_offset - _WARM_BYTES, self._reading.log
        plan: list[tuple[int, int, int]] = []  # file descriptor, position, length
        for entry in entries:
            _, physical_offset, size = ENTRY.unpack(entry)
            if physical_offset < oldest_warm and len(plan) < _MAX_WARMED:
                file = log.file_for(physical_offset)
                if file is not None:
                    plan.append((os.dup(file.fd), physical_offset - file.start_offset, abs(size)))
        return self._reading.warm(plan) if plan else None

    # -- transactions -----------------------------------------------------------------------------------------------------

    def _make_transaction_check(self) -> TransactionCheck:
        topics, queues = self._tables.topics, self._reading.queues
        return TransactionCheck(
            self._tables.offsets,
            self._read_for_check,
            lambda topic, queue_id: queues.bounds(topic, queue_id)[0],
            self._appender.append,
            CheckRequests(self._tables.clients.producers).ask,
            self._transaction_rules,
            lambda: topics.create_on_send_back(TRANSACTION_HALF_TOPIC, 1).read_queue_count,
            lambda: topics.create_on_send_back(TRANSACTION_CHECK_MAX_TIME_TOPIC, 1),
            self._control,
        )

    def _read_for_check(self, topic: str, queue_id: int, offset: int, most: int) -> GetResult:
        result = self._reading.getter.get(topic, queue_id, offset, most, None)
        if result.status is GetMessageStatus.FOUND:
            self._tables.stats.read(topic, TRANSACTION_GROUP, result.count, len(result.body))
        return result

    def _transaction_rules(self) -> Rules:
        config = self._settings.broker
        return Rules(
            config.transaction_time_out,
            config.transaction_check_max,
            self._settings.store.file_reserved_time * 3_600_000,
        )
