"""Pages of the cluster over an Admin that answers from tables: two brokers, two name servers, of which any may fail."""

import asyncio
from typing import Any

import msgspec
import pytest

from headrace import ConnectError
from headrace.client.settings import ClientConfig
from headrace.model.topic_config import TopicConfig
from headrace.protocol.bodies import ClusterInfo
from headrace.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from web.cluster.cluster import Cluster
from web.cluster.runtime_figures import RuntimeFigures
from web.config import OptionOrigin, OwnOption, OwnServer
from web.errors import Invalid, QueryFailed
from web.pages.cluster.broker_page import BrokerPage
from web.pages.cluster.cluster_list import ClusterList
from web.pages.cluster.cluster_reads import ClusterReads
from web.pages.cluster.option_table import OptionForm, checked_change, is_same, option_table
from web.pages.cluster.writes import StopForm, Writes
from web.routes import Access, View, Visit
from web.tables.formats import tone

DOWN = ConnectError("cannot connect to n:2")


class Answers:
    """Stands for the Admin."""

    def __init__(self) -> None:
        self.configs: dict[str, dict[str, str] | Exception] = {
            "b:1": {"brokerPermission": "6", "deleteWhen": "04"},
            "b:2": {"brokerPermission": "6"},
        }
        self.runtimes: dict[str, dict[str, str] | Exception] = {
            "b:1": {"putTps": "1.5 2 3", "msgPutTotalTodayNow": "30", "msgPutTotalTodayMorning": "10"},
            "b:2": {},
        }
        self.route_permission = 6
        self.down: set[str] = set()
        self.ignores_changes = False
        self.configs_of_topics: dict[str, TopicConfig] = {}

    async def topics(self) -> list[str]:
        return ["Orders", "TBW102", "SELF_TEST_TOPIC", "a", "Elsewhere"]

    async def system_topics(self) -> list[str]:
        return ["a"]

    async def topic_configs(self, _address: str) -> dict[str, TopicConfig]:
        return self.configs_of_topics

    async def name_servers(self) -> list[str]:
        return ["n:1", "n:2"]

    async def cluster_info(self, *, name_server: str | None = None) -> ClusterInfo:
        self._check(name_server)
        return ClusterInfo({"a": BrokerData("a", "C", {0: "b:1", 1: "b:2"})}, {"C": ["a"]})

    async def runtime_info(self, address: str) -> dict[str, str]:
        return answer(self.runtimes[address])

    async def broker_config(self, address: str) -> dict[str, str]:
        return dict(answer(self.configs[address]))

    async def update_broker_config(self, address: str, changes: dict[str, object]) -> None:
        if not self.ignores_changes:
            answer(self.configs[address]).update({key: str(value) for key, value in changes.items()})

    async def topic_route(self, _topic: str) -> TopicRouteData:
        return TopicRouteData([QueueData("a", 1, 1, self.route_permission)])

    async def wipe_write_permission(self, _broker: str, *, name_server: str) -> dict[str, int]:
        self._check(name_server)
        return {name_server: 7}

    def _check(self, name_server: str | None) -> None:
        if name_server in self.down:
            raise DOWN


def answer(one: dict[str, str] | Exception) -> dict[str, str]:
    if isinstance(one, Exception):
        raise one
    return one


def reads(answers: Answers) -> ClusterReads:
    cluster = Cluster(ClientConfig("n:1;n:2"))
    stand_in: Any = answers
    cluster.admin = stand_in
    return ClusterReads(cluster)


def listed(answers: Answers) -> dict[str, list[Any]]:
    async def main() -> dict[str, list[Any]]:
        view = await ClusterList(reads(answers)).show(Visit("", Access.VIEWER, ""))
        return {table.name: list((await table.select({}).fill()).rows) for table in view.tables}

    return asyncio.run(main())


def broker(answers: Answers, own: dict[str, OwnServer] | None = None, **arguments: str) -> View:
    visit = Visit("", Access.VIEWER, "", {"address": "b:1"}, arguments)
    return asyncio.run(BrokerPage(reads(answers), own or {}).show(visit))


def stop(answers: Answers, way: Any = "routes") -> Any:
    visit = Visit("o", Access.OPERATOR, "", {"broker": "a"})
    return asyncio.run(Writes(reads(answers), {}).stop(visit, StopForm(way)))


def test_figures_that_are_missing_are_unknown_and_not_zero() -> None:
    master, slave = listed(Answers())["brokers"]
    assert (master.role, master.in_per_second, master.in_today, master.writes) == ("master", 1.5, 20, "allowed")
    assert (slave.role, slave.in_per_second, slave.in_today, slave.writes) == ("slave", None, None, None)


def test_broker_that_does_not_answer_has_its_problem_in_its_row() -> None:
    answers = Answers()
    answers.configs["b:1"] = answers.runtimes["b:1"] = ConnectError("cannot connect to b:1")
    master, slave = listed(answers)["brokers"]
    assert (master.problem, master.version) == ("cannot connect to b:1", None)
    assert slave.problem == ""
    with pytest.raises(QueryFailed, match="cannot connect to b:1"):
        broker(answers)


