"""RECALL_MESSAGE (RocketMQ 5): a producer cancels a timer message (docs/storage/timers.md, "Cancelling").

It appends a cancelling record for the same millisecond. A cancellation is accepted only before that
millisecond, and is then effective.
"""

import time
from collections.abc import Awaitable, Callable
from typing import Final

from broker import handler_errors
from broker.appending.appender import Appender
from broker.config import BrokerConfig
from broker.timers.recall_handle import RecallHandle
from broker.timers.timer_redirect import Outcome, TimerRedirect
from broker.topics.topics import TopicTable
from headrace.errors import RemoteProtocolError
from headrace.model import permission, properties
from headrace.model.host import Host
from headrace.protocol.headers.recall import RecallMessageRequestHeader, RecallMessageResponseHeader
from headrace.protocol.remoting_command import RemotingCommand, response_to
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from headrace.remoting.connection import Connection
from headrace.remoting.handlers import HandlerTable
from store.commit_log.message import MessageToStore, PutResult

_TAG: Final = "_RECALL_TAG_"
_BODY: Final = b"0"


class RecallProcessor:
    """Answers RECALL_MESSAGE."""

    def __init__(
        self,
        config: BrokerConfig,
        topics: TopicTable,
        appender: Appender,
        timers: TimerRedirect,
        store_host: Host,
        *,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._config = config
        self._topics = topics
        self._appender = appender
        self._timers = timers
        self._store_host = store_host
        self._clock_ms = clock_ms

    def register(self, *tables: HandlerTable) -> None:
        """Serves the request on these ports."""
        handler_errors.register(tables, {RequestCode.RECALL_MESSAGE: self.recall})

    def recall(self, connection: Connection, command: RemotingCommand) -> RemotingCommand | Awaitable[RemotingCommand]:
        """RECALL_MESSAGE (370); the answer has the message's id."""
        header = RecallMessageRequestHeader.from_ext(command.ext_fields)
        topic = header.topic
        if not topic or not header.recall_handle:
            raise RemoteProtocolError("the fields topic and recallHandle are required")
        if not permission.is_writeable(self._config.broker_permission):
            return self._answer(
                command,
                ResponseCode.SERVICE_NOT_AVAILABLE,
                "messages cannot be cancelled: the broker is not writable; enable write permission: brokerPermission=6",
            )
        if self._topics.find(topic) is None:
            return self._answer(command, ResponseCode.TOPIC_NOT_EXIST, f"topic {topic} does not exist")
        handle = RecallHandle.decode(header.recall_handle)
        if handle is None:
            return self._refuse(command, "invalid recallHandle; pass the value from the response to the send")
        if handle.topic != topic:
            return self._refuse(command, f"the recallHandle belongs to topic {handle.topic}, not to {topic}")
        if handle.broker_name != self._config.broker_name:
            return self._refuse(
                command, f"the recallHandle belongs to broker {handle.broker_name}; send this request to that broker"
            )
        message = MessageToStore(
            topic,
            0,
            _BODY,
            b"",
            born_timestamp=self._clock_ms(),
            born_host=connection.remote_address,
            store_host=self._store_host,
        )
        found = {
            properties.TAGS: _TAG,
            properties.UNIQ_KEY: handle.unique_id,
            properties.TIMER_DEL_UNIQKEY: f"{topic}+{handle.unique_id}",
            properties.TIMER_DELIVER_MS: str(handle.due_ms),
            properties.CLUSTER: self._config.broker_cluster_name,
        }
        if self._timers.redirect(message, found) is not Outcome.WAITS:
            return self._too_late(command)
        result = self._appender.start_put(message)
        if isinstance(result, PutResult):
            return self._respond(command, handle, result)
        return self._respond_later(command, handle, result)

    async def _respond_later(
        self, command: RemotingCommand, handle: RecallHandle, result: Awaitable[PutResult]
    ) -> RemotingCommand:
        return self._respond(command, handle, await result)

    def _respond(self, command: RemotingCommand, handle: RecallHandle, result: PutResult) -> RemotingCommand:
        if not result.status.is_stored:
            return self._answer(command, ResponseCode.SYSTEM_ERROR, f"the cancellation was not stored: {result.status}")
        if result.store_timestamp >= handle.due_ms:
            return self._too_late(command)
        answer = self._answer(command, ResponseCode.SUCCESS)
        assert answer.ext_fields is not None
        answer.ext_fields |= RecallMessageResponseHeader(handle.unique_id).to_ext()
        return answer

    def _too_late(self, command: RemotingCommand) -> RemotingCommand:
        return self._refuse(command, "too late: the message is being delivered or was delivered")

    def _refuse(self, command: RemotingCommand, why: str) -> RemotingCommand:
        return self._answer(command, ResponseCode.ILLEGAL_OPERATION, why)

    def _answer(self, command: RemotingCommand, code: int, remark: str | None = None) -> RemotingCommand:
        return response_to(command, code, remark, {"MSG_REGION": self._config.region_id})
