"""Every golden store and damaged variant, exported into every format, has the rows that RocketMQ's own classes read."""

from pathlib import Path

import pytest

from spark_exporter.planning.plan import open_source
from spark_exporter.reading.record_choice import RecordChoice, is_brokers_own
from spark_exporter.running.verify import verify
from spark_exporter.targets.open_target import open_target
from spark_exporter.writing.layout import Layout
from support import golden
from support.exported import FORMATS, expected_rows, export, query, read, read_quarantine, rows_of

# A torn record at the end of the log was being written and has no fields. In the middle of the log it is damage.
TORN_AT_THE_END = {"unclean-torn-body": [1705125], "unclean-torn-head": [1705125], "unclean-torn-size": [1705125]}
DAMAGED = {"unclean-bad-middle": [1164914]}
TORN_PROPERTIES = 1705125


def base_of(name: str) -> str:
    return name if name in golden.stores() else name.partition("-")[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", golden.stores() + golden.variants())
def test_rows_equal_what_rocketmq_reads(name: str, tmp_path: Path) -> None:
    root = golden.unpack(name, tmp_path)
    wanted = expected_rows(base_of(name), TORN_AT_THE_END.get(name, []) + DAMAGED.get(name, []))
    if name == "unclean-torn-properties":
        # Twenty bytes of its properties are zeros, which are legal values.
        assert wanted[-1]["commit_log_offset"] == TORN_PROPERTIES
        wanted[-1] = {**wanted[-1], **torn_properties(root)}
    for table_format in FORMATS:
        target = tmp_path / table_format
        summary = export(root, target, table_format)
        assert rows_of(read(target, table_format)) == wanted, table_format
        assert summary.rows == len(wanted)
        assert summary.damaged == len(DAMAGED.get(name, []))
        if name in DAMAGED:
            assert [row["commit_log_offset"] for row in read_quarantine(target, table_format)] == DAMAGED[name]
        columns = (
            "commit_log_offset, topic, queue_id, queue_offset, msg_id, octet_length(body), cardinality(properties)"
        )
        assert query(target, table_format, columns) == [
            (
                row["commit_log_offset"], row["topic"], row["queue_id"], row["queue_offset"], row["msg_id"], row["body"][0],
                len(row["properties"]),
            )
            for row in wanted
        ]  # fmt: skip


def torn_properties(root: Path) -> dict[str, object]:
    """The fields of the torn record that come from its properties, decoded by the record codec."""
    from headrace.protocol.record import decode_record  # noqa: PLC0415

    data = (root / "commitlog" / "00000000000001572864").read_bytes()
    properties = decode_record(data, TORN_PROPERTIES - 1572864).properties
    return {
        "msg_id": properties.pop("UNIQ_KEY", None),
        "keys": properties.pop("KEYS", None),
        "tags": properties.pop("TAGS", None),
        "properties": properties,
    }


@pytest.mark.slow
@pytest.mark.parametrize("table_format", FORMATS)
@pytest.mark.parametrize(
    "layout", [Layout(group_by_topic=True), Layout(table_per_topic=True)], ids=["by-topic", "tables"]
)
def test_export_by_topic_has_the_same_rows(table_format: str, layout: Layout, tmp_path: Path) -> None:
    root = golden.unpack("kinds", tmp_path)
    target = tmp_path / "target"
    summary = export(root, target, table_format, layout=layout)
    assert summary.rows == len(expected_rows("kinds"))
    verified = verify(open_source(root), open_target(str(target)), "broker")
    assert verified.differences == ()
    assert verified.rows == summary.rows
    if layout.group_by_topic:
        assert rows_of(read(target, table_format)) == expected_rows("kinds")


def test_export_skips_system_topics_but_keeps_retry_and_dead_letter_topics(tmp_path: Path) -> None:
    root = golden.unpack("kinds", tmp_path)
    export(root, tmp_path / "target", choice=RecordChoice())
    wanted = [row for row in expected_rows("kinds") if not is_brokers_own(row["topic"])]
    assert rows_of(read(tmp_path / "target", "parquet")) == wanted
    topics = {row["topic"] for row in wanted}
    assert {"%RETRY%failing-group", "%DLQ%failing-group", "Delayed", "Paid"} <= topics
    assert topics.isdisjoint({"SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"})


def test_only_requested_topics_are_exported(tmp_path: Path) -> None:
    root = golden.unpack("kinds", tmp_path)
    export(root, tmp_path / "target", choice=RecordChoice(frozenset({"Paid", "SCHEDULE_TOPIC_XXXX"})))
    wanted = [row for row in expected_rows("kinds") if row["topic"] in {"Paid", "SCHEDULE_TOPIC_XXXX"}]
    assert rows_of(read(tmp_path / "target", "parquet")) == wanted