def test_name_server_that_does_not_answer_has_its_problem_in_its_row() -> None:
    answers = Answers()
    answers.down = {"n:2"}
    first, second = listed(answers)["name_servers"]
    assert (first.brokers, first.problem) == (["b:1", "b:2"], "")
    assert (second.brokers, second.problem) == (None, "cannot connect to n:2")


@pytest.mark.parametrize(
    ("routed", "own", "state"),
    [(6, "6", "allowed"), (4, "6", "stopped in the routes"), (6, "4", "stopped on the broker")],
)
def test_list_shows_whether_a_broker_gets_messages(routed: int, own: str, state: str) -> None:
    answers = Answers()
    answers.route_permission = routed
    answers.configs["b:1"] = {"brokerPermission": own}
    assert listed(answers)["brokers"][0].writes == state


@pytest.mark.parametrize("access", list(Access))
def test_operators_find_where_writes_are_stopped(access: Access) -> None:
    view = asyncio.run(ClusterList(reads(Answers())).show(Visit("", access, "")))
    [column] = [column for column in view.tables[0].columns if column.key == "writes"]
    row = msgspec.structs.replace(view.tables[0].rows[0], writes="allowed")
    said = None if column.says is None else column.says(row)
    assert said == (("allowed (change)", {}) if access >= Access.OPERATOR else None)
    for state in ("stopped on the broker", "stopped in the routes"):
        said = None if column.says is None else column.says(msgspec.structs.replace(row, writes=state))
        assert said == ((f"{state} (change)", {}) if access >= Access.OPERATOR else None)


def writes(answers: Answers, own: dict[str, OwnServer] | None = None) -> View:
    return asyncio.run(Writes(reads(answers), own or {}).show(Visit("", Access.VIEWER, "", {"broker": "a"})))


@pytest.mark.parametrize(
    ("own", "words"),
    [
        (None, "Until then the setting stays, even after a restart if the broker saves its configuration."),
        (OwnServer({}, "/data/broker.conf"), "Until then the setting stays, even after a restart."),
        (OwnServer({}), "The setting also ends when the broker restarts."),
    ],
)
def test_page_of_writes_tells_whether_a_restart_undoes_a_stop(own: OwnServer | None, words: str) -> None:
    shown = writes(Answers(), {} if own is None else {"b:1": own})
    assert shown.data["stays"].endswith(words)


def test_read_only_topics_are_named_before_the_routes_permit_writing_to_them() -> None:
    answers = Answers()
    assert writes(answers).data["read_only_topics"] == []
    answers.route_permission = 4
    answers.configs_of_topics = {"Orders": TopicConfig("Orders"), "Old": TopicConfig("Old", permission=4)}
    assert writes(answers).data["read_only_topics"] == ["Old"]


def test_page_of_a_broker_shows_the_disk_size_of_its_percentage() -> None:
    answers = Answers()
    assert broker(answers).data["disk_total"] is None
    capacity = "Total : 252.0 GiB, Free : 70.0 GiB."
    answers.runtimes["b:1"] = {"commitLogDirCapacity": capacity, "commitLogDiskRatio": "0.65"}
    assert broker(answers).data["disk_total"] == 200 << 30
    answers.runtimes["b:1"] = {"commitLogDirCapacity": capacity}
    assert broker(answers).data["disk_total"] == 252 << 30


@pytest.mark.parametrize(
    ("permission", "words"),
    [
        ("6", "Read and write"),
        ("4", "Read only"),
        ("0", "No access"),
        ("", None),
    ],
)
def test_permission_of_a_broker_is_explained(permission: str, words: str | None) -> None:
    answers = Answers()
    answers.configs["b:1"] = {"brokerPermission": permission}
    view = asyncio.run(Writes(reads(answers), {}).show(Visit("", Access.VIEWER, "", {"broker": "a"})))
    assert (view.title, view.subject) == ("Writes to the broker", "a")
    assert view.data["permission_word"] == words


FULL = "refused: the disk is full"


@pytest.mark.parametrize(
    ("runtime", "state"),
    [
        ({"runningFlags": "16", "commitLogDiskRatio": "0.97"}, FULL),
        ({"runningFlags": "16", "commitLogDiskRatio": "0.5"}, FULL),  # no file could be reserved
        ({"runningFlags": "2", "commitLogDiskRatio": "0.5"}, "refused: the CommitLog cannot be written"),
        ({"runningFlags": "0", "commitLogDiskRatio": "0.97"}, "allowed"),
        ({"commitLogDiskRatio": "0.91"}, FULL),  # Apache's
        ({"commitLogDiskRatio": "0.9"}, "allowed"),
        ({"commitLogDiskRatio": "-1"}, "allowed"),
    ],
)
def test_broker_whose_store_refuses_messages_is_not_said_to_accept_them(runtime: dict[str, str], state: str) -> None:
    answers = Answers()
    answers.runtimes["b:1"] = runtime
    assert listed(answers)["brokers"][0].writes == state
    page = asyncio.run(Writes(reads(answers), {}).show(Visit("", Access.VIEWER, "", {"broker": "a"})))
    assert page.data["state"] == state
    assert tone(state) == ("" if state == "allowed" else "bad")
    assert page.data["refusal"] == (None if state == "allowed" else state)


