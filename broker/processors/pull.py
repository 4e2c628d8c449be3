"""PULL_MESSAGE: checks, the read, the commit of an offset, and holding a pull that finds nothing (remoting spec 4.10).

RocketMQ 5's lite pull consumers send the same fields as LITE_PULL_MESSAGE; it is served alike.
"""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import lru_cache

from broker.clients import ClientTable
from broker.config import BrokerConfig
from broker.groups import GroupTable
from broker.held_pulls import HeldPull, HeldPulls
from broker.offsets import OffsetTable
from broker.response_codes import code_of_get
from broker.topics import TopicTable
from headrace.model import names, permission, pull_sys_flag
from headrace.model.host import parse_host
from headrace.model.properties import KEYS, TAGS, encode_properties
from headrace.model.subscription import ALL, SubscriptionData, is_tag_type
from headrace.protocol.remoting_command import RemotingCommand, response_to
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from headrace.remoting.connection import Connection
from headrace.remoting.handlers import HandlerTable
from store.commit_log.message import MessageToStore, PutResult
from store.query.get import GetResult, MessageGetter, warm
from store.status import GetMessageStatus

logger = logging.getLogger(__name__)

Refused = tuple[ResponseCode, str]
_BROADCASTING = "BROADCASTING"


@dataclass(slots=True)
class _Pull:
    """The fields of the request, and what was found out about it."""

    group: str
    topic: str
    queue_id: int
    offset: int
    max_count: int
    flags: int
    commit_offset: int
    hold_ms: int
    codes: set[int] | None
    suggested_broker: int
    slow_broker: int


