"""The walk over records: what is dispatched, what is passed over, where it stops; compiled and not."""

import errno
import json
import random
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest

from headrace.model.java_hash import string_hash
from headrace.protocol.consume_queue_layout import ENTRY_SIZE
from headrace.protocol.record_layout import MESSAGE_MAGIC_V2
from store.config import StoreConfig
from store.consume_queue import writer as consume_queue_writer
from store.consume_queue.sparse_file import make_sparse_file
from store.dispatch.dispatcher import BAD_RECORDS, RECORDS, REFUSED_RECORDS
from store.index.reader import IndexReader
from store.paths import StorePaths, file_name
from support.dispatched_store import (
    FIRST_TIMESTAMP,
    SMALL,
    DispatchedStore,
    HandWrittenLog,
    build,
    dispatched_store,
    entries_of,
)
from support.interpreted import run_interpreted


class Case:
    """A log to write, and what dispatch makes of it."""

    def __init__(self, store: DispatchedStore) -> None:
        self.store = store
        self.log = HandWrittenLog(store.paths, store.config)

    def dispatch(self) -> None:
        if self.store.control.wrote_offset == 0:
            self.store.recovered(self.log.end)
        self.store.wrote(self.log.end)
        self.store.dispatch()

    def entries(self, topic: str = "Topic", queue_id: int = 0) -> list[tuple[int, int, int]]:
        directory = self.store.paths.queue(topic, queue_id)
        if not directory.is_dir():
            return []
        return [entry for file in sorted(directory.iterdir()) for entry in entries_of(file.read_bytes())]

    def find(self, key: str, topic: str = "Topic") -> list[int]:
        reader = IndexReader(self.store.paths, self.store.config)
        try:
            reader.refresh()
            return list(reader.find(topic, key, 0, 1 << 62))
        finally:
            reader.close()


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    with dispatched_store(tmp_path) as store:
        yield Case(store)


def test_record_gets_a_queue_entry_and_index_keys(case: Case) -> None:
    at = case.log.append(properties="TAGS\x01TagA\x02KEYS\x01one two\x02UNIQ_KEY\x01U1")
    case.dispatch()
    assert case.entries() == [(at, case.log.end - at, 2598919)]
    assert [case.find(key) for key in ("one", "two", "U1", "one two")] == [[at], [at], [at], []]
    control = case.store.control
    assert (control.reput_offset, control.reput_timestamp) == (case.log.end, FIRST_TIMESTAMP)
    assert case.store.counted(RECORDS) == 1


def test_records_continue_in_the_next_file_after_a_blank(case: Case) -> None:
    places = [case.log.append(body=bytes(900)) for _ in range(150)]
    case.dispatch()
    assert case.log.end > 2 * SMALL.mapped_file_size_commit_log
    assert [entry[0] for entry in case.entries()] == places
    assert case.store.counted(BAD_RECORDS) == 0


@pytest.mark.parametrize(("sys_flag", "is_queued", "is_indexed"), [(0, 1, 1), (4, 0, 1), (8, 1, 1), (12, 0, 0)])
def test_prepared_and_rolled_back_records_get_no_queue_entry(
    case: Case, sys_flag: int, is_queued: bool, is_indexed: bool
) -> None:
    at = case.log.append(sys_flag=sys_flag, properties="KEYS\x01key")
    case.dispatch()
    assert (len(case.entries()), case.find("key")) == (is_queued, [at] * is_indexed)


@pytest.mark.parametrize(
    ("properties", "tags"),
    [
        ("", ""),
        ("TAGS\x01", ""),
        ("TAGS\x01a || b", "a || b"),
        ("TAGS\x01first\x02TAGS\x01second", "second"),
        ("TAGS\x01first\x02TAGS\x01", "first"),
        ("TAGS\x01with\x01inside", "with\x01inside"),
        ("\x01TAGS\x02TAGS\x01ok\x02", "ok"),
        ("XTAGS\x01no\x02TAG\x01no\x02TAGS2\x01no", ""),
        ("TAGS\x01дата", "дата"),
        ("TAGS\x01𝄞", "𝄞"),
        ("TAGS\x01polygenelubricants", "polygenelubricants"),
        ("nothing", ""),
        ("\x02\x02\x02", ""),
    ],
)
def test_tags_are_read_as_rocketmq_reads_properties(case: Case, properties: str, tags: str) -> None:
    case.log.append(properties=properties)
    case.log.append(properties=properties)
    case.dispatch()
    # The first of a queue goes the plain way, the second the fast one.
    assert [entry[2] for entry in case.entries()] == [string_hash(tags)] * 2


