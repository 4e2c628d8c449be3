"""Checks of a message before it is sent (client spec 2.16)."""

from headrace.errors import MessageInvalid
from headrace.model import names
from headrace.model.message import Message
from headrace.model.properties import NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR
from headrace.protocol.record_layout import MAX_PROPERTIES_LENGTH

_known_topics: set[str] = set()
_KNOWN_LIMIT = 4096


def check_topic(topic: str) -> None:
    """Raises MessageInvalid if messages cannot be sent to a topic of this name."""
    if topic in _known_topics:
        return
    problem = names.topic_problem(topic)
    if problem is not None:
        raise MessageInvalid(problem)
    if topic in names.FORBIDDEN_TO_SEND:
        raise MessageInvalid(f"the topic {topic} is reserved for the broker; send to a topic of your own")
    if len(_known_topics) < _KNOWN_LIMIT:
        _known_topics.add(topic)


def check_body(message: Message, max_size: int) -> None:
    """Raises MessageInvalid if the body is empty or too large."""
    size = len(message.body)
    if not size:
        raise MessageInvalid(
            f"the message to {message.topic} has an empty body; RocketMQ does not store empty messages"
        )
    if size > max_size:
        raise MessageInvalid(
            f"the message to {message.topic} is {size} bytes, which exceeds max_message_size={max_size}; send a smaller one, or raise max_message_size and the broker's maxMessageSize"
        )


def property_text(properties: dict[str, str]) -> str:
    """Encodes properties as one string. Raises MessageInvalid for separators, empty names or values, and properties that are too long."""
    # The two separators as literals: this runs for every message.
    text = "\x02".join([f"{name}\x01{value}" for name, value in properties.items()])
    count = len(properties)
    if text.count(NAME_VALUE_SEPARATOR) != count or text.count(PROPERTY_SEPARATOR) != max(count - 1, 0):
        raise MessageInvalid("a property contains 0x01 or 0x02, which separate properties; remove them")
    if "" in properties or "" in properties.values():
        raise MessageInvalid("a property has an empty name or value, which RocketMQ does not store; leave it out")
    if len(text) > MAX_PROPERTIES_LENGTH // 4 and len(text.encode()) > MAX_PROPERTIES_LENGTH:
        raise MessageInvalid(
            f"the properties are {len(text.encode())} bytes, which exceeds {MAX_PROPERTIES_LENGTH}; shorten them"
        )
    return text
