"""The hot path of sends behaves the same compiled and interpreted, and the same as the plain path."""

import json
import random
import struct

import pytest

from broker.access.access_rules import AccessRules
from broker.access.account import Account
from broker.access.permission import PUB_SUB
from broker.connections.hot_access import HotAccess
from broker.sending import hot_send
from headrace.model.properties import decode_properties
from headrace.protocol.acl_signature import sign
from headrace.protocol.batch import encode_entry
from headrace.protocol.frame import FrameDecoder
from headrace.protocol.record import decode_records
from support import hot_sends
from support.interpreted import run_compiled, run_interpreted


def _random_frames(seed: int, count: int) -> bytes:
    chance = random.Random(seed)
    words = ["TAGS", "KEYS", "UNIQ_KEY", "WAIT", "CLUSTER", "color", "DELAY", "TRAN_MSG", "TAGS2", "x", "", "größe"]
    frames = []
    for opaque in range(count):
        pairs = [
            (
                chance.choice(words),
                chance.choice(["a", "true", "false", "TRUE", 'q"uote', "back\\slash", "é", "3", "", "\x01"]),
            )
            for _ in range(chance.randrange(5))
        ]
        fields = {
            "b": chance.choice(["TopicTest", "TopicTest", "TopicTest", "MultiTag", "Unknown"]),
            "e": str(chance.choice([0, 1, 7, 8, -1])),
            "f": str(chance.choice([0, 0, 1, 0x301, 4, 0x30])),
            "g": str(chance.randrange(1 << 41)),
            "h": str(chance.choice([0, 5, -5, 1 << 31])),
            "i": "\x02".join(f"{name}\x01{value}" for name, value in pairs) + chance.choice(["", "\x02"]),
            "j": str(chance.choice([0, 0, 3])),
            "m": chance.choice(["false", "false", "true"]),
        }
        body = hot_sends.random_body(chance, fields["m"] == "true")
        flag = chance.choice([0, 0, 2, 1])
        frames.append(
            hot_sends.send_frame(body, chance.choice([opaque, -opaque]), flag, chance.choice([310, 320, 11]), **fields)
        )
    return b"".join(frames)


def test_hot_send_is_compiled() -> None:
    assert hot_send.COMPILED, "run `make compile` first: both forms are to be compared"


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_compiled_and_interpreted_sends_agree_on_random_frames(seed: int) -> None:
    frames = _random_frames(seed, 200)
    assert run_interpreted("support.hot_sends", "outcome", frames) == hot_sends.outcome(frames)


def _signed_frames(seed: int, count: int) -> tuple[bytes, list[int]]:
    """Frames of which some are not signed as they should be, and where these begin."""
    chance = random.Random(seed)
    data, bad = b"", []
    for opaque in range(count):
        body = chance.randbytes(chance.choice([0, 1, 44, 45, 1000, 70_000]))
        text = "".join(chance.choice(["x", "\x01", "\x02", '"', "\\", "é", "中", "/", "long" * 9]) for _ in range(9))
        fields = {
            "a": "PG", "b": "TopicTest", "c": "TBW102", "d": "4", "e": str(chance.randrange(8)), "f": "0", "g": "1700000000000", "h": "0",
            "i": f"KEYS\x01{text}".replace("\x01\x01", "\x01"), "j": "0", "k": "false", "m": "false",
            "AccessKey": hot_sends.ACCOUNT.access_key,
        }  # fmt: skip
        if chance.randrange(3) == 0:
            fields["SecurityToken"] = "token"
        if chance.randrange(3) == 0:
            fields["l"] = ""
        fields["Signature"] = sign(hot_sends.ACCOUNT.secret_key, fields, body)
        change = chance.choice(["", "", "", "body", "field", "key", "signature", "unsigned", "added"])
        if change == "body":
            body += b"x"
        elif change:
            changes: dict[str, dict[str, str | None]] = {
                "field": {"g": "1700000000001"},
                "key": {"AccessKey": "account-kex"},
                "signature": {"Signature": fields["Signature"][::-1]},
                "unsigned": {"Signature": None},
                "added": {"n": "x"},
            }
            fields |= changes[change]  # type: ignore[arg-type]
        if change:
            bad.append(len(data))
        data += hot_sends.send_frame(body, opaque, **fields)
    return data, bad


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_compiled_and_interpreted_sends_agree_on_signed_frames(seed: int) -> None:
    frames, bad = _signed_frames(seed, 100)
    outcome = hot_sends.signed_outcome(frames)
    assert set(bad) <= set(json.loads(outcome)["left"])
    assert len(json.loads(outcome)["left"]) < 90
    assert run_interpreted("support.hot_sends", "signed_outcome", frames) == outcome


