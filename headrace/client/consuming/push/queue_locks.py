"""QueueLocks: locks at brokers that give a queue to one member of an orderly group (client spec 3.9).

A broker locks a queue for 60 s, for a client id of a group. The lock is renewed every 20 s and not trusted 30 s after its last confirmation.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from headrace.client.cluster.instance import ClientInstance
from headrace.client.consuming.process_queue import ProcessQueue
from headrace.errors import HeadraceError
from headrace.model.message_queue import MessageQueue
from headrace.protocol.bodies import LockBatchRequestBody, LockBatchResponseBody
from headrace.protocol.remoting_command import RemotingCommand, create_request
from headrace.protocol.request_code import RequestCode

logger = logging.getLogger(__name__)

FIRST_REFRESH_S: Final = 1.0
REFRESH_S: Final = 20.0
TIMEOUT_MS: Final = 1_000


class QueueLocks:
    """The locks of one group in one client."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self._instance = instance
        self._group = group

    async def lock(self, queues: Iterable[MessageQueue]) -> tuple[set[MessageQueue], set[MessageQueue]]:
        """Requests locks. Returns those granted and those refused; queues in neither set belong to a broker that could not be reached."""
        by_broker = _by_broker(queues)
        granted: set[MessageQueue] = set()
        refused: set[MessageQueue] = set()
        asked = [self._lock_at(name, wanted) for name, wanted in by_broker.items()]
        for (name, wanted), got in zip(
            by_broker.items(), await asyncio.gather(*asked, return_exceptions=True), strict=True
        ):
            if isinstance(got, HeadraceError):
                logger.warning("queues not locked group=%s broker=%s error=%r", self._group, name, str(got))
            elif isinstance(got, BaseException):
                raise got
            else:
                granted |= got
                refused |= set(wanted) - got
        return granted, refused

    async def refresh(self, held: Iterable[ProcessQueue]) -> None:
        """Renews the locks of all these queues, and records the result on each."""
        by_queue = {one.queue: one for one in held}
        granted, refused = await self.lock(by_queue)
        for queue in granted:
            by_queue[queue].lock_confirmed()
            by_queue[queue].changed()
        for queue in refused:
            by_queue[queue].is_locked = False

    async def unlock(self, queues: Iterable[MessageQueue], *, wait: bool = False) -> None:
        """Releases locks. `wait`: for the brokers' answers. Failures are logged: the locks expire by themselves."""
        by_broker = _by_broker(queues)
        asked = [self._unlock_at(name, wanted, wait=wait) for name, wanted in by_broker.items()]
        for name, problem in zip(by_broker, await asyncio.gather(*asked, return_exceptions=True), strict=True):
            if isinstance(problem, HeadraceError):
                logger.warning(
                    "queues not unlocked, the locks will expire group=%s broker=%s error=%r",
                    self._group,
                    name,
                    str(problem),
                )
            elif problem is not None:
                raise problem

    async def _lock_at(self, broker_name: str, queues: list[MessageQueue]) -> set[MessageQueue]:
        address = self._instance.vip(await self._instance.find_broker(broker_name, queues[0].topic))
        answer = await self._instance.invoke(address, self._command(RequestCode.LOCK_BATCH_MQ, queues), TIMEOUT_MS)
        return set(LockBatchResponseBody.decode(answer.body).lock_ok_mq_set)

    async def _unlock_at(self, broker_name: str, queues: list[MessageQueue], *, wait: bool) -> None:
        address = await self._instance.find_broker(broker_name)
        command = self._command(RequestCode.UNLOCK_BATCH_MQ, queues)
        if wait:
            await self._instance.invoke(self._instance.vip(address), command, TIMEOUT_MS)
        else:
            await self._instance.oneway(address, command)

    def _command(self, code: RequestCode, queues: list[MessageQueue]) -> RemotingCommand:
        return create_request(code, None, LockBatchRequestBody(self._group, self._instance.client_id, queues).encode())


def _by_broker(queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
    by_broker: dict[str, list[MessageQueue]] = defaultdict(list)
    for queue in queues:
        by_broker[queue.broker_name].append(queue)
    return by_broker
