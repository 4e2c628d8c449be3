"""Requests that cannot be served are refused with the response code that clients know and a remark."""

import base64

import pytest

from support.client import Client

SEND = {
    "a": "refused",
    "b": "Refusals",
    "c": "TBW102",
    "d": "4",
    "e": "0",
    "f": "0",
    "g": "1700000000123",
    "h": "0",
    "i": "TAGS\x01TagA\x02",
    "m": "false",
}
PULL = {
    "consumerGroup": "refused", "topic": "Refusals", "queueId": "0", "queueOffset": "0", "maxMsgNums": "2", "sysFlag": "4",
    "commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0",
}  # fmt: skip

BROKER = {
    "an ordinary send is accepted": (310, {}, "odd", 0),
    "a topic that may not be written to by clients": (310, {"b": "SCHEDULE_TOPIC_XXXX"}, "odd", 16),
    "a topic with a character that is not allowed": (310, {"b": "not legal!"}, "odd", 1),
    "a topic without a name": (310, {"b": ""}, "odd", 1),
    "a topic with too long a name": (310, {"b": "x" * 128}, "odd", 1),
    "an unknown topic without template": (310, {"b": "Unknown", "c": "NoTemplate"}, "odd", 17),
    "a queue that the topic does not have": (310, {"e": "99"}, "odd", 1),
    "a queue id that is no number": (310, {"e": "x"}, "odd", 1),
    "a body that is too large": (310, {}, "x" * (4 * 1024 * 1024 + 1), 13),
    "properties that are too long": (310, {"i": "big\x01" + "p" * 32_760}, "odd", 13),
    "an ordinary pull": (11, {}, None, 0),
    "a pull from an unknown topic": (11, {"topic": "NoSuchTopic"}, None, 17),
    "a pull from a queue that is not there": (11, {"queueId": "77"}, None, 1),
    "a pull without subscription by a group that is not there": (11, {"sysFlag": "0"}, None, 24),
    "a pull beyond the end": (11, {"queueOffset": "999"}, None, 21),
    "a pull from a number that is none": (11, {"queueOffset": "x"}, None, 1),
    "a look-up of an offset that is no message": (33, {"offset": "3"}, None, 1),
    "the offset of a group that is not known, at the end of a young queue": (14, {"consumerGroup": "nobody"}, None, 0),
    "an unknown code": (9999, {}, None, 3),
}


@pytest.mark.parametrize("what", BROKER)
def test_broker_refuses_with_the_documented_code(client: Client, what: str) -> None:
    client.create_topic("Refusals", 1)
    client.send("Refusals", 1)
    client.await_pullable("Refusals", 1)
    code, different, body, expected = BROKER[what]
    ext = {**(SEND if code == 310 else PULL), **different}
    answer = client.call(
        "raw",
        address=client.server.broker,
        code=code,
        ext=ext,
        body=base64.b64encode(body.encode()).decode() if body else None,
    )
    assert answer["code"] == expected, answer
    assert answer["code"] in (0, 21) or answer["remark"]


@pytest.mark.parametrize(
    ("code", "ext", "expected"),
    [
        (105, {"topic": "NoSuchTopic"}, 17),
        (105, None, 17),
        (101, {"namespace": "nowhere", "key": "k"}, 22),
        (219, {"namespace": "nowhere"}, 22),
        (206, None, 0),
        (106, None, 0),
    ],
)
def test_name_server_refuses_with_the_documented_code(
    client: Client, code: int, ext: dict[str, str] | None, expected: int
) -> None:
    answer = client.call("raw", address=client.server.name_server, code=code, ext=ext)
    assert answer["code"] == expected, answer
