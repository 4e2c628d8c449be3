"""One broker: its run-time figures and its configuration; one option of it is changed at a time."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from web.cluster.runtime_figures import RuntimeFigures
from web.config import OwnServer
from web.errors import QueryFailed
from web.pages.cluster.cluster_reads import ClusterReads
from web.pages.cluster.option_table import OptionForm, checked_change, is_same, option_table, shown_value
from web.paths import path_of
from web.routes import Outcome, View, Visit
from web.sampling.sample import disk_total
from web.tables.table import Column, Kind, Table


class FigureRow(msgspec.Struct, frozen=True):
    """One run-time figure, by RocketMQ's name."""

    name: str
    value: str
    time: int | None = None
    """The value of a figure that is a time, ms."""


_TIMES: Final = frozenset({"bootTimestamp", "earliestMessageTimeStamp"})
_FIGURE_COLUMNS: Final[tuple[Column[FigureRow], ...]] = (
    Column("name", "Name"),
    Column("value", "Value"),
    Column("time", "Time", Kind.TIME, says=lambda row: ("–", {}) if row.time is None else None, is_shown_if_any=True),
)


class BrokerPage:
    """The page of a broker, by its address."""

    def __init__(self, reads: ClusterReads, own_servers: Mapping[str, OwnServer]) -> None:
        self._reads = reads
        self._own_servers = own_servers

    async def show(self, visit: Visit) -> View:
        """Figures and configuration. If one of both cannot be read, the other is shown."""
        broker = await self._reads.broker_at(visit.path["address"])
        answers = await self._reads.cluster.map(
            lambda read: read(broker.address), (self._reads.runtime, self._reads.config)
        )
        runtime, config = ({} if isinstance(answer, Exception) else answer for answer in answers)
        problems = [str(answer) for answer in answers if isinstance(answer, Exception)]
        if len(problems) == len(answers):
            raise QueryFailed("; ".join(dict.fromkeys(problems)), "Check that the broker is running and reachable.")
        figures = RuntimeFigures(runtime)
        own = self._own_servers.get(broker.address)
        page = path_of("cluster", "brokers", broker.address)
        data: dict[str, Any] = {
            "broker": {"name": broker.name, "role": broker.role, "id": broker.id, "cluster": broker.cluster},
            "address": broker.address,
            "version": figures.version,
            "started": figures.started,
            "in_per_second": figures.in_per_second,
            "out_per_second": figures.out_per_second,
            "in_today": figures.in_today,
            "in_yesterday": figures.in_yesterday,
            "out_today": figures.out_today,
            "out_yesterday": figures.out_yesterday,
            "disk_used_percent": figures.disk_used_percent,
            "disk_total": disk_total(runtime),
            "is_own": own is not None,
            "page": page,
            **chosen_option(visit, config, own),
        }
        tables: list[Table[Any]] = [
            option_table(config, own, page),
            Table(
                "figures",
                FigureRow,
                [
                    FigureRow(name, value, figures.count(name) if name in _TIMES else None)
                    for name, value in sorted(runtime.items(), key=lambda one: one[0].lower())
                ],
                _FIGURE_COLUMNS,
                search=("name",),
            ),
        ]
        return View("Broker", "cluster/broker.html", data, tables, f"{broker.name} ({broker.address})", problems)

    async def change(self, visit: Visit, form: OptionForm) -> Outcome:
        """Sets one option. Raises Invalid, NotFound, HeadraceError; QueryFailed if the broker did not take the value."""
        broker = await self._reads.broker_at(visit.path["address"])
        change = checked_change(form)
        admin = self._reads.cluster.admin
        before = await admin.broker_config(broker.address)
        await admin.update_broker_config(broker.address, change)
        after = await admin.broker_config(broker.address)
        return outcome_of(form, before, after, broker.address, path_of("cluster", "brokers", broker.address))


def chosen_option(visit: Visit, config: Mapping[str, str], own: OwnServer | None) -> dict[str, Any]:
    """The option whose form is open: `?key=` of the address."""
    key = visit.arguments.get("key", "")[:100]
    option = None if own is None else own.options.get(key)
    return {
        "key": key if key in config or option is not None else "",
        "value": shown_value(key, config.get(key, "")) or "",
        "description": "" if option is None else option.help,
    }


def outcome_of(
    form: OptionForm, before: Mapping[str, str], after: Mapping[str, str], address: str, page: str
) -> Outcome:
    """What a change did. Raises QueryFailed: Apache's servers skip what they do not have, and report success."""
    key, reported = form.key, after.get(form.key, "")
    if not is_same(reported, form.value):
        raise QueryFailed(
            "{address} accepted the request but reports {key}={shown_value}",
            "This key is not supported there, or the value has the wrong type.",
            address=address,
            key=key,
            shown_value=repr(shown_value(key, reported)),
        )
    return Outcome(
        "{key} of {address} is now {value}.",
        {"key": key, "address": address, "value": shown_value(key, reported)},
        page,
        before={key: shown_value(key, before.get(key))},
        after={key: shown_value(key, reported)},
    )
