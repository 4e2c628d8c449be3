"""Messages: as a program sends them, and as a broker stores them.

Tags, keys, delay level and everything else without a field of its own in RocketMQ are properties; the attributes here read and write the properties,
so that there is one source of truth.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headrace.model import properties as names
from headrace.model import sys_flag as sys_flags
from headrace.model.host import Host
from headrace.model.message_id import encode_offset_message_id


class Message:
    """A message to be sent.

    `body` may be a string, which is encoded in UTF-8. `keys` are words to find the message by; a string is used as it is, a list is joined with
    spaces. `delay_level` 0 means no delay. `wait_store=False` asks a broker with SYNC_FLUSH not to wait for the disk.
    """

    __slots__ = ("body", "flag", "properties", "topic")

    def __init__(
        self,
        topic: str,
        body: bytes | str,
        tags: str | None = None,
        keys: str | Iterable[str] | None = None,
        flag: int = 0,
        properties: Mapping[str, str] | None = None,
        *,
        delay_level: int = 0,
        wait_store: bool = True,
    ) -> None:
        self.topic = topic
        self.body = body.encode() if isinstance(body, str) else bytes(body)
        self.flag = flag
        self.properties: dict[str, str] = dict(properties) if properties else {}
        if tags:
            self.properties[names.TAGS] = tags
        if keys:
            self.properties[names.KEYS] = keys if isinstance(keys, str) else names.KEY_SEPARATOR.join(keys)
        if delay_level:
            self.delay_level = delay_level
        if not wait_store:
            self.wait_store = False

    @property
    def tags(self) -> str | None:
        """The message's tag (or tags, in a topic of the type MULTI_TAG)."""
        return self.properties.get(names.TAGS)

    @tags.setter
    def tags(self, value: str) -> None:
        self.properties[names.TAGS] = value

    @property
    def keys(self) -> list[str]:
        """The keys to find the message by."""
        return _words(self.properties.get(names.KEYS))

    @keys.setter
    def keys(self, value: Iterable[str]) -> None:
        self.properties[names.KEYS] = names.KEY_SEPARATOR.join(value)

    @property
    def delay_level(self) -> int:
        """The delay level, 0 for none."""
        return int(self.properties.get(names.DELAY, 0))

    @delay_level.setter
    def delay_level(self, value: int) -> None:
        self.properties[names.DELAY] = str(value)

    @property
    def wait_store(self) -> bool:
        """Whether a broker that flushes or replicates before it answers should do so for this message."""
        return self.properties.get(names.WAIT, "true").lower() == "true"

    @wait_store.setter
    def wait_store(self, value: bool) -> None:
        self.properties[names.WAIT] = "true" if value else "false"

    @property
    def unique_id(self) -> str | None:
        """The id that the client gave the message, None before it is sent."""
        return self.properties.get(names.UNIQ_KEY)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return (self.topic, self.body, self.flag, self.properties) == (
            other.topic,
            other.body,
            other.flag,
            other.properties,
        )

    __hash__ = None  # type: ignore[assignment]  # it is mutable

    def __repr__(self) -> str:
        return f"Message(topic={self.topic!r}, body={len(self.body)} bytes, flag={self.flag}, properties={self.properties})"


@dataclass(slots=True)
class MessageExt:
    """A message as a broker stores it and a pull returns it: the fields of a CommitLog record.

    Times are ms. `properties_raw` is the record's property string as stored; `properties` is decoded from it. Only the raw string has their order and
    the pieces that RocketMQ's reader drops. `size_bytes` is the size of the whole record.
    """

    topic: str
    queue_id: int = 0
    queue_offset: int = 0
    physical_offset: int = 0
    sys_flag: int = 0
    flag: int = 0
    body: bytes = b""
    body_crc: int = 0
    born_timestamp: int = 0
    born_host: Host = ("0.0.0.0", 0)
    store_timestamp: int = 0
    store_host: Host = ("0.0.0.0", 0)
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    properties: dict[str, str] = field(default_factory=dict)
    properties_raw: bytes = b""
    size_bytes: int = 0

    @property
    def tags(self) -> str | None:
        """The message's tag."""
        return self.properties.get(names.TAGS)

    @property
    def keys(self) -> list[str]:
        """The keys to find the message by."""
        return _words(self.properties.get(names.KEYS))

    @property
    def delay_level(self) -> int:
        """The delay level that it was sent with, 0 for none (or if it is not a number)."""
        text = self.properties.get(names.DELAY, "0")
        return int(text) if text.isascii() and text.removeprefix("-").isdecimal() else 0

    @property
    def unique_id(self) -> str | None:
        """The id that the sending client gave it, None if there is none."""
        return self.properties.get(names.UNIQ_KEY)

    @property
    def offset_message_id(self) -> str:
        """The id that encodes the storing broker's address and the physical offset."""
        return encode_offset_message_id(self.store_host, self.physical_offset)

    @property
    def message_id(self) -> str:
        """The unique id, or the offset message id if there is none: what users see as the message's id."""
        return self.unique_id or self.offset_message_id

    @property
    def transaction_type(self) -> int:
        """One of the TRANSACTION_… values of `sys_flag`."""
        return sys_flags.transaction_type(self.sys_flag)

    @property
    def is_compressed(self) -> bool:
        """Whether `body` is still compressed."""
        return bool(self.sys_flag & sys_flags.COMPRESSED)


def _words(text: str | None) -> list[str]:
    return [word for word in (text or "").split(names.KEY_SEPARATOR) if word]
