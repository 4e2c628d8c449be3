"""Common passwords: those that guessing programs try first, although they are long enough.

There is no list of millions to keep: what such lists have beyond the shortest allowed length is made of a few words, rows of keys and sequences,
with digits and signs around them.
"""

import re
from typing import Final

_WORDS: Final = frozenset(
    [
        "abc",
        "access",
        "admin",
        "administrator",
        "apache",
        "baseball",
        "batman",
        "broker",
        "changeme",
        "charlie",
        "company",
        "computer",
        "console",
        "default",
        "dragon",
        "football",
        "freedom",
        "headrace",
        "hello",
        "iloveyou",
        "internet",
        "jesus",
        "jordan",
        "letmein",
        "login",
        "love",
        "master",
        "michael",
        "minecraft",
        "monkey",
        "mustang",
        "nothing",
        "operator",
        "pass",
        "passphrase",
        "passwd",
        "password",
        "passwort",
        "pokemon",
        "princess",
        "private",
        "qazwsx",
        "qwerty",
        "qwertz",
        "rocketmq",
        "root",
        "samsung",
        "secret",
        "server",
        "shadow",
        "soccer",
        "starwars",
        "summer",
        "sunshine",
        "superman",
        "superuser",
        "system",
        "temp",
        "test",
        "testing",
        "trustno",
        "user",
        "viewer",
        "welcome",
        "whatever",
        "winter",
    ]
)
_ROWS: Final = (
    "abcdefghijklmnopqrstuvwxyz",
    "012345678901234567890123456789",
    "1234567890qwertyuiopasdfghjklzxcvbnm",
    "qwertyuiopasdfghjklzxcvbnmqwertyuiop",
    "qwertzuiopasdfghjklyxcvbnm",
    "1q2w3e4r5t6y7u8i9o0p",
    "1qaz2wsx3edc4rfv5tgb6yhn7ujm8ik",
    "qazwsxedcrfvtgbyhnujmikolp",
    "q1w2e3r4t5y6u7i8o9p0",
)
_SHORTEST_RUN: Final = 4
_LONGEST_PART: Final = 64  # limit: as the longest name of a user; a password may have a thousand characters
_LEET: Final = str.maketrans("0134578@$!", "oleastbasi")


def is_common(password: str, user: str) -> bool:
    """Whether it is a common word, the user's name, a row of keys, a sequence or a repetition, also with digits and signs around it."""
    text = password.lower()
    words = _WORDS | {user.lower()}
    cores = {re.sub(r"^[\W\d_]+|[\W\d_]+$", "", text), re.sub(r"[\W_]+", "", text)}
    cores |= {core.translate(_LEET) for core in cores} | {re.sub(r"[\W\d_]+", "", text)}
    return any(_is_made_of(core, words) for core in cores | {text} if core)


def _is_made_of(text: str, words: frozenset[str]) -> bool:
    """Whether nothing is left of it without one word, repeated or not, and rows of keys."""
    unit = _unit(text)
    if unit in words or len(set(unit)) <= 2:
        return True
    begin = 0
    while begin < len(unit):
        end = next(
            (
                end
                for end in range(min(len(unit), begin + _LONGEST_PART), begin, -1)
                if _is_known(unit[begin:end], words)
            ),
            begin,
        )
        if end == begin:
            return False
        begin = end
    return True


def _is_known(part: str, words: frozenset[str]) -> bool:
    return part in words or (len(part) >= _SHORTEST_RUN and any(part in row or part[::-1] in row for row in _ROWS))


def _unit(text: str) -> str:
    """The shortest text of which this is a repetition; `abcabc` is one of `abc`."""
    return text[: (text + text).find(text, 1)] if text else text
