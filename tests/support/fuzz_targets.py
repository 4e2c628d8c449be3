"""Fuzz targets within one process: each processes bytes, returns the outcome, and may raise only its declared errors.

A target has seeds, derives inputs from them, and keeps no state between batches (`begin`), so that the seed and the
number of a batch reproduce a finding. `run` returns the same for compiled and interpreted modules.
"""

import inspect
import json
import logging
import random
import re
import struct
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from isal import isal_zlib
from msgspec import Struct

from broker.access.access_rules import AccessRules
from broker.connections.hot_access import HotAccess
from broker.pulling.hot_pull import PullPath, PullPlan
from broker.sending.hot_send import PARTIAL
from headrace.errors import HeadraceError
from headrace.model.java_hash import tags_code
from headrace.protocol import acl_signature, bodies, fastjson, headers, record
from headrace.protocol.batch import decode_batch
from headrace.protocol.binary_header import decode_binary_header
from headrace.protocol.bodies.register_broker import RegisterBrokerBody
from headrace.protocol.compression import decompress
from headrace.protocol.consume_queue_layout import ENTRY, ENTRY_SIZE
from headrace.protocol.frame import FrameDecoder, decode_frame
from headrace.protocol.ha_frame import HaFrameDecoder, ReportDecoder
from headrace.protocol.headers.command_header import CommandHeader
from headrace.protocol.json_bean import JsonBody
from headrace.protocol.json_header import decode_json_header
from headrace.protocol.remoting_command import RemotingCommand, SerializeType
from headrace.protocol.request_code import RequestCode
from ipc.control_socket import LineReader
from spark_exporter.reading import record_columns
from spark_exporter.reading.arrow_batches import as_batch
from store.commit_log.record_check import check_record, queue_key_at, store_timestamp_of
from store.consume_queue.cursor import QueueCursor
from store.dispatch.walk import BAD, END, LogWalk
from store.errors import CorruptRecord
from store.filter.entry_selector import EntrySelector
from store.filter.message_filter import ExpressionFilter
from store.filter.program import Program
from store.filter.pull_limits import PullLimits
from store.filter.sql_compile import compile_expression
from store.index.cursor import IndexCursor
from store.index.key_chain import KeyChain
from store.index.layout import HEADER, file_size
from store.index.reader import read_header
from store.inspect.agreement import Agreement
from store.inspect.files import StoredFile
from store.inspect.key_entries import KeyEntries, follow_chains
from store.inspect.queue_entries import QueueEntries
from store.query.gather import Gatherer
from store.query.key_match import record_with_key
from support import fuzz_seeds, hot_sends
from support.mutations import Mutator
from support.small_broker import SmallBroker

LOG_FILE = 1 << 14


class Target:
    """One target. `weight`: its share of all inputs."""

    weight = 1

    def __init__(self, folder: Path) -> None:
        """`folder` is empty and belongs to the target."""
        self.folder = folder

    def begin(self) -> None:
        """Drops all state of earlier inputs."""

    def make(self, chance: random.Random) -> bytes:
        """The next input."""
        raise NotImplementedError

    def run(self, data: bytes) -> object:
        """Processes an input as the product does and returns the outcome."""
        raise NotImplementedError

    def close(self) -> None:
        """Releases all resources."""


class _Mutated(Target):
    """A target whose inputs are mutated seeds."""

    texts = False

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.mutator = Mutator(self.seeds(), self.texts)

    def seeds(self) -> list[bytes]:
        raise NotImplementedError

    def make(self, chance: random.Random) -> bytes:
        return self.mutator.mutate(chance)


def _refused(work: Callable[[], object]) -> object:
    """What `work` returns, or the name of the declared error that it raised."""
    try:
        return work()
    except HeadraceError as error:
        return type(error).__name__


# -- the wire -------------------------------------------------------------------------------------------------------------


FIELD_VALUES = [
    "", "0", "1", "-1", "+1", " 1", "7", "127", "32767", "65536", "2147483647", "-2147483648", "2147483648", "9223372036854775807",
    "-9223372036854775808", "9223372036854775808", "1e3", "0x10", "NaN", "null", "true", "false", "T", "TopicTest", "%RETRY%G", "%DLQ%G",
    "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "../../x", "a/b", "a\0b", "ü", "\ud7ff", "*", "a || b", "n > 1", "x" * 128, "x" * 70000,
    "SQL92", "TAG", "127.0.0.1:1", "[::1]:1", "a\x01b\x02", "DELAY\x019\x02", "0A000001000029F00000000000000000", "Z" * 32,
]  # fmt: skip
"""Values of ext fields at the edges of what handlers expect of numbers, names, hosts and ids."""


