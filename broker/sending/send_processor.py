"""Sends on the plain path: everything that the hot path does not handle (remoting spec 4.4 to 4.6).

SEND_MESSAGE, SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE; topics created by a first send; retry topics and dead letters; queues that
the broker chooses. Every answer, refusals too, carries MSG_REGION and TRACE_ON. `HotTopics` prepares the hot path with
the topics for which these checks have nothing to say.
"""

import random
import time
from collections.abc import Awaitable

from broker import handler_errors
from broker.appending.appender import Appender
from broker.clients.groups import GroupTable
from broker.config import BrokerConfig
from broker.delays.delay_redirect import DelayRedirect, delay_level
from broker.response_codes import code_of_put
from broker.sending.hot_send import MALFORMED, MAX_BATCH, SendPath
from broker.statistics.broker_stats import BrokerStats
from broker.timers.recall_handle import RecallHandle
from broker.timers.timer_redirect import DELIVERED_RECORD, Outcome, TimerRedirect, cancels, due_of_record
from broker.topics.topics import TopicTable
from broker.transactions import half_messages
from headrace.errors import RemoteProtocolError
from headrace.model import names, permission, properties, sys_flag
from headrace.model.host import Host
from headrace.model.topic_config import TopicConfig, TopicFilterType
from headrace.protocol.headers.send import SendMessageRequestHeader, parse_send_header
from headrace.protocol.remoting_command import RemotingCommand, response_to
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from headrace.protocol.version import MIN_MAX_RECONSUME_TIMES_VERSION
from headrace.remoting.connection import Connection
from headrace.remoting.handlers import HandlerTable
from store.commit_log.message import MessageToStore, PutResult
from store.config import StoreConfig
from store.status import PutMessageStatus

Refused = tuple[ResponseCode, str]

_UNREAD = {"producerGroup": "", "defaultTopic": "", "defaultTopicQueueNums": "0", "a": "", "c": "", "d": "0"}
"""Fields that are only needed to create a topic."""


MAX_PROPERTIES = "maxMessageProperties"
MAX_PROPERTIES_SIZE = "maxMessagePropertiesSize"
"""The options that limit the properties of a message."""

_IDS_AT_ONCE = 4096  # limit: an answer with more ids takes milliseconds to encode, apart from the append


