"""A coroutine handler that blocks the event loop is logged with its stack; one that only awaits is not."""

import asyncio
import functools
import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from headrace import PushConsumer, ReceivedMessage, StartFrom
from headrace.client.consuming.push import loop_watch
from headrace.client.consuming.push.loop_watch import LoopWatch
from support.consuming import eventually
from support.consuming_broker import consuming_cluster
from support.sdk import run


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_watch, "_PERIOD_S", 0.02)


pytestmark = pytest.mark.slow


class Notice(logging.Handler):
    """Records whether a handler of the test was logged."""

    def __init__(self) -> None:
        super().__init__()
        self.is_given = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        # A busy machine may block the loop too.
        said = record.getMessage()
        if "event loop blocked" in said and "none of this consumer's" not in said:
            self.is_given.set()


notice = Notice()


@pytest.fixture(autouse=True)
def listening() -> Iterator[None]:
    notice.is_given.clear()
    loop_watch.logger.addHandler(notice)
    yield
    loop_watch.logger.removeHandler(notice)


def hold() -> None:
    """A handler that blocks until it is logged, which handlers should not do."""
    assert notice.is_given.wait(60)


async def blocking(_message: ReceivedMessage | None) -> None:
    hold()


def test_blocking_handler_is_logged_with_its_stack(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with consuming_cluster() as (cluster, broker):
            consumer = PushConsumer("g", cluster.name_server, start_from=StartFrom.FIRST)
            consumer.subscribe("T", "*", blocking)
            async with consumer:
                broker.store("T", b"x")
                await eventually(notice.is_given.is_set, "the warning")

    with caplog.at_level(logging.WARNING, "headrace.client.consuming.push.loop_watch"):
        run(main())
    text = next(text for text in said(caplog) if "handler=blocking" in text)
    assert "notice.is_given.wait(60)" in text


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "event loop blocked" in record.getMessage()]


def test_handler_that_awaits_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with consuming_cluster() as (cluster, broker):
            consumer = PushConsumer("g", cluster.name_server, start_from=StartFrom.FIRST)
            done = asyncio.Event()

            @consumer.handler("T")
            async def patient(_message: ReceivedMessage) -> None:
                await asyncio.sleep(0.2)
                done.set()

            async with consumer:
                assert [one for one in threading.enumerate() if one.name == "headrace-g-watch"]
                broker.store("T", b"x")
                await done.wait()
            assert not [one for one in threading.enumerate() if one.name == "headrace-g-watch"]

    # A machine that stalls is not the subject here.
    with caplog.at_level(logging.WARNING, "headrace.client.consuming.push.loop_watch"):
        run(main())
    assert not [text for text in said(caplog) if "patient" in text]


class Callable:
    async def __call__(self, _message: Any) -> None:
        hold()


@pytest.mark.parametrize(
    ("handler", "name"),
    [(Callable(), "Callable"), (functools.partial(blocking), "blocking"), (Callable().__call__, "Callable.__call__")],
)
def test_any_callable_handler_is_named(handler: Any, name: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        watch = LoopWatch(lambda: [handler], "test", held_s=0.1)
        await handler(None)
        watch.close()

    with caplog.at_level(logging.WARNING, "headrace.client.consuming.push.loop_watch"):
        asyncio.run(main())
    assert [text for text in said(caplog) if f"handler={name} " in text]