class FrameMutator:
    """Mutated request frames: raw; changed header or body with correct lengths; other code; other ext fields."""

    def __init__(self) -> None:
        frames = fuzz_seeds.request_frames()
        parts = [fuzz_seeds.split_frame(frame) for frame in frames]
        self._raw = Mutator(frames, texts=True)
        self._parts = parts
        self._header = Mutator([header for _, header, _ in parts], texts=True)
        self._body = Mutator([body for _, _, body in parts if body] or [b""], texts=True)
        self._codes = [int(code) for code in RequestCode]
        self._commands = [decode_frame(frame) for frame in frames]
        self._keys = sorted({key for command in self._commands for key in command.ext_fields or ()})

    def make(self, chance: random.Random) -> bytes:
        kind = chance.getrandbits(4)
        if kind == 0:
            return self._raw.mutate(chance)
        if kind >= 8:
            return self._with_values(chance)
        form, header, body = chance.choice(self._parts)
        if kind < 5:
            header = self._header.change(chance, header)
        if kind in (4, 5, 6):
            body = self._body.change(chance, body)
        if kind in (5, 7):
            header = self._with_code(form, header, chance.choice(self._codes))
        return fuzz_seeds.join_frame(form, header, body)

    def _with_values(self, chance: random.Random) -> bytes:
        command = chance.choice(self._commands)
        ext = dict(command.ext_fields or {})
        for _ in range(1 + chance.getrandbits(1)):
            key = chance.choice(list(ext) or self._keys) if chance.getrandbits(2) else chance.choice(self._keys)
            ext[key] = chance.choice(FIELD_VALUES)
        code = command.code if chance.getrandbits(1) else chance.choice(self._codes)
        kind = SerializeType.ROCKETMQ if chance.getrandbits(1) else SerializeType.JSON
        body = command.body if chance.getrandbits(1) else self._body.change(chance, command.body or b"")
        made = RemotingCommand(
            code,
            version=command.version,
            opaque=chance.getrandbits(31),
            flag=command.flag & 2,
            ext_fields=ext,
            body=body,
        )
        made.serialize_type = kind
        try:
            return made.encode()
        except HeadraceError:  # a value that this encoding cannot represent
            made.serialize_type = SerializeType.JSON
            return made.encode()

    @staticmethod
    def _with_code(form: int, header: bytes, code: int) -> bytes:
        if form:
            return (code & 0xFFFF).to_bytes(2, "big") + header[2:]
        before, key, after = header.partition(b'"code":')
        rest = after.lstrip(b"0123456789")
        return before + key + b"%d" % code + rest if key else header


class Frames(Target):
    """The byte stream of a connection, in both header encodings."""

    weight = 5

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._mutator = FrameMutator()

    def make(self, chance: random.Random) -> bytes:
        return self._mutator.make(chance)

    def run(self, data: bytes) -> object:
        decoder = FrameDecoder()
        half = len(data) // 2
        return _refused(
            lambda: [
                (one.code, one.flag, one.body) for part in (data[:half], data[half:]) for one in decoder.feed(part)
            ]
        )


class JsonHeaders(_Mutated):
    texts = True
    weight = 4

    def seeds(self) -> list[bytes]:
        return [header for form, header, _ in map(fuzz_seeds.split_frame, fuzz_seeds.request_frames()) if not form]

    def run(self, data: bytes) -> object:
        return _refused(lambda: decode_json_header(data))


class BinaryHeaders(_Mutated):
    weight = 10

    def seeds(self) -> list[bytes]:
        return [header for form, header, _ in map(fuzz_seeds.split_frame, fuzz_seeds.request_frames()) if form]

    def run(self, data: bytes) -> object:
        return _refused(lambda: decode_binary_header(data))


_C = TypeVar("_C")


class _EachClass(_Mutated):
    """Texts parsed by one class after the other, starting with the same class in each run."""

    texts = True
    weight = 2

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._turn = 0

    def begin(self) -> None:
        self._turn = 0

    def next_of(self, classes: Sequence[type[_C]]) -> type[_C]:
        self._turn += 1
        return classes[self._turn % len(classes)]


def _structs_in(module: ModuleType, base: type[_C]) -> list[type[_C]]:
    """The Structs with fields of a module below `base`, by name."""
    found = {one for one in vars(module).values() if inspect.isclass(one) and issubclass(one, base)}
    return sorted(
        (one for one in found if issubclass(one, Struct) and one.__struct_fields__), key=lambda one: one.__name__
    )


class TypedHeaders(_EachClass):
    """The ext fields of each request and response, parsed by each header class."""

    _classes = _structs_in(headers, CommandHeader)

    def seeds(self) -> list[bytes]:
        return JsonHeaders.seeds(self)  # type: ignore[arg-type]

    def run(self, data: bytes) -> object:
        decoded = _refused(lambda: decode_json_header(data))
        ext = getattr(decoded, "ext_fields", None)
        header = self.next_of(self._classes)
        return _refused(lambda: header.from_ext(ext))


