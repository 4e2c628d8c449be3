"""The topic table: what a broker is born with, who may make a topic, and the file that Apache's broker reads too."""

from pathlib import Path

import pytest

from broker.config import BrokerConfig
from broker.json_file import JsonFile
from broker.topics.topics import TopicTable
from headrace.model import permission
from headrace.model.topic_config import TopicConfig, TopicFilterType
from headrace.protocol import fastjson
from support import golden


def config(**options: object) -> BrokerConfig:
    return BrokerConfig(**{"broker_name": "broker-a", "broker_ip1": "127.0.0.1", **options})  # type: ignore[arg-type]


def table(tmp_path: Path, **options: object) -> TopicTable:
    return TopicTable(JsonFile(tmp_path / "config" / "topics.json"), config(**options))


def text(tmp_path: Path) -> str:
    return (tmp_path / "config" / "topics.json").read_text()


# -- birth ----------------------------------------------------------------------------------------------------------------


def test_new_broker_has_apaches_topics(tmp_path: Path) -> None:
    born = {name: (topic.read_queue_count, topic.permission) for name, topic in table(tmp_path).all().items()}
    assert born == {
        "TBW102": (8, 7),
        "DefaultCluster": (16, 7),
        "broker-a": (1, 7),
        "SELF_TEST_TOPIC": (1, 6),
        "OFFSET_MOVED_EVENT": (1, 6),
        "BenchmarkTest": (1024, 6),
        "SCHEDULE_TOPIC_XXXX": (18, 6),
        "DefaultCluster_REPLY_TOPIC": (1, 6),
    }


def test_options_control_some_default_topics(tmp_path: Path) -> None:
    topics = table(
        tmp_path,
        auto_create_topic_enable=False,
        cluster_topic_enable=False,
        broker_topic_enable=False,
        trace_topic_enable=True,
    )
    assert topics.find("TBW102") is None
    assert [topic.permission for name in ("DefaultCluster", "broker-a") if (topic := topics.find(name))] == [1, 1]
    assert topics.find("RMQ_SYS_TRACE_TOPIC") == TopicConfig("RMQ_SYS_TRACE_TOPIC", 1, 1)


def test_default_topics_are_not_written_to_the_file(tmp_path: Path) -> None:
    table(tmp_path)
    assert not (tmp_path / "config").exists()


def test_topics_in_the_file_override_default_topics(tmp_path: Path) -> None:
    table(tmp_path).put(TopicConfig("BenchmarkTest", 4, 4, 2))
    again = table(tmp_path)
    assert again.find("BenchmarkTest") == TopicConfig("BenchmarkTest", 4, 4, 2)


# -- Apache's files -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("store", ["kinds", "plain"])
def test_apaches_file_is_read_and_written_back_to_the_same_lines(store: str, tmp_path: Path) -> None:
    root = golden.unpack(store, tmp_path)
    before = (root / "config" / "topics.json").read_text()
    topics = table(root)
    version = fastjson.loads(before)["dataVersion"]
    assert (topics.data_version.counter, topics.data_version.timestamp) == (version["counter"], version["timestamp"])
    topics.raise_version()
    after = text(root)
    assert fastjson.loads(after)["topicConfigTable"] == fastjson.loads(before)["topicConfigTable"]
    assert fastjson.loads(after)["dataVersion"]["counter"] == version["counter"] + 1
    # Apache's order of topics is that of a hash map; line by line the text is the same.
    unordered = [
        sorted(line.rstrip(",") for line in each.splitlines() if '"counter"' not in line) for each in (before, after)
    ]
    assert [line for line in unordered[0] if "timestamp" not in line] == [
        line for line in unordered[1] if "timestamp" not in line
    ]


def test_known_fields_of_a_newer_brokers_file_are_read(tmp_path: Path) -> None:
    root = golden.unpack("v5", tmp_path)
    assert (
        table(root).all().keys()
        >= fastjson.loads((root / "config" / "topics.json").read_text())["topicConfigTable"].keys()
    )


# -- made by a send -------------------------------------------------------------------------------------------------------


def test_send_to_an_unknown_topic_creates_it_from_the_template(tmp_path: Path) -> None:
    topics = table(tmp_path)
    assert topics.create_on_send("T", "TBW102", 4) == TopicConfig("T", 4, 4, 6)
    assert table(tmp_path).find("T") == TopicConfig("T", 4, 4, 6)


@pytest.mark.parametrize(("asked", "given"), [(4, 4), (100, 8), (0, 0), (-3, 0)])
def test_template_limits_the_number_of_queues(asked: int, given: int, tmp_path: Path) -> None:
    made = table(tmp_path).create_on_send("T", "TBW102", asked)
    assert made is not None
    assert (made.read_queue_count, made.write_queue_count) == (given, given)


