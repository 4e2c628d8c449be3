"""The body of REGISTER_BROKER: a broker's topics, as JSON or in a compressed form.

The compressed form is a zlib stream of

    4 n, n bytes     DataVersion as JSON
    4 count          of topics
    count times      4 n, n bytes: name, read queues, write queues, permission and filter type, with blanks between
    4 n, n bytes     filter servers as a JSON list

It does not contain a topic's sysFlag and whether it is ordered. Brokers older than MIN_REGISTER_BODY_VERSION send only the topics.

A broker may have tens of thousands of topics. Parsing their JSON at once would block the event loop, so `decode_steps` parses it in steps. JSON of that
size is accepted only in the form that brokers write: a topic is an object without nested objects except `attributes`.
"""

import re
import zlib
from collections.abc import Generator, Mapping
from struct import Struct
from typing import ClassVar, Final, Self

from msgspec import field

from headrace.errors import RemoteProtocolError
from headrace.model.data_version import DataVersion
from headrace.model.topic_config import TopicConfig, TopicFilterType
from headrace.protocol import fastjson
from headrace.protocol.bodies.tables import TopicConfigSerializeWrapper
from headrace.protocol.json_bean import JsonBody, decode_bean, encode_bean
from headrace.protocol.version import CURRENT_VERSION, MIN_REGISTER_BODY_VERSION

_I32: Final = Struct(">i")
_COMPRESSION_LEVEL: Final = 9
_MAX_PLAIN_SIZE: Final = 32 * 1024 * 1024  # limit: half a million topics; limits the damage of a decompression bomb
_INFLATED_AT_ONCE: Final = 1 << 20  # limit: a step of some milliseconds
_TOPICS_AT_ONCE: Final = 200  # limit: the same
_TABLE: Final = re.compile(rb'"topicConfigTable"\s{0,64}:\s{0,64}\{')
_ENTRY: Final = re.compile(
    rb'\s{0,64}"[^"\\]{1,255}"\s{0,64}:\s{0,64}\{[^{}]{0,4096}(?:\{[^{}]{0,4096}\}[^{}]{0,4096})?\}\s{0,64},?'
)


class RegisterBrokerBody(JsonBody):
    """A broker's topics, and its filter servers, which no longer exist; None: not specified."""

    NAMES: ClassVar[Mapping[str, str]] = {"topic_config": "topicConfigSerializeWrapper"}

    topic_config: TopicConfigSerializeWrapper = field(default_factory=TopicConfigSerializeWrapper)
    filter_server_list: list[str] | None = None

    def encode_compressed(self) -> bytes:
        """Encodes the compressed form. Never raises LocalProtocolError, because topic names contain no blanks."""
        topics = self.topic_config.topic_config_table.values()
        pieces = [
            encode_bean(self.topic_config.data_version),
            *(
                f"{one.name} {one.read_queue_count} {one.write_queue_count} {one.permission} {one.filter_type.name}".encode()
                for one in topics
            ),
            fastjson.dumps(self.filter_server_list or []).encode(),
        ]
        framed = [_I32.pack(len(piece)) + piece for piece in pieces]
        framed.insert(1, _I32.pack(len(topics)))
        return zlib.compress(b"".join(framed), _COMPRESSION_LEVEL)

    @classmethod
    def decode_request(cls, data: bytes, *, compressed: bool, version: int = CURRENT_VERSION) -> Self:
        """Decodes the body of a request; `compressed` and `version` are from its header. An empty body has no topics. Raises RemoteProtocolError."""
        steps = cls.decode_steps(data, compressed=compressed, version=version)
        while True:
            try:
                next(steps)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]

    @classmethod
    def decode_steps(
        cls, data: bytes, *, compressed: bool, version: int = CURRENT_VERSION
    ) -> Generator[None, None, Self]:
        """Like `decode_request`, in steps of a few milliseconds."""
        if not data:
            return cls()
        if compressed and version >= MIN_REGISTER_BODY_VERSION:
            return (yield from cls._decode_compressed(data))
        if len(data) <= fastjson.MAX_BYTES and fastjson.count_values(data) <= fastjson.MAX_VALUES:
            if version < MIN_REGISTER_BODY_VERSION:
                return cls(TopicConfigSerializeWrapper.decode(data, untrusted=True))
            return cls.decode(data, untrusted=True)
        topics: dict[str, TopicConfig] = {}
        rest = yield from _take_topics(data, topics)
        body = (
            cls(TopicConfigSerializeWrapper.decode(rest, untrusted=True))
            if version < MIN_REGISTER_BODY_VERSION
            else cls.decode(rest, untrusted=True)
        )
        body.topic_config.topic_config_table = topics
        return body

    @classmethod
    def _decode_compressed(cls, data: bytes) -> Generator[None, None, Self]:
        pieces = _Pieces((yield from _inflate(data)))
        version = decode_bean(DataVersion, pieces.next_piece(), untrusted=True)
        topics: dict[str, TopicConfig] = {}
        for number in range(pieces.next_number()):
            topic = _parse_topic(pieces.next_piece())
            topics[topic.name] = topic
            if number % _TOPICS_AT_ONCE == 0:
                yield
        servers = fastjson.loads(pieces.next_piece(), untrusted=True)
        if not isinstance(servers, list):
            raise RemoteProtocolError("RegisterBrokerBody: filterServerList is not a list")
        return cls(TopicConfigSerializeWrapper(version, topics), list(map(str, servers)))


