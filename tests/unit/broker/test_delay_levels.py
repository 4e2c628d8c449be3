"""What a delay level makes of a message before it is stored (store spec 2.4, 10.1)."""

import pytest

from broker.delays.delay_redirect import DelayRedirect, delay_level
from headrace.errors import RemoteProtocolError
from headrace.model import sys_flag
from headrace.model.properties import decode_properties
from store.commit_log.message import MessageToStore
from support.small_broker import Peer, SmallBroker

DELAYS = DelayRedirect((1000, 5000, 10_000))


def redirected(found: dict[str, str], flags: int = 0) -> tuple[MessageToStore, bool]:
    message = MessageToStore("T", 7, b"body", b"as it was", sys_flag=flags)
    return message, DELAYS.redirect(message, found)


def test_delayed_message_waits_in_the_queue_of_its_level() -> None:
    message, was = redirected({"DELAY": "2", "TAGS": "a", "WAIT": "true"})
    assert was
    assert (message.topic, message.queue_id) == ("SCHEDULE_TOPIC_XXXX", 1)
    assert decode_properties(message.properties.decode()) == {
        "DELAY": "2", "TAGS": "a", "WAIT": "true", "REAL_TOPIC": "T", "REAL_QID": "7",
    }  # fmt: skip


@pytest.mark.parametrize("level", ["4", "99", "2147483647", "+4"])
def test_level_beyond_the_last_is_changed_to_the_last(level: str) -> None:
    message, was = redirected({"DELAY": level})
    assert was
    assert message.queue_id == 2
    assert decode_properties(message.properties.decode())["DELAY"] == "3"


@pytest.mark.parametrize("found", [{}, {"DELAY": "0"}, {"DELAY": "-1"}])
def test_message_without_a_level_is_unchanged(found: dict[str, str]) -> None:
    message, was = redirected(found)
    assert not was
    assert (message.topic, message.queue_id, message.properties) == ("T", 7, b"as it was")


@pytest.mark.parametrize("flags", [sys_flag.TRANSACTION_PREPARED, sys_flag.TRANSACTION_ROLLBACK])
def test_prepared_and_rolled_back_messages_are_not_delayed(flags: int) -> None:
    assert not redirected({"DELAY": "nonsense"}, flags)[1]
    assert redirected({"DELAY": "1"}, sys_flag.TRANSACTION_COMMIT)[1]


@pytest.mark.parametrize("text", ["", "x", "1.5", "2147483648", "1_0", "٣"])
def test_non_numeric_level_is_refused(text: str) -> None:
    with pytest.raises(RemoteProtocolError):
        delay_level({"DELAY": text})


def test_wait_is_stored_with_delayed_messages_only(broker: SmallBroker, client: Peer) -> None:
    broker.topic()
    client.send(i="WAIT\x01true\x02TAGS\x01a")
    assert "WAIT" not in broker.record().properties
    answer = client.send(i="WAIT\x01true\x02DELAY\x013", queue_id=2)
    assert (answer.ext["queueId"], answer.ext["queueOffset"]) == ("2", "0")
    assert broker.record().properties == {
        "WAIT": "true", "DELAY": "3", "CLUSTER": "DefaultCluster", "REAL_TOPIC": "T", "REAL_QID": "2",
    }  # fmt: skip
    assert (broker.record().topic, broker.record().queue_id) == ("SCHEDULE_TOPIC_XXXX", 2)