def test_new_topic_has_permission_and_filter_type_of_the_template(tmp_path: Path) -> None:
    topics = table(tmp_path)
    topics.put(
        TopicConfig("Template", 3, 2, permission.WRITE | permission.INHERIT, TopicFilterType.MULTI_TAG, sys_flag=3)
    )
    assert topics.create_on_send("T", "Template", 9) == TopicConfig(
        "T", 2, 2, permission.WRITE, TopicFilterType.MULTI_TAG
    )


def test_missing_template_creates_no_topic(tmp_path: Path) -> None:
    assert table(tmp_path).create_on_send("T", "Nowhere", 4) is None


def test_template_without_the_inherit_bit_creates_no_topic(tmp_path: Path) -> None:
    assert table(tmp_path).create_on_send("T", "BenchmarkTest", 4) is None


def test_tbw102_is_not_a_template_if_auto_creation_is_disabled(tmp_path: Path) -> None:
    table(tmp_path).raise_version()
    topics = table(tmp_path, auto_create_topic_enable=False)
    assert topics.find("TBW102") is not None
    assert topics.create_on_send("T", "TBW102", 4) is None
    assert topics.create_on_send("U", "DefaultCluster", 4) is not None


def test_retry_topic_is_created_without_a_template(tmp_path: Path) -> None:
    assert table(tmp_path).create_on_send("%RETRY%g", "Nowhere", 4) == TopicConfig("%RETRY%g", 1, 1, 6)


@pytest.mark.parametrize(("name", "flag"), [("T", 1), ("%RETRY%g", 2)])
def test_unit_mode_is_marked_in_the_topics_flag(name: str, flag: int, tmp_path: Path) -> None:
    made = table(tmp_path).create_on_send(name, "TBW102", 4, unit_mode=True)
    assert made is not None
    assert made.sys_flag == flag


def test_send_back_creates_the_retry_topic_once(tmp_path: Path) -> None:
    topics = table(tmp_path)
    made = topics.create_on_send_back("%RETRY%g", 2, 6, 2)
    assert made == TopicConfig("%RETRY%g", 2, 2, 6, sys_flag=2)
    version = topics.data_version
    assert topics.create_on_send_back("%RETRY%g", 5) is made
    assert topics.data_version == version


# -- changes --------------------------------------------------------------------------------------------------------------


def test_changes_increment_the_version_and_notify_listeners(tmp_path: Path) -> None:
    topics = table(tmp_path)
    heard: list[str | None] = []
    created: list[str] = []
    topics.on_change(heard.append)
    topics.on_created(created.append)
    topics.create_on_send("A", "TBW102", 4)
    topics.put(TopicConfig("B"))
    topics.delete("B")
    topics.raise_version()
    assert heard == ["A", "B", "B", None]
    assert created == ["A"]
    assert topics.data_version.counter == 4
    assert table(tmp_path).data_version == topics.data_version


def test_mapping_is_not_affected_by_later_changes(tmp_path: Path) -> None:
    topics = table(tmp_path)
    before = topics.all()
    topics.put(TopicConfig("T"))
    assert "T" not in before
    assert "T" in topics.all()


def test_deletion_of_an_unknown_topic_changes_nothing(tmp_path: Path) -> None:
    topics = table(tmp_path)
    assert not topics.delete("Nowhere")
    assert topics.data_version.counter == 0


def test_ordered_topics_are_those_of_the_name_server(tmp_path: Path) -> None:
    topics = table(tmp_path)
    topics.put(TopicConfig("A"))
    topics.put(TopicConfig("B", order=True))
    topics.set_ordered(["A", "Nowhere"])
    assert [topic.name for topic in topics.all().values() if topic.order] == ["A"]
    version = topics.data_version
    topics.set_ordered(["A"])
    assert topics.data_version == version


def test_failed_write_leaves_the_table_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    json_file = JsonFile(tmp_path / "config" / "topics.json")
    topics = TopicTable(json_file, config())

    def refuse(_text: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(json_file, "save", refuse)
    with pytest.raises(OSError, match="No space"):
        topics.create_on_send("T", "TBW102", 4)
    assert topics.find("T") is None


def test_system_topics_include_apaches_and_the_brokers_own(tmp_path: Path) -> None:
    topics = table(tmp_path)
    for name in (
        "TBW102",
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "broker-a",
        "DefaultCluster",
        "rmq_sys_x",
    ):
        assert topics.is_system(name), name
    assert not topics.is_system("RMQ_SYS_x")
    assert not topics.is_system("T")
