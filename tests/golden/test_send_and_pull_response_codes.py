"""Sends and pulls that Apache's broker refused are refused with the same code, and those it accepted are accepted.

Only requests whose outcome does not depend on earlier state: the broker is empty but for the topics that they name.
Intended differences are listed with their reasons.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.protocol.frame import decode_frame
from headrace.protocol.remoting_command import RemotingCommand
from headrace.protocol.request_code import RequestCode
from support.golden import frames
from support.small_broker import MAX_MESSAGE_SIZE, SmallBroker

SCENARIOS = ["odd", "odd-binary", "send", "send-binary", "pull", "pull-binary", "query", "query-binary"]
SERVED = {
    RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE, RequestCode.PULL_MESSAGE,
    RequestCode.QUERY_CONSUMER_OFFSET, RequestCode.UPDATE_CONSUMER_OFFSET, RequestCode.GET_MAX_OFFSET, RequestCode.GET_MIN_OFFSET,
    RequestCode.GET_EARLIEST_MSG_STORETIME, RequestCode.HEART_BEAT, RequestCode.UNREGISTER_CLIENT, RequestCode.LOCK_BATCH_MQ,
    RequestCode.UNLOCK_BATCH_MQ, RequestCode.GET_CONSUMER_LIST_BY_GROUP, RequestCode.QUERY_MESSAGE, RequestCode.VIEW_MESSAGE_BY_ID,
}  # fmt: skip
TOPICS = {"OddTopic": 4, "SendTopic": 4, "PullTopic": 2, "QueryTopic": 2}


def exchanges(scenario: str) -> Iterator[tuple[dict[str, Any], RemotingCommand, RemotingCommand]]:
    """Requests to the broker's main port with their answers, in the order of the requests."""
    waiting: dict[tuple[int, int], list[Any]] = {}
    found = []
    for line in frames(scenario):
        if line.get("bytes") is None or (line.get("from"), line.get("to")) not in {
            ("client", "broker"),
            ("broker", "client"),
        }:
            continue
        command = decode_frame(line["bytes"])
        key = line["connection"], command.opaque
        if line["direction"] == ">" and not command.is_response:
            waiting[key] = [line, command]
        elif command.is_response and key in waiting:
            found.append((*waiting.pop(key), command))
    yield from sorted(found, key=lambda one: one[0]["ms"])


def is_free_of_state(request: RemotingCommand, answer: RemotingCommand) -> bool:
    """Whether an empty broker must give the same answer."""
    if request.code not in SERVED or request.ext.get("expressionType") == "SQL92":
        return False
    if request.code == RequestCode.PULL_MESSAGE:
        return answer.code in (16, 17, 23, 24) or (answer.code == 1 and "Capacity" not in (answer.remark or ""))
    if request.code in (RequestCode.QUERY_MESSAGE, RequestCode.VIEW_MESSAGE_BY_ID):
        return answer.code != 0
    return True


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[SmallBroker]:
    made = SmallBroker(tmp_path, {"broker_cluster_name": "DefaultCluster"}, {"max_message_size": MAX_MESSAGE_SIZE})
    for name, queues in TOPICS.items():
        made.topic(name, queues)
    yield made
    made.close()


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_response_codes_equal_apaches(broker: SmallBroker, scenario: str) -> None:
    client, fast = broker.connect(), broker.connect(40001, fast=True)
    seen: dict[int, int] = {}
    for line, request, expected in exchanges(scenario):
        is_pull_on_fast_port = request.code == RequestCode.PULL_MESSAGE and expected.code == 3
        if not (is_pull_on_fast_port or is_free_of_state(request, expected)):
            continue
        peer = fast if is_pull_on_fast_port else client
        peer.handle(line["bytes"])
        answers = [one for one in peer.received() if one.is_response]
        assert [one.code for one in answers] == [expected.code], (request, expected, answers)
        (answer,) = answers
        assert answer.opaque == request.opaque
        assert bool(answer.remark) == bool(expected.remark), (expected, answer)
        # Fields that a Java exception omits, such as the region, may be present.
        assert set(expected.ext) <= set(answer.ext), (expected, answer)
        assert answer.serialize_type == expected.serialize_type or expected.remark, (request, answer)
        seen[expected.code] = seen.get(expected.code, 0) + 1
    assert sum(seen.values()) >= 3, seen
    if scenario.startswith("odd"):
        assert set(seen) >= {0, 1, 3, 13, 16, 17}
