"""Alerts: when they begin and end, what is kept of them, and how people are notified."""

import asyncio
import contextlib
import ipaddress
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from web.alerts import alert_service, channels
from web.alerts.alert_book import AlertBook
from web.alerts.alert_service import AlertService
from web.alerts.channels import Mail, NotDelivered, Webhook
from web.alerts.evaluator import CLEAR_S, AlertEvent, Evaluator
from web.alerts.observations import Observations
from web.alerts.rules import DEFAULT_RULES, Rule, What, problem_of
from web.config import ConsoleConfig
from web.errors import Invalid, NotFound
from web.history.history_file import Chart
from web.pages.alerts.alert_rows import firing_rows
from web.sampling.sample import BrokerSample, Sample

LATE = Rule("late", What.LAG_TIME, 300, for_s=60)
NOW = 1_000_000.0


def lag(seconds: float) -> Mapping[What, Mapping[str, float]]:
    return {What.LAG_TIME: {"billing": seconds}}


def states(events: list[AlertEvent]) -> list[tuple[str, bool]]:
    return [(event.subject, event.firing) for event in events]


def test_alert_begins_after_its_duration_and_ends_a_minute_after_the_value_is_good() -> None:
    evaluator = Evaluator()
    assert evaluator.step(NOW, [LATE], lag(400)) == []
    assert evaluator.step(NOW + 50, [LATE], lag(400)) == []
    assert states(evaluator.step(NOW + 60, [LATE], lag(400))) == [("billing", True)]
    assert evaluator.step(NOW + 70, [LATE], lag(400)) == []
    assert evaluator.step(NOW + 80, [LATE], lag(0)) == []
    assert evaluator.firing == [("late", "billing")]
    assert states(evaluator.step(NOW + 70 + CLEAR_S, [LATE], lag(0))) == [("billing", False)]
    assert evaluator.firing == []


def test_short_peak_fires_nothing() -> None:
    evaluator = Evaluator()
    evaluator.step(NOW, [LATE], lag(400))
    evaluator.step(NOW + 10, [LATE], lag(0))
    assert evaluator.step(NOW + 70, [LATE], lag(400)) == []


def test_failed_sample_neither_begins_nor_ends_an_alert() -> None:
    evaluator = Evaluator()
    evaluator.step(NOW, [LATE], lag(400))
    evaluator.step(NOW + 60, [LATE], lag(400))
    assert evaluator.step(NOW + 600, [LATE], {}) == []
    assert evaluator.firing == [("late", "billing")]


def test_alert_of_a_deleted_group_ends_after_an_hour() -> None:
    evaluator = Evaluator([AlertEvent(NOW, "late", "billing", True, 400, "")])
    assert evaluator.step(NOW + 3600, [LATE], {}) == []
    (event,) = evaluator.step(NOW + 3601, [LATE], {})
    assert not event.firing
    assert "no data for an hour" in event.text


@pytest.mark.parametrize("rules", [[], [Rule("late", What.LAG_TIME, 300, enabled=False)]])
def test_alert_of_a_removed_rule_ends(rules: list[Rule]) -> None:
    evaluator = Evaluator([AlertEvent(NOW, "late", "billing", True, 400, "")])
    assert states(evaluator.step(NOW, rules, lag(400))) == [("billing", False)]


def test_alert_that_fired_before_a_restart_is_not_reported_again() -> None:
    evaluator = Evaluator([AlertEvent(NOW, "late", "billing", True, 400, "")])
    assert evaluator.step(NOW + 10, [LATE], lag(400)) == []


def test_rule_applies_to_subjects_that_fit_its_pattern() -> None:
    rule = Rule("late", What.LAG_TIME, 300, subjects="order-*")
    observed = {What.LAG_TIME: {"order-a": 400.0, "billing": 400.0}}
    assert states(Evaluator().step(NOW, [rule], observed)) == [("order-a", True)]


def test_disk_rule_fires_below_its_threshold() -> None:
    rule = Rule("disk", What.DISK_DAYS, 3)
    observed = {What.DISK_DAYS: {"a": 2.9, "b": 3.0}}
    assert states(Evaluator().step(NOW, [rule], observed)) == [("a", True)]