def test_stop_of_writes_tells_how_many_name_servers_took_it() -> None:
    answers = Answers()
    done = stop(answers)
    assert not done.is_warning
    said = done.text
    assert said.startswith("2 of 2 name servers stopped writes to a in the routes of its 7 topics. Producers stop")
    answers.configs_of_topics = {
        name: TopicConfig(name) for name in ("Orders", "TBW102", "SELF_TEST_TOPIC", "a", "Unregistered")
    }
    done = stop(answers)
    said = done.text
    assert "in the routes of its 7 topics. The broker's own topics among them: 3. Producers stop" in said
    answers.configs_of_topics = {}
    answers.down = {"n:2"}
    partly = stop(answers)
    said = partly.text
    assert partly.is_warning
    assert (
        said == "1 of 2 name servers stopped writes to a in the routes of its 7 topics. Failed: cannot connect to n:2"
    )
    assert (done.before, done.after) == ({"permission": 6}, {"topics": 7, "failed": {}})
    answers.down = {"n:1", "n:2"}
    with pytest.raises(QueryFailed, match="cannot connect to n:2"):
        stop(answers)


def test_change_that_a_server_only_pretends_to_make_is_an_error() -> None:
    answers = Answers()
    answers.ignores_changes = True
    with pytest.raises(QueryFailed, match="reports brokerPermission=6"):
        stop(answers, "broker")
    visit = Visit("a", Access.ADMIN, "", {"address": "b:1"})
    with pytest.raises(QueryFailed, match="accepted the request but reports deleteWhen='04'"):
        asyncio.run(BrokerPage(reads(answers), {}).change(visit, OptionForm("deleteWhen", "05")))
    answers.ignores_changes = False
    outcome = asyncio.run(BrokerPage(reads(answers), {}).change(visit, OptionForm("deleteWhen", "05")))
    assert (outcome.before, outcome.after) == ({"deleteWhen": "04"}, {"deleteWhen": "05"})


def option(value: str, source: str = "", *, is_changeable: bool = True) -> OwnOption:
    origin = (
        OptionOrigin.COMMAND_LINE if source.startswith("--") else OptionOrigin.FILE if source else OptionOrigin.DEFAULT
    )
    return OwnOption(value, origin, source, is_changeable, "What it does.")


def test_options_tell_where_their_values_come_from() -> None:
    own = OwnServer(
        {
            "same": option("1"),
            "saved": option("1"),
            "overridden": option("1", "--set overridden"),
            "made": option("", is_changeable=False),
        },
        "/etc/broker.conf",
    )
    values = {"same": "1", "saved": "2", "overridden": "2", "made": "/data", "other": "x"}
    rows = {row.key: row for row in option_table(values, own, "/page").rows}
    assert {key: (row.origin, row.source, row.started_with) for key, row in rows.items()} == {
        "same": ("default", "", ""),
        "saved": ("changed while running, saved", "/etc/broker.conf", "1"),
        "overridden": ("changed while running, until the next restart", "--set overridden", "1"),
        "made": ("from another option or the host", "", ""),
        "other": ("fixed, not configurable", "", ""),
    }


def test_secrets_among_the_options_are_hidden() -> None:
    answers = Answers()
    answers.configs["b:1"] = {"tlsKeyPassword": "hunter2", "secretKey": "hunter3", "deleteWhen": "04"}
    view = broker(answers, key="tlsKeyPassword")
    assert {row.key: row.value for row in view.tables[0].rows} == {
        "deleteWhen": "04",
        "secretKey": "***",
        "tlsKeyPassword": "***",
    }
    assert "hunter" not in str(view.data)


@pytest.mark.parametrize(
    "form", [OptionForm("a b", "1"), OptionForm("a", "1\nb=2"), OptionForm("", "1"), OptionForm("a", "\x00")]
)
def test_one_change_is_one_option(form: OptionForm) -> None:
    with pytest.raises(Invalid):
        checked_change(form)


def test_values_are_compared_as_servers_write_them() -> None:
    assert is_same("TRUE", "true")
    assert is_same("1.50", "1.5")
    assert not is_same("4", "6")
    assert not is_same("", "x")
    assert checked_change(OptionForm("path", "a\\b")) == {"path": "a\\\\b"}


def test_figures_are_numbers_or_unknown() -> None:
    figures = RuntimeFigures(
        {"bootTimestamp": "x", "putTps": "", "commitLogDiskRatio": "0.25", "commitLogMaxOffset": "9" * 30}
    )
    assert (figures.started, figures.in_per_second, figures.disk_used_percent, figures.log_end) == (
        None,
        None,
        25.0,
        None,
    )
