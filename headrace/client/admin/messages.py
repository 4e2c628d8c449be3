"""Messages: found by id, key or time."""

import asyncio

from headrace.client.admin.calls import AdminCalls
from headrace.client.cluster.answers import error_of
from headrace.client.consuming.puller import AT_ONCE_TIMEOUT_MS, Puller, PullResult
from headrace.client.durations import Moment, epoch_ms
from headrace.errors import BrokerError, MessageInvalid
from headrace.model.host import format_host
from headrace.model.message import MessageExt
from headrace.model.message_id import decode_offset_message_id, unique_id_time_ms
from headrace.model.message_queue import MessageQueue
from headrace.model.names import TOOLS_CONSUMER_GROUP
from headrace.model.subscription import SubscriptionData
from headrace.protocol.bodies import QueryConsumeQueueResponseBody
from headrace.protocol.headers import (
    QueryConsumeQueueRequestHeader,
    QueryMessageRequestHeader,
    ResumeCheckHalfMessageRequestHeader,
    ViewMessageRequestHeader,
)
from headrace.protocol.record import decode_record, decode_records
from headrace.protocol.remoting_command import create_request
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode

MAX_TIME = (1 << 63) - 1
_QUERY_TIMEOUT_MS = 18_000
_BEFORE_ID_MS = 1_000


class MessageAdmin(AdminCalls):
    """Queries of messages."""

    async def view_message(self, message_id: str, topic: str | None = None, *, decompress: bool = True) -> MessageExt:
        """Returns the message with an offset message id, or, in `topic`, with a unique id.

        With `decompress=False` its body is as stored: compressed if `sys_flag` has the bit COMPRESSED.
        Raises BrokerError if there is none (208, or the broker's code), MessageInvalid for an invalid id without a topic.
        """
        try:
            host, offset = decode_offset_message_id(message_id)
        except ValueError:
            host, offset = ("", 0), 0
        # A unique id may look like an offset message id, but the address in it is not a broker's.
        is_offset_id = 0 < host[1] < 65536
        if topic is not None and is_offset_id:
            is_offset_id = format_host(host) in (await self._brokers_of(topic)).values()
        if is_offset_id:
            answer = await self._ask(format_host(host), ViewMessageRequestHeader(offset))
            return self._unwrap_message(decode_record(answer.body, inflate=decompress))
        if topic is None:
            raise MessageInvalid(
                f"{message_id!r} is not an offset message id; if it is a unique id, pass the topic too"
            )
        found = await self.query_by_unique_id(topic, message_id, decompress=decompress)
        if found is None:
            raise BrokerError.of(ResponseCode.NO_MESSAGE, f"the topic {topic} has no message with the id {message_id}")
        return found

    async def query_messages(
        self,
        topic: str,
        key: str,
        limit: int = 32,
        begin: Moment = 0,
        end: Moment = MAX_TIME,
        *,
        decompress: bool = True,
    ) -> list[MessageExt]:
        """Returns the messages of a topic with a key, stored from `begin` to `end` (aware datetime, or ms since 1970), oldest first.

        `decompress` as for `view_message`; one body that cannot be decompressed fails the whole query.
        Raises RouteNotFound, BrokerError, RemotingError. Returns an empty list if there are none.
        """
        found = await self._query(
            topic, key, limit, epoch_ms(begin), epoch_ms(end), by_unique_id=False, decompress=decompress
        )
        return [message for message in found if key in message.keys][:limit]

    async def query_by_unique_id(self, topic: str, unique_id: str, *, decompress: bool = True) -> MessageExt | None:
        """Returns the message with the unique id that a client gave it; the one stored first if there are several. Raises as `query_messages`."""
        try:
            begin = unique_id_time_ms(unique_id) - _BEFORE_ID_MS
        except ValueError:
            begin = 0
        found = await self._query(topic, unique_id, 32, begin, MAX_TIME, by_unique_id=True, decompress=decompress)
        return next((message for message in found if message.message_id == unique_id), None)

    async def read_messages(self, queue: MessageQueue, offset: int, count: int = 32) -> PullResult:
        """Returns up to `count` messages of a queue from an offset on, at once and without a group's offset: for browsing.

        The result has the queue's bounds and the offset to continue at; `search_offset` finds the offset of a time.
        Raises BrokerNotFound, BrokerError, RemotingError.
        """
        everything = SubscriptionData(self._wrap(queue.topic))
        puller = Puller(self._instance, TOOLS_CONSUMER_GROUP)
        return await puller.pull(
            self._wrap_queue(queue), everything, offset, count, timeout_ms=AT_ONCE_TIMEOUT_MS, with_expression=True
        )

    async def consume_queue(
        self,
        queue: MessageQueue,
        offset: int,
        count: int = 32,
        group: str | None = None,
        *,
        broker: str | None = None,
    ) -> QueryConsumeQueueResponseBody:
        """Returns entries of a queue from an offset on, from the broker's index; with a group, whether they pass its filter.

        With the address of the broker, the topic need not be registered. Raises BrokerError if the queue has never had a message.
        """
        header = QueryConsumeQueueRequestHeader(
            self._wrap(queue.topic), queue.queue_id, offset, count, self._wrap(group) if group else None
        )
        if broker is None:
            broker = await self._instance.find_broker(queue.broker_name, self._wrap(queue.topic))
        return await self._body(QueryConsumeQueueResponseBody, broker, header)

    async def resume_half_message(self, offset_message_id: str, *, broker: str | None = None) -> None:
        """Makes a broker check a transaction again that it has discarded. Raises BrokerError, RemotingError."""
        header = ResumeCheckHalfMessageRequestHeader(offset_message_id)
        await self._ask(broker or self._address_in(offset_message_id), header)

    async def _query(
        self, topic: str, key: str, limit: int, begin: int, end: int, *, by_unique_id: bool, decompress: bool
    ) -> list[MessageExt]:
        header = QueryMessageRequestHeader(self._wrap(topic), key, limit, begin, end, by_unique_id)
        instance = self._instance

        async def ask(address: str) -> list[MessageExt]:
            command = create_request(RequestCode.QUERY_MESSAGE, header.to_ext())
            answer = await instance.request(instance.vip(address), command, _QUERY_TIMEOUT_MS)
            if answer.code == ResponseCode.QUERY_NOT_FOUND:
                return []
            if answer.code != ResponseCode.SUCCESS:
                raise error_of(answer, address)
            return decode_records(answer.body, inflate=decompress)

        addresses = (await self._brokers_of(topic)).values()
        answers = await asyncio.gather(*map(ask, addresses), return_exceptions=True)
        problems = [one for one in answers if isinstance(one, BaseException)]
        found = [message for one in answers if not isinstance(one, BaseException) for message in one]
        # The messages of one broker are useful even if another cannot be reached.
        if problems and not found:
            raise problems[0]
        # The index contains only hashes of keys, so other messages may match.
        own = [message for message in found if message.topic == header.topic]
        return [self._unwrap_message(message) for message in sorted(own, key=lambda one: one.store_timestamp)]
