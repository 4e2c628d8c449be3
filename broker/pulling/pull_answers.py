"""PullAnswers: responses to pulls, their statistics, and the event of a corrected offset (store spec, 3.5)."""

import logging
import time
from collections.abc import Callable

from broker.config import BrokerConfig
from broker.pulling.pull_checks import CheckedPull
from broker.pulling.pull_request import PullRequest
from broker.statistics.broker_stats import BrokerStats
from headrace.model import names
from headrace.model.host import parse_host
from headrace.model.properties import KEYS, NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR, TAGS, encode_properties
from headrace.protocol import fastjson
from headrace.protocol.headers.pull import PullMessageRequestHeader
from headrace.protocol.remoting_command import RemotingCommand, response_to
from headrace.protocol.response_code import ResponseCode
from store.commit_log.message import MessageToStore, PutResult
from store.config import StoreConfig
from store.query.get import GetResult

logger = logging.getLogger(__name__)

_SEPARATORS = str.maketrans("", "", NAME_VALUE_SEPARATOR + PROPERTY_SEPARATOR)


class PullAnswers:
    """Creates the responses. `append` stores the event of a corrected offset.

    A slave, which may lag, lets consumers try again instead of correcting their offsets, unless `offsetCheckInSlave` is set.
    """

    def __init__(
        self,
        config: BrokerConfig,
        store_config: StoreConfig,
        stats: BrokerStats,
        append: Callable[[MessageToStore], PutResult | None],
    ) -> None:
        self._config = config
        self._store_config = store_config
        self._stats = stats
        self._append = append

    def answer(self, pull: PullRequest, checked: CheckedPull, result: GetResult, code: ResponseCode) -> RemotingCommand:
        """The response with the messages that were read, or with the offset to continue at."""
        suggested = checked.slow_broker if result.suggest_slave else checked.suggested_broker
        if code == ResponseCode.PULL_OFFSET_MOVED:
            if self._store_config.corrects_offsets:
                self._store_offset_moved(pull.header, result.next_begin_offset)
            else:
                code = ResponseCode.PULL_RETRY_IMMEDIATELY
                suggested = checked.corrected_broker
        self._count(pull.header, checked.began_ns, result, code)
        ext = {
            "suggestWhichBrokerId": str(suggested),
            "nextBeginOffset": str(result.next_begin_offset),
            "minOffset": str(result.min_offset),
            "maxOffset": str(result.max_offset),
        }
        return response_to(pull.command, code, result.status.value, ext, result.body)

    def _count(self, header: PullMessageRequestHeader, began_ns: int, result: GetResult, code: ResponseCode) -> None:
        self._stats.store.gets.add(began_ns)
        if code != ResponseCode.SUCCESS:
            self._stats.pulls_missed += 1
            return
        ms = (time.monotonic_ns() - began_ns) // 1_000_000
        pulls = {header.queue_id: 1}
        self._stats.got(header.topic, header.consumer_group, pulls, result.count, len(result.body), ms)

    def _store_offset_moved(self, header: PullMessageRequestHeader, corrected: int) -> None:
        """Stores the event in the topic for such events."""
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
        group = header.consumer_group.translate(_SEPARATORS)
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
            "pull offset corrected group=%s topic=%s queue_id=%d requested_offset=%d corrected_offset=%d offset_moved_event=%s",
            header.consumer_group, header.topic, header.queue_id, header.queue_offset, corrected,
            "not_stored" if stored is None else stored.status,
        )  # fmt: skip
