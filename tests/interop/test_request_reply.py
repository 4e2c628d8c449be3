"""Request and reply through the broker, with and without an answer."""

import pytest

from support.client import Client
from support.java import JavaError


def test_request_receives_its_reply(client: Client) -> None:
    client.create_topic("Requests", 2)
    client.call("answer-requests", topic="Requests")
    try:
        for word in ("ask", "work", "größ"):
            assert client.call("request", topic="Requests", text=word, timeoutMs=60_000) == f"{word}-ed"
    finally:
        client.call("stop-answering", topic="Requests")


def test_request_times_out_without_a_reply(client: Client) -> None:
    client.create_topic("Unanswered", 1)
    with pytest.raises(JavaError, match="RequestTimeoutException"):
        client.call("request", topic="Unanswered", text="anybody", timeoutMs=500)
