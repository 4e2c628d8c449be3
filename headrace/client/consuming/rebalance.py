"""Rebalance: which of a topic's queues are ours, found out again whenever something may have changed (client spec 3.3).

    every 20 s, when a broker says that members came or went, when a route changed, after a subscription:
        for each topic     queues of its route + members of the group at one of its brokers ─► strategy ─► ours ─► `assign`

Every member does the same for itself, with the same lists in the same order; nobody is in charge. For a moment two may think that a queue is theirs.
What could not be settled (no route yet, no answer, a lock that another still holds) is tried again sooner than in 20 s.
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
CLOSE_S: Final = 5.0  # limit: a broker that does not answer must not keep a consumer from closing
AGAIN_S: Final = 0.5
AGAIN_MOST_S: Final = 5.0  # limit: a topic that is made later is consumed so many seconds after, at most

Assign: TypeAlias = Callable[[str, Sequence[MessageQueue], Sequence[MessageQueue]], Awaitable[bool]]
"""`(topic, all its queues, ours)`; False: not all of ours could be taken."""


class Rebalance:
    """Shares out the queues of one consumer's topics."""

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
        """`before` and `after` are called at the beginning and at the end of each round."""
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
        """Has a round begin as soon as may be."""
        self._wanted.set()

    async def close(self, task: "asyncio.Task[None] | None" = None) -> None:
        """Ends it, and the task that runs it; a round under way is waited for, for a few seconds, or a lock just granted would be left behind."""
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
        """Rounds until it is cancelled."""
        wait_s = INTERVAL_S
        again_s = AGAIN_S
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
                wait_s, again_s = INTERVAL_S, AGAIN_S
            else:
                wait_s, again_s = again_s, min(2 * again_s, AGAIN_MOST_S)

    async def balance(self) -> bool:
        """One round. False: something could not be settled."""
        is_settled = True
        async with self._round:
            # All members hear of a change at the same time: what each has done is at the brokers before another asks where to go on.
            await self._before()
            # compat: the retry topic is shared out like any other.
            for topic in self._topics():
                try:
                    is_settled &= await self._balance_topic(topic)
                except HeadraceError as error:
                    is_settled = False
                    level = logging.DEBUG if isinstance(error, RouteNotFound) else logging.WARNING
                    logger.log(level, "not rebalanced group=%s topic=%s reason=%s", self._group, topic, error)
                except Exception:
                    # An allocation strategy of the user's.
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
            raise RouteNotFound(f"the topic {topic} has no queue that may be read", topic)
        if self._is_broadcast:
            return await self._assign(topic, queues, queues)
        members = await self._members(topic)
        # compat: if we are not in the list we have nothing, and let go of what we held.
        own = allocate(self._allocator, self._group, self._instance.client_id, queues, members)
        taken = await self._assign(topic, queues, own)
        return taken and self._instance.client_id in members

    async def _members(self, topic: str) -> list[str]:
        """The group's members. A broker that does not know us is told first: it may be new, or was started again."""
        try:
            members = await self._instance.consumer_ids(self._group, topic)
            if self._instance.client_id in members:
                return members
        except BrokerError:
            pass
        await self._instance.send_heartbeat()
        return await self._instance.consumer_ids(self._group, topic)
