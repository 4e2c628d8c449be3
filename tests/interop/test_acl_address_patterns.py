"""Patterns of white addresses mean the same to Apache's broker and ours: 10,000 random ones are compared with Apache's class.

Apache's class accepts patterns with which it cannot compare any address, such as `*.1.2.3`: a broker then refuses all requests. Ours refuses the
pattern. With a few others it fails for single addresses, which ours does not match.
"""

import random
from collections.abc import Callable

import pytest

from broker.access.address_pattern import parse_pattern
from broker.access.errors import BadAddressPattern
from broker.access.inet_address import is_v4, peer_address
from support.java import Java

COUNT = 10_000
_FIXED_HOSTS = ("1.2.3.4", "10.0.0.1", "255.255.255.255", "0.0.0.0", "0:0:0:0:0:0:0:1", "2001:db8:0:0:0:0:0:1")


def _number(random_: random.Random) -> str:
    return str(random_.choice([0, 1, 2, 3, 9, 10, 99, 100, 255, 256, 300, random_.randrange(256)]))


def _hex(random_: random.Random) -> str:
    text = f"{random_.choice([0, 1, 0xA, 0xFF, 0x100, 0xFFFF, 0x10000, random_.randrange(1 << 16)]):x}"
    return random_.choice([text, text, text.upper(), text.zfill(4)])


def _range(random_: random.Random, number: Callable[[random.Random], str]) -> str:
    return random_.choice(
        ["*", "*", f"{number(random_)}-{number(random_)}", "0-0", "-", f"-{number(random_)}", f"{number(random_)}-"]
    )


def _v4(random_: random.Random) -> list[str]:
    groups = [_number(random_) for _ in range(4)]
    if random_.random() < 0.6:
        groups[random_.randrange(4)] = _range(random_, _number)
    if random_.random() < 0.3:
        groups[random_.randrange(4)] = _range(random_, _number)
    if random_.random() < 0.1:
        groups.insert(random_.randrange(5), random_.choice(["", " ", _number(random_)]))
    if random_.random() < 0.1:
        groups.pop()
    return groups


def _v6(random_: random.Random) -> list[str]:
    groups = [_hex(random_) for _ in range(random_.choice([1, 2, 3, 4, 6, 7, 8, 9]))]
    if random_.random() < 0.5 and len(groups) > 1:
        groups.insert(random_.randrange(1, len(groups)), "")
    if random_.random() < 0.2:
        groups[:0] = ["", ""] if random_.random() < 0.7 else [""]
    if random_.random() < 0.5:
        groups[-1] = _range(random_, _hex)
    if random_.random() < 0.2 and len(groups) > 1:
        groups[-2] = _range(random_, _hex)
    return groups


def _braces(random_: random.Random, groups: list[str], number: Callable[[random.Random], str]) -> list[str]:
    return [*groups[:-1], "{" + ",".join(number(random_) for _ in range(random_.randrange(4))) + "}"]


def _pattern(random_: random.Random) -> str:
    is_v6 = random_.random() < 0.5
    separator, groups, number = (":", _v6(random_), _hex) if is_v6 else (".", _v4(random_), _number)
    if random_.random() < 0.2:
        groups = _braces(random_, groups, number)
    text = separator.join(groups)
    if random_.random() < 0.1:
        text = ",".join([text, *(_pattern(random_) for _ in range(random_.randrange(3)))])
    if random_.random() < 0.15:
        at = random_.randrange(len(text) + 1)
        text = text[:at] + random_.choice([*"*-.:,{} /%+\t", "::", "x", "é"]) + text[at + random_.randrange(2) :]
    return text


def _hosts(random_: random.Random, pattern: str) -> list[str]:
    """Addresses that the pattern may match: its own groups, with numbers in place of ranges."""
    hosts = list(_FIXED_HOSTS)
    for part in pattern.replace("{", "").replace("}", "").split(","):
        v4 = [group if group.isdecimal() else _number(random_) for group in part.split(".")] + ["1", "2", "3"]
        hosts.append(".".join(v4[:4]))
        groups = [group for group in part.split(":") if group] + ["1"] * 8
        full = [group if _is_hex(group) else f"{random_.randrange(1 << 16):x}" for group in groups][:8]
        hosts.append(":".join(full))
        head, _, tail = part.partition("::")
        before, after = ([one for one in half.split(":") if _is_hex(one)][:8] for half in (head, tail))
        zeros = ["0"] * (8 - len(before) - len(after))
        hosts.append(":".join((before + zeros + after)[:8]))
        hosts.append(":".join((before + zeros[1:] + after + [f"{random_.randrange(1 << 16):x}"])[:8]))
    return [host for host in hosts if _is_address(host)]


def _is_hex(group: str) -> bool:
    return 0 < len(group) <= 4 and all(character in "0123456789abcdefABCDEF" for character in group)


def _is_address(host: str) -> bool:
    """Whether the host is an address, in the form that Java gives a peer's: no leading zeros, all groups."""
    groups = host.split(":")
    if len(groups) == 8:
        # A Java broker sees the addresses of IPv4 as such.
        is_mapped = not any(int(group, 16) for group in groups[:5]) and int(groups[5], 16) == 0xFFFF
        return not is_mapped
    return is_v4(host)


def _ours(pattern: str, hosts: list[str]) -> str:
    try:
        parsed = parse_pattern(pattern)
    except BadAddressPattern:
        return "error"
    return "".join("1" if parsed.matches(peer_address(host)) else "0" for host in hosts)


@pytest.mark.slow
def test_random_patterns_match_the_same_addresses_as_in_apaches_class(java: Java) -> None:
    seed = random.randrange(1 << 32)
    random_ = random.Random(seed)
    patterns = [_pattern(random_) for _ in range(COUNT)]
    cases = [(pattern, _hosts(random_, pattern)) for pattern in patterns]
    theirs = java.call("address-patterns", cases=cases)
    theirs = ["error" if set(answer) == {"!"} else answer.replace("!", "0") for answer in theirs]
    differ = [
        (pattern, list(zip(hosts, answer, strict=False)) if answer != "error" else answer, _ours(pattern, hosts))
        for (pattern, hosts), answer in zip(cases, theirs, strict=True)
        if answer != _ours(pattern, hosts)
    ]
    counts = {kind: sum(kind in answer for answer in theirs) for kind in ("error", "1", "0")}
    assert min(counts.values()) > COUNT / 20, counts
    assert not differ, f"seed {seed}: {len(differ)} of {COUNT} differ, such as {differ[:5]}"
