"""The frame of an ordinary send, written straight away: what `Outgoing.request_for` and RemotingCommand.encode make, at a quarter of the time.

All that is the same for each message to a queue is written once. Only plain SEND_MESSAGE_V2 in JSON goes this way; whatever else (batches, replies, retry
topics, signatures, binary headers) goes the ordinary one. A test holds the two against each other.
"""

from json.encoder import encode_basestring as quote
from typing import Final

from headrace.client.durations import now_ms
from headrace.client.producing.outgoing import Outgoing
from headrace.client.producing.producer_settings import ProducerSettings
from headrace.model.message_queue import MessageQueue
from headrace.protocol.frame_layout import FRAME_MAX_LENGTH, HEAD_SIZE
from headrace.protocol.language import LanguageCode
from headrace.protocol.remoting_command import RemotingCommand, next_opaque
from headrace.protocol.request_code import RequestCode
from headrace.protocol.version import CURRENT_VERSION

_CODE: Final = int(RequestCode.SEND_MESSAGE_V2)
_END: Final = f',"serializeTypeCurrentRPC":"JSON","version":{CURRENT_VERSION}}}'
HEADER_END: Final = _END
"""What follows the opaque."""
_MAX_QUEUES: Final = 65536  # limit: queues of one producer whose beginnings are kept, some 30 MB


class ReadyRequest(RemotingCommand):
    """A request whose frame is written already: of the rest it has only code and opaque."""

    __slots__ = ("_frame",)

    def __init__(self, opaque: int, frame: bytes) -> None:
        self.code = _CODE
        self.opaque = opaque
        self._frame = frame

    def __repr__(self) -> str:
        return f"ReadyRequest(code={self.code}, opaque={self.opaque}, {len(self._frame)} bytes)"

    def encode(self) -> bytes:
        """The frame."""
        return self._frame


class SendFrames:
    """Writes the frames of one producer group."""

    def __init__(self, group: str, settings: ProducerSettings, *, unit_mode: bool) -> None:
        self._group = group
        self._settings = settings
        self._unit_mode = unit_mode
        self._ends: dict[MessageQueue, tuple[str, str]] = {}

    def request(self, message: Outgoing, queue: MessageQueue) -> RemotingCommand | None:
        """The request that sends the message to the queue; None if it has to go the ordinary way."""
        if message.code != _CODE or message.is_batch or message.max_reconsume_times is not None:
            return None
        ends = self._ends.get(queue)
        if ends is None:
            ends = self.ends_of(message.topic, queue)
        opaque = next_opaque()
        try:
            header = (
                f'{ends[0]}{message.sys_flag}","g":"{now_ms()}","h":"{message.flag}","i":{quote(message.properties_text)},'
                f'"j":"{message.reconsume_times}{ends[1]}{opaque}{_END}'
            ).encode()
        except UnicodeEncodeError:
            return None
        body = message.body
        length = HEAD_SIZE + len(header) + len(body)
        if length > FRAME_MAX_LENGTH:
            return None
        # The serialize type in the upper byte is 0, JSON.
        return ReadyRequest(opaque, (length - 4 << 32 | len(header)).to_bytes(HEAD_SIZE, "big") + header + body)

    def ends_of(self, topic: str, queue: MessageQueue) -> tuple[str, str]:
        """What is the same for all messages to a queue: up to the sysFlag, and from behind the reconsume times to the opaque."""
        settings = self._settings
        start = (
            f'{{"code":{_CODE},"extFields":{{"a":{quote(self._group)},"b":{quote(topic)},"c":{quote(settings.create_topic_template)},'
            f'"d":"{settings.create_topic_queues}","e":"{queue.queue_id}","f":"'
        )
        end = (
            f'","k":"{"true" if self._unit_mode else "false"}","m":"false","n":{quote(queue.broker_name)}}},"flag":0,'
            f'"language":"{LanguageCode.PYTHON.name}","opaque":'
        )
        if len(self._ends) >= _MAX_QUEUES:
            self._ends.clear()
        ends = self._ends[queue] = start, end
        return ends
