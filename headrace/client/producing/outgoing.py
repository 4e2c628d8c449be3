"""A message, or a batch, made ready to be sent: named, checked, compressed, its properties written out. The caller's own object stays as it is.

What differs from try to try (queue, broker) comes in with `request_for`; all else is done once.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from headrace.client.cluster.unique_ids import create_unique_id
from headrace.client.durations import now_ms
from headrace.client.hooks import MessageKind
from headrace.client.namespace import wrap
from headrace.client.producing.message_check import check_body, check_topic, property_text
from headrace.client.producing.producer_settings import ProducerSettings
from headrace.errors import LocalProtocolError, MessageInvalid
from headrace.model import names
from headrace.model import properties as property_names
from headrace.model import sys_flag as sys_flags
from headrace.model.message import Message
from headrace.model.message_queue import MessageQueue
from headrace.protocol.batch import encode_entry
from headrace.protocol.compression import compress
from headrace.protocol.remoting_command import RemotingCommand, create_request
from headrace.protocol.request_code import RequestCode

COMPRESS_IN_THREAD: Final = (
    64 * 1024
)  # limit: bytes that zlib takes a millisecond or two for; more would hold up the loop


@dataclass(slots=True)
class Outgoing:
    """What is sent. `topic` carries the namespace; `unique_id` of a batch is a list with commas."""

    topic: str
    body: bytes
    properties_text: str
    unique_id: str
    flag: int
    sys_flag: int
    messages: Sequence[Message]
    code: int = RequestCode.SEND_MESSAGE_V2
    kind: MessageKind = MessageKind.NORMAL
    reconsume_times: str = "0"
    max_reconsume_times: str | None = None
    is_batch: bool = False

    def request_for(
        self, queue: MessageQueue, group: str, settings: ProducerSettings, *, unit_mode: bool
    ) -> RemotingCommand:
        """The request that sends it to a queue."""
        ext = {
            "a": group,
            "b": self.topic,
            "c": settings.create_topic_template,
            "d": str(settings.create_topic_queues),
            "e": str(queue.queue_id),
            "f": str(self.sys_flag),
            "g": str(now_ms()),
            "h": str(self.flag),
            "i": self.properties_text,
            "j": self.reconsume_times,
            "k": "true" if unit_mode else "false",
            "m": "true" if self.is_batch else "false",
            "n": queue.broker_name,
        }
        if self.max_reconsume_times is not None:
            ext["l"] = self.max_reconsume_times
        return create_request(self.code, ext, self.body)


def _complete_properties(message: Message, namespace: str | None) -> dict[str, str]:
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


async def prepare(message: Message, settings: ProducerSettings, namespace: str | None) -> Outgoing:
    """A single message made ready; a large body is compressed in a thread. Raises MessageInvalid."""
    if len(message.body) < COMPRESS_IN_THREAD:
        return prepare_now(message, settings, namespace)
    ready = prepare_now(message, settings, namespace, compresses=False)
    if len(message.body) >= settings.compress_over:
        kind = settings.compression.value
        ready.body = await asyncio.to_thread(compress, message.body, kind, settings.compress_level)
        ready.sys_flag |= sys_flags.COMPRESSED | kind
    return ready


def prepare_now(
    message: Message, settings: ProducerSettings, namespace: str | None, *, compresses: bool = True
) -> Outgoing:
    """A single message made ready at once. Raises MessageInvalid."""
    topic = wrap(namespace, message.topic) if namespace else message.topic
    check_topic(topic)
    check_body(message, settings.max_message_size)
    properties = _complete_properties(message, namespace)
    body, sys_flag = message.body, 0
    if compresses and len(body) >= settings.compress_over:
        kind = settings.compression.value
        body = compress(body, kind, settings.compress_level)
        sys_flag = sys_flags.COMPRESSED | kind
    if properties.get(property_names.TRANSACTION_PREPARED) == "true":
        sys_flag |= sys_flags.TRANSACTION_PREPARED
    is_reply = properties.get(property_names.MSG_TYPE) == property_names.REPLY_MESSAGE_TYPE
    ready = Outgoing(
        topic,
        body,
        property_text(properties),
        properties[property_names.UNIQ_KEY],
        message.flag,
        sys_flag,
        (message,),
        RequestCode.SEND_REPLY_MESSAGE_V2 if is_reply else RequestCode.SEND_MESSAGE_V2,
        _kind(properties),
    )
    if names.is_retry_topic(topic):
        # compat: both stay in the stored properties as well.
        ready.reconsume_times = properties.get(property_names.RECONSUME_TIME, "0")
        ready.max_reconsume_times = properties.get(property_names.MAX_RECONSUME_TIMES)
    return ready


class ReadyEntry(NamedTuple):
    """A message as it stands in a batch: `data` is its part of the batch's body."""

    message: Message
    unique_id: str
    data: bytes
    wait_store: bool


