"""Copies of stored messages, which users send again."""

from typing import Final

from headrace import Message, MessageExt
from headrace.model import names
from headrace.model import properties as property_names
from web.errors import Invalid
from web.pages.messages.bodies import body_of

_MOST: Final = 4 << 20  # limit: what producers may send by default, without compression
_BY_BROKERS: Final = (
    property_names.RESERVED
    | {
        property_names.TRANSACTION_PREPARED_QUEUE_OFFSET, property_names.TRANSACTION_ID, property_names.START_DELIVER_TIME,
        property_names.TIMER_DELAY_SEC, property_names.TIMER_DELAY_MS, property_names.TIMER_DELIVER_MS, property_names.TIMER_OUT_MS,
        property_names.TIMER_ROLL_TIMES, property_names.TIMER_ENQUEUE_MS, property_names.TIMER_DEQUEUE_MS, property_names.TIMER_DEL_UNIQKEY,
        property_names.INNER_MULTI_DISPATCH, property_names.INNER_MULTI_QUEUE_OFFSET, property_names.INNER_NUM, property_names.INNER_BASE,
        property_names.DLQ_ORIGIN_TOPIC, property_names.DLQ_ORIGIN_MESSAGE_ID, property_names.POP_CK, property_names.FIRST_POP_TIME,
        property_names.BORN_HOST,
    }
) - {property_names.TAGS, property_names.KEYS, property_names.SHARDING_KEY, property_names.BUYER_ID}  # fmt: skip
"""Properties that describe how one message was sent, stored or retried: a copy gets its own."""


def original_topic(message: MessageExt) -> str:
    """The topic to which the message was sent first: not the one in which it waits, is retried or was given up."""
    if names.is_retry_topic(message.topic) or message.topic.startswith(names.DLQ_PREFIX):
        return message.properties.get(property_names.RETRY_TOPIC, message.topic)
    if names.is_system_topic(message.topic):
        return message.properties.get(property_names.REAL_TOPIC, message.topic)
    return message.topic


def original_id(message: MessageExt) -> str:
    """The id of the message that was sent first; retries of it have ids of their own."""
    return message.properties.get(property_names.ORIGIN_MESSAGE_ID, message.message_id)


def copy_for_topic(message: MessageExt) -> Message:
    """A new message for all groups of the original topic, with the body, tag, keys and the sender's own properties.

    `message` is as stored. Raises Invalid for a body of more than 4 MiB, RemoteProtocolError for one that cannot be decompressed.
    """
    body, is_whole = body_of(message, _MOST)
    if not is_whole:
        raise Invalid(
            "the body of the message {message_id} is larger than {most} bytes",
            "Send it with a RocketMQ client.",
            message_id=message.message_id,
            most=_MOST,
        )
    kept = {name: value for name, value in message.properties.items() if name not in _BY_BROKERS}
    return Message(original_topic(message), body, flag=message.flag, properties=kept)


def copy_for_group(message: MessageExt, group: str) -> Message:
    """The same for one group only: through its retry topic, as a message that was never retried."""
    copy = copy_for_topic(message)
    copy.properties[property_names.RETRY_TOPIC] = copy.topic
    copy.properties[property_names.ORIGIN_MESSAGE_ID] = original_id(message)
    copy.topic = names.retry_topic(group)
    return copy
