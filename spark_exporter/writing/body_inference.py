"""Infers a JSON Schema for the bodies of each topic from its first messages.

Scans the ranges that are about to be exported and decodes only records of unknown topics, up to SAMPLES of each. The result is
stored with the target and does not change any more, so a repeated export produces the same columns. The schema allows additional properties.

If a name has values of several kinds, the most frequent kind is used; an object with more than MOST_NAMES names is a map. A topic has no schema if
less than half of its bodies are JSON objects.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Final

import msgspec
import pyarrow as pa

from spark_exporter.reading.range_scan import ByteRange, RangeScan, ScanOptions

SAMPLES: Final = 1000
MOST_NAMES: Final = 200
"""# limit: more columns would not be useful."""

_DEEPEST: Final = 8
_STEP: Final = 16 << 20  # limit: bytes scanned before topics with enough samples are skipped

Found = dict[str, dict[str, Any] | None]
"""A JSON Schema per topic; None if its bodies are not JSON objects."""


def infer_bodies(ranges: Sequence[ByteRange], options: ScanOptions, known: frozenset[str]) -> Found:
    """The schemas of the topics in these ranges that are not `known`. Raises SourceError."""
    choice = options.choice
    samples: dict[str, _Samples] = {}
    for _, group in groupby(ranges, key=lambda each: each.segment.base):
        of_segment = list(group)
        position, end, limit = of_segment[0].start, of_segment[-1].end, of_segment[-1].limit
        while position < end:
            without = known | {topic for topic, each in samples.items() if each.bodies >= SAMPLES}
            if choice.topics is not None and choice.topics <= without:
                return _schemas(samples)
            step = ByteRange(of_segment[0].segment, position, min(position + _STEP, end), limit)
            scan = RangeScan(
                step, replace(options, choice=replace(choice, without=without), columns=("topic", "body"), strict=False)
            )
            for batch in scan.batches():
                _take(batch, samples)
            position = scan.landed
    return _schemas(samples)


def infer_schema(bodies: Sequence[bytes]) -> dict[str, Any] | None:
    """The schema of some bodies; None if they are not JSON objects."""
    samples = _Samples()
    for body in bodies:
        samples.take(body)
    return samples.schema()


def _take(batch: pa.RecordBatch, samples: dict[str, "_Samples"]) -> None:
    for topic, body in zip(batch["topic"].to_pylist(), batch["body"], strict=True):
        of_topic = samples.setdefault(topic, _Samples())
        if of_topic.bodies < SAMPLES:
            of_topic.take(body.as_buffer())


def _schemas(samples: Mapping[str, "_Samples"]) -> Found:
    return {topic: samples[topic].schema() for topic in sorted(samples)}


@dataclass(slots=True)
class _Seen:
    """Statistics on the values at one place of the bodies."""

    kinds: Counter[str] = field(default_factory=Counter)
    names: dict[str, "_Seen"] = field(default_factory=dict)
    items: "_Seen | None" = None

    def take(self, value: object) -> None:
        """Add a value. Null is ignored."""
        if isinstance(value, bool):
            self.kinds["boolean"] += 1
        elif isinstance(value, int):
            self.kinds["integer" if -(1 << 63) <= value < 1 << 63 else "huge"] += 1
        elif isinstance(value, float):
            self.kinds["number"] += 1
        elif isinstance(value, str):
            self.kinds["string"] += 1
        elif isinstance(value, list):
            self.kinds["array"] += 1
            self.items = self.items or _Seen()
            for each in value:
                self.items.take(each)
        elif isinstance(value, dict):
            self.kinds["object"] += 1
            for name, each in value.items():
                self.names.setdefault(name, _Seen()).take(each)

    def absorb(self, other: "_Seen") -> None:
        """Add another's statistics."""
        self.kinds.update(other.kinds)
        for name, each in other.names.items():
            self.names.setdefault(name, _Seen()).absorb(each)
        if other.items is not None:
            self.items = self.items or _Seen()
            self.items.absorb(other.items)

    def schema(self, depth: int = 0) -> dict[str, Any] | None:
        """The schema; None if it cannot be inferred."""
        kinds = Counter(self.kinds)
        if kinds["number"]:
            kinds["number"] += kinds.pop("integer", 0)
        if not +kinds or depth > _DEEPEST:
            return None
        kind = max(sorted(kinds), key=lambda each: kinds[each])
        if kind == "huge":
            return None
        if kind == "array":
            items = self.items.schema(depth + 1) if self.items is not None else None
            return {"type": ["array", "null"], "items": items or {"type": ["string", "null"]}}
        if kind == "object":
            return self._object(depth)
        return {"type": [kind, "null"]}

    def _object(self, depth: int) -> dict[str, Any] | None:
        if len(self.names) > MOST_NAMES:
            merged = _Seen()
            for each in self.names.values():
                merged.absorb(each)
            values = merged.schema(depth + 1)
            return None if values is None else {"type": ["object", "null"], "additionalProperties": values}
        properties: dict[str, Any] = {}
        taken: set[str] = set()
        for name in sorted(self.names):
            said = self.names[name].schema(depth + 1)
            if said is not None and name.lower() not in taken:  # they are the same column in engines that ignore case
                taken.add(name.lower())
                properties[name] = said
        if not properties:
            return {"type": ["object", "null"], "additionalProperties": {"type": ["string", "null"]}}
        return {"type": ["object", "null"], "properties": properties}


@dataclass(slots=True)
class _Samples:
    """The bodies of one topic."""

    bodies: int = 0
    objects: int = 0
    seen: _Seen = field(default_factory=_Seen)

    def take(self, body: Any) -> None:
        """Add a body."""
        self.bodies += 1
        try:
            value = msgspec.json.decode(body)
        except (ValueError, RecursionError):
            return
        if isinstance(value, dict):
            self.objects += 1
            self.seen.take(value)

    def schema(self) -> dict[str, Any] | None:
        """The schema of a whole body."""
        if 2 * self.objects < self.bodies or not self.objects:
            return None
        found = self.seen.schema()
        return {**found, "type": "object"} if found is not None and "properties" in found else None