@pytest.mark.parametrize("queue_offset", [-1, -(1 << 63), (1 << 58) + 1, (1 << 62) + 1, (1 << 63) - 1])
def test_record_with_an_invalid_queue_offset_is_skipped(case: Case, queue_offset: int) -> None:
    first = case.log.append()
    case.log.append(queue_offset=queue_offset)
    last = case.log.append(queue_offset=1)
    case.log.append(queue_id=1, queue_offset=queue_offset)
    case.dispatch()
    assert [entry[0] for entry in case.entries()] == [first, last]
    assert case.entries(queue_id=1) == []
    assert case.store.counted(BAD_RECORDS) == 2


def test_keys_are_split_at_single_spaces_and_empty_ones_dropped(case: Case) -> None:
    at = case.log.append(properties="KEYS\x01 a  b дата 𝄞 ")
    case.dispatch()
    assert [case.find(key) for key in ("a", "b", "дата", "𝄞", "")] == [[at], [at], [at], [at], []]


def test_keys_before_a_record_that_must_wait_are_in_the_index(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    places = [case.log.append(properties=f"KEYS\x01key-{number}") for number in range(3)]
    case.log.append("Other", properties="KEYS\x01late")
    case.store.recovered(case.log.end)
    dispatching = case.store.open()
    with monkeypatch.context() as patched:
        patched.setattr(consume_queue_writer, "make_sparse_file", partial(_refuse_other, make_sparse_file))
        assert dispatching.try_batch()
        assert dispatching.failure is not None
    assert [case.find(f"key-{number}") for number in range(3)] == [[at] for at in places]
    assert case.find("late") == []
    dispatching.close()


def _refuse_other(make: Callable[[Path, int], None], path: Path, size_bytes: int) -> None:
    if "Other" in path.parts:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))
    make(path, size_bytes)


def test_non_ascii_topic_is_hashed_as_utf_16(case: Case) -> None:
    at = case.log.append(topic="тема", properties="KEYS\x01key")
    case.dispatch()
    assert case.find("key", "тема") == [at]


def test_records_with_ipv6_hosts_and_of_version_2_are_read(case: Case) -> None:
    places = [
        case.log.append(born_host=("::1", 1), properties="KEYS\x01a"),
        case.log.append(store_host=("fe80::1", 1), properties="KEYS\x01b"),
        case.log.append(born_host=("::1", 1), store_host=("::2", 2), properties="KEYS\x01c"),
        case.log.append(topic="L" * 200, magic=MESSAGE_MAGIC_V2, properties="KEYS\x01d"),
    ]
    case.dispatch()
    assert [entry[0] for entry in case.entries()] == places[:3]
    assert [entry[0] for entry in case.entries("L" * 200)] == places[3:]
    assert case.find("c") == [places[2]]


def test_tags_code_of_a_delayed_message_is_its_delivery_time(case: Case) -> None:
    case.log.append(
        topic="SCHEDULE_TOPIC_XXXX", queue_id=3, properties="DELAY\x014\x02TAGS\x01TagA", store_timestamp=1000
    )
    case.log.append(topic="SCHEDULE_TOPIC_XXXX", queue_id=3, properties="DELAY\x0199", store_timestamp=1000)
    case.log.append(topic="SCHEDULE_TOPIC_XXXX", queue_id=3, properties="TAGS\x01TagA", store_timestamp=1000)
    case.dispatch()
    codes = [entry[2] for entry in case.entries("SCHEDULE_TOPIC_XXXX", 3)]
    assert codes == [1000 + 30_000, 1000 + 7_200_000, 2598919]


def test_message_is_dispatched_to_all_queues_that_it_names(tmp_path: Path) -> None:
    config = StoreConfig(**{**SMALL.__dict__, "enable_multi_dispatch": True, "enable_lmq": True})
    with dispatched_store(tmp_path, config) as store:
        case = Case(store)
        names = "INNER_MULTI_DISPATCH\x01%LMQ%a,Other\x02INNER_MULTI_QUEUE_OFFSET\x010,0\x02TAGS\x01TagA"
        at = case.log.append(queue_id=2, properties=names)
        case.log.append(queue_id=2, properties=names.replace("0,0", "1"))  # does not say an offset for each
        case.dispatch()
        entry = (at, case.entries("Topic", 2)[0][1], 2598919)
        assert case.entries("Topic", 2)[0] == entry
        assert (case.entries("%LMQ%a"), case.entries("Other", 2)) == ([entry], [entry])


