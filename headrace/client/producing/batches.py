"""Batches: many messages in one request; and how to cut a list into batches that a broker takes."""

from collections.abc import Iterable, Iterator

from headrace.client.producing.outgoing import batch_problem
from headrace.model.message import Message
from headrace.protocol.batch import ENTRY_OVERHEAD

# limit: unique id, WAIT and a namespace are added to each message's properties when it is sent
_ADDED_PROPERTIES = 160


def batch_entry_size(message: Message) -> int:
    """The bytes that a message takes in a batch, at most."""
    properties = sum(len(name.encode()) + len(value.encode()) + 2 for name, value in message.properties.items())
    return ENTRY_OVERHEAD + len(message.body) + properties + _ADDED_PROPERTIES


def split_batches(
    messages: Iterable[Message], max_bytes: int = 1024 * 1024, max_count: int = 10_000
) -> Iterator[list[Message]]:
    """Cuts messages, in their order, into lists that can each be sent as one batch.

    A new one begins where the topic changes, or `wait_store`, or where `max_bytes` or `max_count` would be passed. A message that cannot be in any
    batch (delayed, of a transaction) is a list of its own, to be sent with `send`.

        for batch in split_batches(messages):
            await producer.send_batch(batch)
    """
    batch: list[Message] = []
    size = 0
    for message in messages:
        entry = batch_entry_size(message)
        is_full = size + entry > max_bytes or len(batch) >= max_count
        if batch and (is_full or batch_problem(batch[0], message) or batch_problem(message, batch[0])):
            yield batch
            batch, size = [], 0
        batch.append(message)
        size += entry
    if batch:
        yield batch