class Bodies(_EachClass):
    """JSON bodies, parsed by each body class."""

    _classes = _structs_in(bodies, JsonBody)

    def seeds(self) -> list[bytes]:
        parts = map(fuzz_seeds.split_frame, fuzz_seeds.request_frames())
        return [body for _, _, body in parts if body[:1] in (b"{", b"[")] + [
            b'{"a":[1,{"b":null}],"c":"d"}',
            b"{1:2,'a':b}",
        ]

    def run(self, data: bytes) -> object:
        body = self.next_of(self._classes)
        return _refused(lambda: body.decode(data)) if self._turn & 1 else _refused(lambda: fastjson.loads(data))


class Registrations(_Mutated):
    """Registrations mutated before compression, and mutated compressed bodies."""

    def seeds(self) -> list[bytes]:
        version = b'{"counter":1,"timestamp":2}'
        pieces = [version, b"TopicA 4 4 6 SINGLE_TAG", b"TopicB 8 8 6 MULTI_TAG", b"[]"]
        framed = [len(piece).to_bytes(4, "big") + piece for piece in pieces]
        return [b"".join([framed[0], (2).to_bytes(4, "big"), *framed[1:]])]

    def run(self, data: bytes) -> object:
        packed = isal_zlib.compress(data)
        flags = (0, 0x100, 0x200, 0x300)[len(data) & 3]
        plain = _refused(lambda: decompress(data, flags))
        return plain, repr(_refused(lambda: RegisterBrokerBody.decode_request(packed, compressed=True)))


class Batches(_Mutated):
    weight = 6

    def seeds(self) -> list[bytes]:
        chance = random.Random(5)
        return [hot_sends.random_body(chance, is_batch=True) for _ in range(60)]

    def run(self, data: bytes) -> object:
        return _refused(lambda: decode_batch(data))


class HaFrames(_Mutated):
    weight = 5

    def seeds(self) -> list[bytes]:
        return [
            struct.pack(">qi", place, len(data)) + data for place in (0, 1 << 30) for data in (b"", b"abc", bytes(100))
        ] + [bytes(16)]

    def run(self, data: bytes) -> object:
        half = len(data) // 2
        frames, reports = HaFrameDecoder(), ReportDecoder()
        return (
            _refused(lambda: [frames.feed(data[:half]), frames.feed(data[half:])]),
            _refused(lambda: [reports.feed(data[:half]), reports.feed(data[half:])]),
        )


class ControlLines(_Mutated):
    weight = 3
    texts = True

    def seeds(self) -> list[bytes]:
        return [b'{"command":"status"}\n', b'{"command":"stop","role":"broker"}\n{"command":["a"]}\n']

    def run(self, data: bytes) -> object:
        try:
            return LineReader().feed(data)
        except ValueError as error:
            return type(error).__name__


# -- the hot paths --------------------------------------------------------------------------------------------------------