def test_number_of_alerts_of_a_rule_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("web.alerts.evaluator.MOST_ALERTS", 3)
    rule = Rule("late", What.LAG_TIME, 300)
    observed = {What.LAG_TIME: {str(number): 400.0 for number in range(9)}}
    assert len(Evaluator().step(NOW, [rule], observed)) == 3


def with_dead_letters(name: str, **counts: int | None) -> BrokerSample:
    """None: there is a topic, but its messages were not counted."""
    known = {group: count for group, count in counts.items() if count is not None}
    return BrokerSample("C", name, 0, "h:1", topics=frozenset(f"%DLQ%{group}" for group in counts), dead_letters=known)


def new_dead_letters(observations: Observations, at: float, *brokers: BrokerSample) -> dict[str, float]:
    return dict(observations.observe(Sample(NOW + at, brokers), {}, {})[What.DEAD_LETTERS])


def test_first_dead_letters_of_a_group_are_new() -> None:
    observations = Observations()
    assert new_dead_letters(observations, 0, with_dead_letters("a", old=100)) == {"old": 0}
    assert new_dead_letters(observations, 10, with_dead_letters("a", old=100, billing=6)) == {"old": 0, "billing": 6}
    assert new_dead_letters(observations, 40, with_dead_letters("a", old=100, billing=7)) == {"old": 0, "billing": 7}
    assert new_dead_letters(observations, 700, with_dead_letters("a", old=100, billing=7)) == {"old": 0, "billing": 0}


def test_dead_letters_of_a_broker_that_is_seen_first_are_not_new() -> None:
    observations = Observations()
    down = BrokerSample("C", "b", 0, "h:2", problem="no answer")
    new_dead_letters(observations, 0, with_dead_letters("a", billing=4), down)
    both = (with_dead_letters("a", billing=4), with_dead_letters("b", billing=9, uncounted=None))
    assert new_dead_letters(observations, 10, *both) == {"billing": 0}
    assert new_dead_letters(observations, 20, with_dead_letters("a", billing=4), down) == {"billing": 0}
    both = (with_dead_letters("a", billing=4), with_dead_letters("b", billing=9, uncounted=3))
    assert new_dead_letters(observations, 2_000, *both) == {"billing": 0, "uncounted": 0}


def test_dead_letters_of_a_topic_that_is_created_again_are_new() -> None:
    observations = Observations()
    new_dead_letters(observations, 0, with_dead_letters("a", billing=4))
    assert new_dead_letters(observations, 10, with_dead_letters("a")) == {}
    assert new_dead_letters(observations, 20, with_dead_letters("a", billing=5)) == {"billing": 5}


def test_counters_are_observed_by_their_growth_of_ten_minutes() -> None:
    observations = Observations()

    def dead(at: float, count: float) -> float:
        values = {"group.lag/billing": 7.0, "group.time/billing": 1500.0}
        sample = Sample(NOW + at, (with_dead_letters("a", billing=int(count)),))
        observed = observations.observe(sample, values, {"broker-a": 2.0})
        assert observed[What.LAG_MESSAGES] == {"billing": 7.0}
        assert observed[What.LAG_TIME] == {"billing": 1.5}
        assert observed[What.DISK_DAYS] == {"broker-a": 2.0}
        return observed[What.DEAD_LETTERS]["billing"]

    assert dead(0, 100) == 0  # what was there before is not new
    assert dead(30, 103) == 3
    assert dead(590, 103) == 3
    assert dead(640, 103) == 0
    assert dead(650, 1) == 0  # deleted and created again


def test_broker_with_a_problem_is_down() -> None:
    brokers = (BrokerSample("C", "a", 0, "h:1"), BrokerSample("C", "b", 0, "h:2", problem="no answer"))
    observed = Observations().observe(Sample(NOW, brokers), {}, {})
    assert observed[What.BROKER_DOWN] == {"a": 0.0, "b": 1.0}


