"""SendHeaders: writes the request header of a send; the only place that lists its fields (remoting spec 4.5).

    for each queue     a group, b topic, c template topic, d its queues, e queue id, k unit mode, m is batch, n broker name
    for each message   f system flag, g born timestamp, h flag, i properties, j reconsume times, l their maximum

The part for each queue is written once and cached. A request that must be signed, or whose header is binary, is a command with the same fields,
because it is completed after it leaves here (transport.RequestStamp).
"""

from json.encoder import encode_basestring as quote
from typing import Final

from headrace.client.durations import now_ms
from headrace.client.sending.prepared_message import SEND, PreparedMessage
from headrace.client.sending.producer_settings import ProducerSettings
from headrace.model.message_queue import MessageQueue
from headrace.protocol.frame_layout import FRAME_MAX_LENGTH, HEAD_SIZE, LENGTH_SIZE
from headrace.protocol.language import LanguageCode
from headrace.protocol.remoting_command import RemotingCommand, create_request, next_opaque
from headrace.protocol.version import CURRENT_VERSION

_FIELDS_END: Final = f'"}},"flag":0,"language":"{LanguageCode.PYTHON.name}","opaque":'
_HEADER_END: Final = f',"serializeTypeCurrentRPC":"JSON","version":{CURRENT_VERSION}}}'
_MAX_QUEUES: Final = 65536  # limit: queues of one producer whose header parts are cached, some 30 MB


class EncodedRequest(RemotingCommand):
    """A request whose frame is already encoded. Of the other fields only `code` and `opaque` are set."""

    __slots__ = ("_frame",)

    def __init__(self, code: int, opaque: int, frame: bytes) -> None:
        self.code = code
        self.opaque = opaque
        self._frame = frame

    def __repr__(self) -> str:
        return f"EncodedRequest(code={self.code}, opaque={self.opaque}, {len(self._frame)} bytes)"

    def encode(self) -> bytes:
        """Returns the frame."""
        return self._frame


class SendHeaders:
    """Writes the requests of one producer group. `is_stamped`: requests are signed or marked after they leave here."""

    def __init__(self, group: str, settings: ProducerSettings, *, unit_mode: bool, is_stamped: bool = False) -> None:
        self._group = group
        self._settings = settings
        self._unit_mode = unit_mode
        self._is_stamped = is_stamped
        self._starts: dict[MessageQueue, str] = {}

    def request(self, message: PreparedMessage, queue: MessageQueue, *, is_oneway: bool = False) -> RemotingCommand:
        """Returns the request that sends the message to the queue."""
        if not (self._is_stamped or is_oneway):
            if message.code == SEND:
                start = self._starts.get(queue) or self.start(message.topic, queue)
            else:
                start = self._write_start(message.code, message.topic, queue, is_batch=message.is_batch)
            opaque = next_opaque()
            times = message.reconsume_times
            if message.max_reconsume_times is not None:
                times = f'{times}","l":"{message.max_reconsume_times}'
            properties = quote(message.properties_text)[1:-1]
            body = message.body
            try:
                head = frame_head(start, message.sys_flag, now_ms(), message.flag, properties, times, opaque, len(body))
            except UnicodeEncodeError:
                pass  # a lone surrogate: encoding the command below raises the error that callers expect
            else:
                if len(head) + len(body) <= FRAME_MAX_LENGTH:
                    return EncodedRequest(message.code, opaque, head + body)
        fields = self._queue_fields(message.topic, queue, is_batch=message.is_batch)
        fields["f"] = str(message.sys_flag)
        fields["g"] = str(now_ms())
        fields["h"] = str(message.flag)
        fields["i"] = message.properties_text
        fields["j"] = message.reconsume_times
        if message.max_reconsume_times is not None:
            fields["l"] = message.max_reconsume_times
        return create_request(message.code, fields, message.body)

    def start(self, topic: str, queue: MessageQueue) -> str:
        """Returns the header of SEND_MESSAGE_V2 up to the first field of the message; it is the same for all messages to this queue."""
        if len(self._starts) >= _MAX_QUEUES:
            self._starts.clear()
        start = self._starts[queue] = self._write_start(SEND, topic, queue)
        return start

    def _write_start(self, code: int, topic: str, queue: MessageQueue, *, is_batch: bool = False) -> str:
        fields = self._queue_fields(topic, queue, is_batch=is_batch)
        text = ",".join([f'"{name}":{quote(value)}' for name, value in fields.items()])
        return f'{{"code":{code},"extFields":{{{text},"f":"'

    def _queue_fields(self, topic: str, queue: MessageQueue, *, is_batch: bool) -> dict[str, str]:
        return {
            "a": self._group,
            "b": topic,
            "c": self._settings.create_topic_template,
            "d": str(self._settings.create_topic_queues),
            "e": str(queue.queue_id),
            "k": "true" if self._unit_mode else "false",
            "m": "true" if is_batch else "false",
            "n": queue.broker_name,
        }


def frame_head(
    start: str,
    sys_flag: int,
    born_ms: int,
    flag: int,
    properties: str,
    reconsume_times: str,
    opaque: int,
    body_size: int,
) -> bytes:
    """Returns a send's frame up to its body. `properties` is escaped for JSON. Raises UnicodeEncodeError for a lone surrogate."""
    header = (
        f'{start}{sys_flag}","g":"{born_ms}","h":"{flag}","i":"{properties}","j":"{reconsume_times}{_FIELDS_END}{opaque}{_HEADER_END}'
    ).encode()
    size = len(header)
    # The serialize type in the upper byte of the second word is 0: JSON.
    return (HEAD_SIZE - LENGTH_SIZE + size + body_size << 32 | size).to_bytes(HEAD_SIZE, "big") + header
