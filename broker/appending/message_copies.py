"""Creates messages from records: restores one that waited in an internal topic, or copies one to another queue (store spec 10.4).

The copy has the fields of the waiting record: the unchanged body, compressed or not, its sender and time, the number of
attempts. `# compat:` its property string equals the waiting record's, byte for byte, so that consumers still see
REAL_TOPIC, REAL_QID and DELAY.
"""

from headrace.model import properties
from headrace.model.message import MessageExt
from store.commit_log.message import MessageToStore


def restore_message(record: MessageExt) -> MessageToStore | None:
    """The original message; None if the record does not contain its destination."""
    topic = record.properties.get(properties.REAL_TOPIC)
    queue_id = record.properties.get(properties.REAL_QUEUE_ID, "")
    if not topic or not (queue_id.isascii() and queue_id.isdecimal()):
        return None
    return copy_message(record, topic, int(queue_id))


def copy_message(record: MessageExt, topic: str, queue_id: int) -> MessageToStore:
    """A copy of the record for this queue, with its stored properties, that does not wait for the disk."""
    return MessageToStore(
        topic,
        queue_id,
        record.body,
        record.properties_raw,
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_timestamp=record.born_timestamp,
        born_host=record.born_host,
        store_host=record.store_host,
        reconsume_times=record.reconsume_times,
        wait_store=False,
    )