def test_full_disk_fires_an_alert_at_once() -> None:
    brokers = (
        BrokerSample("C", "a", 0, "h:1", runtime={"commitLogDiskRatio": "0.97"}),
        BrokerSample("C", "a", 1, "h:2", runtime={"commitLogDiskRatio": "0.97"}),
        BrokerSample("C", "b", 0, "h:3", runtime={"commitLogDiskRatio": "0.5"}),
        BrokerSample("C", "c", 0, "h:4", problem="no answer"),
    )
    observed = Observations().observe(Sample(NOW, brokers), {}, {})
    assert observed[What.WRITES_REFUSED] == {"a": 1.0, "b": 0.0}
    fired = Evaluator().step(NOW, DEFAULT_RULES, {What.WRITES_REFUSED: observed[What.WRITES_REFUSED]})
    assert [(event.rule, event.subject, event.firing) for event in fired] == [("broker refuses messages", "a", True)]


def test_broker_whose_writes_an_operator_stopped_does_not_fire() -> None:
    observed = Observations().observe(Sample(NOW, (BrokerSample("C", "a", 0, "h:1", permission=4),)), {}, {})
    assert observed[What.WRITES_REFUSED] == {"a": 0.0}


def test_alert_that_cannot_be_recorded_is_shown_as_firing(tmp_path: Path) -> None:
    book = AlertBook(tmp_path / "alerts.db")
    service = service_on(book)
    book.close()  # every access fails from now on, as on a full disk
    sample = Sample(NOW, (BrokerSample("C", "a", 0, "h:1", runtime={"commitLogDiskRatio": "0.97"}),))
    asyncio.run(service.evaluate(sample, {}))
    assert [event.subject for event in service.firing()] == ["a"]


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        (DEFAULT_RULES, None),
        ((LATE, LATE), "same name"),
        ((Rule("", What.LAG_TIME, 1),), "characters"),
        ((Rule("x", What.LAG_TIME, -1),), "negative"),
        ((Rule("x", What.LAG_TIME, float("nan")),), "negative"),
        ((Rule("x", What.LAG_TIME, 1, for_s=-1),), "duration"),
        ((Rule("x", What.LAG_TIME, 1, channels=("pager",)),), "unknown channel pager"),
        (tuple(Rule(str(number), What.LAG_TIME, 1) for number in range(201)), "the maximum is 200"),
    ],
)
def test_rules_are_checked(rules: tuple[Rule, ...], problem: str | None) -> None:
    found = problem_of(rules, frozenset({"log"}))
    assert (found is None) == (problem is None)
    assert problem is None or problem in str(found)


# ---- the record


@pytest.fixture
def book(tmp_path: Path) -> Iterator[AlertBook]:
    book = AlertBook(tmp_path / "alerts.db")
    yield book
    book.close()


def test_settings_and_events_survive_reopening(tmp_path: Path) -> None:
    path = tmp_path / "alerts.db"
    first = AlertBook(path)
    hook = Webhook("ops", "https://hooks.test/x", "s3cret")
    first.store_channels([hook])
    first.store_rules([LATE])
    first.record(
        [AlertEvent(NOW, "late", "billing", True, 400, "a"), AlertEvent(NOW, "late", "orders", True, 400, "b")]
    )
    first.record([AlertEvent(NOW + 1, "late", "billing", False, 0, "c")])
    first.close()
    second = AlertBook(path)
    assert (second.rules(), second.channels()) == ((LATE,), (hook,))
    assert [event.text for event in second.events()] == ["c", "b", "a"]
    assert [event.subject for event in second.firing()] == ["orders"]
    second.close()
    assert path.stat().st_mode & 0o777 == 0o600


