"""GET_BROKER_RUNTIME_INFO: the figures of `mqadmin brokerStatus`, `clusterList` and the dashboard (admin spec 5).

Every value is text. Puts and gets include the broker's own, as in RocketMQ.
"""

import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Protocol

from broker.admin.admin_handler import AdminHandler, respond
from broker.config import BrokerConfig
from broker.statistics.store_stats import StoreStats
from broker.statistics.traffic import (
    BYTES_STORED,
    MESSAGES_READ,
    MESSAGES_STORED,
    PULLS_FOUND,
    PULLS_MISSED,
    PUTS_FAILED,
    Traffic,
)
from headrace.model import names
from headrace.protocol import fastjson
from headrace.protocol.bodies.tables import KVTable
from headrace.protocol.remoting_command import RemotingCommand
from headrace.protocol.request_code import RequestCode
from headrace.protocol.version import CURRENT_VERSION, version_text
from store import disk
from store.commit_log.reader import PublishedOffsets
from store.paths import StorePaths

JAVA_INT_MAX: Final = 2_147_483_647

# compat: tools print these; there are no thread pools here, so their queues are always empty.
QUEUES: Final = {
    "sendThreadPoolQueueCapacity": "10000",
    "sendThreadPoolQueueHeadWaitTimeMills": "0",
    "sendThreadPoolQueueSize": "0",
    "pullThreadPoolQueueCapacity": "100000",
    "pullThreadPoolQueueHeadWaitTimeMills": "0",
    "pullThreadPoolQueueSize": "0",
    "queryThreadPoolQueueCapacity": "20000",
    "queryThreadPoolQueueHeadWaitTimeMills": "0",
    "queryThreadPoolQueueSize": "0",
    "EndTransactionThreadPoolQueueCapacity": "100000",
    "EndTransactionQueueSize": "0",
    "dispatchMaxBuffer": "0",
    "pageCacheLockTimeMills": "0",
    "remainTransientStoreBufferNumbs": str(JAVA_INT_MAX),
}


class LogOffsets(PublishedOffsets, Protocol):
    """The progress of the log and of its readers; a ControlBlock has these."""

    @property
    def flushed_offset(self) -> int:
        """Everything below is durable."""

    @property
    def reput_offset(self) -> int:
        """Everything below is in both indexes."""

    @property
    def slave_count(self) -> int:
        """How many slaves are connected."""

    def running_flags(self) -> int:
        """RocketMQ's running flags; 0: messages may be written."""


