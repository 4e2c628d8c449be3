"""The table of consumers' filters: registration, death, revival, the file; and what pulls are given or refused."""

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker.config import BrokerConfig
from broker.filtering.consumer_filter_table import ConsumerFilterTable
from broker.filtering.pull_filters import PullFilters, RetryFilter
from broker.json_file import JsonFile
from headrace.model.subscription import SubscriptionData
from headrace.protocol.record import encode_record
from headrace.protocol.response_code import ResponseCode
from store.consume_queue.ext_reader import ExtUnit
from store.filter.bit_map import BitMapCalculator
from store.filter.bloom import BloomFilter
from store.filter.consumer_filter import ConsumerFilterData, compile_filter, decode_filters, encode_filters
from store.filter.message_filter import ExpressionFilter
from store.filter.refusal import Refusal
from support import golden

DAY_MS = 86_400_000


class World:
    """A table, its file, and a clock that stands until it is moved."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.path = folder / "consumerFilter.json"
        self.config = BrokerConfig(enable_property_filter=True, **options)
        self.now = 1_000_000
        self.saved = 0
        self.saving: Callable[[], None] = lambda: None
        self.table = self.opened()

    def opened(self) -> ConsumerFilterTable:
        return ConsumerFilterTable(SlowFile(self), self.config, lambda: self.now)

    @property
    def filters(self) -> PullFilters:
        return PullFilters(self.table, self.config)

    def register(self, expression: str, version: int = 1, group: str = "g", topic: str = "T") -> None:
        self.table.register(group, [SubscriptionData.build(topic, expression, "SQL92", version)])

    def find(self, topic: str = "T", group: str = "g") -> ConsumerFilterData:
        found = self.table.find(topic, group)
        assert found is not None
        return found

    def on_disk(self) -> dict[str, dict[str, ConsumerFilterData]]:
        return decode_filters(self.path.read_bytes())


class SlowFile(JsonFile):
    """Counts what is written, and lets something happen meanwhile."""

    def __init__(self, world: World) -> None:
        super().__init__(world.path)
        self._world = world

    def save(self, text: str) -> None:
        self._world.saved += 1
        self._world.saving()
        super().save(text)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def mapped(tmp_path: Path) -> World:
    """Dispatch makes bitmaps."""
    return World(tmp_path, enable_calc_filter_bit_map=True)


# ---- registration ----


def test_heartbeat_registers_filters_for_expressions_but_not_for_tags(world: World) -> None:
    world.table.register(
        "g",
        [
            SubscriptionData.build("T", "a > 5", "SQL92", 7),
            SubscriptionData.build("Tags", "x || y"),
            SubscriptionData.build("Empty", "", "SQL92"),
            SubscriptionData.build("%RETRY%g"),
        ],
    )
    found = world.find()
    assert (found.expression, found.expression_type, found.client_version, found.born_time) == (
        "a > 5",
        "SQL92",
        7,
        1_000_000,
    )
    assert found.bloom_filter_data == BloomFilter().data_of("g", "T")
    assert not found.is_dead
    assert [world.table.find(topic, "g") for topic in ("Tags", "Empty", "%RETRY%g")] == [None] * 3


def test_only_a_newer_version_changes_an_expression(world: World) -> None:
    world.register("a > 5", 7)
    world.now += 10
    for version in (6, 7):
        world.register("a > 6", version)
        assert (world.find().expression, world.find().client_version) == ("a > 5", 7)
    world.register("a > 6", 8)
    assert (world.find().expression, world.find().client_version, world.find().born_time) == ("a > 6", 8, 1_000_010)


def test_newer_version_of_the_same_expression_keeps_the_filter(world: World) -> None:
    world.register("a > 5", 7)
    world.now += 10
    world.register("a > 5", 8)
    assert (world.find().client_version, world.find().born_time) == (8, 1_000_000)


def test_invalid_expression_removes_the_old_filter(world: World) -> None:
    world.register("a >", 1)
    assert world.table.find("T", "g") is None
    world.register("a > 5", 2)
    world.register("a >", 3)
    assert world.table.find("T", "g") is None
    assert world.table.filter_of("T", "g") is None


def test_filter_without_topic_or_group_is_inactive_until_it_is_registered_again(world: World) -> None:
    world.register("a > 5", 7)
    world.now += 10
    world.table.register("g", [])
    assert (world.find().is_dead, world.find().dead_time) == (True, 1_000_010)
    world.register("a > 5", 7)
    assert (world.find().is_dead, world.find().dead_time) == (False, 0)
    world.table.forget_groups_beyond({"other", "g"})
    assert not world.find().is_dead
    world.table.forget_groups_beyond({"other"})
    assert world.find().is_dead
    world.register("a > 5", 8)
    assert not world.find().is_dead
    assert world.find().born_time == 1_000_000


def test_older_version_does_not_reactivate_a_filter(world: World) -> None:
    world.register("a > 5", 7)
    world.table.forget_groups_beyond(())
    world.register("a > 5", 6)
    assert world.find().is_dead


# ---- the file ----


def test_file_is_written_only_after_changes(world: World) -> None:
    world.table.persist()
    assert world.saved == 0
    world.register("a > 5", 7)
    assert world.saved == 0
    world.table.persist()
    world.table.persist()
    assert world.saved == 1
    assert world.on_disk() == {"T": {"g": world.find()}}


def test_loaded_filter_is_inactive_until_a_heartbeat(world: World) -> None:
    world.register("a > 5", 7)
    world.register("b > 5", 7, topic="Young")
    world.table.persist()
    world.now += 40_000
    world.register("b > 6", 8, topic="Young")
    world.register("a > 5", 7)
    world.table.persist()
    world.table = world.opened()
    assert (world.find().is_dead, world.find().dead_time) == (True, world.now - 30_000)
    assert (world.find("Young").is_dead, world.find("Young").dead_time) == (True, world.now)
    world.register("a > 5", 7)
    assert not world.find().is_dead
    assert world.find().born_time == 1_000_000


def test_filter_is_removed_a_day_after_it_became_inactive(world: World) -> None:
    world.register("a > 5", 7)
    world.register("a > 5", 7, group="other")
    world.table.forget_groups_beyond({"other"})
    world.now += DAY_MS - 1
    world.table.persist()
    assert set(world.on_disk()["T"]) == {"g", "other"}
    world.now += 1
    world.table.persist()
    assert set(world.on_disk()["T"]) == {"other"}
    world.table.forget_groups_beyond(())
    world.now += DAY_MS
    world.table.persist()
    assert world.on_disk() == {}


def test_rocketmqs_file_is_read_and_written_back(tmp_path: Path) -> None:
    original = golden.unpack("ext", tmp_path) / "config" / "consumerFilter.json"
    world = World(original.parent)
    before = original.read_text()
    assert world.find("Ext", "sql-group-1").expression == "city = 'Rome' AND price BETWEEN 10 AND 30"
    world.now = world.find("Ext", "sql-group-1").dead_time
    world.register("a = 1", 1, group="new", topic="New")
    world.table.persist()
    table = world.on_disk()
    del table["New"]
    assert encode_filters(table) == before


def test_file_with_other_bloom_filter_parameters_is_discarded(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.register("a > 5", 7)
    world.table.persist()
    world.config = replace(world.config, max_error_rate_of_bloom_filter=10)
    with caplog.at_level(logging.WARNING):
        world.table = world.opened()
    assert world.table.find("T", "g") is None
    assert "parameters have changed" in caplog.text


# ---- bitmaps ----


def unit(store_timestamp: int, bit_map: bytes = bytes(14)) -> ExtUnit:
    return ExtUnit(34, 0, store_timestamp, bit_map)


def is_kept_back(world: World, store_timestamp: int) -> bool:
    """Whether a message with a bitmap that has no bits is not read at all."""
    ready = world.table.filter_of("T", "g")
    assert ready is not None
    return not ready.match_entry(0, unit(store_timestamp))


def test_bit_map_is_used_only_for_messages_dispatched_after_the_filter_was_known(mapped: World) -> None:
    calculate = BitMapCalculator(mapped.path, BloomFilter())
    mapped.register("a > 5", 7)
    assert mapped.on_disk() == {"T": {"g": mapped.find()}}
    assert calculate(b"T", 0, b"a\x016") == BloomFilter().map_of([BloomFilter().data_of("g", "T")])
    born = mapped.find().born_time
    assert born == mapped.now + 1000
    assert not is_kept_back(mapped, born)
    assert is_kept_back(mapped, born + 1)


def test_filter_is_registered_anew_if_its_file_was_written_too_late(mapped: World) -> None:
    delays = [1500, 400]

    def pass_time() -> None:
        mapped.now += delays.pop(0)

    mapped.saving = pass_time
    mapped.register("a > 5", 7)
    assert mapped.saved == 2
    assert mapped.find().born_time == 1_001_500 + 1000 > mapped.now
    assert mapped.on_disk() == {"T": {"g": mapped.find()}}
    assert is_kept_back(mapped, mapped.find().born_time + 1)


def test_no_bit_map_is_used_while_the_file_cannot_be_written(mapped: World, caplog: pytest.LogCaptureFixture) -> None:
    def refuse() -> None:
        raise OSError(28, "No space left on device")

    mapped.saving = refuse
    with caplog.at_level(logging.WARNING):
        mapped.register("a > 5", 7)
    assert "not saved" in caplog.text
    assert not is_kept_back(mapped, mapped.now + DAY_MS)
    mapped.now += 10_000
    mapped.saving = lambda: None
    mapped.table.persist()
    assert mapped.find().born_time == mapped.now + 1000
    assert is_kept_back(mapped, mapped.now + 1001)


def test_no_bit_map_is_used_if_the_disk_is_always_too_slow(mapped: World) -> None:
    def pass_time() -> None:
        mapped.now += 1500

    mapped.saving = pass_time
    mapped.register("a > 5", 7)
    assert not is_kept_back(mapped, mapped.now + DAY_MS)
    mapped.saving = lambda: None
    mapped.table.persist()
    assert is_kept_back(mapped, mapped.now + DAY_MS)


def test_bit_maps_of_a_changed_expression_are_used_only_for_later_messages(mapped: World) -> None:
    mapped.register("a > 5", 7)
    mapped.now += DAY_MS
    mapped.register("a > 6", 8)
    assert not is_kept_back(mapped, mapped.now)
    assert is_kept_back(mapped, mapped.now + 1001)


def test_filter_can_become_inactive_within_its_first_second(mapped: World) -> None:
    mapped.register("a > 5", 7)
    mapped.table.forget_groups_beyond(())
    assert mapped.find().is_dead


def test_bit_maps_of_a_loaded_filter_are_used_as_before(mapped: World) -> None:
    mapped.register("a > 5", 7)
    born = mapped.find().born_time
    mapped.table.persist()
    mapped.table = mapped.opened()
    mapped.register("a > 5", 7)
    assert is_kept_back(mapped, born + 1)
    assert not is_kept_back(mapped, born)


# ---- pulls ----


def refusal(found: object) -> tuple[ResponseCode, str]:
    assert isinstance(found, tuple)
    code, remark = found
    assert isinstance(remark, str)
    return code, remark


SQL = SubscriptionData.build("T", "a > 5", "SQL92", 7)


def test_pull_with_its_own_expression_gets_a_filter(world: World) -> None:
    found = world.filters.of_request("T", "a > 5", "SQL92")
    assert isinstance(found, ExpressionFilter)
    assert not found.reads_units
    assert [world.filters.of_request("T", "x", kind) for kind in ("TAG", "", None)] == [None] * 3


def test_pull_with_an_invalid_expression_is_refused(world: World) -> None:
    for expression in ("", None):
        assert refusal(world.filters.of_request("T", expression, "SQL92"))[0] == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    code, remark = refusal(world.filters.of_request("T", "a >", "SQL92"))
    assert code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert "line 1, column 4" in remark
    assert refusal(world.filters.of_request("T", "a > 5", "FOO"))[0] == ResponseCode.SUBSCRIPTION_PARSE_FAILED


def test_pull_by_subscription_gets_the_registered_filter(world: World) -> None:
    assert refusal(world.filters.of_subscription("g", SQL, 7))[0] == ResponseCode.FILTER_DATA_NOT_EXIST
    world.register("a > 5", 7)
    assert isinstance(world.filters.of_subscription("g", SQL, 7), ExpressionFilter)
    assert refusal(world.filters.of_subscription("g", SQL, 8))[0] == ResponseCode.FILTER_DATA_NOT_LATEST
    assert world.filters.of_subscription("g", SubscriptionData.build("T", "x"), 7) is None


def test_expressions_are_refused_if_disabled(world: World) -> None:
    world.register("a > 5", 7)
    world.config = replace(world.config, enable_property_filter=False)
    found = (
        world.filters.of_request("T", "a > 5", "SQL92"),
        world.filters.of_request("T", "a >", "SQL92"),
        world.filters.of_subscription("g", SQL, 7),
        world.filters.check(SQL),
    )
    for one in found:
        code, remark = refusal(one)
        assert code == ResponseCode.SYSTEM_ERROR
        assert "SQL92" in remark


def test_subscription_is_checked_before_it_is_used(world: World) -> None:
    assert world.filters.check(SQL) is None
    assert world.filters.check(None) is None
    assert world.filters.check(SubscriptionData.build("T", "x || y")) is None
    code, remark = refusal(world.filters.check(SubscriptionData.build("T", "a > 5 AND\n b == 1", "SQL92")))
    assert code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert "line 2, column 5" in remark
    assert (
        refusal(world.filters.check(SubscriptionData.build("T", "a", "FOO")))[0]
        == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    )


# ---- retries ----


def test_filter_of_the_original_topic_applies_to_retried_messages(world: World) -> None:
    assert world.filters.of_request("%RETRY%g", "*", "TAG") is None
    world.config = replace(world.config, filter_support_retry=True)
    found = world.filters.of_subscription("g", SubscriptionData.build("%RETRY%g"), 0)
    assert isinstance(found, RetryFilter)
    assert not found.reads_units
    assert world.filters.of_request("T", "*", "TAG") is None
    world.register("a > 5", 7)

    def passes(properties: str) -> bool:
        return found.match_record(memoryview(encode_record(topic="%RETRY%g", body=b"", properties=properties)), 0)

    assert passes("RETRY_TOPIC\x01T\x02a\x016")
    assert not passes("RETRY_TOPIC\x01T\x02a\x015")
    assert not passes("RETRY_TOPIC\x01T")
    assert passes("RETRY_TOPIC\x01Other\x02a\x015")
    assert passes("a\x015")


def test_expression_that_compiles_too_slowly_is_refused() -> None:
    refused = compile_filter("a = 1 or " * 2000 + "a = 1", "SQL92")
    assert isinstance(refused, Refusal)
    assert "exceeds the limit of 8192" in str(refused)