class HotSends(Target):
    """SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE frames: appended data must be records, and answers must be frames."""

    weight = 16
    access: HotAccess | None = None
    """The rules, if frames have to be signed."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        chance = random.Random(6)
        bodies = [hot_sends.random_body(chance, is_batch=True) for _ in range(40)]
        frames = [hot_sends.send_frame(body, code=320, m="true", i="TAGS\x01a\x02WAIT\x01true") for body in bodies]
        frames += [
            hot_sends.send_frame(b"hello" * n, -n, e=str(n), i=text)
            for n, text in enumerate(["", "a\x01b", "WAIT\x01false\x02k\x01\\u0041", 'q\x01"'])
        ]
        frames += [frame for frame in fuzz_seeds.request_frames() if b'"code":310' in frame or b'"code":320' in frame]
        self._parts = [fuzz_seeds.split_frame(frame) for frame in frames]
        self._header = Mutator([header for _, header, _ in self._parts], texts=True)
        self._body = Mutator([body for _, _, body in self._parts if body])

    def begin(self) -> None:
        self._log = hot_sends.LogInMemory(files=3, file_size=1 << 16)
        self._path = hot_sends.send_path(self._log)

    def make(self, chance: random.Random) -> bytes:
        form, header, body = chance.choice(self._parts)
        kind = chance.getrandbits(3)
        if kind < 4:
            body = self._body.change(chance, body)
        if kind in (3, 4, 5, 6):
            header = self._header.change(chance, header)
        frame = fuzz_seeds.join_frame(form, header, body)
        return frame if kind < 7 else self._body.change(chance, frame)

    def run(self, data: bytes) -> object:
        path, log = self._path, self._log
        if log.appender.wrote_offset > 150000:
            self.begin()
            path, log = self._path, self._log
        before = log.appender.wrote_offset
        stopped = path.take(data, 0, hot_sends.BORN_HOST, 0, self.access)
        why = path.stopped_at
        assert 0 <= stopped <= len(data)
        answers = path.take_answers()
        after = log.appender.wrote_offset
        if after > before:
            written = log.bytes()[before:]
            _assert_records(memoryview(written), before, log.file_size)
            FrameDecoder().feed(answers)
        assert (
            why != PARTIAL
            or stopped + 4 > len(data)
            or 4 + int.from_bytes(data[stopped : stopped + 4], "big") > len(data) - stopped
            or len(data) - stopped < 8
        )
        return stopped, why, answers, after


class SignedSends(HotSends):
    """The same frames, signed before or after they are mutated: only correctly signed messages may be appended."""

    weight = 8

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.access = HotAccess(AccessRules({hot_sends.ACCOUNT.access_key: hot_sends.ACCOUNT}))

    def make(self, chance: random.Random) -> bytes:
        if chance.getrandbits(2):
            return hot_sends.signed_frame(super().make(chance))
        form, header, body = chance.choice(self._parts)
        return self._body.change(chance, hot_sends.signed_frame(fuzz_seeds.join_frame(form, header, body)))

    def run(self, data: bytes) -> object:
        before = self._log.appender.wrote_offset
        outcome = super().run(data)
        if self._log.appender.wrote_offset > before:
            _assert_signed(data)
        return outcome


def _assert_signed(data: bytes) -> None:
    """Checks that the plain path accepts the signature of the frame, too."""
    frame = data[: 4 + int.from_bytes(data[:4], "big")]
    # The hot paths recognize the name `extFields` by its first letter and its length.
    command = decode_frame(re.sub(rb'"e.{8}":\{', b'"extFields":{', frame, count=1, flags=re.DOTALL))
    ext, account = command.ext, hot_sends.ACCOUNT
    assert ext[acl_signature.ACCESS_KEY] == account.access_key
    assert acl_signature.is_signed(account.secret_key, ext, command.body or b"")


def _assert_records(view: memoryview, start: int, file_size: int) -> None:
    """Checks that contiguous records begin at `start`, except for blanks at file ends."""
    at = 0
    while at < len(view):
        size = check_record(view, at, len(view), start + at, True)
        if size == 0:
            at += file_size - (start + at) % file_size
            continue
        assert size > 0, f"no record at {start + at}: {size}"
        at += size


class HotPulls(_Mutated):
    """PULL_MESSAGE frames over records in memory."""

    texts = True
    weight = 8
    access: HotAccess | None = None
    """The rules, if frames have to be signed."""

    def seeds(self) -> list[bytes]:
        frames = [frame for frame in fuzz_seeds.request_frames() if b'"code":11,' in frame or b'"code":361' in frame]
        fields = {"consumerGroup": "CG", "topic": "T", "queueId": "0", "queueOffset": "0", "maxMsgNums": "32", "sysFlag": "5", "commitOffset": "3",
                  "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0", "expressionType": "TAG"}  # fmt: skip
        header = {
            "code": 11,
            "extFields": fields,
            "flag": 0,
            "language": "JAVA",
            "opaque": 9,
            "serializeTypeCurrentRPC": "JSON",
            "version": 401,
        }
        return [*frames, *[hot_sends.frame(json.dumps(header, separators=(",", ":")).encode())] * 5]

    def begin(self) -> None:
        log = _log_of(random.Random(3), 30)
        gatherer = Gatherer(lambda offset: memoryview(log.data) if offset < LOG_FILE else None, LOG_FILE)

        def read(
            _topic: str, _queue_id: int, offset: int, most: int, _codes: set[int] | None
        ) -> tuple[int, int, int, bool] | None:
            gatherer.gather(
                memoryview(log.entries),
                min(offset, 30) * ENTRY_SIZE,
                30 * ENTRY_SIZE,
                None,
                most,
                log.end,
                0,
                1 << 20,
                32,
                1 << 20,
                32,
            )
            return (offset + gatherer.examined, 0, 30, False) if gatherer.count else None

        self._path = PullPath(gatherer, read, lambda *_: None, True, 409)
        for flags in (4, 0):
            self._path.prepare(PullPlan("CG", "T", 4, None, 0, 1), flags, "*", 0, "TAG")

    def run(self, data: bytes) -> object:
        answer = self._path.answer(data, 0, self.access)
        if answer is not None:
            FrameDecoder().feed(answer)
        return answer


class SignedPulls(HotPulls):
    """The same frames, signed before or after they are mutated: only correctly signed pulls may be answered."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.access = HotAccess(AccessRules({hot_sends.ACCOUNT.access_key: hot_sends.ACCOUNT}))

    def make(self, chance: random.Random) -> bytes:
        if chance.getrandbits(2):
            return hot_sends.signed_frame(super().make(chance))
        return self.mutator.change(chance, hot_sends.signed_frame(chance.choice(self.mutator.seeds)))

    def run(self, data: bytes) -> object:
        answer = super().run(data)
        if answer is not None:
            _assert_signed(data)
        return answer


# -- stored records -------------------------------------------------------------------------------------------------------


