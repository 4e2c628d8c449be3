"""DiskOutlook: the forecast of each broker, from the latest sample, its configuration and the history."""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from web.history.disk_forecast import DiskFacts, DiskForecast, forecast, history_s, missing_s, steep_rise, write_rate
from web.history.history_file import Chart
from web.sampling.sample import BrokerSample, disk_sizes, disk_total

DAY_S: Final = 86_400
WEEK_S: Final = 7 * DAY_S
RISE_S: Final = 600
"""In which a steep rise is looked for."""

ReadChart = Callable[[list[str], float, float, float], Chart]


class TooEarly(Struct, frozen=True):
    """There is no forecast yet: it needs so many more seconds of history."""

    needs_s: float


def disk_outlook(
    broker: BrokerSample, config: Mapping[str, str], read: ReadChart, now_s: float
) -> DiskForecast | TooEarly | None:
    """The broker's forecast; None if something else than the history is missing.

    The rate of writes is the higher of the last day's and week's. A steep rise of used space in the last minutes counts instead.
    """
    sizes = disk_sizes(broker.runtime)
    first, end = broker.number("commitLogMinOffset"), broker.number("commitLogMaxOffset")
    hours = config.get("fileReservedTime", "")
    if sizes is None or first is None or end is None or not hours.isdecimal() or len(hours) > 6:
        return None
    retention_s = int(hours) * 3600.0
    disk = f"broker.disk/{broker.key}"
    recent = read([disk], now_s - RISE_S, now_s, now_s)
    steep = steep_rise(recent.times, recent.series[disk], retention_s)
    if steep is not None:
        return steep
    log = f"broker.log/{broker.key}"
    charts = [read([log], now_s - span_s, now_s, now_s) for span_s in (DAY_S, WEEK_S)]
    histories = [(chart.times, chart.series[log]) for chart in charts]
    rates = [rate for rate in (write_rate(*history) for history in histories) if rate is not None]
    if not rates:
        return TooEarly(min(missing_s(*history) for history in histories))
    earliest_ms = broker.number("earliestMessageTimeStamp") or 0
    age_s = max(now_s - earliest_ms / 1000, 0.0) if earliest_ms > 0 else 0.0
    # The ratio that the broker compares with its limits leaves out what the file system reserves: the size follows from it.
    total = disk_total(broker.runtime) or sizes[0]
    found = forecast(DiskFacts(total, sizes[1], round(end - max(first, 0)), age_s, retention_s, max(rates)))
    return None if found is None else replace(found, history_s=max(history_s(*history) for history in histories))
