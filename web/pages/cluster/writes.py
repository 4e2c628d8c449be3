"""Writes to a broker: stopped before it is taken away, and allowed again.

There are two ways, which can be used together. `routes`: name servers remove the broker from what producers get; nothing fails. `broker`: the
broker registers its topics without write permission (brokerPermission=4), until it is changed back. As in RocketMQ, producers stop when they fetch
the routes; until then the broker refuses messages to ordered topics only.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal

import msgspec

from headrace.model.permission import READ, WRITE
from headrace.model.topic_config import TopicConfig
from web.cluster.runtime_figures import RuntimeFigures
from web.cluster.topic_kinds import RESERVED, topic_kind
from web.cluster.topic_reader import TopicReader
from web.config import OwnServer
from web.errors import QueryFailed
from web.pages.cluster.cluster_reads import Broker, ClusterReads, permission_of, writes_of
from web.paths import path_of
from web.routes import Outcome, View, Visit

_PERMISSION_WORDS: Final = {
    READ | WRITE: "Read and write",
    READ: "Read only",
    WRITE: "Write only",
    0: "No access",
}


_UNTIL_ALLOWED: Final = "To undo it, allow writes on the broker. Until then the setting stays, even after a restart."
_UNTIL_RESTART: Final = "To undo it, allow writes on the broker. The setting also ends when the broker restarts."
_UNTIL_ALLOWED_PERHAPS: Final = "To undo it, allow writes on the broker. Until then the setting stays, even after a restart if the broker saves its configuration."


_STOPPED: Final = "{done} of {all} name servers stopped writes to {broker} in the routes of its {topics} topics."
_ALLOWED: Final = "{done} of {all} name servers allow writes to {broker} in the routes of its {topics} topics."
_OWN_TOPICS: Final = "The broker's own topics among them: {own}."
_FAILED_AT: Final = "Failed: {failed}"
_STOPPING: Final = "Producers stop sending to it within 30 seconds."
_RESUMING: Final = "Producers send to it again within 30 seconds."


class StopForm(msgspec.Struct, forbid_unknown_fields=True):
    """How writes are stopped, or allowed again."""

    way: Literal["routes", "broker"] = "routes"


class Writes:
    """The page of a broker's writes, by its name."""

    def __init__(self, reads: ClusterReads, own_servers: Mapping[str, OwnServer]) -> None:
        self._reads = reads
        self._own_servers = own_servers

    async def show(self, visit: Visit) -> View:
        """Whether the broker gets messages now, and both ways to stop them."""
        broker = await self._reads.master(visit.path["broker"])
        own = permission_of(await self._reads.config(broker.address))
        figures = RuntimeFigures(await self._reads.runtime(broker.address))
        routed = (await self._reads.routed_permissions()).get(broker.name)
        data: dict[str, Any] = {
            "broker": broker.name,
            "address": broker.address,
            "state": writes_of(routed, own, figures.refusal),
            "refusal": figures.refusal,
            "disk_used_percent": figures.disk_used_percent,
            "is_in_routes": None if routed is None else bool(routed & WRITE),
            "is_accepting": None if own is None else bool(own & WRITE),
            "permission": own,
            "permission_word": _PERMISSION_WORDS.get(own) if own is not None else None,
            "name_servers": len(await self._reads.name_servers()),
            "stays": _how_long(self._own_servers.get(broker.address)),
            "read_only_topics": [],
            "others": len({each.name for each in await self._reads.brokers()} - {broker.name}),
        }
        if data["is_accepting"] and not data["is_in_routes"]:
            topics = await self._topics(broker)
            data["read_only_topics"] = sorted(name for name, one in topics.items() if not one.is_writeable)
        return View("Writes to the broker", "cluster/writes.html", data, subject=broker.name)

    async def stop(self, visit: Visit, form: StopForm) -> Outcome:
        """Raises NotFound, HeadraceError, QueryFailed if no name server took it."""
        broker = await self._reads.master(visit.path["broker"])
        if form.way == "broker":
            stopped = "Writes to {broker} are stopped on the broker."
            return await self._set_permission(broker, lambda now: now & ~WRITE, stopped, _STOPPING)
        admin = self._reads.cluster.admin
        return await self._in_routes(
            broker,
            lambda address: admin.wipe_write_permission(broker.name, name_server=address),
            _STOPPED,
            _STOPPING,
        )

    async def allow(self, visit: Visit, form: StopForm) -> Outcome:
        """Raises NotFound, HeadraceError, QueryFailed if no name server took it."""
        broker = await self._reads.master(visit.path["broker"])
        if form.way == "broker":
            allowed = "Writes to {broker} are allowed on the broker."
            return await self._set_permission(broker, lambda now: now | READ | WRITE, allowed, _RESUMING)
        admin = self._reads.cluster.admin
        return await self._in_routes(
            broker,
            lambda address: admin.add_write_permission(broker.name, name_server=address),
            _ALLOWED,
            _RESUMING,
        )

    async def _set_permission(self, broker: Broker, change: Callable[[int], int], message: str, effect: str) -> Outcome:
        admin = self._reads.cluster.admin
        before = permission_of(await admin.broker_config(broker.address))
        if before is None:
            raise QueryFailed(
                "the broker {address} does not report its brokerPermission",
                "Set brokerPermission in the broker's configuration file and restart the broker.",
                address=broker.address,
            )
        await admin.update_broker_config(broker.address, {"brokerPermission": change(before)})
        after = permission_of(await admin.broker_config(broker.address))
        if after != change(before):
            raise QueryFailed(
                "the broker {address} accepted the request but reports brokerPermission={found}",
                "Reload the page and try again. If it fails again, set brokerPermission in the broker's configuration file and restart the broker.",
                address=broker.address,
                found=after,
            )
        return Outcome(
            message,
            {"broker": broker.name},
            path_of("cluster", "writes", broker.name),
            before={"brokerPermission": before},
            after={"brokerPermission": after},
            more=(effect,),
        )

    async def _in_routes(
        self,
        broker: Broker,
        ask: Callable[[str], Awaitable[dict[str, int]]],
        message: str,
        effect: str,
    ) -> Outcome:
        """Asks every name server, whatever the others answer."""
        addresses = await self._reads.name_servers()
        [routed] = await self._reads.cluster.map(lambda _: self._reads.routed_permissions(), [0])
        before = None if isinstance(routed, Exception) else routed.get(broker.name)
        answers = dict(zip(addresses, await self._reads.cluster.map(ask, addresses), strict=True))
        failed = {address: str(answer) for address, answer in answers.items() if isinstance(answer, Exception)}
        counts = [answer[address] for address, answer in answers.items() if not isinstance(answer, Exception)]
        if not counts:
            raise QueryFailed("; ".join(failed.values()), "Nothing was changed. Check the name servers.")
        own = await self._own_topics(broker)
        values: dict[str, Any] = {
            "broker": broker.name,
            "done": len(counts),
            "all": len(addresses),
            "topics": max(counts),
            "own": own,
            "failed": "; ".join(failed.values()),
        }
        return Outcome(
            message,
            values,
            path_of("cluster", "writes", broker.name),
            before={"permission": before},
            after={"topics": max(counts), "failed": failed},
            is_warning=bool(failed),
            more=(*([] if own is None else [_OWN_TOPICS]), _FAILED_AT if failed else effect),
        )

    async def _topics(self, broker: Broker) -> Mapping[str, TopicConfig]:
        """The broker's topics with their settings; empty if it does not answer: its writes can be stopped all the same."""
        [topics] = await self._reads.cluster.map(self._reads.topic_configs, [broker.address])
        return {} if isinstance(topics, Exception) else topics

    async def _own_topics(self, broker: Broker) -> int | None:
        """How many of the broker's topics in the routes are RocketMQ's own; None if that cannot be read."""
        reader = TopicReader(self._reads.cluster)
        [topics] = await self._reads.cluster.map(lambda read: read(), [reader.names])
        [system] = await self._reads.cluster.map(lambda read: read(), [reader.system_names])
        known = await self._topics(broker)
        if isinstance(system, Exception) or isinstance(topics, Exception) or not known:
            return None
        return sum(topic_kind(name, system) in RESERVED for name in known.keys() & topics)


def _how_long(own: OwnServer | None) -> str:
    """How long a permission that is set on the broker stays: a text."""
    if own is None:
        return _UNTIL_ALLOWED_PERHAPS
    return _UNTIL_ALLOWED if own.broker_conf else _UNTIL_RESTART