def test_disabled_index_leaves_only_queues(tmp_path: Path) -> None:
    config = StoreConfig(**{**SMALL.__dict__, "message_index_enable": False})
    with dispatched_store(tmp_path, config) as store:
        case = Case(store)
        case.log.append(properties="KEYS\x01key")
        case.dispatch()
        assert len(case.entries()) == 1
        assert list(store.paths.index.iterdir()) == []


def test_record_whose_topic_cannot_name_a_directory_is_skipped_and_counted(case: Case) -> None:
    case.log.append(topic="../../evil", properties="KEYS\x01key")
    case.log.append()
    case.dispatch()
    assert case.store.counted(REFUSED_RECORDS) == 1
    assert len(case.entries()) == 1
    assert sorted(path.name for path in case.store.paths.consume_queue.iterdir() if path.is_dir()) == ["Topic"]


def test_record_with_inconsistent_lengths_is_skipped(case: Case) -> None:
    case.log.append()
    bad = case.log.append()
    good = case.log.append()
    path = case.store.paths.commit_log / file_name(0)
    with path.open("r+b") as file:
        file.seek(bad)
        file.write((good - bad + 1).to_bytes(4, "big"))
    case.dispatch()
    # The queue lacks one, and so the next one stands in its place.
    assert [entry[0] for entry in case.entries()] == [0, good]
    assert case.store.counted(BAD_RECORDS) == 1
    assert case.store.control.reput_offset == case.log.end


def test_record_with_another_physical_offset_is_skipped(case: Case) -> None:
    case.log.append()
    bad = case.log.append()
    case.log.append()
    with (case.store.paths.commit_log / file_name(0)).open("r+b") as file:
        file.seek(bad + 28)
        file.write((12345).to_bytes(8, "big"))
    case.dispatch()
    assert bad not in [entry[0] for entry in case.entries()]
    assert case.store.counted(BAD_RECORDS) == 1


def test_master_continues_at_the_next_file_if_only_garbage_follows(case: Case) -> None:
    case.log.append()
    case.log.write(b"no record, whatever it may be")
    case.dispatch()
    case.log.end = SMALL.mapped_file_size_commit_log
    at = case.log.append()
    case.dispatch()
    assert [entry[0] for entry in case.entries()] == [0, at]
    assert case.store.control.reput_offset == case.log.end


@pytest.mark.parametrize("role", ["ASYNC_MASTER", "SLAVE"])
def test_dispatch_continues_at_the_next_intact_record_after_damage(tmp_path: Path, role: str) -> None:
    """A block of the disk is lost; the records behind it in the same file are not."""
    with dispatched_store(tmp_path, StoreConfig(**{**SMALL.__dict__, "broker_role": role})) as store:
        case = Case(store)
        places = [case.log.append(queue_id=number, body=bytes(700)) for number in range(20)]
        with (store.paths.commit_log / file_name(0)).open("r+b") as file:
            file.seek(places[3] + 4)
            file.write(b"x" * 4096)
        case.dispatch()
        hit = [place for place in places if places[3] - 700 < place < places[3] + 4100]
        with_entry = [place for number, place in enumerate(places) if store.paths.queue("Topic", number).exists()]
        assert with_entry == [place for place in places if place < places[3] or place > max(hit)]
        assert store.counted(BAD_RECORDS) == 1
        assert store.control.reput_offset == case.log.end


def test_slave_waits_at_garbage(tmp_path: Path) -> None:
    with dispatched_store(tmp_path, StoreConfig(**{**SMALL.__dict__, "broker_role": "SLAVE"})) as store:
        case = Case(store)
        case.log.append()
        end = case.log.end
        case.log.write(b"no record, whatever it may be")
        store.recovered(case.log.end)
        reput = store.open()
        while reput.try_batch():
            pass
        assert reput.failure is not None
        assert store.control.reput_offset == end
        assert store.counted(BAD_RECORDS) == 1
        reput.close()


