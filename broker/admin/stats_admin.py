"""VIEW_BROKER_STATS_DATA: statistics of a topic, a group or the broker over the last minute, hour and day (admin spec 6.3)."""

from collections.abc import Mapping

from broker.admin.admin_handler import AdminHandler, refuse, respond
from broker.statistics.broker_stats import BrokerStats
from broker.statistics.stats_item import DAY, HOUR, MINUTE, StatsItem, Window
from headrace.protocol.bodies.stats import ALL_KEYS, BrokerStatsData, BrokerStatsItem, BrokerStatsTotals
from headrace.protocol.headers.admin import ViewBrokerStatsDataRequestHeader
from headrace.protocol.remoting_command import RemotingCommand
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode


class StatsAdmin:
    """Answers from the broker's statistics."""

    def __init__(self, stats: BrokerStats) -> None:
        self._stats = stats

    def handlers(self) -> Mapping[RequestCode, AdminHandler]:
        """The request of this family."""
        return {RequestCode.VIEW_BROKER_STATS_DATA: self.view}

    def view(self, command: RemotingCommand) -> RemotingCommand:
        """VIEW_BROKER_STATS_DATA (315). RocketMQ does not distinguish an unknown item from one without counts.

        The key `*`, which no topic or group can have, is ours: it requests the totals of all keys, for metrics.
        """
        header = ViewBrokerStatsDataRequestHeader.from_ext(command.ext_fields)
        if header.stats_key == ALL_KEYS:
            return respond(command, BrokerStatsTotals(self._stats.totals(header.stats_name)))
        item = self._stats.find(header.stats_name, header.stats_key)
        if item is None:
            return refuse(
                command,
                ResponseCode.SYSTEM_ERROR,
                f"The stats <{header.stats_name}> <{header.stats_key}> not exist: nothing was counted since the broker started",
            )
        return respond(command, BrokerStatsData(_shown(item, MINUTE), _shown(item, HOUR), _shown(item, DAY)))


def _shown(item: StatsItem, window: Window) -> BrokerStatsItem:
    figures = item.figures(window)
    return BrokerStatsItem(figures.sum, figures.tps, figures.average)
