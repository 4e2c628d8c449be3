"""Rebalance: determines which of a topic's queues are ours, again whenever something may have changed (client spec 3.3).

    every 20 s, when a broker reports that the members changed, when a route changed, after a subscription:
        for each topic     queues of its route + members of the group at one of its brokers ─► strategy ─► ours ─► `assign`

Every member computes it for itself, from the same lists in the same order; there is no leader. For a moment two members may claim the same queue.
What could not be settled (no route yet, no answer, a lock that another member still holds) is retried sooner than in 20 s.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final, TypeAlias

from headrace.client.cluster.instance import ClientInstance
from headrace.client.cluster.routes import Route
from headrace.client.consuming.allocation import Allocator, allocate
from headrace.client.settings import EventKind
from headrace.errors import BrokerError, HeadraceError, RouteNotFound
from headrace.model.message_queue import MessageQueue

logger = logging.getLogger(__name__)

INTERVAL_S: Final = 20.0
CLOSE_S: Final = 5.0  # limit: a broker that does not answer must not prevent a consumer from closing
RETRY_S: Final = 0.5
MAX_RETRY_S: Final = 5.0  # limit: how long after its creation a topic is consumed at the latest

Assign: TypeAlias = Callable[[str, Sequence[MessageQueue], Sequence[MessageQueue]], Awaitable[bool]]
"""`(topic, all its queues, ours)`; returns False if not all of ours could be taken."""


class Rebalance:
    """Assigns the queues of one consumer's topics."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        topics: Callable[[], Collection[str]],
        assign: Assign,
        allocator: Allocator,
        *,
        is_broadcast: bool,
        before: Callable[[], Awaitable[None]],
        after: Callable[[], Awaitable[None]],
    ) -> None:
        """`before` and `after` are called at the start and the end of each round."""
        self._instance = instance
        self._group = group
        self._topics = topics
        self._assign = assign
        self._allocator = allocator
        self._is_broadcast = is_broadcast
        self._before = before
        self._after = after
        self._wanted = asyncio.Event()
        self._round = asyncio.Lock()
        self._stop_listening = instance.routes.on_change(self._route_changed)
        self.is_paused = False

    def soon(self) -> None:
        """Starts a round as soon as possible."""
        self._wanted.set()

    async def close(self, task: "asyncio.Task[None] | None" = None) -> None:
        """Ends the rounds and their task. Waits a few seconds for a round in progress, so that no lock that was just granted is left behind."""
        self._stop_listening()
        if task is None:
            return
        try:
            async with asyncio.timeout(CLOSE_S), self._round:
                task.cancel()
        except TimeoutError:
            task.cancel()
        await asyncio.wait([task])

    def _route_changed(self, route: Route) -> None:
        if route.topic in self._topics():
            self._wanted.set()

    async def run(self) -> None:
        """Runs rounds until it is cancelled."""
        wait_s = INTERVAL_S
        retry_s = RETRY_S
        while True:
            try:
                async with asyncio.timeout(wait_s):
                    await self._wanted.wait()
            except TimeoutError:
                pass
            self._wanted.clear()
            if self.is_paused:
                wait_s = INTERVAL_S
                continue
            if await self.balance():
                wait_s, retry_s = INTERVAL_S, RETRY_S
            else:
                wait_s, retry_s = retry_s, min(2 * retry_s, MAX_RETRY_S)

    async def balance(self) -> bool:
        """Runs one round. Returns False if something could not be settled."""
        is_settled = True
        async with self._round:
            # All members learn of a change at the same time: each stores its offsets before another asks where to continue.
            await self._before()
            # compat: the retry topic is assigned like any other.
            for topic in self._topics():
                try:
                    is_settled &= await self._balance_topic(topic)
                except HeadraceError as error:
                    is_settled = False
                    level = logging.DEBUG if isinstance(error, RouteNotFound) else logging.WARNING
                    logger.log(level, "rebalance postponed group=%s topic=%s error=%r", self._group, topic, str(error))
                except Exception:
                    # The allocation strategy may be the user's.
                    is_settled = False
                    logger.exception("rebalance failed group=%s topic=%s", self._group, topic)
                    self._instance.emit(
                        EventKind.CONSUMER_ERROR, topic=topic, group=self._group, detail="rebalance failed"
                    )
            await self._after()
        return is_settled

    async def _balance_topic(self, topic: str) -> bool:
        route = await self._instance.routes.find(topic)
        queues = route.subscribe_queues
        if not queues:
            raise RouteNotFound(f"the topic {topic} has no readable queue", topic)
        if self._is_broadcast:
            return await self._assign(topic, queues, queues)
        members = await self._members(topic)
        # compat: if we are not in the list, we get nothing and release our queues.
        own = allocate(self._allocator, self._group, self._instance.client_id, queues, members)
        taken = await self._assign(topic, queues, own)
        return taken and self._instance.client_id in members

    async def _members(self, topic: str) -> list[str]:
        """Returns the group's members. If the broker does not know us, a heartbeat is sent first: it may be new, or was restarted."""
        try:
            members = await self._instance.consumer_ids(self._group, topic)
            if self._instance.client_id in members:
                return members
        except BrokerError:
            pass
        await self._instance.send_heartbeat()
        return await self._instance.consumer_ids(self._group, topic)