def test_log_can_be_truncated_anywhere(case: Case) -> None:
    """The walk looks at nothing at or beyond its limit, wherever that cuts a record."""
    case.log.append(properties="TAGS\x01TagA\x02KEYS\x01a b")
    first = case.log.end
    case.log.append(properties="TAGS\x01TagA\x02KEYS\x01c d", born_host=("::1", 1))
    reput = None
    case.store.recovered(0)
    for cut in range(first + 1, case.log.end):
        if reput is not None:
            reput.close()
        case.store.recovered(cut)
        reput = case.store.open()
        while reput.try_batch():
            pass
        assert [entry[0] for entry in case.entries()] == [0]
    assert reput is not None
    reput.close()


def random_log(root: Path, seed: int) -> None:
    """Writes a log of everything that may be in one, and some that may not."""
    chosen = random.Random(seed)
    paths = StorePaths(root)
    paths.make_directories()
    log = HandWrittenLog(paths, SMALL)
    topics = ["Topic", "B", "%RETRY%group", "тема", "SCHEDULE_TOPIC_XXXX", "../x", "L" * 127]
    words = ["TAGS", "KEYS", "UNIQ_KEY", "DELAY", "x", "", "\x01", "\x02", "дата", "𝄞", " ", "a b  c", "3", "TagA"]
    for _ in range(400):
        properties = "".join(chosen.choice(words) + chosen.choice("\x01\x02") for _ in range(chosen.randrange(9)))
        hosts = [("127.0.0.1", 1), ("::1", 2)]
        log.append(
            topic=chosen.choice(topics),
            queue_id=chosen.choice([0, 1, 5, 5000]),
            sys_flag=chosen.choice([0, 0, 0, 4, 8, 12]),
            properties=properties.encode(errors="surrogatepass")[: chosen.choice([5, 99999])],
            born_host=chosen.choice(hosts),
            store_host=chosen.choice(hosts),
            body=bytes(chosen.randrange(600)),
        )
        if chosen.randrange(60) == 0:
            data = bytearray((paths.commit_log / file_name(log.end - log.end % 65536)).read_bytes())
            data[chosen.randrange(log.end % 65536 or 1)] ^= 1 << chosen.randrange(8)
            (paths.commit_log / file_name(log.end - log.end % 65536)).write_bytes(data)
    (root / "end").write_text(str(log.end))


def digest_of_random_logs(given: bytes) -> bytes:
    """What is built of some random logs. Runs in either interpreter."""
    digests = []
    for seed in json.loads(given):
        with tempfile.TemporaryDirectory() as target:
            root = Path(target) / "store"
            random_log(root, seed)
            with dispatched_store(root) as store:
                store.recovered(int((root / "end").read_text()))
                store.dispatch()
            files = sorted(path for kind in ("consumequeue", "index") for path in (root / kind).rglob("*"))
            digests += [sha256(path.read_bytes()).hexdigest() for path in files if path.is_file()]
    return json.dumps(digests).encode()


@pytest.mark.slow
def test_compiled_and_interpreted_walk_agree_on_any_log() -> None:
    seeds = json.dumps(list(range(8))).encode()
    ours = digest_of_random_logs(seeds)
    assert len(json.loads(ours)) > 100
    assert run_interpreted("unit.store.test_dispatch_walk", "digest_of_random_logs", seeds) == ours


def test_repeated_dispatch_changes_nothing(tmp_path: Path) -> None:
    """Dispatching a whole log again changes nothing."""
    paths = StorePaths(tmp_path)
    paths.make_directories()
    log = HandWrittenLog(paths, SMALL)
    for number in range(120):
        log.append(queue_id=number % 3, properties=f"KEYS\x01key-{number % 7} all")
    once = build(tmp_path, SMALL)
    assert build(tmp_path, SMALL) == once
    assert len(once[f"consumequeue/Topic/0/{file_name(0)}"]) == SMALL.consume_queue_file_size
    assert SMALL.consume_queue_file_size % ENTRY_SIZE == 0


def test_record_dispatched_again_begins_no_index_file_for_existing_keys(tmp_path: Path) -> None:
    paths = StorePaths(tmp_path)
    paths.make_directories()
    log = HandWrittenLog(paths, SMALL)
    for number in range(SMALL.max_index_num - 1):
        log.append(properties=f"KEYS\x01{number}")
    once = build(tmp_path, SMALL)
    assert int.from_bytes(once["index/0"][36:40], "big") == SMALL.max_index_num  # the last key took the last place
    assert build(tmp_path, SMALL) == once