class SendProcessor:
    """Answers sends."""

    def __init__(
        self,
        config: BrokerConfig,
        store_config: StoreConfig,
        topics: TopicTable,
        groups: GroupTable,
        appender: Appender,
        path: SendPath,
        store_host: Host,
        delays: DelayRedirect,
        timers: TimerRedirect,
        stats: BrokerStats,
    ) -> None:
        self._config = config
        self._store_config = store_config
        self._topics = topics
        self._groups = groups
        self._appender = appender
        self._path = path
        self._store_host = store_host
        self._delays = delays
        self._timers = timers
        self._stats = stats

    def register(self, *tables: HandlerTable) -> None:
        """Serves the sends on these ports."""
        codes = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
        handler_errors.register(tables, dict.fromkeys(codes, self.send))

    def send(self, connection: Connection, command: RemotingCommand) -> RemotingCommand | Awaitable[RemotingCommand]:
        """Checks and stores the message; returns its location, or an awaitable if the response must wait for the store or is long."""
        try:
            return self._send(connection, command)
        except handler_errors.FAILURES as error:
            return self.answer(command, *handler_errors.failure_answer(connection, command, error))

    def _send(self, connection: Connection, command: RemotingCommand) -> RemotingCommand | Awaitable[RemotingCommand]:
        # compat: RocketMQ misses these fields only where it reads them.
        header = parse_send_header(command.code, _UNREAD | command.ext)
        checked = self.check(header)
        if not isinstance(checked, TopicConfig):
            return self.answer(command, *checked)
        queue_id = self.choose_queue(header, checked)
        if header.batch:
            count = self._path.count_batch(command.body)
            message = self._batch(connection, command, header, checked, queue_id, count)
        else:
            count = 1
            message = self._single(connection, command, header, checked, queue_id)
        if not isinstance(message, MessageToStore):
            return self.answer(command, *message)
        put = self._appender
        result = put.start_put_batch(self._path, message, count) if header.batch else put.start_put(message)
        if isinstance(result, PutResult) and count <= _IDS_AT_ONCE:
            return self._respond(command, message, result, queue_id, count)
        return self._respond_later(command, message, result, queue_id, count)

    async def _respond_later(
        self,
        command: RemotingCommand,
        message: MessageToStore,
        result: PutResult | Awaitable[PutResult],
        queue_id: int,
        count: int,
    ) -> RemotingCommand:
        known = result if isinstance(result, PutResult) else await result
        return self._respond(command, message, known, queue_id, count)

    # -- checks -----------------------------------------------------------------------------------------------------------

    def check(self, header: SendMessageRequestHeader) -> TopicConfig | Refused:
        """The checks common to all sends, in RocketMQ's order (remoting spec 4.4)."""
        config = self._config
        if time.time() * 1000 < config.start_accept_send_request_time_stamp:
            return ResponseCode.SYSTEM_ERROR, (
                f"the broker rejects messages until {config.start_accept_send_request_time_stamp} ms "
                "(startAcceptSendRequestTimeStamp); retry after that"
            )
        topic = self._topics.find(header.topic)
        if not permission.is_writeable(config.broker_permission) and topic is not None and topic.order:
            return ResponseCode.NO_PERMISSION, (
                f"the broker {config.broker_name} is not writable (brokerPermission); enable write permission: brokerPermission=6"
            )
        problem = names.topic_problem(header.topic)
        if problem is not None:
            return ResponseCode.SYSTEM_ERROR, problem
        if header.topic in names.FORBIDDEN_TO_SEND or header.topic == names.TIMER_TOPIC:
            return (
                ResponseCode.NO_PERMISSION,
                f"Sending message to topic[{header.topic}] is forbidden; it is an internal topic",
            )
        if topic is None:
            if not header.default_topic:
                return ResponseCode.SYSTEM_ERROR, (
                    f"topic[{header.topic}] not exist, and the request has no defaultTopic to create it from; "
                    f"set defaultTopic={names.AUTO_CREATE_TOPIC}, or create the topic first"
                )
            topic = self._topics.create_on_send(
                header.topic, header.default_topic, header.default_topic_queue_nums, header.unit_mode
            )
        if topic is None:
            return ResponseCode.TOPIC_NOT_EXIST, (
                f"topic[{header.topic}] not exist and cannot be created by clients (autoCreateTopicEnable=false); create it first"
            )
        queues = max(topic.write_queue_count, topic.read_queue_count)
        if header.queue_id >= queues:
            return ResponseCode.SYSTEM_ERROR, (
                f"request queueId[{header.queue_id}] is illegal: topic {topic.name} has {queues} queues; refresh the route"
            )
        return topic

    def choose_queue(self, header: SendMessageRequestHeader, topic: TopicConfig) -> int:
        """The requested queue, or any if none was requested. Raises RemoteProtocolError for a topic without queues."""
        if header.queue_id >= 0:
            return header.queue_id
        if topic.write_queue_count <= 0:
            raise RemoteProtocolError(f"topic {topic.name} has no write queues; increase writeQueueNums")
        return random.randrange(topic.write_queue_count)

    # -- what is stored ---------------------------------------------------------------------------------------------------

    def _single(
        self,
        connection: Connection,
        command: RemotingCommand,
        header: SendMessageRequestHeader,
        topic: TopicConfig,
        queue_id: int,
    ) -> MessageToStore | Refused:
        target = self._retried(command, header, topic, queue_id)
        if not isinstance(target[0], str):
            return target
        found = properties.decode_properties(header.properties or "")
        if len(found) > self._config.max_message_properties:
            return self._too_many_properties(connection, len(found))
        found[properties.CLUSTER] = self._config.broker_cluster_name
        found.pop(DELIVERED_RECORD, None)
        is_half = half_messages.is_prepared(found, header.reconsume_times)
        if is_half and self._config.reject_transaction_message:
            return ResponseCode.NO_PERMISSION, (
                f"the broker {self._config.broker_name} rejects transactional messages (rejectTransactionMessage=true)"
            )
        message = self.message(connection, header, target[0], target[1], flags_of(header, topic))
        message.body = command.body
        message.wait_store = found.get(properties.WAIT, "true").lower() == "true"
        if is_half:
            half_messages.make_half_message(message, found)
            return message
        outcome = self._timers.redirect(message, found)
        if outcome in _REFUSED_TIMERS:
            return _REFUSED_TIMERS[outcome]
        if outcome is Outcome.NO_TIMER and not self._delays.redirect(message, found):
            stored = {name: value for name, value in found.items() if name != properties.WAIT}
            message.properties = properties.encode_properties(stored).encode()
        return self._too_large_properties(connection, len(message.properties)) or message

    def _batch(
        self,
        connection: Connection,
        command: RemotingCommand,
        header: SendMessageRequestHeader,
        topic: TopicConfig,
        queue_id: int,
        count: int,
    ) -> MessageToStore | Refused:
        """What the `count` messages of a batch have in common, with the batch's body (store spec, 2.7)."""
        common = properties.decode_properties(header.properties or "")
        most = max(len(common), self._path.most_properties)
        if most > self._config.max_message_properties:
            return self._too_many_properties(connection, most)
        common[properties.CLUSTER] = self._config.broker_cluster_name
        if header.sys_flag & sys_flag.TRANSACTION_MASK or delay_level(common) > 0:
            return (
                ResponseCode.MESSAGE_ILLEGAL,
                "a batch can be neither transactional nor delayed; send its messages one by one",
            )
        if len(command.body) > self._store_config.effective_max_message_size:
            return self._too_large()
        if count == MALFORMED:
            raise RemoteProtocolError("invalid batch: a message extends beyond the body")
        if count == 0:
            return ResponseCode.SYSTEM_ERROR, "the batch is empty; send at least one message"
        if count > MAX_BATCH:
            return (
                ResponseCode.MESSAGE_ILLEGAL,
                f"the batch has more than {MAX_BATCH} messages; split it",
            )
        message = self.message(connection, header, topic.name, queue_id, flags_of(header, topic))
        message.body = command.body
        message.properties = properties.encode_properties(common).encode()
        message.wait_store = common.get(properties.WAIT, "true").lower() == "true"
        return self._too_large_properties(connection, len(message.properties)) or message

    def message(
        self, connection: Connection, header: SendMessageRequestHeader, topic: str, queue_id: int, flags: int
    ) -> MessageToStore:
        """The stored fields of a request, without its body and its properties."""
        return MessageToStore(
            topic,
            queue_id,
            b"",
            b"",
            flag=header.flag,
            sys_flag=flags,
            born_timestamp=header.born_timestamp,
            born_host=connection.remote_address,
            store_host=self._store_host,
            reconsume_times=header.reconsume_times,
        )

    def _retried(
        self, command: RemotingCommand, header: SendMessageRequestHeader, topic: TopicConfig, queue_id: int
    ) -> tuple[str, int] | Refused:
        """The destination: a message of a retry topic that was retried too often becomes a dead letter (4.5, step 1)."""
        if not names.is_retry_topic(topic.name):
            return topic.name, queue_id
        name = names.group_of_retry_topic(topic.name)
        group = self._groups.find(name)
        if group is None:
            return ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, (
                f"the consumer group {name} does not exist and cannot be created by clients "
                "(autoCreateSubscriptionGroup=false); create it first"
            )
        most = group.retry_max_times
        if header.max_reconsume_times is not None and command.version >= MIN_MAX_RECONSUME_TIMES_VERSION:
            most = header.max_reconsume_times
        if header.reconsume_times < most:
            return topic.name, queue_id
        return self._topics.create_on_send_back(names.dlq_topic(name), 1).name, 0

    def _too_many_properties(self, connection: Connection, count: int) -> Refused:
        remark = (
            f"the message is illegal: it has {count} properties, the limit is {self._config.max_message_properties}"
            f" ({MAX_PROPERTIES}); send fewer"
        )
        connection.limit_reached(MAX_PROPERTIES, remark)
        return ResponseCode.MESSAGE_ILLEGAL, remark

    def _too_large_properties(self, connection: Connection, size: int) -> Refused | None:
        limit = self._config.max_message_properties_size
        if size <= limit:
            return None
        remark = f"the message is illegal: its properties have {size} bytes, the limit is {limit} ({MAX_PROPERTIES_SIZE}); shorten them"
        connection.limit_reached(MAX_PROPERTIES_SIZE, remark)
        return ResponseCode.MESSAGE_ILLEGAL, remark

    def _too_large(self) -> Refused:
        return ResponseCode.MESSAGE_ILLEGAL, (
            "the message is illegal: the limits are "
            f"{self._store_config.effective_max_message_size} bytes for the body (maxMessageSize) and "
            f"{self._config.max_message_properties_size} bytes for the properties ({MAX_PROPERTIES_SIZE})"
        )

    # -- answers ----------------------------------------------------------------------------------------------------------

    def _recall_handle(self, message: MessageToStore) -> str | None:
        """The recall handle of a timer message; None for others."""
        if message.topic != names.TIMER_TOPIC:
            return None
        found = properties.decode_properties(message.properties.decode())
        due_ms, unique_id = due_of_record(found), found.get(properties.UNIQ_KEY)
        if due_ms is None or unique_id is None or cancels(found):
            return None
        return RecallHandle(found[properties.REAL_TOPIC], self._config.broker_name, due_ms, unique_id).encode()

    def _respond(
        self, command: RemotingCommand, message: MessageToStore, result: PutResult, queue_id: int, count: int
    ) -> RemotingCommand:
        status = result.status
        code = code_of_put(status)
        if status.is_stored:
            self._stats.sent(message.topic, message.queue_id, count, result.size_bytes)
            answer = self.answer(command, code)
            assert answer.ext_fields is not None
            answer.ext_fields.update(
                msgId=result.message_ids, queueId=str(queue_id), queueOffset=str(result.queue_offset)
            )
            handle = self._recall_handle(message)
            if handle is not None:
                answer.ext_fields["recallHandle"] = handle
            return answer
        self._stats.puts_failed += 1
        if code == ResponseCode.MESSAGE_ILLEGAL:
            return self.answer(command, *self._too_large())
        remarks = {
            PutMessageStatus.SERVICE_NOT_AVAILABLE: (
                f"service not available now: {self._appender.why_closed() or 'the store was not writeable'}; see `headrace status`"
            ),
            PutMessageStatus.CREATE_MAPEDFILE_FAILED: (
                "create mapped file failed: no CommitLog file could be reserved; check that the disk has space"
            ),
        }
        return self.answer(command, code, remarks.get(status, status.value))

    def answer(self, command: RemotingCommand, code: ResponseCode, remark: str | None = None) -> RemotingCommand:
        """The response to a send, with the fields that all of them have."""
        ext = {"MSG_REGION": self._config.region_id, "TRACE_ON": "true" if self._config.trace_on else "false"}
        return response_to(command, code, remark, ext)


