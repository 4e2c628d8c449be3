"""Random clients that share a loop's time, to compare the compiled form of `Turns` with the interpreted one."""

import json
import random
from collections import deque
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from headrace.remoting import turns
from headrace.remoting.client_usage import ClientUsages

STEPS = 2000


class _Loop:
    """Calls what is due when it is told to."""

    def __init__(self) -> None:
        self.due: deque[Callable[..., object]] = deque()

    def call_soon(self, callback: Callable[..., object], *_: object, **__: object) -> Any:
        self.due.append(callback)


class _Channel:
    """Works for a while in its turn."""

    def __init__(self, name: str, work: Callable[[str], None]) -> None:
        self.name, self.work = name, work

    def take_turn(self) -> None:
        self.work(self.name)


def outcome(seed: bytes) -> bytes:
    """All that was decided, as JSON: who could begin and until when, who waited, who was called."""
    chance = random.Random(seed)
    now = 1 << 40
    seen: list[tuple[str, object, int]] = []

    def clock() -> int:
        return now

    def work(name: str) -> None:
        nonlocal now
        now += chance.choice([1_000, 300_000, 1_100_000])
        if not chance.randrange(3):
            divided.charge(clients[name], 150_000)
        seen.append((name, "turn", divided.ends_ns))

    with patch.object(turns, "monotonic_ns", clock):
        loop: Any = _Loop()
        divided = turns.Turns(loop)
        usages = ClientUsages()
        clients = {name: usages.join(name) for name in "abc"}
        for _ in range(STEPS):
            name = chance.choice("aaab" if chance.randrange(4) else "abc")
            may = divided.begin(clients[name])
            seen.append((name, may, divided.ends_ns))
            now += chance.choice([100, 50_000, 400_000, 2_500_000])
            if may:
                divided.charge(clients[name], chance.choice([0, 150_000]))
                divided.end(clients[name])
            elif chance.randrange(3):
                divided.wait(clients[name], _Channel(name, work))
            if loop.due and not chance.randrange(4):
                loop.due.popleft()()
            if not chance.randrange(100):
                now += 1 << 28
        left = {name: (usage.spent_ns, usage.is_queued, len(usage.waiting)) for name, usage in clients.items()}
    return json.dumps({"seen": seen, "left": left, "waits": divided.waits, "due": len(loop.due)}).encode()