class PullProcessor:
    """Answers pulls. `append` stores the event of a moved offset; `executor` reads what is no longer in memory;
    a slave that lags (`corrects_offsets` False) does not send consumers elsewhere.
    """

    def __init__(
        self,
        config: BrokerConfig,
        topics: TopicTable,
        groups: GroupTable,
        clients: ClientTable,
        offsets: OffsetTable,
        getter: MessageGetter,
        held: HeldPulls,
        append: Callable[[MessageToStore], PutResult | None],
        executor: Executor,
        is_slave: bool,
        corrects_offsets: bool,
    ) -> None:
        self._config = config
        self._topics = topics
        self._groups = groups
        self._clients = clients
        self._offsets = offsets
        self._getter = getter
        self._held = held
        self._append = append
        self._executor = executor
        self._is_slave = is_slave
        self._corrects_offsets = corrects_offsets
        self.messages_out = 0
        self.bytes_out = 0

    def register(self, main: HandlerTable) -> None:
        """Pulls are served on the main port only. # compat: RocketMQ's fast port answers them with code 3."""
        main.register(RequestCode.PULL_MESSAGE, self.pull)
        main.register(RequestCode.LITE_PULL_MESSAGE, self.pull)

    def pull(
        self, connection: Connection, command: RemotingCommand
    ) -> RemotingCommand | Awaitable[RemotingCommand | None] | None:
        """Handles a pull; None while it is held, an awaitable while it is read from disk."""
        checked = self._check(command)
        if not isinstance(checked, _Pull):
            code, remark = checked
            return response_to(command, code, remark, {})
        if self._getter.is_cold(checked.topic, checked.queue_id, checked.offset):
            return self._pull_cold(connection, command, checked)
        return self._read(connection, command, checked)

    def _read(self, connection: Connection, command: RemotingCommand, pull: _Pull) -> RemotingCommand | None:
        result = self._getter.get(pull.topic, pull.queue_id, pull.offset, pull.max_count, pull.codes)
        if pull.flags & pull_sys_flag.COMMIT_OFFSET and not self._is_slave:
            self._offsets.commit(pull.group, pull.topic, pull.queue_id, pull.commit_offset)
        code = code_of_get(result.status, pull.offset)
        if code == ResponseCode.PULL_NOT_FOUND and pull.flags & pull_sys_flag.SUSPEND:
            self._hold(connection, command, pull)
            return None
        return self._answer(command, pull, result, code)

    async def _pull_cold(
        self, connection: Connection, command: RemotingCommand, pull: _Pull
    ) -> RemotingCommand | None:
        """Reads the records on a thread first, so that no page fault stalls the others."""
        plan = self._getter.plan_warming(pull.topic, pull.queue_id, pull.offset, pull.max_count)
        await asyncio.get_running_loop().run_in_executor(self._executor, warm, plan)
        return self._read(connection, command, pull)

    def _hold(self, connection: Connection, command: RemotingCommand, pull: _Pull) -> None:
        hold_ms = pull.hold_ms if self._config.long_polling_enable else self._config.short_polling_time_mills
        asked = pull.offset

        def try_again(last: bool) -> bool:
            if connection.is_closed:
                return True
            result = self._getter.get(pull.topic, pull.queue_id, pull.offset, pull.max_count, pull.codes)
            code = code_of_get(result.status, pull.offset)
            if result.status is GetMessageStatus.NO_MATCHED_MESSAGE and not last:
                # Others' messages: go on waiting behind them; the client learns of it at the deadline.
                pull.offset = result.next_begin_offset
                return False
            if code == ResponseCode.PULL_NOT_FOUND:
                if not last:
                    return False
                if pull.offset != asked:
                    result.status = GetMessageStatus.NO_MATCHED_MESSAGE
                    code = ResponseCode.PULL_RETRY_IMMEDIATELY
            connection.send(self._answer(command, pull, result, code))
            return True

        deadline = asyncio.get_running_loop().time() + max(hold_ms, 0) / 1000
        self._held.hold(HeldPull((pull.topic, pull.queue_id), deadline, try_again))

    def _answer(
        self, command: RemotingCommand, pull: _Pull, result: GetResult, code: ResponseCode
    ) -> RemotingCommand:
        suggested = pull.slow_broker if result.suggest_slave else pull.suggested_broker
        if code == ResponseCode.PULL_OFFSET_MOVED:
            if not self._corrects_offsets:
                code = ResponseCode.PULL_RETRY_IMMEDIATELY
            else:
                self._tell_moved_offset(pull, result.next_begin_offset)
        self.messages_out += result.count
        self.bytes_out += len(result.body)
        ext = {
            "suggestWhichBrokerId": str(suggested),
            "nextBeginOffset": str(result.next_begin_offset),
            "minOffset": str(result.min_offset),
            "maxOffset": str(result.max_offset),
        }
        return response_to(command, code, result.status.value, ext, result.body)

    # -- checks -----------------------------------------------------------------------------------------------------------

    def _check(self, command: RemotingCommand) -> "_Pull | Refused":
        """The checks in RocketMQ's order; a refusal says what to do."""
        ext = command.ext
        try:
            pull = _Pull(
                group=ext["consumerGroup"],
                topic=ext["topic"],
                queue_id=int(ext["queueId"]),
                offset=int(ext["queueOffset"]),
                max_count=int(ext["maxMsgNums"]),
                flags=int(ext["sysFlag"]),
                commit_offset=int(ext.get("commitOffset", "0")),
                hold_ms=int(ext.get("suspendTimeoutMillis", "0")),
                codes=None,
                suggested_broker=0,
                slow_broker=0,
            )
            version = int(ext.get("subVersion", "0"))
        except KeyError as error:
            return ResponseCode.SYSTEM_ERROR, f"the pull has no field {error.args[0]}: send it"
        except ValueError as error:
            return ResponseCode.SYSTEM_ERROR, f"a field of the pull is no number: {error}"
        if not permission.is_readable(self._config.broker_permission):
            return ResponseCode.NO_PERMISSION, (
                f"the broker {self._config.broker_name} may not be read from; an operator has to raise its brokerPermission"
            )
        group = self._groups.find(pull.group)
        if group is None:
            return ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, (
                f"the consumer group {pull.group} does not exist and may not be made by a client; create it first"
            )
        if not group.consume_enable:
            return ResponseCode.NO_PERMISSION, (
                f"the consumer group {pull.group} may not consume; an operator has to set its consumeEnable"
            )
        topic = self._topics.find(pull.topic)
        if topic is None:
            return ResponseCode.TOPIC_NOT_EXIST, f"the topic {pull.topic} does not exist here; create it first"
        if not permission.is_readable(topic.permission):
            return ResponseCode.NO_PERMISSION, f"the topic {pull.topic} may not be read from; change its permission"
        if not 0 <= pull.queue_id < topic.read_queue_count:
            return ResponseCode.SYSTEM_ERROR, (
                f"queue {pull.queue_id} of topic {pull.topic} is out of range: it has {topic.read_queue_count} to read from"
            )
        if self._config.slave_read_enable:
            pull.suggested_broker = group.broker_id
            pull.slow_broker = group.which_broker_when_consume_slowly
        if pull.max_count < 0:
            return ResponseCode.SYSTEM_ERROR, f"maxMsgNums is {pull.max_count}: ask for at least one message"
        return self._subscription(pull, ext, version)

    def _subscription(self, pull: _Pull, ext: dict[str, str], version: int) -> "_Pull | Refused":
        """Finds out which messages are wanted: as the request says, or as the group's heartbeats do."""
        expression_type = ext.get("expressionType")
        if pull.flags & pull_sys_flag.SUBSCRIPTION:
            expression = ext.get("subscription")
            if not is_tag_type(expression_type):
                if not expression:
                    return ResponseCode.SUBSCRIPTION_PARSE_FAILED, (
                        f"the subscription of type {expression_type} has no expression; send one"
                    )
                return self._sql_refused(expression_type)
            if expression and expression != ALL:
                pull.codes = _codes_of(expression, expression_type)
            return pull
        consumers = self._clients.consumer_group(pull.group)
        if consumers is None:
            return ResponseCode.SUBSCRIPTION_NOT_EXIST, (
                f"no consumer of the group {pull.group} is known here; send a heartbeat first"
            )
        group = self._groups.find(pull.group)
        if group is not None and not group.consume_broadcast_enable and consumers.message_model == _BROADCASTING:
            return ResponseCode.NO_PERMISSION, (
                f"the consumer group {pull.group} may not consume by broadcast; an operator has to set consumeBroadcastEnable"
            )
        subscription = consumers.subscriptions.get(pull.topic)
        if subscription is None:
            return ResponseCode.SUBSCRIPTION_NOT_EXIST, (
                f"the consumer group {pull.group} does not subscribe to topic {pull.topic}; see that all its members do"
            )
        if subscription.sub_version < version:
            return ResponseCode.SUBSCRIPTION_NOT_LATEST, (
                f"the subscription of group {pull.group} known here is older than the pull's; send a heartbeat first"
            )
        if not is_tag_type(subscription.expression_type):
            return self._sql_refused(subscription.expression_type)
        if subscription.sub_string != ALL:
            pull.codes = set(subscription.code_set)
        return pull

    def _sql_refused(self, expression_type: str | None) -> Refused:
        return ResponseCode.SYSTEM_ERROR, f"the broker does not filter by {expression_type}; subscribe by tags"

    def _tell_moved_offset(self, pull: _Pull, corrected: int) -> None:
        """Stores the event of a moved offset for whoever watches the topic of such events (store spec, 3.5)."""
        event = {
            "consumerGroup": pull.group,
            "messageQueue": {"brokerName": self._config.broker_name, "queueId": pull.queue_id, "topic": pull.topic},
            "offsetNew": corrected,
            "offsetRequest": pull.offset,
        }
        host = parse_host(self._config.address)
        properties = {TAGS: pull.group, KEYS: pull.group}
        stored = self._append(
            MessageToStore(
                names.OFFSET_MOVED_EVENT_TOPIC,
                0,
                json.dumps(event, separators=(",", ":")).encode(),
                encode_properties(properties).encode(),
                born_timestamp=int(time.time() * 1000),
                born_host=host,
                store_host=host,
                wait_store=False,
            )
        )
        logger.info(
            "offset moved group=%s topic=%s queue=%d asked=%d corrected=%d event=%s",
            pull.group, pull.topic, pull.queue_id, pull.offset, corrected, "not stored" if stored is None else stored.status,
        )  # fmt: skip


@lru_cache(maxsize=4096)  # limit: distinct tag lists that clients pull with
def _codes_of(expression: str, expression_type: str | None) -> set[int]:
    if expression_type == "":
        # compat: RocketMQ takes an empty type for TAG when matching but never reads its tags, so nothing matches.
        return set()
    return set(SubscriptionData.build("", expression, expression_type).code_set)
