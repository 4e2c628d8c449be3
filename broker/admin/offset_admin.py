"""Consumer offsets of all groups: reading, correcting and cloning them (admin spec 4.6)."""

from collections.abc import Callable, Mapping
from typing import Final

from broker.admin.admin_handler import AdminHandler, done, respond, respond_text
from broker.admin.connected_clients import ConnectedClients, subscribes_elsewhere
from broker.clients.offsets import OffsetTable
from broker.topics.topics import TopicTable
from headrace.protocol.bodies.stats import QueryCorrectionOffsetBody
from headrace.protocol.bodies.tables import DelayOffsetSerializeWrapper
from headrace.protocol.headers.offset import CloneGroupOffsetRequestHeader, QueryCorrectionOffsetRequestHeader
from headrace.protocol.remoting_command import RemotingCommand
from headrace.protocol.request_code import RequestCode

LONG_MAX: Final = (1 << 63) - 1


class OffsetAdmin:
    """Reads and copies committed offsets."""

    def __init__(
        self,
        topics: TopicTable,
        offsets: OffsetTable,
        clients: ConnectedClients,
        bounds: Callable[[str, int], tuple[int, int]],
        delay_offsets: Callable[[], Mapping[int, int]],
    ) -> None:
        """`delay_offsets()` is the progress of each delay level: level to queue offset."""
        self._topics = topics
        self._offsets = offsets
        self._clients = clients
        self._bounds = bounds
        self._delay_offsets = delay_offsets

    def handlers(self) -> Mapping[RequestCode, AdminHandler]:
        """The requests of this family."""
        return {
            RequestCode.GET_ALL_CONSUMER_OFFSET: self.all,
            RequestCode.GET_ALL_DELAY_OFFSET: self.all_delay,
            RequestCode.QUERY_CORRECTION_OFFSET: self.correction,
            RequestCode.CLONE_GROUP_OFFSET: self.clone,
        }

    def all(self, command: RemotingCommand) -> RemotingCommand:
        """GET_ALL_CONSUMER_OFFSET (43)."""
        return respond_text(command, self._offsets.wire_text())

    def all_delay(self, command: RemotingCommand) -> RemotingCommand:
        """GET_ALL_DELAY_OFFSET (45)."""
        return respond(command, DelayOffsetSerializeWrapper(dict(self._delay_offsets())))

    def correction(self, command: RemotingCommand) -> RemotingCommand:
        """QUERY_CORRECTION_OFFSET (308): for each queue the smallest offset that any group has committed and the queue still has.

        If it is above the compared group's own, RocketMQ returns the largest number.
        """
        header = QueryCorrectionOffsetRequestHeader.from_ext(command.ext_fields)
        topic = header.topic
        # RocketMQ also deletes the filtered groups' offsets, although this was not requested.
        left_out = {group.strip() for group in (header.filter_groups or "").split(",")}
        smallest: dict[int, int] = {}
        for group in self._offsets.groups_of(topic) - left_out:
            for queue_id, offset in self._offsets.queues(group, topic).items():
                if offset >= self._bounds(topic, queue_id)[0]:
                    smallest[queue_id] = min(offset, smallest.get(queue_id, offset))
        for queue_id, own in self._offsets.queues(header.compare_group, topic).items():
            if smallest.get(queue_id, own) > own:
                smallest[queue_id] = LONG_MAX
        return respond(command, QueryCorrectionOffsetBody(dict(sorted(smallest.items()))))

    def clone(self, command: RemotingCommand) -> RemotingCommand:
        """CLONE_GROUP_OFFSET (314): one topic, or every topic of the source group."""
        header = CloneGroupOffsetRequestHeader.from_ext(command.ext_fields)
        source = header.src_group
        is_one = bool(header.topic and header.topic.strip())
        for topic in [header.topic or ""] if is_one else list(self._offsets.by_topic(source)):
            if self._topics.find(topic) is None or not self._offsets.queues(source, topic):
                continue
            if header.offline or not subscribes_elsewhere(self._clients, source, topic):
                self._offsets.clone(source, header.dest_group, topic)
        return done(command)
