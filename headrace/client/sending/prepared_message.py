"""PreparedMessage: a message, or a batch, ready to be sent: checked, named, compressed, its properties encoded.

A message is prepared once for each send, whatever the number of attempts. The caller's own Message is not changed.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from headrace.client.cluster.unique_ids import create_unique_id
from headrace.client.namespace import wrap
from headrace.client.sending.message_check import check_body, check_topic, property_text
from headrace.client.sending.producer_settings import ProducerSettings
from headrace.client.sending.send_hooks import MessageKind
from headrace.model import names
from headrace.model import properties as property_names
from headrace.model import sys_flag as sys_flags
from headrace.model.message import Message
from headrace.protocol.compression import compress
from headrace.protocol.request_code import RequestCode

SEND: Final = int(RequestCode.SEND_MESSAGE_V2)
SEND_BATCH: Final = int(RequestCode.SEND_BATCH_MESSAGE)
SEND_REPLY: Final = int(RequestCode.SEND_REPLY_MESSAGE_V2)

# limit: zlib takes a millisecond or two for so many bytes; more would block the loop
COMPRESS_IN_THREAD: Final = 64 * 1024


@dataclass(slots=True)
class PreparedMessage:
    """What is sent. `topic` includes the namespace; `unique_id` of a batch is a comma-separated list; `code` is the request's."""

    topic: str
    body: bytes
    properties_text: str
    unique_id: str
    flag: int
    sys_flag: int
    messages: Sequence[Message]
    code: int = SEND
    kind: MessageKind = MessageKind.NORMAL
    reconsume_times: str = "0"
    max_reconsume_times: str | None = None
    is_batch: bool = False


def complete_properties(message: Message, namespace: str | None) -> dict[str, str]:
    """Returns the message's properties with those that every stored message has: WAIT, the unique id, the namespace."""
    properties = dict(message.properties)
    properties.setdefault(property_names.WAIT, "true")
    if property_names.UNIQ_KEY not in properties:
        properties[property_names.UNIQ_KEY] = create_unique_id()
    if namespace:
        properties[property_names.INSTANCE_ID] = namespace
    return properties


def _kind(properties: dict[str, str]) -> MessageKind:
    if property_names.START_DELIVER_TIME in properties or properties.get(property_names.DELAY, "0") != "0":
        return MessageKind.DELAY
    if properties.get(property_names.TRANSACTION_PREPARED) == "true":
        return MessageKind.TRANSACTION_HALF
    return MessageKind.NORMAL


async def prepare(message: Message, settings: ProducerSettings, namespace: str | None) -> PreparedMessage:
    """Prepares one message; compresses a large body in a thread. Raises MessageInvalid."""
    if len(message.body) < COMPRESS_IN_THREAD:
        return prepare_now(message, settings, namespace)
    prepared = prepare_now(message, settings, namespace, compresses=False)
    if len(message.body) >= settings.compress_over:
        kind = settings.compression.value
        prepared.body = await asyncio.to_thread(compress, message.body, kind, settings.compress_level)
        prepared.sys_flag |= sys_flags.COMPRESSED | kind
    return prepared


def prepare_now(
    message: Message, settings: ProducerSettings, namespace: str | None, *, compresses: bool = True
) -> PreparedMessage:
    """Prepares one message without waiting. Raises MessageInvalid."""
    topic = wrap(namespace, message.topic) if namespace else message.topic
    check_topic(topic)
    check_body(message, settings.max_message_size)
    properties = complete_properties(message, namespace)
    body, sys_flag = message.body, 0
    if compresses and len(body) >= settings.compress_over:
        kind = settings.compression.value
        body = compress(body, kind, settings.compress_level)
        sys_flag = sys_flags.COMPRESSED | kind
    if properties.get(property_names.TRANSACTION_PREPARED) == "true":
        sys_flag |= sys_flags.TRANSACTION_PREPARED
    is_reply = properties.get(property_names.MSG_TYPE) == property_names.REPLY_MESSAGE_TYPE
    prepared = PreparedMessage(
        topic,
        body,
        property_text(properties),
        properties[property_names.UNIQ_KEY],
        message.flag,
        sys_flag,
        (message,),
        SEND_REPLY if is_reply else SEND,
        _kind(properties),
    )
    if names.is_retry_topic(topic):
        # compat: both stay in the stored properties too.
        prepared.reconsume_times = properties.get(property_names.RECONSUME_TIME, "0")
        prepared.max_reconsume_times = properties.get(property_names.MAX_RECONSUME_TIMES)
    return prepared
