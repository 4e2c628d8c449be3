"""Converts transactional messages to half messages and back, and creates op messages (store spec 11.2 to 11.4).

A half message waits in RMQ_SYS_TRANS_HALF_TOPIC, as an ordinary message for the store. An op message names the queue
offset of a resolved half message. Neither is ever changed: a message to be checked again is stored again.
"""

from typing import Final

from broker.appending.message_copies import copy_message, restore_message
from headrace.model import properties, sys_flag
from headrace.model.host import Host
from headrace.model.message import MessageExt
from headrace.model.names import (
    TRANSACTION_CHECK_MAX_TIME_TOPIC,
    TRANSACTION_HALF_TOPIC,
    TRANSACTION_OP_HALF_TOPIC,
)
from store.commit_log.message import MessageToStore

REMOVED: Final = "d"
"""The tag of an op message: the half message that it names is committed or rolled back."""


def is_prepared(found: dict[str, str], reconsume_times: int) -> bool:
    """Whether these are the properties of a transactional message.

    # compat: consumers before 4.6.1 send messages that they could not handle to the retry topic with all their properties;
    those were committed long ago.
    """
    if found.get(properties.TRANSACTION_PREPARED, "").lower() != "true":
        return False
    return not (reconsume_times > 0 and found.get(properties.DELAY, "0") not in {"", "0"})


def make_half_message(message: MessageToStore, found: dict[str, str]) -> None:
    """Converts it to a half message; all properties in `found`, including WAIT, are stored.

    A DELAY is ignored here: RocketMQ delays the half message, and then drops it. Here the commit is delayed.
    """
    found[properties.REAL_TOPIC] = message.topic
    found[properties.REAL_QUEUE_ID] = str(message.queue_id)
    message.properties = properties.encode_properties(found).encode()
    message.sys_flag = sys_flag.with_transaction_type(message.sys_flag, sys_flag.TRANSACTION_NOT)
    message.topic = TRANSACTION_HALF_TOPIC
    message.queue_id = 0


def committed_message(half: MessageExt) -> tuple[MessageToStore, dict[str, str]] | None:
    """The original message of a half message, and its properties, which may still request a delay.

    None if it has no destination. # compat: the stored property string is the half message's, including TRAN_MSG and REAL_TOPIC.
    """
    message = restore_message(half)
    if message is None:
        return None
    message.sys_flag = sys_flag.with_transaction_type(half.sys_flag, sys_flag.TRANSACTION_COMMIT)
    message.prepared_transaction_offset = half.physical_offset
    message.wait_store = half.properties.get(properties.WAIT, "true").lower() == "true"
    cleared = {properties.REAL_TOPIC, properties.REAL_QUEUE_ID, properties.TRANSACTION_PREPARED}
    return message, {name: value for name, value in half.properties.items() if name not in cleared}


def op_message(half: MessageExt, host: Host, now_ms: int) -> MessageToStore:
    """The op message of a resolved half message."""
    found = {properties.TAGS: REMOVED, properties.WAIT: "true"}
    return MessageToStore(
        TRANSACTION_OP_HALF_TOPIC,
        half.queue_id,
        str(half.queue_offset).encode(),
        properties.encode_properties(found).encode(),
        born_timestamp=now_ms,
        born_host=host,
        store_host=host,
        wait_store=False,
    )


def half_to_check_again(half: MessageExt, check_times: int) -> MessageToStore:
    """A copy of the half message with its number of checks."""
    return _stored_again(half, half.properties | {properties.TRANSACTION_CHECK_TIMES: str(check_times)})


def half_to_keep_immune(half: MessageExt, check_times: int) -> MessageToStore:
    """A copy of the half message within its immunity time, with its first queue offset."""
    first = half.properties.get(properties.TRANSACTION_PREPARED_QUEUE_OFFSET, str(half.queue_offset))
    return _stored_again(
        half,
        half.properties
        | {
            # compat: this counts as a check, so a message with a long immunity time is finally discarded.
            properties.TRANSACTION_CHECK_TIMES: str(check_times),
            properties.TRANSACTION_PREPARED_QUEUE_OFFSET: first,
            properties.WAIT: "false",
        },
    )


def half_to_discard(half: MessageExt, found: dict[str, str]) -> MessageToStore:
    """A copy of the half message for the topic of discarded messages."""
    message = copy_message(half, TRANSACTION_CHECK_MAX_TIME_TOPIC, 0)
    message.properties = properties.encode_properties(found).encode()
    return message


def _stored_again(half: MessageExt, found: dict[str, str]) -> MessageToStore:
    message = copy_message(half, half.topic, half.queue_id)
    message.properties = properties.encode_properties(found).encode()
    # compat: RocketMQ loses both.
    message.flag = message.reconsume_times = 0
    return message
