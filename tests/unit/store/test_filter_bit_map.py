"""Bitmaps while dispatching: they follow consumerFilter.json, message by message."""

from pathlib import Path

import pytest

from store.filter.bit_map import BitMapCalculator
from store.filter.bloom import BloomFilter, is_hit
from store.filter.consumer_filter import ConsumerFilterData, encode_filters

BLOOM = BloomFilter()


def write(path: Path, *filters: ConsumerFilterData) -> None:
    """As the broker does: a new file in the place of the old one."""
    table: dict[str, dict[str, ConsumerFilterData]] = {}
    for data in filters:
        table.setdefault(data.topic, {})[data.consumer_group] = data
    replacement = path.with_suffix(".tmp")
    replacement.write_text(encode_filters(table))
    replacement.replace(path)


def wanting(group: str, expression: str, topic: str = "T", bloom: BloomFilter = BLOOM) -> ConsumerFilterData:
    return ConsumerFilterData(group, topic, expression, "SQL92", bloom.data_of(group, topic), 1000, 1000)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "consumerFilter.json"


def test_bit_map_has_the_bits_of_groups_whose_expression_is_true(path: Path) -> None:
    cheap, dear = wanting("cheap", "price < 10"), wanting("dear", "price > 100")
    write(path, cheap, dear)
    calculate = BitMapCalculator(path, BLOOM)
    assert calculate(b"T", 0, b"price\x015") == BLOOM.map_of([BLOOM.data_of("cheap", "T")])
    assert calculate(b"T", 0, b"price\x01500") == BLOOM.map_of([BLOOM.data_of("dear", "T")])
    for properties in (b"price\x0150", b"", b"price\x01much"):
        assert calculate(b"T", 0, properties) == bytes(14)


def test_topic_without_filters_has_no_bit_map(path: Path) -> None:
    calculate = BitMapCalculator(path, BLOOM)
    assert calculate(b"T", 0, b"") == b""
    write(path, wanting("cheap", "price < 10"))
    assert calculate(b"Other", 0, b"") == b""


def test_changed_filters_file_applies_to_the_next_message(path: Path) -> None:
    calculate = BitMapCalculator(path, BLOOM)
    for number in range(5):
        write(path, wanting("group", f"price = {number}"))
        for price in range(5):
            bit_map = calculate(b"T", 0, b"price\x01%d" % price)
            assert is_hit(BLOOM.data_of("group", "T"), bit_map) == (price == number)
    path.unlink()
    assert calculate(b"T", 0, b"price\x014") == b""


def test_filter_of_a_deleted_group_still_sets_bits(path: Path) -> None:
    gone = wanting("gone", "price < 10")
    gone.dead_time = 2000
    write(path, gone)
    assert BitMapCalculator(path, BLOOM)(b"T", 0, b"price\x015") == BLOOM.map_of([BLOOM.data_of("gone", "T")])


@pytest.mark.parametrize("text", ["", "{", "[]", '{"filterDataByTopic":{"T":{"groupFilterData":{"g":{"topic":"T"}}}}}'])
def test_unusable_filters_file_disables_bit_maps(path: Path, text: str) -> None:
    path.write_text(text)
    assert BitMapCalculator(path, BLOOM)(b"T", 0, b"") == b""


def test_other_bloom_filter_parameters_disable_bit_maps(path: Path) -> None:
    write(path, wanting("one", "price < 10"), wanting("other", "price < 10", bloom=BloomFilter(10, 64)))
    assert BitMapCalculator(path, BLOOM)(b"T", 0, b"price\x015") == b""


def test_invalid_expression_sets_no_bits(path: Path) -> None:
    write(path, wanting("bad", "price <"), wanting("unknown", "price < 10"))
    assert BitMapCalculator(path, BLOOM)(b"T", 0, b"price\x015") == BLOOM.map_of([BLOOM.data_of("unknown", "T")])
