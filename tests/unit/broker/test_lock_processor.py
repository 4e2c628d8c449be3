"""LOCK_BATCH_MQ and UNLOCK_BATCH_MQ on the wire (remoting spec 4.17)."""

import pytest

from headrace.model.message_queue import MessageQueue
from headrace.protocol.bodies import LockBatchRequestBody, LockBatchResponseBody
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from support.small_broker import Peer, SmallBroker

QUEUES = [MessageQueue("T", "broker-a", number) for number in range(3)]


def lock(client: Peer, client_id: str, *numbers: int) -> list[int]:
    body = LockBatchRequestBody("CG", client_id, [QUEUES[number] for number in numbers]).encode()
    answer = client.ask(RequestCode.LOCK_BATCH_MQ, None, body)
    assert (answer.code, answer.ext_fields) == (ResponseCode.SUCCESS, None)
    return [queue.queue_id for queue in LockBatchResponseBody.decode(answer.body).lock_ok_mq_set]


def test_lock_response_lists_the_queues_owned_by_the_client(client: Peer) -> None:
    assert lock(client, "one", 0, 1) == [0, 1]
    assert lock(client, "two", 0, 1, 2) == [2]
    assert lock(client, "two", 0) == []
    assert lock(client, "one", 1) == [1]


def test_unlocked_queues_are_free_and_the_response_has_no_body(client: Peer) -> None:
    lock(client, "one", 0)
    body = LockBatchRequestBody("CG", "one", QUEUES).encode()
    answer = client.ask(RequestCode.UNLOCK_BATCH_MQ, None, body)
    assert (answer.code, answer.body) == (ResponseCode.SUCCESS, b"")
    assert lock(client, "two", 0) == [0]


def test_lock_survives_its_connection(broker: SmallBroker, client: Peer) -> None:
    lock(client, "one", 0)
    client.close()
    other = broker.connect(40001)
    broker.now = 60
    assert lock(other, "two", 0) == []
    broker.now = 60.001
    assert lock(other, "two", 0) == [0]


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b'{"clientId":"c"}', b'{"consumerGroup":"g"}', b'{"clientId":"c","consumerGroup":"g","mqSet":[{}]}'],
)
def test_lock_request_without_client_group_or_queues_is_refused(client: Peer, body: bytes) -> None:
    for code in (RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ):
        assert client.ask(code, None, body).code == ResponseCode.SYSTEM_ERROR