def test_two_frames_are_checked_at_once_whatever_their_lengths() -> None:
    """Blocks of SHA-1 have 64 bytes: every place where values and bodies end in a block, of two frames of unlike lengths, right and wrong."""
    chance = random.Random(1)
    frames, bad = b"", []
    for opaque in range(2 * 2 * 64 * 3):
        body = chance.randbytes(chance.choice([0, opaque % 64, 55, 56, 64, 119, opaque]))
        frame = hot_sends.signed_frame(hot_sends.send_frame(body, opaque, a="P" * (1 + opaque // 3 % 64)))
        if chance.randrange(8) == 0:
            frame = frame[:-1] + bytes([frame[-1] ^ 1]) if body else frame.replace(b'"c":"TBW102"', b'"c":"TBW103"')
            bad.append(len(frames))
        frames += frame
    outcome = hot_sends.signed_outcome(frames)
    assert json.loads(outcome)["left"] == bad
    assert run_interpreted("support.hot_sends", "signed_outcome", frames) == outcome


def test_two_frames_of_unlike_accounts_are_each_checked_with_their_own_secret() -> None:
    other = Account("other-key", "other-secret", default_topic=PUB_SUB, default_group=PUB_SUB)
    access = HotAccess(AccessRules({account.access_key: account for account in (hot_sends.ACCOUNT, other)}))
    frames, bad = b"", []
    for number in range(64):
        account, secret = ((hot_sends.ACCOUNT, other)[at] for at in (number & 1, number >> 1 & 1))
        fields = {"a": "PG", "b": "TopicTest", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000", "h": "0", "i": "KEYS\x01x",
                  "j": "0", "k": "false", "m": "false", "AccessKey": account.access_key}  # fmt: skip
        fields["Signature"] = sign(secret.secret_key, fields, b"body")
        if account is not secret:
            bad.append(len(frames))
        frames += hot_sends.send_frame(b"body", number, **fields)
    left = json.loads(hot_sends.outcome(frames, access=access))["left"]
    assert left == bad


def test_random_frames_include_accepted_and_declined_ones() -> None:
    log = hot_sends.LogInMemory()
    left = hot_sends.take_all(hot_sends.send_path(log), _random_frames(1, 200))
    assert 20 < len(left) < 190
    assert log.appender.wrote_offset > 0


def test_hot_path_stores_the_sent_message() -> None:
    log = hot_sends.LogInMemory()
    path = hot_sends.send_path(log)
    log.appender.begin(hot_sends.NOW_MS)
    sent = [
        hot_sends.send_frame(bytes([n]) * n, n, e=str(n % 8), h=str(n), i=f"TAGS\x01t{n}\x02a\x01ü{n}\x02WAIT\x01false")
        for n in range(50)
    ]
    assert hot_sends.take_all(path, b"".join(sent)) == []
    records = decode_records(log.bytes())
    assert [record.queue_id for record in records] == [n % 8 for n in range(50)]
    assert [record.queue_offset for record in records] == [n // 8 for n in range(50)]
    for n, record in enumerate(records):
        assert (record.topic, record.body, record.flag, record.born_timestamp) == (
            "TopicTest",
            bytes([n]) * n,
            n,
            1700000000000,
        )
        assert record.properties == {"TAGS": f"t{n}", "a": f"ü{n}", "CLUSTER": "DefaultCluster"}
        assert decode_properties(bytes(record.properties_raw).decode()) == record.properties
        assert record.born_host == ("10.1.2.3", 40000)
        assert record.store_host == ("127.0.0.1", 10911)


@pytest.mark.slow
def test_both_forms_decline_batches_with_invalid_lengths() -> None:
    lengths = [100, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0x90000000, 2**32 - 42, 2**32 - 22, 2**32 - 1]
    entry = encode_entry(b"", 0, b"")
    bodies = [struct.pack(">iiiiI", 22, 0, 0, 0, length) + b"\0\0" for length in lengths]
    bodies += [struct.pack(">iiiiiH", 22, 0, 0, 0, 0, length) for length in (100, 0x7FFF, 0x8000, 0xFFEA, 0xFFFF)]
    frames = b"".join(
        hot_sends.send_frame(before + body + after, code=320, m="true")
        for body in bodies
        for before in (b"", entry)
        for after in (b"", entry, bytes(29))
    )
    made = run_compiled("support.hot_sends", "outcome", frames)
    assert made == run_interpreted("support.hot_sends", "outcome", frames)
    outcome = json.loads(made)
    assert (len(outcome["left"]), outcome["records"]) == (len(bodies) * 6, "")


def batch_frame(count: int, body: bytes = b"x" * 1000) -> bytes:
    return hot_sends.send_frame(encode_entry(body, 0, b"k\x01v") * count, code=320, m="true", i="WAIT\x01true")


def test_batch_is_stored_in_one_file_or_declined() -> None:
    log = hot_sends.LogInMemory(files=2, file_size=64 * 1024)
    path = hot_sends.send_path(log)
    log.appender.begin(hot_sends.NOW_MS)
    assert hot_sends.take_all(path, batch_frame(40)) == []
    first = log.appender.wrote_offset
    assert hot_sends.take_all(path, batch_frame(40)) == []
    records = decode_records(log.bytes()[log.file_size :])
    assert [record.physical_offset for record in records[:1]] == [log.file_size]
    assert log.appender.wrote_offset == log.file_size + first
    assert [record.queue_offset for record in records] == list(range(40, 80))
    assert path.take_counts() == [("TopicTest", 2, 80, 2 * first)], "the blank at the file's end was counted"
    # No file has room for all of it: none of it is written, and a smaller one still fits.
    assert path.take(batch_frame(40), 0, hot_sends.BORN_HOST, 0) == 0
    assert path.stopped_at == hot_send.NO_FILE
    assert log.appender.wrote_offset == log.file_size + first
    assert hot_sends.take_all(path, batch_frame(5)) == []
    # Larger than any file: left to the plain path.
    assert path.take(batch_frame(70), 0, hot_sends.BORN_HOST, 0) == 0
    assert path.stopped_at == hot_send.OTHER


def test_batch_is_acknowledged_with_all_message_ids_once_durable() -> None:
    log = hot_sends.LogInMemory()
    path = hot_sends.send_path(log, hold=True)
    log.appender.begin(hot_sends.NOW_MS)
    assert hot_sends.take_all(path, batch_frame(500, b"y")) == []
    assert path.take_answers() == b""
    (answer,) = FrameDecoder().feed(path.take_held())
    records = decode_records(log.bytes())
    assert answer.ext_fields is not None
    assert answer.ext_fields["msgId"].split(",") == [record.offset_message_id for record in records]
    assert (answer.ext_fields["queueOffset"], len(records)) == ("0", 500)
    assert records[7].properties == {"k": "v", "WAIT": "true", "CLUSTER": "DefaultCluster"}
    assert path.take_counts() == [("TopicTest", 1, 500, log.appender.wrote_offset)]
