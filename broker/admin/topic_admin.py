"""Topics: created, changed, deleted and listed by operators (admin spec 4.1)."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from broker.admin.admin_handler import AdminHandler, done, refuse, respond, respond_text
from broker.topics.topics import TopicTable
from headrace.model import names
from headrace.model.topic_config import TopicConfig, TopicFilterType
from headrace.protocol import fastjson
from headrace.protocol.bodies.tables import TopicList
from headrace.protocol.headers.admin import (
    CreateTopicRequestHeader,
    DeleteTopicRequestHeader,
    GetTopicConfigRequestHeader,
)
from headrace.protocol.json_bean import to_value
from headrace.protocol.remoting_command import RemotingCommand
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode

logger = logging.getLogger(__name__)

MAX_QUEUES: Final = 65_536  # limit: the rows of the queue table; more could never be written to


class TopicAdmin:
    """Changes the topic table at an operator's request; name servers are notified before the response."""

    def __init__(
        self,
        topics: TopicTable,
        register_topic: Callable[[str], Awaitable[None]],
        delete_topic: Callable[[str], bool],
        queues_dropped: Callable[[], Awaitable[None]],
    ) -> None:
        """`register_topic(name)` notifies the name servers; `delete_topic(name)` is False if there was none.

        `queues_dropped()` waits until dispatch has removed the queues of deleted topics.
        """
        self._topics = topics
        self._register_topic = register_topic
        self._delete_topic = delete_topic
        self._queues_dropped = queues_dropped

    def handlers(self) -> Mapping[RequestCode, AdminHandler]:
        """The requests of this family."""
        return {
            RequestCode.UPDATE_AND_CREATE_TOPIC: self.put,
            RequestCode.DELETE_TOPIC_IN_BROKER: self.delete,
            RequestCode.GET_ALL_TOPIC_CONFIG: self.all,
            RequestCode.GET_TOPIC_CONFIG: self.one,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: self.system_topics,
        }

    async def put(self, command: RemotingCommand) -> RemotingCommand:
        """UPDATE_AND_CREATE_TOPIC (17)."""
        header = CreateTopicRequestHeader.from_ext(command.ext_fields)
        problem = self._problem(header.topic) or _settings_problem(header)
        if problem is not None:
            return refuse(command, ResponseCode.SYSTEM_ERROR, problem)
        known = self._topics.find(header.topic)
        self._topics.put(
            TopicConfig(
                header.topic,
                header.read_queue_nums,
                header.write_queue_nums,
                header.perm,
                TopicFilterType(header.topic_filter_type),
                header.topic_sys_flag,
                # compat: RocketMQ takes no order from the request; the name servers' ORDER_TOPIC_CONFIG decides.
                known.order if known is not None else False,
            )
        )
        await self._register_topic(header.topic)
        return done(command)

    async def delete(self, command: RemotingCommand) -> RemotingCommand:
        """DELETE_TOPIC_IN_BROKER (215). The caller has to notify the name servers."""
        topic = DeleteTopicRequestHeader.from_ext(command.ext_fields).topic
        problem = self._problem(topic)
        if problem is not None:
            return refuse(command, ResponseCode.SYSTEM_ERROR, problem)
        if not self._delete_topic(topic):
            logger.info("topic to delete not found topic=%s", topic)
        await self._queues_dropped()
        return done(command)

    def all(self, command: RemotingCommand) -> RemotingCommand:
        """GET_ALL_TOPIC_CONFIG (21)."""
        return respond_text(command, self._topics.wire_text())

    def one(self, command: RemotingCommand) -> RemotingCommand:
        """GET_TOPIC_CONFIG (351): the settings of one topic, as RocketMQ 5 returns them to its tools and the dashboard."""
        name = GetTopicConfigRequestHeader.from_ext(command.ext_fields).topic
        topic = self._topics.find(name)
        if topic is None:
            remark = f"No topic in this broker. topic: {name}; see `mqadmin topicList`"
            return refuse(command, ResponseCode.TOPIC_NOT_EXIST, remark)
        value = to_value(topic)
        assert isinstance(value, dict)
        # compat: no topic has attributes here, and 5's tools expect a map.
        return respond_text(command, fastjson.dumps({"attributes": {}} | value))

    def system_topics(self, command: RemotingCommand) -> RemotingCommand:
        """GET_SYSTEM_TOPIC_LIST_FROM_BROKER (305)."""
        return respond(command, TopicList(sorted(self._topics.system_names)))

    def _problem(self, topic: str) -> str | None:
        """Why this topic cannot be changed, in Apache's order of checks."""
        problem = names.topic_problem(topic)
        if problem is None and self._topics.is_system(topic):
            problem = f"The topic[{topic}] is conflict with system topic."
        return problem


def _settings_problem(header: CreateTopicRequestHeader) -> str | None:
    if header.topic_filter_type not in TopicFilterType.__members__:
        return f"invalid topicFilterType {header.topic_filter_type!r}: use SINGLE_TAG or MULTI_TAG"
    for key, count in (("readQueueNums", header.read_queue_nums), ("writeQueueNums", header.write_queue_nums)):
        if not 0 <= count <= MAX_QUEUES:
            return f"invalid {key}={count}: use a number from 0 to {MAX_QUEUES}"
    if not 0 <= header.perm <= 15:
        return f"invalid perm={header.perm}: use the sum of 4 (read), 2 (write) and 1 (inherit)"
    return None
