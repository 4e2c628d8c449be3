"""PULL_MESSAGE: checks, the read, the commit of an offset, and holding a pull that finds nothing (remoting spec 4.10).

RocketMQ 5's lite pull consumers send the same fields as LITE_PULL_MESSAGE; it is served alike.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from functools import lru_cache, partial

from broker import guard
from broker.clients.clients import ClientTable
from broker.clients.groups import GroupTable
from broker.clients.offsets import OffsetTable
from broker.clients.queue_visits import QueueVisits
from broker.config import BrokerConfig
from broker.filtering.filter_functions import FilterFunctions
from broker.filtering.filters import PullFilters, Refused
from broker.pulling.held_pulls import HeldPull, HeldPulls
from broker.pulling.hot_pull import PullPath, PullPlan
from broker.pulling.judged_pulls import JudgedPulls
from broker.pulling.pull_request import PullRequest
from broker.response_codes import code_of_get
from broker.statistics.broker_stats import BrokerStats
from broker.topics.topics import TopicTable
from headrace.model import names, permission, pull_sys_flag
from headrace.model.consumption import MessageModel
from headrace.model.host import parse_host
from headrace.model.properties import KEYS, NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR, TAGS, encode_properties
from headrace.model.subscription import ALL, TAG, SubscriptionData, is_tag_type
from headrace.model.subscription_group import SubscriptionGroupConfig
from headrace.protocol import fastjson
from headrace.protocol.headers.pull import PullMessageRequestHeader
from headrace.protocol.remoting_command import RemotingCommand, SerializeType, response_to
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from headrace.remoting.connection import Connection
from headrace.remoting.handlers import HandlerTable
from store.commit_log.message import MessageToStore, PutResult
from store.config import StoreConfig
from store.filter.python.functions import FilterFunction
from store.query.filtered import FilteredGetter
from store.query.get import GetResult, MessageGetter, warm
from store.query.judged import JudgedGetter
from store.status import GetMessageStatus

logger = logging.getLogger(__name__)

_OF_READ_ENTRIES = (ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY)
"""The codes of pulls that found entries to look at, wanted or not."""

_UNREAD = {"commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0"}
"""Fields that a pull should have, but that are read only with certain bits of its sysFlag."""


class PullProcessor:
    """Answers pulls. `append` stores the event of a moved offset; `executor` reads what is no longer in memory;
    a slave, which may lag, does not send consumers elsewhere unless `offsetCheckInSlave` is set; `path` is prepared for pulls to come.
    Without `filters` and the `filtered` getter, which go together, nobody selects by more than tags; without `functions` and the
    `judged` getter nobody by functions. `stats` counts what was found, `visits` knows who was where.
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
        store_config: StoreConfig,
        path: PullPath | None = None,
        filters: PullFilters | None = None,
        filtered: FilteredGetter | None = None,
        functions: FilterFunctions | None = None,
        judged: JudgedGetter | None = None,
        *,
        stats: BrokerStats,
        visits: QueueVisits,
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
        self._store_config = store_config
        self._is_slave = store_config.is_slave
        self._path = path
        self._filters = filters
        self._filtered = filtered
        self._judged: JudgedPulls | None = None
        if functions is not None and judged is not None:
            self._judged = JudgedPulls(functions, judged, held, executor, self._refusal, self._answer)
        self._stats = stats
        self._visits = visits

    def register(self, main: HandlerTable) -> None:
        """Pulls are served on the main port only. # compat: RocketMQ's fast port answers them with code 3."""
        codes = (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
        guard.register((main,), dict.fromkeys(codes, self.pull))

    def pull(
        self, connection: Connection, command: RemotingCommand
    ) -> RemotingCommand | Awaitable[RemotingCommand | None] | None:
        """Handles a pull; None while it is held, an awaitable while it is read from disk."""
        header = PullMessageRequestHeader.from_ext(_UNREAD | command.ext)
        pull = PullRequest(header, header.queue_offset)
        refused = self._refusal(pull)
        if refused is not None:
            return response_to(command, *refused, {})
        self._visits.visited(header.consumer_group, header.topic, (header.queue_id,))
        if pull.function is not None:
            return self._pull_judged(connection, command, pull)
        if self._path is not None:
            self._prepare(self._path, pull)
        if self._getter.is_cold(header.topic, header.queue_id, header.queue_offset):
            return self._pull_cold(connection, command, pull)
        return self._read(connection, command, pull)

    def _prepare(self, path: PullPath, pull: PullRequest) -> None:
        """Lets the hot path answer such pulls from now on: all that was checked holds until it forgets its plans."""
        header = pull.header
        topic = self._topics.find(header.topic)
        if topic is None or pull.wanted is not None:
            return
        if header.expression_type == "":  # not the same as none, which it looks like there
            return
        plan = PullPlan(
            header.consumer_group,
            topic.name,
            topic.read_queue_count,
            pull.codes,
            pull.suggested_broker,
            pull.slow_broker,
        )
        path.prepare(plan, header.sys_flag, header.subscription, header.sub_version, header.expression_type)

    def _read(self, connection: Connection, command: RemotingCommand, pull: PullRequest) -> RemotingCommand | None:
        return self._settle(connection, command, pull, self._get(pull))

    async def _pull_judged(
        self, connection: Connection, command: RemotingCommand, pull: PullRequest
    ) -> RemotingCommand | None:
        """Lets a function select, in another process."""
        assert self._judged is not None
        result = await self._judged.read(pull)
        if isinstance(result, tuple):
            return response_to(command, *result, {})
        return self._settle(connection, command, pull, result)

    def _settle(
        self, connection: Connection, command: RemotingCommand, pull: PullRequest, result: GetResult
    ) -> RemotingCommand | None:
        """Commits the offset that came along, and answers, or holds a pull for which there was nothing."""
        header = pull.header
        code = code_of_get(result.status, header.queue_offset)
        if header.max_msg_nums < 0 and code in _OF_READ_ENTRIES:
            # compat: RocketMQ looks at this number only when there is something to read.
            return response_to(
                command,
                ResponseCode.SYSTEM_ERROR,
                f"maxMsgNums is {header.max_msg_nums}: ask for at least one message",
                {},
            )
        if header.sys_flag & pull_sys_flag.COMMIT_OFFSET and not self._is_slave:
            self._offsets.commit(header.consumer_group, header.topic, header.queue_id, header.commit_offset)
        if code == ResponseCode.PULL_NOT_FOUND and header.sys_flag & pull_sys_flag.SUSPEND and not command.is_oneway:
            self._hold(connection, command, pull)
            return None
        return self._answer(command, pull, result, code)

    def _get(self, pull: PullRequest) -> GetResult:
        header = pull.header
        if pull.wanted is not None and self._filtered is not None:
            return self._filtered.get(header.topic, header.queue_id, pull.offset, header.max_msg_nums, pull.wanted)
        return self._getter.get(header.topic, header.queue_id, pull.offset, header.max_msg_nums, pull.codes)

    async def _pull_cold(
        self, connection: Connection, command: RemotingCommand, pull: PullRequest
    ) -> RemotingCommand | None:
        """Reads the records on a thread first, so that no page fault stalls the others."""
        header = pull.header
        if pull.wanted is not None and self._filtered is not None:
            plan = self._filtered.plan_warming(header.topic, header.queue_id, header.queue_offset)
        else:
            plan = self._getter.plan_warming(header.topic, header.queue_id, header.queue_offset, header.max_msg_nums)
        # Shielded: `warm` must run even if the connection goes meanwhile, because it closes the plan's descriptors.
        await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._executor, warm, plan))
        connection.answer_in_turn(command, partial(self._read, connection, command, pull))
        return None

    # -- waiting ----------------------------------------------------------------------------------------------------------

    def _hold(self, connection: Connection, command: RemotingCommand, pull: PullRequest) -> None:
        config = self._config
        hold_ms = pull.header.suspend_timeout_millis if config.long_polling_enable else config.short_polling_time_mills
        hold_s = max(hold_ms, 0) / 1000
        deadline = asyncio.get_running_loop().time() + hold_s
        self._visits.visited(pull.header.consumer_group, pull.header.topic, (pull.header.queue_id,), hold_s)
        if pull.function is not None and self._judged is not None:
            self._judged.hold(connection, command, pull, deadline)
            return

        def try_again(last: bool) -> bool:
            if connection.is_closed:
                return True
            # While the consumer has not read what it was sent, nothing more is made for it.
            has_answered = last or connection.is_held

            def work() -> RemotingCommand | None:
                nonlocal has_answered
                # Also if it raises: then that is its answer.
                is_last, has_answered = has_answered, True
                answer = self._answer_held(command, pull, is_last)
                if answer is None:
                    has_answered = False
                else:
                    # compat: the answer to a pull that was held is always JSON (remoting spec 1.5).
                    answer.serialize_type = SerializeType.JSON
                return answer

            connection.answer_in_turn(command, work)
            return has_answered

        self._held.hold(HeldPull((pull.header.topic, pull.header.queue_id), deadline, try_again))

    def _answer_held(self, command: RemotingCommand, pull: PullRequest, last: bool) -> RemotingCommand | None:
        """The pull evaluated anew, as topic, group and subscription are by now; None: it waits on.

        Messages that the consumer does not want let it wait on behind them, which it learns of at the deadline.
        """
        wanted, pull.began_ns = (pull.codes, pull.wanted), time.monotonic_ns()
        refused = self._refusal(pull)
        if refused is not None:
            return response_to(command, *refused, {})
        if pull.function is not None and self._judged is not None:
            return self._judged.begin_anew(command, pull)
        if (pull.codes, pull.wanted) != wanted:
            # What was passed by may be wanted now.
            pull.offset = pull.header.queue_offset
        result = self._get(pull)
        code = code_of_get(result.status, pull.header.queue_offset)
        if not last:
            if result.status is GetMessageStatus.NO_MATCHED_MESSAGE and result.next_begin_offset >= result.max_offset:
                pull.offset = result.next_begin_offset
                return None
            if code == ResponseCode.PULL_NOT_FOUND:
                return None
        elif code == ResponseCode.PULL_NOT_FOUND and pull.offset != pull.header.queue_offset:
            result.status, code = GetMessageStatus.NO_MATCHED_MESSAGE, ResponseCode.PULL_RETRY_IMMEDIATELY
        return self._answer(command, pull, result, code)

    # -- answers ----------------------------------------------------------------------------------------------------------

    def _answer(
        self, command: RemotingCommand, pull: PullRequest, result: GetResult, code: ResponseCode
    ) -> RemotingCommand:
        suggested = pull.slow_broker if result.suggest_slave else pull.suggested_broker
        if code == ResponseCode.PULL_OFFSET_MOVED:
            if not self._is_slave or self._store_config.offset_check_in_slave:
                self._tell_moved_offset(pull.header, result.next_begin_offset)
            else:
                code = ResponseCode.PULL_RETRY_IMMEDIATELY
                suggested = pull.corrected_broker
        self._count(pull, result, code)
        ext = {
            "suggestWhichBrokerId": str(suggested),
            "nextBeginOffset": str(result.next_begin_offset),
            "minOffset": str(result.min_offset),
            "maxOffset": str(result.max_offset),
        }
        return response_to(command, code, result.status.value, ext, result.body)

    def _count(self, pull: PullRequest, result: GetResult, code: ResponseCode) -> None:
        self._stats.store.gets.add(pull.began_ns)
        if code != ResponseCode.SUCCESS:
            self._stats.pulls_missed += 1
            return
        header, ms = pull.header, (time.monotonic_ns() - pull.began_ns) // 1_000_000
        pulls = {header.queue_id: 1}
        self._stats.got(header.topic, header.consumer_group, pulls, result.count, len(result.body), ms)

    def _tell_moved_offset(self, header: PullMessageRequestHeader, corrected: int) -> None:
        """Stores the event of a moved offset for whoever watches the topic of such events (store spec, 3.5)."""
        event = {
            "consumerGroup": header.consumer_group,
            "messageQueue": {
                "brokerName": self._config.broker_name,
                "queueId": header.queue_id,
                "topic": header.topic,
            },
            "offsetNew": corrected,
            "offsetRequest": header.queue_offset,
        }
        host = parse_host(self._config.address)
        separators = str.maketrans("", "", NAME_VALUE_SEPARATOR + PROPERTY_SEPARATOR)
        group = header.consumer_group.translate(separators)
        stored = self._append(
            MessageToStore(
                names.OFFSET_MOVED_EVENT_TOPIC,
                0,
                fastjson.dumps(event).encode(),
                encode_properties({TAGS: group, KEYS: group}).encode(),
                born_timestamp=int(time.time() * 1000),
                born_host=host,
                store_host=host,
                wait_store=False,
            )
        )
        logger.info(
            "offset moved group=%s topic=%s queue=%d asked=%d corrected=%d event=%s",
            header.consumer_group, header.topic, header.queue_id, header.queue_offset, corrected,
            "not stored" if stored is None else stored.status,
        )  # fmt: skip

    # -- checks -----------------------------------------------------------------------------------------------------------

    def _refusal(self, pull: PullRequest) -> Refused | None:
        """The checks in RocketMQ's order; a refusal says what to do. Fills in what the pull wants and from whom."""
        header, config = pull.header, self._config
        if not permission.is_readable(config.broker_permission):
            return ResponseCode.NO_PERMISSION, (
                f"the broker {config.broker_name} may not be read from; an operator has to raise its brokerPermission"
            )
        group = self._groups.find(header.consumer_group)
        if group is None:
            return ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, (
                f"the consumer group {header.consumer_group} does not exist and may not be made by a client; create it first"
            )
        if not group.consume_enable:
            return ResponseCode.NO_PERMISSION, (
                f"the consumer group {group.group_name} may not consume; an operator has to set its consumeEnable"
            )
        topic = self._topics.find(header.topic)
        if topic is None:
            return ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist here; create it first"
        if not permission.is_readable(topic.permission):
            return ResponseCode.NO_PERMISSION, f"the topic {topic.name} may not be read from; change its permission"
        if not 0 <= header.queue_id < topic.read_queue_count:
            return ResponseCode.SYSTEM_ERROR, (
                f"queueId[{header.queue_id}] is illegal: topic {topic.name} has {topic.read_queue_count} queues to read from; "
                "ask for its route again"
            )
        pull.corrected_broker = group.broker_id
        if config.slave_read_enable:
            pull.suggested_broker = group.broker_id
            pull.slow_broker = group.which_broker_when_consume_slowly
        if header.sys_flag & pull_sys_flag.SUBSCRIPTION:
            return self._take_expression(pull)
        return self._take_subscription(pull, group)

    def _take_expression(self, pull: PullRequest) -> Refused | None:
        """What is wanted, as the request says it."""
        expression, expression_type = pull.header.subscription, pull.header.expression_type
        if expression_type in (None, TAG):
            try:
                pull.codes = _codes_of(expression or ALL)
            except ValueError as error:
                return ResponseCode.SUBSCRIPTION_PARSE_FAILED, (
                    f"parse the consumer's subscription failed: {error}; send * for all messages"
                )
            return self._take_filter(pull, None)
        if not expression:
            return ResponseCode.SUBSCRIPTION_PARSE_FAILED, (
                f"parse the consumer's subscription failed: one of type {expression_type!r} has no expression; send one"
            )
        if expression_type:
            return self._take_filter(pull, None)
        # compat: RocketMQ takes an empty type for TAG when matching but never reads its tags, so nothing matches.
        pull.codes = None if expression == ALL else set()
        return None

    def _take_subscription(self, pull: PullRequest, group: SubscriptionGroupConfig) -> Refused | None:
        """What is wanted, as the heartbeats of the group say it."""
        name = group.group_name
        consumers = self._clients.consumer_group(name)
        if consumers is None:
            return ResponseCode.SUBSCRIPTION_NOT_EXIST, (
                f"the consumer's group info not exist: no member of {name} is known here; send a heartbeat first"
            )
        if not group.consume_broadcast_enable and consumers.message_model == MessageModel.BROADCASTING:
            return ResponseCode.NO_PERMISSION, (
                f"the consumer group {name} may not consume by broadcast; an operator has to set its consumeBroadcastEnable"
            )
        subscription = consumers.subscriptions.get(pull.header.topic)
        if subscription is None:
            return ResponseCode.SUBSCRIPTION_NOT_EXIST, (
                f"the consumer group {name} does not subscribe to topic {pull.header.topic}; let all its members subscribe alike"
            )
        if subscription.sub_version < pull.header.sub_version:
            return ResponseCode.SUBSCRIPTION_NOT_LATEST, (
                f"the consumer's subscription not latest: the pull of {name} is newer than what is known; send a heartbeat first"
            )
        is_all = not is_tag_type(subscription.expression_type) or subscription.class_filter_mode
        pull.codes = None if is_all or subscription.sub_string == ALL else set(subscription.code_set)
        return self._take_filter(pull, subscription)

    def _take_filter(self, pull: PullRequest, subscription: SubscriptionData | None) -> Refused | None:
        """What is wanted beyond tags, by the request's own expression or by a subscription of its group."""
        header, filters = pull.header, self._filters
        pull.wanted = pull.function = None
        if filters is None:
            expression_type = header.expression_type if subscription is None else subscription.expression_type
            return None if is_tag_type(expression_type) else (
                ResponseCode.SYSTEM_ERROR,
                f"the broker does not support consumer to filter message by {expression_type}; subscribe by tags",
            )  # fmt: skip
        if subscription is None:
            found = filters.of_request(header.topic, header.subscription, header.expression_type)
        else:
            found = filters.of_subscription(header.consumer_group, subscription, header.sub_version)
        if isinstance(found, tuple):
            return found
        if isinstance(found, FilterFunction):
            pull.function = found
        elif pull.codes is None:
            pull.wanted = found
        return None


@lru_cache(maxsize=4096)  # limit: distinct tag lists that clients pull with
def _codes_of(expression: str) -> set[int] | None:
    """Hashes of the tags in an expression, None for all; not to be changed. Raises ValueError."""
    return None if expression == ALL else set(SubscriptionData.build("", expression).code_set)
