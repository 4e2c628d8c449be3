"""Writes to a broker: stopped before it is taken away, and allowed again.

There are two ways, which can be used together. `routes`: name servers remove the broker from what producers get; nothing fails. `broker`: the
broker registers its topics without write permission (brokerPermission=4), until it is changed back. As in RocketMQ, producers stop when they fetch
the routes; until then the broker refuses messages to ordered topics only.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal

import msgspec

from headrace.model.permission import READ, WRITE
from web.cluster.runtime_figures import RuntimeFigures
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


class StopForm(msgspec.Struct, forbid_unknown_fields=True):
    """How writes are stopped, or allowed again."""

    way: Literal["routes", "broker"] = "routes"


class Writes:
    """The page of a broker's writes, by its name."""

    def __init__(self, reads: ClusterReads) -> None:
        self._reads = reads

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
            "others": len({each.name for each in await self._reads.brokers()} - {broker.name}),
        }
        return View("Writes to the broker", "cluster/writes.html", data, subject=broker.name)

    async def stop(self, visit: Visit, form: StopForm) -> Outcome:
        """Raises NotFound, HeadraceError, QueryFailed if no name server took it."""
        broker = await self._reads.master(visit.path["broker"])
        if form.way == "broker":
            stopped = "Writes to {broker} are stopped on the broker. Producers stop sending to it within 30 seconds."
            return await self._set_permission(broker, lambda now: now & ~WRITE, stopped)
        admin = self._reads.cluster.admin
        return await self._in_routes(
            broker,
            lambda address: admin.wipe_write_permission(broker.name, name_server=address),
            "{done} of {all} name servers stopped writes to {broker} in the routes of its {topics} topics. Producers stop sending to it within 30 seconds.",
            "{done} of {all} name servers stopped writes to {broker} in the routes of its {topics} topics. Failed: {failed}",
        )

    async def allow(self, visit: Visit, form: StopForm) -> Outcome:
        """Raises NotFound, HeadraceError, QueryFailed if no name server took it."""
        broker = await self._reads.master(visit.path["broker"])
        if form.way == "broker":
            return await self._set_permission(
                broker,
                lambda now: now | READ | WRITE,
                "Writes to {broker} are allowed on the broker. Producers send to it again within 30 seconds.",
            )
        admin = self._reads.cluster.admin
        return await self._in_routes(
            broker,
            lambda address: admin.add_write_permission(broker.name, name_server=address),
            "{done} of {all} name servers allow writes to {broker} in the routes of its {topics} topics. Producers send to it again within 30 seconds.",
            "{done} of {all} name servers allow writes to {broker} in the routes of its {topics} topics. Failed: {failed}",
        )

    async def _set_permission(self, broker: Broker, change: Callable[[int], int], message: str) -> Outcome:
        admin = self._reads.cluster.admin
        before = permission_of(await admin.broker_config(broker.address))
        if before is None:
            raise QueryFailed("the broker {address} does not report its brokerPermission", address=broker.address)
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
        )

    async def _in_routes(
        self,
        broker: Broker,
        ask: Callable[[str], Awaitable[dict[str, int]]],
        message: str,
        partial: str,
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
        values = {
            "broker": broker.name,
            "done": len(counts),
            "all": len(addresses),
            "topics": max(counts),
            "failed": "; ".join(failed.values()),
        }
        return Outcome(
            partial if failed else message,
            values if failed else {key: value for key, value in values.items() if key != "failed"},
            path_of("cluster", "writes", broker.name),
            before={"permission": before},
            after={"topics": max(counts), "failed": failed},
            is_warning=bool(failed),
        )
