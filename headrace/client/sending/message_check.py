"""What is wrong with a message, before any broker is asked (client spec 2.16)."""

from headrace.errors import MessageInvalid
from headrace.model import names
from headrace.model.message import Message
from headrace.model.properties import NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR
from headrace.protocol.record_layout import MAX_PROPERTIES_LENGTH

_known_topics: set[str] = set()
_KNOWN_LIMIT = 4096


def check_topic(topic: str) -> None:
    """Raises MessageInvalid for the name of a topic that no message may be sent to."""
    if topic in _known_topics:
        return
    problem = names.topic_problem(topic)
    if problem is not None:
        raise MessageInvalid(problem)
    if topic in names.FORBIDDEN_TO_SEND:
        raise MessageInvalid(f"messages may not be sent to the topic {topic}, which belongs to the broker")
    if len(_known_topics) < _KNOWN_LIMIT:
        _known_topics.add(topic)


def check_body(message: Message, max_size: int) -> None:
    """Raises MessageInvalid for no body, or one that is too large."""
    size = len(message.body)
    if not size:
        raise MessageInvalid(f"a message to {message.topic} without a body")
    if size > max_size:
        raise MessageInvalid(f"a message of {size} bytes to {message.topic}; the most is {max_size}")


def property_text(properties: dict[str, str]) -> str:
    """The property string. Raises MessageInvalid for what cannot be carried: separators, nothing for a name or a value, too much."""
    # The two separators, written out: this is run for each message.
    text = "\x02".join([f"{name}\x01{value}" for name, value in properties.items()])
    count = len(properties)
    if text.count(NAME_VALUE_SEPARATOR) != count or text.count(PROPERTY_SEPARATOR) != max(count - 1, 0):
        raise MessageInvalid("a property has one of the characters 0x01 and 0x02 in its name or value")
    if "" in properties or "" in properties.values():
        raise MessageInvalid("a property without name or value would be lost on its way")
    if len(text) > MAX_PROPERTIES_LENGTH // 4 and len(text.encode()) > MAX_PROPERTIES_LENGTH:
        raise MessageInvalid(f"properties of {len(text.encode())} bytes; the most is {MAX_PROPERTIES_LENGTH}")
    return text