class _Log:
    """Records of all shapes in one CommitLog file, and their entries."""

    def __init__(self, records: list[bytes], end: int) -> None:
        self.end = end
        self.places: list[int] = []
        data = bytearray()
        entries = []
        for one in records:
            self.places.append(len(data))
            entries.append(ENTRY.pack(len(data), len(one), len(data) & 3))
            data += one
        self.places.append(len(data))
        self.data = bytes(data) + bytes(LOG_FILE - len(data))
        self.entries = b"".join(entries)


def _log_of(chance: random.Random, count: int) -> _Log:
    records: list[bytes] = []
    at = 0
    for number in range(count):
        one = fuzz_seeds.record(chance.choice(fuzz_seeds.shapes()), at, number)
        records.append(one)
        at += len(one)
    return _Log(records, at)


class Records(_Mutated):
    """One record: the check of recovery and pulls, and the fields of a record that passes it."""

    weight = 18

    def seeds(self) -> list[bytes]:
        chance = random.Random(7)
        own = [fuzz_seeds.record(shape, 0) for shape in fuzz_seeds.shapes()]
        return chance.sample(own, 150) + [one[:28] + bytes(8) + one[36:] for one in fuzz_seeds.golden_records()]

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._programs = _programs()

    def run(self, data: bytes) -> object:
        view = memoryview(bytearray(data))  # a separate object, so that the sanitizer sees its end
        size = check_record(view, 0, len(view), 0, False)
        checked = check_record(view, 0, len(view), 0, True)
        decoded = _refused(lambda: record.decode_record(data) is not None)
        keyed = [self._is_keyed(view, topic, key) for topic, key in (("T", "k2"), ("Größe", "ü"))]
        if size <= 0:
            return size, checked, decoded, keyed
        outcomes = [program.outcome_of_record(view, 0) for program in self._programs]
        return size, checked, decoded, keyed, queue_key_at(view, 0), store_timestamp_of(view, 0), outcomes

    @staticmethod
    def _is_keyed(view: memoryview, topic: str, key: str) -> object:
        try:
            return record_with_key(view, 0, topic, key) is not None
        except CorruptRecord as error:
            return error.reason


def _programs() -> list[Program]:
    made = [
        compile_expression(text)
        for text in ("n > 5", "n BETWEEN 2 AND 7 OR KEYS = 'x'", "TAGS IN ('a', 'größe') AND n IS NOT NULL", "n = KEYS")
    ]
    return [one for one in made if isinstance(one, Program)]


class _LogTarget(Target):
    """Whole logs with one or two mutated records, or mutated entries."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.logs = [_log_of(random.Random(number), 3 + number % 9) for number in range(40)]
        self._bytes = Mutator([one.data[: one.end] for one in self.logs])
        self._entries = Mutator([one.entries for one in self.logs])

    def make(self, chance: random.Random) -> bytes:
        """Encodes the log's number, its end, its entries and its records; `cut` decodes them."""
        number = int(chance.random() * len(self.logs))
        log = self.logs[number]
        kind = chance.getrandbits(2)
        data = self._bytes.change(chance, log.data[: log.end]) if kind else log.data[: log.end]
        entries = self._entries.change(chance, log.entries) if kind < 2 else log.entries
        end = log.end if chance.getrandbits(3) else chance.randrange(log.end + 40)
        return struct.pack(">BHI", number, end, len(entries)) + entries + data[:LOG_FILE]

    @staticmethod
    def cut(data: bytes) -> tuple[int, memoryview, memoryview]:
        """The end of the log, its entries, and its only file, in separate memory."""
        _, end, length = struct.unpack_from(">BHI", data)
        entries = memoryview(bytearray(data[7 : 7 + length]))
        file = bytearray(data[7 + length :])
        file += bytes(LOG_FILE - len(file))
        return end, entries, memoryview(file)


