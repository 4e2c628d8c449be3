"""The body of REGISTER_BROKER: a broker's topics, as JSON or compressed.

Compressed, it is one zlib stream of

    4 n, n bytes     DataVersion as JSON
    4 count          of topics
    count times      4 n, n bytes: name, read queues, write queues, permission and filter type, with blanks between
    4 n, n bytes     filter servers as a JSON list

which loses a topic's sysFlag and whether it is ordered. Brokers older than MIN_REGISTER_BODY_VERSION send the topics alone.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from struct import Struct
from typing import ClassVar, Final, Self

from headrace.errors import RemoteProtocolError
from headrace.model.data_version import DataVersion
from headrace.model.topic_config import TopicConfig, TopicFilterType
from headrace.protocol import fastjson
from headrace.protocol.bodies.tables import TopicConfigSerializeWrapper
from headrace.protocol.json_bean import JsonBody, decode_bean, encode_bean
from headrace.protocol.version import CURRENT_VERSION, MIN_REGISTER_BODY_VERSION

_I32: Final = Struct(">i")
_COMPRESSION_LEVEL: Final = 9
_MAX_PLAIN_SIZE: Final = 256 * 1024 * 1024  # limit: a million topics; a smaller bomb does no harm


@dataclass(slots=True)
class RegisterBrokerBody(JsonBody):
    """A broker's topics, and its filter servers, of which nobody has any; None says nothing about them."""

    NAMES: ClassVar[Mapping[str, str]] = {"topic_config": "topicConfigSerializeWrapper"}

    topic_config: TopicConfigSerializeWrapper = field(default_factory=TopicConfigSerializeWrapper)
    filter_server_list: list[str] | None = None

    def encode_compressed(self) -> bytes:
        """The compressed form. Raises LocalProtocolError never: names of topics have no blanks."""
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
        """The body of a request whose header says `compressed` and has this `version`. No bytes: no topics. Raises RemoteProtocolError."""
        if not data:
            return cls()
        if version < MIN_REGISTER_BODY_VERSION:
            return cls(TopicConfigSerializeWrapper.decode(data))
        return cls._decode_compressed(data) if compressed else cls.decode(data)

    @classmethod
    def _decode_compressed(cls, data: bytes) -> Self:
        try:
            decompressor = zlib.decompressobj()
            plain = decompressor.decompress(data, _MAX_PLAIN_SIZE)
        except zlib.error as error:
            raise RemoteProtocolError(f"RegisterBrokerBody: {error}") from None
        if not decompressor.eof:
            raise RemoteProtocolError("RegisterBrokerBody: cut short, or too large")
        pieces = _Pieces(plain)
        version = decode_bean(DataVersion, pieces.next_piece())
        topics = [_parse_topic(pieces.next_piece()) for _ in range(pieces.next_number())]
        servers = fastjson.loads(pieces.next_piece())
        if not isinstance(servers, list):
            raise RemoteProtocolError("RegisterBrokerBody: the filter servers are no list")
        return cls(TopicConfigSerializeWrapper(version, {one.name: one for one in topics}), list(map(str, servers)))


class _Pieces:
    """Reads the pieces of the decompressed form one after another."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def next_number(self) -> int:
        at, self._at = self._at, self._at + 4
        number = int.from_bytes(self._data[at : at + 4], "big", signed=True)
        # Each piece has a length of its own, so there are never more pieces, nor longer ones, than bytes.
        if self._at > len(self._data) or not 0 <= number <= len(self._data) - self._at:
            raise RemoteProtocolError("RegisterBrokerBody: it ends too early")
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
        raise RemoteProtocolError(f"RegisterBrokerBody: no topic: {piece[:80]!r}") from None
