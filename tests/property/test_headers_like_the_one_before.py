"""A frame has the same outcome whatever header came before it: the scan compares headers with the last one, and must not take over what differs."""

import json
import random
import re
from itertools import accumulate

import pytest

from broker.signed_frame import MAX_VALUES_LENGTH
from support import fuzz_seeds, hot_sends
from support.interpreted import run_interpreted
from support.mutations import Mutator

FORGETS = hot_sends.frame(b'{"code":999,"opaque":1}')
"""A frame of another request: its header is not like the others', so nothing is known for the next."""
TEXTS = [
    "",
    "0",
    "1",
    "-1",
    "12",
    "00",
    "true",
    "false",
    "MultiTag",
    "TopicTest",
    "T",
    "a\\b",
    'a"b',
    "\x01",
    "é",
    "9" * 18,
    "9" * 19,
]


RAW = [
    '"',
    "\\",
    '\\"',
    "\\\\",
    "\\\\\\",
    '\\","j":"0","k":"false","m":"false"}',
    '","j":"',
    "",
    "{",
    "}",
    ",",
    ":",
    "\0",
    "-",
    "--1",
    "1e5",
    "x",
    " 1",
    "null",
]
"""What may stand where a value does, without JSON's escapes."""
VALUES = re.compile(rb'(?<="[a-n]":")[^"]*|(?<="opaque":)-?[0-9]+')


def changed(chance: random.Random) -> bytes:
    """A send that differs from the usual one in some values, names or their order."""
    fields: dict[str, str | None] = {
        "g": str(1_700_000_000_000 + chance.choice([0, 1, 999, 10**6, -1])),
        "e": str(chance.randrange(8)),
        "i": chance.choice(["", "KEYS\x01k", "TAGS\x01a\x02", "q\x01\\", 'q\x01"x', "UNIQ_KEY\x01" + "F" * chance.choice([1, 40, 2000, 9000])]),
    }  # fmt: skip
    for _ in range(chance.choice([0, 0, 1, 2])):
        fields[chance.choice("abcdefghijklmnz")] = chance.choice([None, *TEXTS])
    opaque = chance.choice([0, 7, 9, 10, 123456, -1, 2**31 - 1])
    made = hot_sends.send_frame(
        b"x" * chance.choice([1, 100]), opaque, chance.choice([0, 0, 0, 2, 1]), chance.choice([310, 310, 320]), **fields
    )
    if chance.randrange(8) == 0:
        form, header, body = fuzz_seeds.split_frame(made)
        items = list(json.loads(header).items())
        chance.shuffle(items)
        made = fuzz_seeds.join_frame(form, json.dumps(dict(items), separators=(",", ":")).encode(), body)
    return made


def frames(seed: int, count: int) -> list[bytes]:
    """Sends after each other, of which a third have damaged headers."""
    chance = random.Random(seed)
    known = [changed(chance) for _ in range(4)]
    mutator = Mutator([fuzz_seeds.split_frame(each)[1] for each in known], texts=True)
    made = []
    for _ in range(count):
        frame = chance.choice(known) if chance.randrange(3) == 0 else changed(chance)
        if chance.randrange(3) == 0:
            form, header, body = fuzz_seeds.split_frame(frame)
            if chance.randrange(2):
                place = chance.choice(list(VALUES.finditer(header)))
                kept = header[place.start() : place.start() + chance.randrange(place.end() - place.start() + 1)]
                header = header[: place.start()] + kept + chance.choice(RAW).encode() + header[place.end() :]
            else:
                header = mutator.change(chance, header)[:3000]
            if chance.randrange(8) == 0:  # what follows the last value is looked at as well
                header = header[: chance.randrange(len(header) + 1)]
            frame = fuzz_seeds.join_frame(form, header, body)
        made.append(frame)
    return made


def outcome(given: bytes) -> bytes:
    """Records, answers and the numbers of the frames that were left, of the frames made from a seed; signed if there is an S."""
    seed, forgets, signed = json.loads(given)
    made = frames(seed, 150)
    if signed:
        made = [hot_sends.signed_frame(each) for each in made]
    if forgets:
        made = [part for each in made for part in (each, FORGETS)]
    seen = json.loads((hot_sends.signed_outcome if signed else hot_sends.outcome)(b"".join(made)))
    starts = {at: number for number, at in enumerate(accumulate(map(len, made), initial=0))}
    left = [starts[at] for at in seen["left"]]
    seen["left"] = [number // 2 for number in left if number % 2 == 0] if forgets else left
    return json.dumps(seen).encode()


@pytest.mark.parametrize("signed", [False, True], ids=["unsigned", "signed"])
@pytest.mark.parametrize("seed", range(40))
def test_header_is_scanned_alike_after_any_other(seed: int, signed: bool) -> None:
    after_each_other, after_nothing = (
        outcome(json.dumps([seed, forgets, signed]).encode()) for forgets in (False, True)
    )
    assert json.loads(after_each_other) == json.loads(after_nothing)
    assert json.loads(after_nothing)["records"]


def test_signed_values_that_are_too_long_are_left_after_a_header_of_usual_length() -> None:
    first, second = (
        hot_sends.signed_frame(hot_sends.send_frame(c=text)) for text in ("TBW102", "x" * (MAX_VALUES_LENGTH + 1))
    )
    assert json.loads(hot_sends.signed_outcome(first + second))["left"] == [len(first)]


@pytest.mark.parametrize("forgets", [False, True])
def test_interpreted_scan_does_the_same(forgets: bool) -> None:
    given = json.dumps([99, forgets, False]).encode()
    assert run_interpreted("property.test_headers_like_the_one_before", "outcome", given) == outcome(given)