class Gathered(_LogTarget):
    """What a pull gathers from its entries and through filters."""

    weight = 6

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._filters = [ExpressionFilter(one) for one in _programs()]

    def run(self, data: bytes) -> object:
        end, entries, file = self.cut(data)
        gatherer = Gatherer(lambda offset: file if 0 <= offset < LOG_FILE else None, LOG_FILE)
        whole = entries[: len(entries) - len(entries) % ENTRY_SIZE]
        codes = {1, 2} if end & 1 else None
        gatherer.gather(whole, 0, len(whole), codes, 20, end, end // 2, 3000, 16, 1500, 8)
        body = gatherer.body()
        selector = EntrySelector(lambda offset: file if 0 <= offset < LOG_FILE else None, LOG_FILE)
        selected = selector.select(
            whole,
            self._filters[end % len(self._filters)],
            lambda _: None,
            PullLimits(20, end // 2, 3000, 16, 1500, 8),
            end,
        )
        return (
            body,
            gatherer.count,
            gatherer.examined,
            gatherer.removing,
            gatherer.unreadable,
            selected,
            selector.unreadable,
        )


class _Memory:
    """Stands in for a mapped file."""

    def __init__(self, length: int) -> None:
        self.view = memoryview(bytearray(length))
        self.start_offset = 0

    def close(self) -> None:
        pass


class _Queues:
    """Queues in memory of at most some hundred entries each: the part of the writer that dispatch uses."""

    ROOM = 64

    def __init__(self) -> None:
        self.changed: list[QueueCursor] = []
        self.cursors: dict[tuple[bytes, int], QueueCursor] = {}
        self.unusual: list[tuple[object, ...]] = []

    def find(self, topic: bytes, queue_id: int) -> QueueCursor | None:
        return self.cursors.get((topic, queue_id))

    def put(self, *fields: Any) -> None:
        topic, queue_id, queue_offset, physical_offset, size = fields[:5]
        self.unusual.append(fields)
        if (topic, queue_id) in self.cursors or len(self.cursors) > 40:
            return
        cursor = self.cursors[topic, queue_id] = QueueCursor(topic, queue_id)
        cursor.attach(_Memory(self.ROOM * ENTRY_SIZE), self.ROOM * ENTRY_SIZE)  # type: ignore[arg-type]
        cursor.try_put(physical_offset, size, 0, queue_offset)


class _Indexes:
    """IndexFiles in memory: the part of the writer that dispatch uses."""

    SLOTS, CAPACITY = 5, 8

    def __init__(self, header: bytes) -> None:
        self.files: list[memoryview] = []
        self.current: IndexCursor | None = self._make(header)

    def _make(self, header: bytes) -> IndexCursor:
        file = _Memory(file_size(self.SLOTS, self.CAPACITY))
        file.view[: len(header)] = header
        self.files.append(file.view)
        return IndexCursor(file, self.SLOTS, self.CAPACITY)  # type: ignore[arg-type]

    def with_room(self) -> IndexCursor:
        if self.current is None or self.current.count >= self.current.capacity:
            self.current = self._make(b"")
        return self.current

    def present_keys(self, _physical_offset: int) -> int:
        return 1


class KeyChains(_Mutated):
    """An IndexFile of any bytes, in memory: the search of a key."""

    weight = 2
    HASHES = (0, 3, 5, 7, 10, (1 << 31) - 1)

    def seeds(self) -> list[bytes]:
        indexes = _Indexes(b"")
        cursor = indexes.with_room()
        for number in range(7):
            cursor.put(self.HASHES[number % 3], number * 100, 1_700_000_000_000 + number * 1000)
        cursor.settle()
        return [bytes(file) for file in indexes.files]

    def run(self, data: bytes) -> object:
        size = file_size(_Indexes.SLOTS, _Indexes.CAPACITY)
        view = memoryview(bytearray(data[:size].ljust(size, b"\0")))
        found = []
        for key_hash in self.HASHES:
            for begin, end in ((0, (1 << 63) - 1), (1_700_000_002_000, 1_700_000_004_000), (-(1 << 63), -1)):
                chain = KeyChain(view, _Indexes.SLOTS, _Indexes.CAPACITY, key_hash, begin, end)
                offsets = []
                while (offset := chain.next()) >= 0:
                    offsets.append(offset)
                assert len(offsets) < _Indexes.CAPACITY
                found.append((chain.begin_timestamp, offsets))
        return found


class Walked(_LogTarget):
    """Dispatch of a log: entries of queues and indexes, in memory."""

    weight = 5

    def run(self, data: bytes) -> object:
        end, entries, file = self.cut(data)
        steps, walk, queues, indexes = self.dispatch(end, entries, file)
        shown = [
            (key, one.position, one.max_physical_offset, bytes(one.window.view))
            for key, one in queues.cursors.items()
            if one.window is not None
        ]
        return steps, walk.records, queues.unusual, shown, [bytes(one) for one in indexes.files]

    @staticmethod
    def dispatch(end: int, entries: memoryview, file: memoryview) -> tuple[object, LogWalk, _Queues, _Indexes]:
        """Dispatches what `cut` returned: the outcome of each step, and what was written."""
        queues = _Queues()
        # What a damaged IndexFile header may hold: some bytes of the entries.
        header = bytes(entries[: HEADER.size]) if end & 3 == 3 else b""
        indexes = _Indexes(header)
        walk = LogWalk(queues, indexes, queues.put, all_unusual=end % 11 == 0, multi_dispatch=end % 7 == 0)  # type: ignore[arg-type]
        at = 0
        steps = []
        while at < end:
            answer = walk.walk(file, 0, at, end, end, 20)
            assert at <= walk.position <= end
            steps.append((answer, walk.position, walk.bad_reason))
            at = walk.position
            if answer == BAD:
                # As in dispatch: continue where the next record may begin.
                magic = bytes(file[:end]).find(b"\xda\xa3\x20", at + 5)
                at = magic - 4 if magic >= 0 else end
            elif answer != END:
                break
        return steps, walk, queues, indexes


class _FileInMemory(StoredFile, frozen=True):
    data: memoryview

    def read(self, at: int, size: int) -> bytes:
        return bytes(self.data[at : at + size])


class Agreed(Walked):
    """What `verify` walks over in a dispatched log, when some of the files that dispatch built have changed since."""

    weight = 4

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._queues: list[dict[tuple[str, int], bytes]] = []
        for log in self.logs:
            queues: dict[tuple[str, int], bytearray] = {}
            for one in record.decode_records(log.data[: log.end]):
                queue = queues.setdefault((one.topic, one.queue_id), bytearray(_Queues.ROOM * ENTRY_SIZE))
                entry = ENTRY.pack(one.physical_offset, one.size_bytes, tags_code(one.tags))
                queue[one.queue_offset * ENTRY_SIZE : (one.queue_offset + 1) * ENTRY_SIZE] = entry
            self._queues.append({key: bytes(queue) for key, queue in queues.items()})

    def run(self, data: bytes) -> object:
        end, entries, file = self.cut(data)
        _, _, _, indexes = self.dispatch(end, entries, file)
        chance = random.Random(data[:200])
        built = {key: self._changed(chance, one, entries) for key, one in self._queues[data[0]].items()}
        read = {}
        for key, view in built.items():
            cut = chance.choice((len(view), 32 * ENTRY_SIZE, 50))
            start = chance.choice((0, 0, 0, 7, (1 << 62) - 5))
            pieces = [view[:cut], view[cut:]] if cut < len(view) else [view]
            read[key] = QueueEntries(
                [_FileInMemory(Path(), start, len(piece), piece) for piece in pieces], chance.choice((20, 50, 1000))
            )
            if chance.getrandbits(2):
                read[key].end = read[key].capacity_end
            else:
                read[key].find_end()
        slots, capacity = indexes.SLOTS, indexes.CAPACITY
        files = [self._changed(chance, bytes(one), entries) for one in indexes.files]
        headers = [read_header(one) for one in files]
        counts = [min(one.next_number, capacity) for one in headers]
        keys = KeyEntries(
            [
                (one, count, -1, header.begin_timestamp)
                for one, count, header in zip(files, counts, headers, strict=True)
            ],
            slots,
        )
        agreement = Agreement(read, keys, -1, headers[-1].end_physical_offset)
        at = 0
        steps = []
        for _ in range(12):
            at = agreement.walk(file, at, end, end, 0)
            steps.append((at, agreement.last, keys.is_there, keys.file, keys.number))
            assert at <= end
            size = check_record(file, at, end, at, check_crc=False)
            if size <= 0:
                break
            at += size  # what `verify` looks at closely
            if keys.is_there and chance.getrandbits(1):
                keys.go_to(keys.file, keys.number + 1)
        chains = [
            follow_chains(one, slots, 1, count, memoryview(bytearray(4 * slots)))
            for one, count in zip(files, counts, strict=True)
        ]
        return steps, chains, [(one.end, one.matched, one.count_kept(end // 2)) for one in read.values()]

    @staticmethod
    def _changed(chance: random.Random, built: bytes, entries: memoryview) -> memoryview:
        """The file in memory of its own; in one of three cases with some other bytes in it."""
        view = memoryview(bytearray(built))
        if chance.randrange(3) == 0 and len(entries) > 0:
            at = chance.randrange(min(len(view), 200))
            piece = bytes(entries[: chance.choice((1, 4, 8, 20))])[: len(view) - at]
            view[at : at + len(piece)] = piece
        return view


class Decoded(_LogTarget):
    """The exporter's columns of a log."""

    def begin(self) -> None:
        self._columns = [
            record_columns.RecordColumns(lambda topic: topic != "x"),
            record_columns.RecordColumns(lambda _: True, all_properties=True, inflate=False, most_body_bytes=64),
            record_columns.RecordColumns(lambda _: True, with_body=False, with_properties=False, with_hosts=False),
        ]
        self._turn = 0

    def run(self, data: bytes) -> object:
        end, _, file = self.cut(data)
        self._turn += 1
        columns = self._columns[self._turn % 3]
        at = 0
        found = []
        while at < end:
            answer = columns.decode(file[:end], 0, at, end, LOG_FILE)
            found.append(
                (
                    answer,
                    columns.position,
                    columns.rows,
                    columns.damaged,
                    columns.reason if answer == record_columns.BAD else "",
                )
            )
            if self._turn % 8 == 0 and self._turn % 3 != 2:
                found.append(as_batch(columns, "c", "b").to_pylist())
            assert at <= columns.position
            if answer != record_columns.FULL:
                break
            at = columns.position
        return found


class GatheredAndDecoded(_LogTarget):
    """The exporter's columns of records that were read separately, at the positions of a scan."""

    def run(self, data: bytes) -> object:
        end, _, file = self.cut(data)
        places = [place for place in self.logs[data[0]].places if place <= end]
        columns = record_columns.RecordColumns(lambda _: True)
        joined = b"".join(bytes(file[one:other]) for one, other in pairwise(places))
        numbers = memoryview(struct.pack(f"<{len(places)}q", *places)).cast("q")
        at = done = 0
        answers: list[object] = []
        for _ in range(20):
            if at >= len(joined):
                break
            try:
                answer = columns.decode_gathered(memoryview(bytearray(joined)), at, numbers, done, LOG_FILE)
            except IndexError:
                answers.append("IndexError")
                break
            answers.append((answer, columns.position, columns.rows, columns.records))
            if answer != record_columns.FULL:
                break
            at = columns.position
            done += columns.records
        return answers


class Expressions(Target):
    """SQL92 expressions, compiled, and evaluated on property strings."""

    weight = 4

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._texts = Mutator(
            [one.encode() for one in fuzz_seeds.expressions()],
            texts=True,
            extra=[b" AND ", b" NOT ", b"((", b" BETWEEN ", b" IN ('a')", b" IS NULL"],
        )
        names = ["a", "b", "n", "T", "big", "d", "e", "neg", "nan", "inf", "Größe"]
        values = [
            "5",
            "-3",
            "1.5",
            "1e2",
            "TRUE",
            "x",
            "99999999999",
            "9223372036854775807",
            "-9223372036854775808",
            "NaN",
            "+5",
            " 5 ",
        ]
        chance = random.Random(8)
        self._properties = Mutator(
            [
                "\x02".join(
                    f"{chance.choice(names)}\x01{chance.choice(values)}" for _ in range(chance.randrange(9))
                ).encode()
                for _ in range(60)
            ],
            texts=True,
        )

    def make(self, chance: random.Random) -> bytes:
        text = self._texts.mutate(chance) if chance.getrandbits(1) else chance.choice(self._texts.seeds)
        return len(text).to_bytes(4, "big") + text + self._properties.mutate(chance)

    def run(self, data: bytes) -> object:
        length = int.from_bytes(data[:4], "big")
        program = compile_expression(data[4 : 4 + length].decode(errors="replace"))
        if not isinstance(program, Program):
            return "refused"
        return program.outcome_of_stored(data[4 + length :])


# -- requests -------------------------------------------------------------------------------------------------------------


class _Warnings(logging.Handler):
    """Collects unexpected exceptions of our code: whatever a client sends must be answered or refused."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, entry: logging.LogRecord) -> None:
        if (entry.exc_info or "request failed" in entry.getMessage()) and len(self.found) < 3:
            self.found.append(logging.Formatter().format(entry))


class Requests(Target):
    """Requests to a broker's processors over a real store, without sockets."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._mutator = FrameMutator()
        self._count = 0
        self._broker: SmallBroker | None = None
        self._log = _Warnings()
        logging.getLogger().addHandler(self._log)
        logging.getLogger().setLevel(logging.ERROR)

    def begin(self) -> None:
        self.close()
        self._count += 1
        folder = self.folder / str(self._count)
        folder.mkdir()
        self._broker = SmallBroker(folder)
        self._broker.topic("TopicTest", 8)
        self._client = self._broker.connect()

    def make(self, chance: random.Random) -> bytes:
        return self._mutator.make(chance)

    def run(self, data: bytes) -> object:
        assert self._broker is not None
        if not data:  # an event loop never delivers nothing
            return None
        if self._client.is_closed:
            self._client.close()
            self._client = self._broker.connect()
        self._client.handle(data)
        answers = self._client.received()
        if not data.startswith(b"\0") or self._client.connection.is_closed or not answers:
            # Half a frame may still be incomplete.
            self._client.close()
            self._client = self._broker.connect()
        if self._log.found:
            raise AssertionError("a request made a handler raise:\n" + self._log.found.pop())
        return None

    def close(self) -> None:
        if self._broker is not None:
            self._client.close()
            self._broker.close()
            self._broker = None


TARGETS: dict[str, type[Target]] = {
    one.__name__: one
    for one in (
        Frames, JsonHeaders, BinaryHeaders, TypedHeaders, Bodies, Registrations, Batches, HaFrames, ControlLines,
        HotSends, SignedSends, HotPulls, SignedPulls, Records, KeyChains, Gathered, Walked, Decoded,
        GatheredAndDecoded, Agreed, Expressions, Requests,
    )
}  # fmt: skip
IN_BOTH_FORMS = (
    "HotSends",
    "SignedSends",
    "HotPulls",
    "SignedPulls",
    "Records",
    "KeyChains",
    "Gathered",
    "Walked",
    "Agreed",
    "Decoded",
    "GatheredAndDecoded",
    "Expressions",
)
"""Targets whose outcome is compared between compiled and interpreted modules."""

__all__ = ["IN_BOTH_FORMS", "TARGETS", "Target"]
