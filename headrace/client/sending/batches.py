"""Batches: many messages of one topic in one request, and how to split a list into batches that a broker accepts (client spec 2.10)."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from headrace.client.cluster.unique_ids import create_unique_id
from headrace.client.namespace import wrap
from headrace.client.sending.message_check import check_body, check_topic, property_text
from headrace.client.sending.prepared_message import SEND_BATCH, PreparedMessage, complete_properties
from headrace.client.sending.producer_settings import ProducerSettings
from headrace.errors import LocalProtocolError, MessageInvalid
from headrace.model import names
from headrace.model import properties as property_names
from headrace.model.message import Message
from headrace.protocol.batch import encode_entry
from headrace.protocol.record_layout import BATCH_ENTRY_OVERHEAD

# limit: bytes of the unique id, WAIT and the namespace, which sending adds to each message's properties
_ADDED_PROPERTIES = 160


def _max_entry_size(message: Message) -> int:
    """Returns how many bytes a message takes in a batch, at most."""
    properties = sum(len(name.encode()) + len(value.encode()) + 2 for name, value in message.properties.items())
    return BATCH_ENTRY_OVERHEAD + len(message.body) + properties + _ADDED_PROPERTIES


def split_batches(
    messages: Iterable[Message], max_bytes: int = 1024 * 1024, max_count: int = 10_000
) -> Iterator[list[Message]]:
    """Splits messages, in their order, into lists that can each be sent as one batch.

    A new list begins when the topic or `wait_store` changes, or when `max_bytes` or `max_count` would be exceeded. A message that no batch can contain
    (delayed, or of a transaction) gets a list of its own; send it with `send`.

        for batch in split_batches(messages):
            await producer.send_batch(batch)
    """
    batch: list[Message] = []
    size = 0
    for message in messages:
        entry = _max_entry_size(message)
        is_full = size + entry > max_bytes or len(batch) >= max_count
        if batch and (is_full or batch_problem(batch[0], message) or batch_problem(message, batch[0])):
            yield batch
            batch, size = [], 0
        batch.append(message)
        size += entry
    if batch:
        yield batch


class BatchEntry(NamedTuple):
    """A message encoded for a batch: `data` is its part of the batch's body."""

    message: Message
    unique_id: str
    data: bytes
    wait_store: bool


def prepare_entry(message: Message, settings: ProducerSettings, namespace: str | None) -> BatchEntry:
    """Encodes a message for a batch. `batch_problem` has been checked before. Raises MessageInvalid if no batch can contain it."""
    topic = wrap(namespace, message.topic) if namespace else message.topic
    check_topic(topic)
    if names.is_retry_topic(topic):
        raise MessageInvalid("messages to a retry topic cannot be sent in a batch; send them with send()")
    check_body(message, settings.max_message_size)
    given = message.properties
    try:
        if not namespace and (not given or (len(given) == 1 and property_names.TAGS in given)):
            # Nearly all messages: the part that they have in common is encoded once.
            tags = given.get(property_names.TAGS)
            beginning = _prefixes.get(tags)
            if beginning is None:
                beginning = _prefix_with(tags)
            unique_id = create_unique_id()
            return BatchEntry(
                message, unique_id, encode_entry(message.body, message.flag, beginning + unique_id.encode()), True
            )
        properties = complete_properties(message, namespace)
        data = encode_entry(message.body, message.flag, property_text(properties).encode())
    except (LocalProtocolError, UnicodeEncodeError) as error:
        raise MessageInvalid(str(error)) from error
    return BatchEntry(message, properties[property_names.UNIQ_KEY], data, message.wait_store)


_prefixes: dict[str | None, bytes] = {}
_PREFIXES_LIMIT: Final = 1024


def _prefix_with(tags: str | None) -> bytes:
    """Returns the properties of a message that has only tags, encoded up to the unique id. Raises MessageInvalid, UnicodeEncodeError."""
    properties = {} if tags is None else {property_names.TAGS: tags}
    text = property_text({**properties, property_names.WAIT: "true", property_names.UNIQ_KEY: "-"})
    if len(_prefixes) >= _PREFIXES_LIMIT:
        _prefixes.clear()
    beginning = _prefixes[tags] = text[:-1].encode()
    return beginning


def batch_of(entries: Sequence[BatchEntry], settings: ProducerSettings, namespace: str | None) -> PreparedMessage:
    """Combines encoded messages into one batch. Raises MessageInvalid if it is too large."""
    first = entries[0].message
    body = b"".join([entry.data for entry in entries])
    if len(body) > settings.max_message_size:
        size = len(body)
        raise MessageInvalid(
            f"the batch is {size} bytes, which exceeds max_message_size={settings.max_message_size}; use send_batches or split_batches"
        )
    of_batch = {property_names.WAIT: "true" if first.wait_store else "false"}
    if namespace:
        of_batch[property_names.INSTANCE_ID] = namespace
    return PreparedMessage(
        wrap(namespace, first.topic),
        body,
        property_text(of_batch),
        ",".join([entry.unique_id for entry in entries]),
        0,
        0,
        [entry.message for entry in entries],
        SEND_BATCH,
        is_batch=True,
    )


def prepare_batch(messages: Sequence[Message], settings: ProducerSettings, namespace: str | None) -> PreparedMessage:
    """Prepares messages as one batch. Raises MessageInvalid if they cannot be sent together or are too large."""
    if not messages:
        raise MessageInvalid("the batch is empty; it needs at least one message")
    for message in messages:
        problem = batch_problem(messages[0], message)
        if problem is not None:
            raise MessageInvalid(problem)
    return batch_of([prepare_entry(message, settings, namespace) for message in messages], settings, namespace)


def batch_problem(first: Message, message: Message) -> str | None:
    """Returns why a message cannot be in the same batch as the first; None if it can."""
    if message is not first:
        if message.topic != first.topic:
            return f"all messages of a batch must have one topic; found {first.topic} and {message.topic}"
        if message.wait_store != first.wait_store:
            return "all messages of a batch must have the same wait_store"
    properties = message.properties
    if property_names.DELAY in properties and properties[property_names.DELAY] != "0":
        return "delayed messages cannot be sent in a batch; send them with send()"
    if properties.get(property_names.TRANSACTION_PREPARED) == "true":
        return "messages of transactions cannot be sent in a batch"
    return None