def test_oldest_events_are_forgotten(book: AlertBook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("web.alerts.alert_book.EVENTS", 3)
    for number in range(9):
        book.record([AlertEvent(NOW, "late", "billing", True, number, str(number))])
        assert book.has_dropped() == (number > 2)
    assert [event.text for event in book.events()] == ["8", "7", "6"]


def test_all_kept_events_of_a_rule_are_found_among_those_of_others(book: AlertBook) -> None:
    names = ["late", 'a "quoted"\\ rule', "迟到", "lat"]
    book.record([AlertEvent(NOW, name, "billing", True, 0, name) for name in names])
    book.record([AlertEvent(NOW, "other", "billing", True, 0, "other")] * 3_000)
    assert [[event.text for event in book.events(name)] for name in names] == [[name] for name in names]
    assert (len(book.events("other")), book.events("none"), len(book.events())) == (3_000, [], 3_004)


def test_book_that_cannot_be_opened_is_kept_in_memory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "alerts.db"
    path.write_bytes(b"no database" * 1000)
    book = AlertBook(path)
    book.store_rules([LATE])
    assert book.rules() == (LATE,)
    assert "alerts kept in memory only" in caplog.text
    book.close()


# ---- channels and the whole


class Hook:
    """A server that keeps what is posted, and answers with `status`."""

    def __init__(self) -> None:
        posted: list[tuple[dict[str, str], Any]] = []
        hook = self
        self.posted = posted
        self.statuses = [200]

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                posted.append((dict(self.headers), msgspec.json.decode(body)))
                status = hook.statuses.pop(0) if len(hook.statuses) > 1 else hook.statuses[0]
                self.send_response(status)
                self.send_header("Location", "http://127.0.0.1:1/")
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/alert?team=ops"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def hook() -> Iterator[Hook]:
    hook = Hook()
    yield hook
    hook.close()


EVENT = AlertEvent(NOW, "late", "billing", True, 400, "late: billing firing, lag-time=400 threshold=300")


def test_webhook_posts_events(hook: Hook) -> None:
    Webhook("ops", hook.url, "s3cret").send([EVENT])
    ((headers, body),) = hook.posted
    assert headers["Authorization"] == "Bearer s3cret"
    assert body == {"events": [msgspec.to_builtins(EVENT)]}


@pytest.mark.parametrize("status", [302, 404, 500])
def test_webhook_that_does_not_accept_is_not_delivered_and_not_followed(hook: Hook, status: int) -> None:
    hook.statuses = [status]
    with pytest.raises(NotDelivered, match=f"status {status}"):
        Webhook("ops", hook.url).send([EVENT])
    assert len(hook.posted) == 1


def test_unreachable_channels_are_not_delivered() -> None:
    with pytest.raises(NotDelivered):
        Webhook("ops", "http://127.0.0.1:1/").send([EVENT])
    with pytest.raises(NotDelivered):
        Mail("mail", "127.0.0.1", "a@b.test", ("c@d.test",), port=1).send([EVENT])


def test_webhook_that_answers_byte_by_byte_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "DEADLINE_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            connection, _ = server.accept()
            with connection, contextlib.suppress(OSError):
                connection.sendall(b"HTTP/1.1 ")
                while True:
                    connection.sendall(b"x")
                    time.sleep(0.005)

        thread = threading.Thread(target=drip)
        thread.start()
        with pytest.raises(NotDelivered):
            Webhook("ops", f"http://127.0.0.1:{server.getsockname()[1]}/").send([EVENT])
        thread.join(30)
        assert not thread.is_alive()


def test_channels_that_hang_do_not_hold_the_threads_of_others(book: AlertBook, monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    monkeypatch.setattr(Webhook, "send", lambda *_: released.wait(30))

    async def main() -> None:
        service = service_on(book)
        service.change_channels([Webhook("ops", "https://hooks.test/x")])
        tests = [asyncio.create_task(service.test_channel("ops")) for _ in range(64)]
        await asyncio.sleep(0)
        async with asyncio.timeout(10):
            assert await asyncio.to_thread(lambda: "answered") == "answered"
        released.set()
        await asyncio.gather(*tests)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("channel", "is_valid"),
    [
        (Webhook("x", "https://hooks.test/x"), True),
        (Webhook("x", "https://hooks.test/x", "token"), True),
        (Webhook("x", "http://hooks.test/x"), True),
        (Webhook("x", "http://hooks.test/x", "token"), False),
        (Webhook("x", "http://localhost:8000/x", "token"), True),
        (Webhook("x", "http://[::1]:8000/x", "token"), True),
        (Webhook("x", "file:///etc/passwd"), False),
        (Webhook("x", "http://host:99999/"), False),
        (Webhook("x", "http://host/\r\nX: y"), False),
        (Mail("x", "mail.test", "a@b.test", ("c@d.test",)), True),
        (Mail("x", "mail.test", "a@b.test", ()), False),
        (Mail("x", "mail.test", "a@b.test\nBcc: e@f.test", ("c@d.test",)), False),
        (Mail("x", "mail.test", "a@b.test", ("c@d.test",), security="none", password="p"), False),
        (Mail("x", "mail.test", "a@b.test", ("c@d.test",), port=0), False),
    ],
)
def test_channels_are_checked(channel: Webhook | Mail, is_valid: bool) -> None:
    assert (channel.problem() is None) == is_valid


class FakeAdmin:
    async def broker_config(self, _address: str) -> dict[str, str]:
        return {"fileReservedTime": "72"}


def service_on(book: AlertBook, may_send_to: Callable[[str], bool] = lambda _: True) -> AlertService:
    def read(names: list[str], *_: float) -> Chart:
        return Chart(600, [], {name: [] for name in names})

    return AlertService(book, FakeAdmin(), read, may_send_to, pause_s=0.0)  # type: ignore[arg-type]


async def notified(hook: Hook, count: int) -> None:
    async with asyncio.timeout(30):
        while len(hook.posted) < count:  # noqa: ASYNC110  a thread appends
            await asyncio.sleep(0.01)


def test_late_group_is_recorded_and_reported_once(
    book: AlertBook, hook: Hook, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        service = service_on(book)
        service.change_channels([Webhook("ops", hook.url)])
        service.change_rules([Rule("late", What.LAG_TIME, 300, channels=("log", "ops"))])
        hook.statuses = [500, 200]  # delivered by the second try
        for number in range(3):
            await service.evaluate(Sample(NOW + 10 * number), {"group.time/billing": 400_000.0})
        await notified(hook, 2)
        await service.evaluate(Sample(NOW + 200), {"group.time/billing": 0.0})
        await notified(hook, 3)
        bodies = [body["events"] for _, body in hook.posted]
        assert [(len(events), events[0]["firing"]) for events in bodies] == [(1, True), (1, True), (1, False)]
        assert [event.firing for event in await service.events()] == [False, True]
        assert service.firing() == []

    with caplog.at_level(logging.INFO):
        asyncio.run(main())
    assert caplog.text.count("alert firing rule='late' subject='billing'") == 1
    assert caplog.text.count("alert resolved") == 1


def test_present_value_of_an_alert_is_that_of_the_latest_sample(book: AlertBook) -> None:
    async def main() -> None:
        service = service_on(book)
        service.change_rules([Rule("late", What.LAG_MESSAGES, 100)])
        await service.evaluate(Sample(NOW), {"group.lag/billing": 340.0})
        await service.evaluate(Sample(NOW + 10), {"group.lag/billing": 400.0})
        [event] = service.firing()
        assert (event.value, service.present_value(event)) == (340.0, 400.0)
        await service.evaluate(Sample(NOW + 20), {})
        assert service.present_value(event) is None

    asyncio.run(main())


def test_alert_whose_value_is_good_again_has_the_time_of_its_end(book: AlertBook) -> None:
    async def main() -> None:
        service = service_on(book)
        service.change_rules([Rule("late", What.LAG_MESSAGES, 100)])
        await service.evaluate(Sample(NOW), {"group.lag/billing": 340.0})
        assert [(row.value, row.ends) for row in firing_rows(service)] == [(340.0, None)]
        await service.evaluate(Sample(NOW + 10), {"group.lag/billing": 0.0})
        ends = int((NOW + CLEAR_S) * 1000)
        assert [(row.value, row.ends) for row in firing_rows(service)] == [(0.0, ends)]
        await service.evaluate(Sample(NOW + 20), {"group.lag/billing": 340.0})
        assert [row.ends for row in firing_rows(service)] == [None]
        await service.evaluate(Sample(NOW + 20 + CLEAR_S), {"group.lag/billing": 0.0})
        assert firing_rows(service) == []

    asyncio.run(main())


def test_channel_that_never_accepts_is_given_up(book: AlertBook, hook: Hook, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        service = service_on(book)
        service.change_channels([Webhook("ops", hook.url)])
        service.change_rules([Rule("late", What.LAG_TIME, 300, channels=("ops",))])
        hook.statuses = [500]
        await service.evaluate(Sample(NOW), {"group.time/billing": 400_000.0})
        await notified(hook, alert_service.TRIES)
        await asyncio.gather(*service._deliveries)

    asyncio.run(main())
    assert len(hook.posted) == alert_service.TRIES
    assert "alerts not delivered channel='ops'" in caplog.text


def test_channel_can_be_tested(book: AlertBook, hook: Hook) -> None:
    async def main() -> None:
        service = service_on(book)
        service.change_channels([Webhook("ops", hook.url)])
        await service.test_channel("ops")
        await service.test_channel("log")
        with pytest.raises(NotFound):
            await service.test_channel("pager")
        hook.statuses = [500]
        with pytest.raises(NotDelivered):
            await service.test_channel("ops")

    asyncio.run(main())
    assert hook.posted[0][1]["events"][0]["rule"] == "test"


def test_channel_that_rules_use_cannot_be_removed(book: AlertBook) -> None:
    async def main() -> None:
        service = service_on(book)
        service.change_channels([Webhook("ops", "https://hooks.test/x")])
        service.change_rules([Rule("late", What.LAG_TIME, 300, channels=("ops",))])
        with pytest.raises(Invalid, match="still use"):
            service.change_channels([])
        with pytest.raises(Invalid, match="unknown channel pager"):
            service.change_rules([Rule("late", What.LAG_TIME, 300, channels=("pager",))])
        with pytest.raises(Invalid, match="http"):
            service.change_channels([Webhook("ops", "ftp://x")])

    asyncio.run(main())


def test_service_evaluates_what_the_recorder_hands_over(book: AlertBook) -> None:
    async def main() -> None:
        service = service_on(book)
        service.change_rules([Rule("down", What.BROKER_DOWN, 1)])
        running = asyncio.create_task(service.run())
        service.follow(Sample(NOW, (BrokerSample("C", "a", 0, "h:1", problem="no answer"),)), {})
        async with asyncio.timeout(30):
            while not service.firing():  # noqa: ASYNC110  another task fires
                await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(main())


# ---- where alerts may be sent


@pytest.mark.parametrize(
    ("hosts", "host", "may_send"),
    [
        ("", "hooks.example.org", True),
        ("hooks.example.org", "Hooks.Example.org", True),
        ("hooks.example.org", "hooks.example.org.evil.test", False),
        ("*.example.org, 10.0.0.0/8", "hooks.example.org", True),
        ("*.example.org", "example.org", False),
        ("*.example.org", "10.1.2.3", False),
        ("*.example.org, 10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8 ::1", "::1", True),
        ("10.0.0.0/8", "localhost", False),
    ],
)
def test_hosts_of_channels_are_those_that_are_allowed(hosts: str, host: str, *, may_send: bool) -> None:
    assert ConsoleConfig(console_alert_hosts=hosts).may_send_alerts_to(host) is may_send


@pytest.mark.parametrize("hosts", ["http://hooks.test", "a*b", "*", "10.0.0.1/8", "hooks.test:8080"])
def test_list_of_allowed_hosts_with_anything_else_is_refused(hosts: str) -> None:
    with pytest.raises(ValueError, match="consoleAlertHosts"):
        ConsoleConfig(console_alert_hosts=hosts)


def test_channel_to_another_host_is_neither_saved_nor_used(book: AlertBook, hook: Hook) -> None:
    async def main() -> None:
        service = service_on(book)
        service.change_channels([Webhook("ops", hook.url)])
        service = service_on(book, ConsoleConfig(console_alert_hosts="*.example.org").may_send_alerts_to)
        with pytest.raises(NotDelivered, match=r"may not be sent to 127\.0\.0\.1"):
            await service.test_channel("ops")
        for channel in (Webhook("ops", hook.url), Mail("mail", "mail.test", "a@b.test", ("c@d.test",))):
            with pytest.raises(Invalid, match="may not be sent to"):
                service.change_channels([channel])
        service.change_channels([Webhook("ops", "https://hooks.example.org/x")])

    asyncio.run(main())
    assert hook.posted == []


def test_nothing_is_sent_to_a_link_local_address_whatever_its_name(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "parse_address", lambda _: ipaddress.ip_address("169.254.169.254"))
    with pytest.raises(NotDelivered, match="link-local"):
        Webhook("ops", hook.url).send([])
    assert hook.posted == []