def prepare_entry(message: Message, settings: ProducerSettings, namespace: str | None) -> ReadyEntry:
    """A message made ready to be in a batch, if `batch_problem` has none with it. Raises MessageInvalid for one that can be in none (client spec 2.10)."""
    topic = wrap(namespace, message.topic) if namespace else message.topic
    check_topic(topic)
    if names.is_retry_topic(topic):
        raise MessageInvalid("messages to a retry topic cannot be sent as a batch")
    check_body(message, settings.max_message_size)
    given = message.properties
    try:
        if not namespace and (not given or (len(given) == 1 and property_names.TAGS in given)):
            # Nearly all messages; what they have in common is written once.
            tags = given.get(property_names.TAGS)
            beginning = _beginnings.get(tags)
            if beginning is None:
                beginning = _beginning_with(tags)
            unique_id = create_unique_id()
            return ReadyEntry(
                message, unique_id, encode_entry(message.body, message.flag, beginning + unique_id.encode()), True
            )
        properties = _complete_properties(message, namespace)
        data = encode_entry(message.body, message.flag, property_text(properties).encode())
    except (LocalProtocolError, UnicodeEncodeError) as error:
        raise MessageInvalid(str(error)) from error
    return ReadyEntry(message, properties[property_names.UNIQ_KEY], data, message.wait_store)


_beginnings: dict[str | None, bytes] = {}
_BEGINNINGS_LIMIT: Final = 1024


def _beginning_with(tags: str | None) -> bytes:
    """The property string of a message with nothing but tags, up to the unique id. Raises MessageInvalid, UnicodeEncodeError."""
    properties = {} if tags is None else {property_names.TAGS: tags}
    text = property_text({**properties, property_names.WAIT: "true", property_names.UNIQ_KEY: "-"})
    if len(_beginnings) >= _BEGINNINGS_LIMIT:
        _beginnings.clear()
    beginning = _beginnings[tags] = text[:-1].encode()
    return beginning


def batch_of(entries: Sequence[ReadyEntry], settings: ProducerSettings, namespace: str | None) -> Outgoing:
    """One batch of messages, which can be sent together, made ready. Raises MessageInvalid if they are too many."""
    first = entries[0].message
    body = b"".join([entry.data for entry in entries])
    if len(body) > settings.max_message_size:
        size = len(body)
        raise MessageInvalid(
            f"a batch of {size} bytes; the most is {settings.max_message_size}: send it in several (split_batches)"
        )
    of_batch = {property_names.WAIT: "true" if first.wait_store else "false"}
    if namespace:
        of_batch[property_names.INSTANCE_ID] = namespace
    return Outgoing(
        wrap(namespace, first.topic),
        body,
        property_text(of_batch),
        ",".join([entry.unique_id for entry in entries]),
        0,
        0,
        [entry.message for entry in entries],
        RequestCode.SEND_BATCH_MESSAGE,
        is_batch=True,
    )


def prepare_batch(messages: Sequence[Message], settings: ProducerSettings, namespace: str | None) -> Outgoing:
    """Messages made ready as one batch. Raises MessageInvalid for those that cannot be sent together, or are too many (client spec 2.10)."""
    if not messages:
        raise MessageInvalid("a batch without messages")
    for message in messages:
        problem = batch_problem(messages[0], message)
        if problem is not None:
            raise MessageInvalid(problem)
    return batch_of([prepare_entry(message, settings, namespace) for message in messages], settings, namespace)


def batch_problem(first: Message, message: Message) -> str | None:
    """Why a message cannot be in one batch with the first; None if it can."""
    if message is not first:
        if message.topic != first.topic:
            return f"messages of a batch have one topic, not {first.topic} and {message.topic}"
        if message.wait_store != first.wait_store:
            return "messages of a batch either all wait to be stored, or none"
    properties = message.properties
    if property_names.DELAY in properties and properties[property_names.DELAY] != "0":
        return "delayed messages cannot be sent as a batch"
    if properties.get(property_names.TRANSACTION_PREPARED) == "true":
        return "messages of transactions cannot be sent as a batch"
    return None
