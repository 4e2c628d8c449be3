"""SEND_REPLY_MESSAGE: a consumer's reply to a waiting producer (remoting spec 4.7).

The reply is pushed to the producer whose client id it names, and also stored unless disabled. The response to the
consumer contains whether the push succeeded, and where the reply was stored.
"""

import time
from collections.abc import Callable

from broker import handler_errors
from broker.appending.appender import Appender
from broker.clients.clients import Client, ClientTable
from broker.config import BrokerConfig
from broker.sending.send_processor import SendProcessor, flags_of
from broker.statistics.broker_stats import BrokerStats
from headrace.errors import RemotingError
from headrace.model import properties
from headrace.model.host import Host, format_host
from headrace.model.topic_config import TopicConfig
from headrace.protocol.headers.send import ReplyMessageRequestHeader, SendMessageRequestHeader, parse_send_header
from headrace.protocol.language import LanguageCode
from headrace.protocol.remoting_command import RemotingCommand, create_request
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from headrace.remoting.connection import Connection
from headrace.remoting.handlers import HandlerTable
from store.commit_log.message import PutResult

PUSH_TIMEOUT_MS = 10_000


class ReplyProcessor:
    """Forwards replies. `sends` performs the checks of every send."""

    def __init__(
        self,
        config: BrokerConfig,
        clients: ClientTable,
        sends: SendProcessor,
        appender: Appender,
        store_host: Host,
        stats: BrokerStats,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._config = config
        self._clients = clients
        self._sends = sends
        self._appender = appender
        self._store_host = store_host
        self._stats = stats
        self._clock_ms = clock_ms

    def register(self, *tables: HandlerTable) -> None:
        """Serves both forms of the request on these ports."""
        codes = (RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2)
        handler_errors.register(tables, dict.fromkeys(codes, self.reply))

    async def reply(self, connection: Connection, command: RemotingCommand) -> RemotingCommand:
        """Pushes the reply, stores it, and returns both results."""
        header = parse_send_header(command.code, command.ext_fields)
        topic = self._sends.check(header)
        if not isinstance(topic, TopicConfig):
            return self._sends.answer(command, *topic)
        queue_id = self._sends.choose_queue(header, topic)
        found = properties.decode_properties(header.properties or "")
        problem = await self._push(connection, command, header, topic, queue_id, found)
        ext = {"msgId": "0", "queueId": str(queue_id), "queueOffset": "0"} if problem is None else {}
        if self._config.store_reply_message_enable:
            result = await self._store(connection, command, header, topic, queue_id)
            if result.status.is_stored:
                self._stats.sent(topic.name, queue_id, 1, result.size_bytes)
                ext = {
                    "msgId": result.message_ids,
                    "queueId": str(queue_id),
                    "queueOffset": str(result.queue_offset),
                }
        code = ResponseCode.SUCCESS if problem is None else ResponseCode.SYSTEM_ERROR
        answer = self._sends.answer(command, code, problem)
        answer.ext_fields = (answer.ext_fields or {}) | ext
        return answer

    async def _push(
        self,
        connection: Connection,
        command: RemotingCommand,
        header: SendMessageRequestHeader,
        topic: TopicConfig,
        queue_id: int,
        found: dict[str, str],
    ) -> str | None:
        """Pushes the reply to the requester; returns the error as a sentence, or None."""
        asker = found.get(properties.REPLY_TO_CLIENT)
        if not asker:
            return f"{properties.REPLY_TO_CLIENT} is missing: the reply does not name the client that sent the request"
        client = self._find_producer(asker)
        if client is None:
            return f"the requesting client {asker} is not registered with this broker; it must send a heartbeat first"
        pushed = dict(found) | {properties.PUSH_REPLY_TIME: str(self._clock_ms())}
        push = ReplyMessageRequestHeader(
            producer_group=header.producer_group,
            topic=header.topic,
            default_topic=header.default_topic,
            default_topic_queue_nums=header.default_topic_queue_nums,
            queue_id=queue_id,
            sys_flag=flags_of(header, topic),
            born_timestamp=header.born_timestamp,
            flag=header.flag,
            born_host=format_host(connection.remote_address),
            store_host=format_host(self._store_host),
            store_timestamp=self._clock_ms(),
            properties=properties.encode_properties(pushed),
            reconsume_times=header.reconsume_times,
            unit_mode=header.unit_mode,
        )
        request = create_request(
            RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, push.to_ext(), command.body, language=LanguageCode.JAVA
        )
        try:
            answer = await client.connection.request(request, PUSH_TIMEOUT_MS)
        except RemotingError as error:
            return f"push reply message to {asker} fail: {error}"
        if answer.code != ResponseCode.SUCCESS:
            return f"push reply message to {asker} fail: it answered {answer.code} {answer.remark or ''}".rstrip()
        return None

    def _find_producer(self, client_id: str) -> Client | None:
        return next(
            (
                client
                for clients in self._clients.producer_groups().values()
                for client in clients
                if client.client_id == client_id
            ),
            None,
        )

    async def _store(
        self,
        connection: Connection,
        command: RemotingCommand,
        header: SendMessageRequestHeader,
        topic: TopicConfig,
        queue_id: int,
    ) -> PutResult:
        message = self._sends.message(connection, header, topic.name, queue_id, flags_of(header, topic))
        message.body = command.body
        # compat: exactly as received; RocketMQ adds no CLUSTER to a reply.
        message.properties = (header.properties or "").encode()
        return await self._appender.put(message)