def _take_topics(data: bytes, topics: dict[str, TopicConfig]) -> Generator[None, None, bytes]:
    """Parses the table of topics in the JSON, a few hundred at a time; returns the JSON without it."""
    begin = _TABLE.search(data)
    if begin is None:
        raise RemoteProtocolError("RegisterBrokerBody: topicConfigTable is missing in a body above the JSON size limit")
    at = begin.end()
    while True:
        first, count = at, 0
        while count < _TOPICS_AT_ONCE and (entry := _ENTRY.match(data, at)) is not None:
            at = entry.end()
            count += 1
        if not count:
            left = begin.end() + len(data) - at
            if left > fastjson.MAX_BYTES:
                raise RemoteProtocolError(f"RegisterBrokerBody: invalid topic at byte {at}; {left} bytes remain")
            return data[: begin.end()] + data[at:]
        text = b'{"topicConfigTable":{' + data[first:at].rstrip(b", \t\r\n") + b"}}"
        topics.update(TopicConfigSerializeWrapper.decode(text, untrusted=True).topic_config_table)
        yield


def _inflate(data: bytes) -> Generator[None, None, bytes]:
    decompressor, plain = zlib.decompressobj(), bytearray()
    try:
        while not decompressor.eof and len(plain) < _MAX_PLAIN_SIZE:
            piece = decompressor.decompress(data, _INFLATED_AT_ONCE)
            data = decompressor.unconsumed_tail
            if not piece and not data:
                break
            plain += piece
            yield
    except zlib.error as error:
        raise RemoteProtocolError(f"RegisterBrokerBody: {error}") from None
    if not decompressor.eof:
        raise RemoteProtocolError("RegisterBrokerBody: truncated or larger than the limit")
    return bytes(plain)


class _Pieces:
    """Reads the pieces of the decompressed form in order."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def next_number(self) -> int:
        at, self._at = self._at, self._at + 4
        number = int.from_bytes(self._data[at : at + 4], "big", signed=True)
        # Each piece has a length field, so neither their number nor their size can exceed the bytes.
        if self._at > len(self._data) or not 0 <= number <= len(self._data) - self._at:
            raise RemoteProtocolError("RegisterBrokerBody: unexpected end of data")
        return number

    def next_piece(self) -> bytes:
        length = self.next_number()
        at, self._at = self._at, self._at + length
        return self._data[at : self._at]


def _parse_topic(piece: bytes) -> TopicConfig:
    words = piece.decode("utf-8", "replace").split(" ")
    try:
        name, read, write, permission, filter_type = words
        return TopicConfig(name, int(read), int(write), int(permission), TopicFilterType[filter_type])
    except (ValueError, KeyError):
        raise RemoteProtocolError(f"RegisterBrokerBody: invalid topic: {piece[:80]!r}") from None