class RuntimeInfo:
    """Collects the figures on request."""

    def __init__(
        self,
        config: BrokerConfig,
        paths: StorePaths,
        log: LogOffsets,
        traffic: Traffic,
        store_stats: StoreStats,
        earliest_time: Callable[[], int],
        delay_offsets: Callable[[], Mapping[int, int]],
        bounds: Callable[[str, int], tuple[int, int]],
        waiting_timers: Callable[[], int],
    ) -> None:
        """`earliest_time()` is the store time of the log's first message, -1 without one; `waiting_timers()` is the number of timer messages."""
        self._config = config
        self._paths = paths
        self._log = log
        self._traffic = traffic
        self._store_stats = store_stats
        self._earliest_time = earliest_time
        self._delay_offsets = delay_offsets
        self._bounds = bounds
        self._waiting_timers = waiting_timers
        self._boot_ms = time.time_ns() // 1_000_000

    def handlers(self) -> Mapping[RequestCode, AdminHandler]:
        """The request of this family."""
        return {RequestCode.GET_BROKER_RUNTIME_INFO: self.show}

    def show(self, command: RemotingCommand) -> RemotingCommand:
        """GET_BROKER_RUNTIME_INFO (28)."""
        return respond(command, KVTable(self.figures()))

    def figures(self) -> dict[str, str]:
        """All figures by RocketMQ's names."""
        return {
            "brokerVersion": str(CURRENT_VERSION),
            "brokerVersionDesc": version_text(CURRENT_VERSION),
            "bootTimestamp": str(self._boot_ms),
            "runtime": _duration_text(time.time_ns() // 1_000_000 - self._boot_ms),
            "startAcceptSendRequestTimeStamp": str(self._config.start_accept_send_request_time_stamp),
            "earliestMessageTimeStamp": str(self._earliest_time()),
            **QUEUES,
            **self._log_figures(),
            **self._traffic_figures(),
            **self._time_figures(),
            **self._disk_figures(),
            **self._delay_figures(),
            "timerCongestNum": str(self._waiting_timers()),  # RocketMQ 5's name
        }

    def _log_figures(self) -> dict[str, str]:
        wrote_offset = self._log.wrote_offset
        return {
            "commitLogMinOffset": str(self._log.min_offset),
            "commitLogMaxOffset": str(wrote_offset),
            "dispatchBehindBytes": str(max(wrote_offset - self._log.reput_offset, 0)),
            "remainHowManyDataToFlush": size_text(max(wrote_offset - self._log.flushed_offset, 0)),
            # Of Headrace: RocketMQ 4.9 does not report these.
            "haSlaveCount": str(self._log.slave_count),
            "runningFlags": str(self._log.running_flags()),
        }

    def _traffic_figures(self) -> dict[str, str]:
        traffic = self._traffic
        messages, size = traffic.total(MESSAGES_STORED), traffic.total(BYTES_STORED)
        # compat: RocketMQ divides by this number and so returns 1 for 0; tools do the same.
        times = max(messages, 1)
        put_before, put_today = traffic.at_midnights(MESSAGES_STORED)
        get_before, get_today = traffic.at_midnights(MESSAGES_READ)
        return {
            "putMessageTimesTotal": str(times),
            "putMessageFailedTimes": str(traffic.total(PUTS_FAILED)),
            "putMessageSizeTotal": str(size),
            "putMessageAverageSize": _double_text(size / times),
            "putTps": _rates_text(traffic.rates(MESSAGES_STORED)),
            "getFoundTps": _rates_text(traffic.rates(PULLS_FOUND)),
            "getMissTps": _rates_text(traffic.rates(PULLS_MISSED)),
            "getTotalTps": _rates_text(traffic.rates(PULLS_FOUND, PULLS_MISSED)),
            "getTransferedTps": _rates_text(traffic.rates(MESSAGES_READ)),
            "msgPutTotalYesterdayMorning": str(put_before),
            "msgPutTotalTodayMorning": str(put_today),
            "msgPutTotalTodayNow": str(messages),
            "msgGetTotalYesterdayMorning": str(get_before),
            "msgGetTotalTodayMorning": str(get_today),
            "msgGetTotalTodayNow": str(traffic.total(MESSAGES_READ)),
        }

    def _time_figures(self) -> dict[str, str]:
        puts, gets = self._store_stats.puts, self._store_stats.gets
        return {
            "putMessageEntireTimeMax": str(puts.longest_ms),
            "putMessageDistributeTime": puts.distribution(),
            "putLatency99": f"{puts.below_ms(0.99):.2f}",
            "putLatency999": f"{puts.below_ms(0.999):.2f}",
            "getMessageEntireTimeMax": str(gets.longest_ms),
        }

    def _disk_figures(self) -> dict[str, str]:
        log_ratio = str(disk.used_ratio(self._paths.commit_log))
        figures = {
            "commitLogDiskRatio": log_ratio,
            f"commitLogDiskRatio_{self._paths.commit_log}": log_ratio,
            "consumeQueueDiskRatio": str(disk.used_ratio(self._paths.consume_queue)),
        }
        capacity = _capacity_text(self._paths.root)
        return figures | ({"commitLogDirCapacity": capacity} if capacity else {})

    def _delay_figures(self) -> dict[str, str]:
        return {
            f"scheduleMessageOffset_{level}": f"{offset},{self._bounds(names.SCHEDULE_TOPIC, level - 1)[1]}"
            for level, offset in self._delay_offsets().items()
        }


def size_text(size_bytes: int) -> str:
    """A human-readable size: `250 B`, `1.5 KiB`, `58.9 GiB`."""
    if size_bytes < 1024:
        return f"{size_bytes} B"
    size = size_bytes / 1024
    for unit in ("KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def _capacity_text(root: Path) -> str | None:
    """The size of the store's file system and its free space; None if unknown."""
    try:
        figures = shutil.disk_usage(root)
    except OSError:
        return None
    return f"Total : {size_text(figures.total)}, Free : {size_text(figures.free)}."


def _duration_text(duration_ms: int) -> str:
    seconds = duration_ms // 1000
    hours, minutes = seconds // 3600, seconds // 60 % 60
    return f"[ {hours // 24} days, {hours % 24} hours, {minutes} minutes, {seconds % 60} seconds ]"


def _rates_text(rates: tuple[float, ...]) -> str:
    return " ".join(map(_double_text, rates))


def _double_text(value: float) -> str:
    """The number as Java writes a double."""
    return fastjson.dumps(value)