def flags_of(header: SendMessageRequestHeader, topic: TopicConfig) -> int:
    """The flags that the message is stored with."""
    return header.sys_flag | (sys_flag.MULTI_TAGS if topic.filter_type == TopicFilterType.MULTI_TAG else 0)


_REFUSED_TIMERS: dict[Outcome, Refused] = {
    Outcome.ILLEGAL: (
        ResponseCode.MESSAGE_ILLEGAL,
        (
            "the delivery time is illegal: it must be a number, at most timerMaxDelaySec seconds ahead, and in the"
            " future if the message cancels another one"
        ),
    ),
    Outcome.DISABLED: (
        ResponseCode.SYSTEM_ERROR,
        "timer messages are disabled (timerWheelEnable=false); use a delay level",
    ),
}


class HotTopics:
    """Updates the prepared topics of the hot path when the table of topics changes."""

    def __init__(self, config: BrokerConfig, topics: TopicTable, path: SendPath) -> None:
        self._config = config
        self._topics = topics
        self._path = path
        topics.on_change(self.follow)
        self.follow(None)

    def follow(self, name: str | None) -> None:
        """Prepares or deletes a topic that has changed; None: all of them."""
        if name is None:
            topics = self._topics.all()
            for known in list(self._path.topics()):
                if known.decode() not in topics:
                    self._path.forget_topic(known)
            for topic in topics.values():
                self._follow(topic.name, topic)
        else:
            self._follow(name, self._topics.find(name))

    def _follow(self, name: str, topic: TopicConfig | None) -> None:
        key = name.encode()
        if topic is not None and self._is_plain(topic):
            flags = sys_flag.MULTI_TAGS if topic.filter_type == TopicFilterType.MULTI_TAG else 0
            self._path.prepare_topic(key, max(topic.write_queue_count, topic.read_queue_count), flags)
        else:
            self._path.forget_topic(key)

    def _is_plain(self, topic: TopicConfig) -> bool:
        return (
            names.topic_problem(topic.name) is None
            and topic.name not in names.FORBIDDEN_TO_SEND
            and topic.name != names.TIMER_TOPIC
            and not names.is_retry_topic(topic.name)
            and permission.is_writeable(self._config.broker_permission)
            and self._config.start_accept_send_request_time_stamp <= 0
        )
