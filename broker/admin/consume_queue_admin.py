"""QUERY_CONSUME_QUEUE: entries of one ConsumeQueue (admin spec 4.10)."""

from collections.abc import Callable, Mapping
from typing import Final

from broker.admin.admin_handler import AdminHandler, refuse, respond
from broker.admin.connected_clients import ConnectedClients
from headrace.model.subscription import SubscriptionData, is_tag_type
from headrace.protocol import fastjson
from headrace.protocol.bodies.stats import ConsumeQueueData, QueryConsumeQueueResponseBody
from headrace.protocol.consume_queue_layout import ENTRY, ENTRY_SIZE
from headrace.protocol.headers.query import QueryConsumeQueueRequestHeader
from headrace.protocol.remoting_command import RemotingCommand
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode

MAX_ENTRIES: Final = 4096  # limit: some 300 KiB of JSON, a few milliseconds


class ConsumeQueueAdmin:
    """Reads entries only, not messages."""

    def __init__(
        self,
        bounds: Callable[[str, int], tuple[int, int]],
        entries: Callable[[str, int, int], memoryview | None],
        clients: ConnectedClients,
    ) -> None:
        """`entries(topic, queue_id, queue_offset)`: bytes from that entry to the end of its file."""
        self._bounds = bounds
        self._entries = entries
        self._clients = clients

    def handlers(self) -> Mapping[RequestCode, AdminHandler]:
        """The requests of this family."""
        return {RequestCode.QUERY_CONSUME_QUEUE: self.read}

    def read(self, command: RemotingCommand) -> RemotingCommand:
        """QUERY_CONSUME_QUEUE (321). For an index out of range the response has only the bounds."""
        header = QueryConsumeQueueRequestHeader.from_ext(command.ext_fields)
        topic, queue_id, index = header.topic, header.queue_id, header.index
        first, end = self._bounds(topic, queue_id)
        if end <= 0:
            return refuse(command, ResponseCode.SYSTEM_ERROR, f"{queue_id}@{topic} is not exist!")
        body = QueryConsumeQueueResponseBody(max_queue_index=end, min_queue_index=first)
        if header.consumer_group and header.consumer_group.strip():
            self._describe_group(body, header.consumer_group, topic)
        if not first <= index < end:
            answer = respond(command, body)
            answer.remark = f"Index {index} of {queue_id}@{topic} is not exist!"
            return answer
        body.queue_data = self._read(topic, queue_id, index, min(header.count, MAX_ENTRIES, end - index))
        return respond(command, body)

    def _read(self, topic: str, queue_id: int, index: int, count: int) -> list[ConsumeQueueData]:
        found: list[ConsumeQueueData] = []
        while len(found) < count:
            data = self._entries(topic, queue_id, index + len(found))
            whole = len(data) // ENTRY_SIZE if data is not None else 0
            if data is None or not whole:
                break
            places = range(0, min(whole, count - len(found)) * ENTRY_SIZE, ENTRY_SIZE)
            found.extend(ConsumeQueueData(*ENTRY.unpack_from(data, place)) for place in places)
        return found

    def _describe_group(self, body: QueryConsumeQueueResponseBody, group: str, topic: str) -> None:
        online = self._clients.consumer_group(group)
        subscription = online.subscriptions.get(topic) if online is not None else None
        body.subscription_data = subscription
        if subscription is None:
            body.filter_data = f"{group}@{topic} is not online!"
        else:
            body.filter_data = _filter_text(group, subscription)


def _filter_text(group: str, subscription: SubscriptionData) -> str:
    """The group's filter. Filters by tags are not stored, which RocketMQ prints as `null`."""
    if is_tag_type(subscription.expression_type):
        return "null"
    return fastjson.dumps_pretty(
        {
            "consumerGroup": group,
            "expression": subscription.sub_string,
            "expressionType": subscription.expression_type,
            "topic": subscription.topic,
        }
    )
