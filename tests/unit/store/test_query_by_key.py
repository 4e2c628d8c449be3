"""Queries by key: the records themselves, the newest if there are too many, and nobody else's."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.model.java_hash import string_hash
from headrace.protocol.record import decode_records, encode_record
from store.commit_log.reader import CommitLogReader
from store.query.by_key import KeyQuery
from store.query.key_match import record_with_key
from store.query.unreadable_records import UnreadableRecords
from support.damage import damage
from support.dispatched_store import FIRST_TIMESTAMP, SMALL, DispatchedStore, HandWrittenLog, dispatched_store

EVER = (1 << 63) - 1


class Asked:
    """A store of some records, and a query on it."""

    def __init__(self, store: DispatchedStore) -> None:
        self.store = store
        self.log = HandWrittenLog(store.paths, store.config)
        self.unreadable = UnreadableRecords()
        reader = CommitLogReader(store.paths, store.config, store.control)
        self.query = KeyQuery(store.paths, store.config, reader, self.unreadable)

    def dispatch(self) -> None:
        if not self.store.control.wrote_offset:
            self.store.recovered(self.log.end)
        self.store.wrote(self.log.end)
        self.store.dispatch()

    def offsets(self, key: str, most: int = 64, begin: int = 0, end: int = EVER, topic: str = "Topic") -> list[int]:
        body = self.query.query(topic, key, most, begin, end).body
        return [message.physical_offset for message in decode_records(body)]


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Asked]:
    with dispatched_store(tmp_path) as store:
        found = Asked(store)
        yield found
        found.query.close()


def test_all_records_with_the_key_are_returned_oldest_first(asked: Asked) -> None:
    places = [
        asked.log.append(properties=f"KEYS\x01all key-{number % 3}\x02UNIQ_KEY\x01U{number}") for number in range(30)
    ]
    asked.dispatch()
    assert asked.offsets("all") == places
    assert asked.offsets("key-1") == places[1::3]
    assert asked.offsets("U7") == places[7:8]
    assert asked.offsets("missing") == []
    assert asked.offsets("all", topic="Other") == []


def test_newest_records_are_returned_if_there_are_too_many(asked: Asked) -> None:
    places = [asked.log.append(properties="KEYS\x01all") for _ in range(100)]
    asked.dispatch()
    assert asked.offsets("all", most=5) == places[-5:]
    assert asked.offsets("all", most=1000) == places[-SMALL.max_msgs_num_batch :]
    assert asked.offsets("all", most=0) == []


def test_another_key_with_the_same_hash_does_not_count(asked: Asked) -> None:
    assert string_hash("Topic#Aa") == string_hash("Topic#BB")
    asked.log.append(properties="KEYS\x01Aa")
    at = asked.log.append(properties="KEYS\x01BB")
    asked.log.append(properties="KEYS\x01Aa")
    asked.dispatch()
    assert asked.offsets("BB", most=1) == [at]


def test_record_with_the_same_key_twice_is_returned_once(asked: Asked) -> None:
    at = asked.log.append(properties="KEYS\x01same same\x02UNIQ_KEY\x01same")
    asked.dispatch()
    assert asked.offsets("same") == [at]


@pytest.mark.parametrize(
    ("properties", "topic", "key", "is_found"),
    [
        ("KEYS\x01a b", "Topic", "b", True),
        ("KEYS\x01a b", "Other", "b", False),
        ("KEYS\x01a b", "Topic", "a b", False),
        ("KEYS\x01ab", "Topic", "a", False),
        ("KEYS\x01a  b", "Topic", "a", True),
        ("KEYS\x01old\x02KEYS\x01new", "Topic", "new", True),
        ("KEYS\x01old\x02KEYS\x01new", "Topic", "old", False),
        ("KEYS\x01größe €", "Topic", "€", True),
        ("UNIQ_KEY\x01id one\x02KEYS\x01a", "Topic", "id one", True),
        ("UNIQ_KEY\x01id one\x02KEYS\x01a", "Topic", "one", False),
        ("UNIQ_KEY\x01id\x02TAGS\x01t", "Topic", "id", True),
        ("TAGS\x01t", "Topic", "t", False),
    ],
)
def test_record_has_its_unique_id_and_the_keys_between_spaces(
    properties: str, topic: str, key: str, is_found: bool
) -> None:
    record = encode_record(topic="Topic", body=b"body", properties=properties, physical_offset=700)
    found = record_with_key(memoryview(record + b"the next record"), 700, topic, key)
    assert found == (record if is_found else None)


@pytest.mark.parametrize("name", ["KEYS", "UNIQ_KEY"])
def test_key_that_is_not_utf8_is_found_as_clients_decode_it(asked: Asked, name: str) -> None:
    at = asked.log.append(properties=name.encode() + b"\x01k\xff\xe4\xbd\x02TAGS\x01t")
    asked.dispatch()
    assert asked.offsets("k\ufffd\ufffd") == [at]


def test_only_records_in_the_time_range_are_returned(asked: Asked) -> None:
    places = [
        asked.log.append(properties="KEYS\x01all", store_timestamp=FIRST_TIMESTAMP + 1000 * number)
        for number in range(20)
    ]
    asked.dispatch()
    begin = FIRST_TIMESTAMP + 5000
    assert asked.offsets("all", begin=begin, end=begin + 3000) == places[5:9]


def test_deleted_records_are_not_returned(asked: Asked) -> None:
    places = [asked.log.append(properties="KEYS\x01all") for _ in range(10)]
    asked.dispatch()
    asked.store.min_offset(places[4])
    assert asked.offsets("all") == places[4:]


def test_query_returns_the_last_update_of_the_index(asked: Asked) -> None:
    at = asked.log.append(properties="KEYS\x01all", store_timestamp=FIRST_TIMESTAMP)
    asked.dispatch()
    found = asked.query.query("Topic", "missing", 10, 0, EVER)
    assert (found.last_update_timestamp, found.last_update_physical_offset) == (FIRST_TIMESTAMP, at)


def test_empty_store_returns_nothing(asked: Asked) -> None:
    found = asked.query.query("Topic", "key", 10, 0, EVER)
    assert (found.body, found.last_update_timestamp, found.last_update_physical_offset) == (b"", 0, 0)


def test_damaged_record_is_skipped_counted_and_logged_once(asked: Asked, caplog: pytest.LogCaptureFixture) -> None:
    places = [asked.log.append(properties="KEYS\x01all") for _ in range(5)]
    asked.dispatch()
    damage(asked.store.paths.commit_log, SMALL.mapped_file_size_commit_log, places[2], 60)
    for _ in range(2):
        assert asked.offsets("all") == [place for place in places if place != places[2]]
    assert asked.unreadable.count == 1
    (line,) = [text for text in caplog.messages if "unreadable" in text]
    assert f"topic=Topic queue_id=-1 queue_offset=-1 physical_offset={places[2]} " in line
