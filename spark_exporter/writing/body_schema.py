"""Converts a JSON Schema to the type of a column: bodies that are JSON objects become structs.

    schema = BodySchema({"type": "object", "properties": {"id": {"type": "integer"}}})
    batch, unfit = schema.type_bodies(batch)        adds the column `body_json` at the end

No data of a body is lost. For each row:

    matches                     `body_json` has all of it, `body` is null
    has additional properties   `body_json` has those in the schema, `body` all (only if the schema allows them)
    does not match              `body_json` is null, `body` has all; such rows are counted

A null is equivalent to an absent name; the last of several equal names is used. Names become column names as topics become table names
(`layout.table_name`), because Iceberg and Delta do not allow all characters.

Supported are the keywords of JSON Schema that determine types (type, properties, required, items, additionalProperties, $ref within the document,
anyOf and oneOf with null, format date-time and date) and simple checks (enum, const, minimum, maximum). Other keywords that restrict
values are refused, not ignored.
"""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any, Final, Self, TypeVar

import msgspec
import pyarrow as pa

from spark_exporter.errors import SchemaError
from spark_exporter.reading.schema import BODY_COLUMN, MESSAGES, TIMESTAMP
from spark_exporter.writing.layout import table_name

_DEEPEST: Final = 32  # limit: depth of nested types, so that a recursive $ref ends
_EXACT: Final = 1 << 53  # beyond it a double cannot represent every whole number
_TOPICS: Final = "topics"
_NAMELESS: Final = "~"  # no other name is converted to this one
_SAYS_NOTHING: Final = frozenset({
    "$schema", "$id", "$anchor", "$comment", "$defs", "definitions", "title", "description", "default", "examples", "deprecated",
    "readOnly", "writeOnly",
})  # fmt: skip
_CHECKS: Final = frozenset({"enum", "const", "minimum", "maximum"})
_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,6})?([Zz]|[+-]\d\d:\d\d)")


_Made = TypeVar("_Made")


class _DoesNotFit(Exception):  # noqa: N818  it says what has happened
    """A value does not have the type."""


@dataclass(slots=True)
class _Body:
    """What is found out about a body while it is converted."""

    says_more: bool = False


@dataclass(frozen=True, slots=True)
class BodySchema:
    """The schema of one table's bodies. `document`: the JSON Schema. Raises SchemaError if it does not describe a struct. Can be pickled."""

    document: Mapping[str, Any]
    _root: "_Struct" = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        root = _Reader(self.document).read(self.document, "#", 0)
        if not isinstance(root, _Struct):
            raise SchemaError("the body schema must have type object and define properties")
        object.__setattr__(self, "_root", root)

    def __reduce__(self) -> tuple[type["BodySchema"], tuple[Mapping[str, Any]]]:
        return BodySchema, (self.document,)

    @classmethod
    def from_file(cls, path: str) -> Self:
        """Read the schema in a file. Raises SchemaError."""
        return _read_file(path, cls)[1]

    @property
    def column_type(self) -> pa.DataType:
        """The type of `body_json`."""
        return self._root.arrow

    def type_bodies(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
        """Returns the batch with `body_json` as its last column, and how many bodies do not match."""
        decode, convert = msgspec.json.decode, self._root.convert
        bodies, typed, unfit = batch["body"].to_pylist(), [], 0
        for row, body in enumerate(bodies):
            about = _Body()
            try:
                value = convert(decode(body), about)
            except (ValueError, RecursionError, _DoesNotFit):  # not JSON, not UTF-8, too deep, or of another type
                value = None
            typed.append(value)
            if value is None:
                unfit += 1
            elif not about.says_more:
                bodies[row] = None
        place = batch.schema.get_field_index("body")
        with_bodies = batch.set_column(place, batch.schema.field(place), pa.array(bodies, pa.binary()))
        return with_bodies.append_column(
            pa.field(BODY_COLUMN, self.column_type), pa.array(typed, self.column_type)
        ), unfit


def has_topics(document: Mapping[str, Any]) -> bool:
    """Whether the document has a schema per topic, and so is not itself a JSON Schema."""
    return _TOPICS in document


def read_document(path: str) -> dict[str, Any]:
    """Read a file with schemas of bodies: see `TableBodies.of_document`. Raises SchemaError in one line."""
    return _read_file(path, TableBodies.of_document)[0]


def _read_file(path: str, make: Callable[[Mapping[str, Any]], _Made]) -> tuple[dict[str, Any], _Made]:
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except OSError as error:
        raise SchemaError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"{path} is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise SchemaError(f"{path} is not a JSON Schema: expected an object")
    try:
        return document, make(document)
    except SchemaError as error:
        raise SchemaError(f"{path}: {error}") from None


@dataclass(frozen=True, slots=True)
class TableBodies:
    """The schemas of a target's tables: one for all, or one per topic. A table without a schema has no column `body_json`."""

    default: BodySchema | None = None
    by_table: Mapping[str, BodySchema | None] = field(default_factory=dict)

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Self:
        """From a JSON Schema for all, or from `{"topics": {TOPIC: JSON Schema, …}}`. Raises SchemaError."""
        if not has_topics(document):
            return cls(BodySchema(document))
        for name in document.keys() - {_TOPICS}:
            raise SchemaError(f"{name} is not allowed together with {_TOPICS}")
        by_topic: dict[str, BodySchema | None] = {}
        for topic, schema in _expect(dict, document[_TOPICS], _TOPICS).items():
            try:
                by_topic[topic] = BodySchema(_expect(dict, schema, "#"))
            except SchemaError as error:
                raise SchemaError(f"{topic}: {error}") from None
        if not by_topic:
            raise SchemaError(f"{_TOPICS} must contain at least one topic")
        return cls(by_table=by_topic)

    def of(self, table: str) -> BodySchema | None:
        """The schema of a table (`Partition.table`)."""
        return self.by_table.get(table, self.default)

    def schema_of(self, table: str) -> pa.Schema:
        """The columns of a table."""
        typed = self.of(table)
        return MESSAGES if typed is None else MESSAGES.append(pa.field(BODY_COLUMN, typed.column_type))


class _Type(ABC):
    """A type. `arrow`: that of the column."""

    arrow: pa.DataType
    takes_null = False
    checks: tuple[Callable[[Any], bool], ...] = ()

    def convert(self, value: Any, body: _Body) -> Any:
        """Convert a JSON value for Arrow. Raises _DoesNotFit."""
        if value is None:
            if self.takes_null:
                return None
            raise _DoesNotFit
        for check in self.checks:
            if not check(value):
                raise _DoesNotFit
        return self._convert(value, body)

    @abstractmethod
    def _convert(self, value: Any, body: _Body) -> Any: ...


class _Same(_Type):
    """A value that Arrow accepts unchanged."""

    def __init__(self, arrow: pa.DataType, kind: type) -> None:
        self.arrow = arrow
        self._kind = kind

    def _convert(self, value: Any, body: _Body) -> Any:  # noqa: ARG002
        if type(value) is not self._kind:
            raise _DoesNotFit
        return value


class _Whole(_Type):
    arrow = pa.int64()

    def _convert(self, value: Any, body: _Body) -> Any:  # noqa: ARG002
        if type(value) is float and value.is_integer() and abs(value) <= _EXACT:
            return int(value)
        if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
            raise _DoesNotFit
        return value


class _Number(_Type):
    arrow = pa.float64()

    def _convert(self, value: Any, body: _Body) -> Any:  # noqa: ARG002
        if type(value) is int and abs(value) <= _EXACT:
            return float(value)
        if type(value) is not float:
            raise _DoesNotFit
        return value


class _Instant(_Type):
    arrow = TIMESTAMP

    def _convert(self, value: Any, body: _Body) -> Any:  # noqa: ARG002
        if type(value) is not str or not _INSTANT.fullmatch(value):
            raise _DoesNotFit
        try:
            return datetime.fromisoformat(value.upper()).astimezone(UTC)
        except (ValueError, OverflowError):
            raise _DoesNotFit from None


class _Day(_Type):
    arrow = pa.date32()

    def _convert(self, value: Any, body: _Body) -> Any:  # noqa: ARG002
        try:
            found = date.fromisoformat(value)
        except (ValueError, TypeError):
            raise _DoesNotFit from None
        if found.isoformat() != value:
            raise _DoesNotFit
        return found


class _List(_Type):
    def __init__(self, item: _Type) -> None:
        self._item = item
        self.arrow = pa.list_(item.arrow)

    def _convert(self, value: Any, body: _Body) -> Any:
        if type(value) is not list:
            raise _DoesNotFit
        return [self._item.convert(each, body) for each in value]


class _Map(_Type):
    def __init__(self, item: _Type) -> None:
        self._item = item
        self.arrow = pa.map_(pa.string(), item.arrow)

    def _convert(self, value: Any, body: _Body) -> Any:
        if type(value) is not dict:
            raise _DoesNotFit
        return [(name, self._item.convert(each, body)) for name, each in value.items()]


class _Struct(_Type):
    def __init__(self, fields: dict[str, _Type], required: frozenset[str], *, may_say_more: bool) -> None:
        self._fields = {name: (table_name(name) or _NAMELESS, each) for name, each in fields.items()}
        self._required = required
        self._may_say_more = may_say_more
        self.arrow = pa.struct([pa.field(column, each.arrow) for column, each in self._fields.values()])

    def _convert(self, value: Any, body: _Body) -> Any:
        if type(value) is not dict or not self._required <= value.keys():
            raise _DoesNotFit
        converted = {}
        for name, each in value.items():
            known = self._fields.get(name)
            if known is not None:
                converted[known[0]] = known[1].convert(each, body)
            elif not self._may_say_more:
                raise _DoesNotFit
            elif each is not None:
                body.says_more = True
        return converted


_PLAIN: Final[dict[str, Callable[[], _Type]]] = {
    "string": lambda: _Same(pa.string(), str),
    "boolean": lambda: _Same(pa.bool_(), bool),
    "integer": _Whole,
    "number": _Number,
}
_FORMATS: Final[dict[str, Callable[[], _Type]]] = {"date-time": _Instant, "date": _Day}


class _Reader:
    """Creates types from a document. `at`: the place in it, for messages."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document

    def read(self, said: object, at: str, depth: int) -> _Type:
        """The type that a part of the document describes. Raises SchemaError."""
        if depth > _DEEPEST:
            raise SchemaError(f"{at}: types are nested deeper than {_DEEPEST}")
        if not isinstance(said, Mapping):
            raise SchemaError(f"{at} has no type")
        if "$ref" in said:
            self._refuse_others(said, {"$ref", *_SAYS_NOTHING}, at)
            return self.read(self._find(said["$ref"], at), str(said["$ref"]), depth + 1)
        for keyword in ("anyOf", "oneOf"):
            if keyword in said:
                self._refuse_others(said, {keyword, *_SAYS_NOTHING}, at)
                return self._read_or_null(said[keyword], f"{at}/{keyword}", depth)
        names = said.get("type", self._implied(said))
        kinds = [names] if isinstance(names, str) else _expect(list, names, f"{at}/type")
        takes_null = "null" in kinds
        kinds = [kind for kind in kinds if kind != "null"]
        if len(kinds) != 1:
            raise SchemaError(f"{at} has {'no type' if not kinds else 'more than one type'}")
        made = self._make(kinds[0], said, at, depth)
        made.takes_null = takes_null
        made.checks = _checks(said, at)
        return made

    def _make(self, kind: str, said: Mapping[str, Any], at: str, depth: int) -> _Type:
        known = {"type", *_SAYS_NOTHING, *_CHECKS}
        if kind in _PLAIN:
            self._refuse_others(said, {*known, "format"}, at)
            plain = _PLAIN[kind]
            return (_FORMATS.get(said.get("format", ""), plain) if kind == "string" else plain)()
        if kind == "array":
            self._refuse_others(said, {*known, "items"}, at)
            return _List(self.read(said.get("items"), f"{at}/items", depth + 1))
        if kind == "object":
            self._refuse_others(said, {*known, "properties", "required", "additionalProperties"}, at)
            return self._make_object(said, at, depth)
        raise SchemaError(f"{at}: unknown type {kind}")

    def _make_object(self, said: Mapping[str, Any], at: str, depth: int) -> _Type:
        properties = _expect(dict, said.get("properties", {}), f"{at}/properties")
        more = said.get("additionalProperties", True)
        if not properties and isinstance(more, Mapping):
            return _Map(self.read(more, f"{at}/additionalProperties", depth + 1))
        if not properties or isinstance(more, Mapping):
            raise SchemaError(f"{at}: an object needs either properties or a schema in additionalProperties, not both")
        seen: dict[str, str] = {}
        for name in properties:
            if seen.setdefault(name.lower(), name) != name:
                raise SchemaError(
                    f"{at}: {seen[name.lower()]} and {name} are the same column in engines that ignore case"
                )
        fields = {name: self.read(each, f"{at}/properties/{name}", depth + 1) for name, each in properties.items()}
        required = frozenset(map(str, _expect(list, said.get("required", []), f"{at}/required")))
        for name, each in fields.items():
            if name not in required:
                each.takes_null = True  # equivalent to an absent name
        return _Struct(fields, required, may_say_more=bool(more))

    def _read_or_null(self, choices: object, at: str, depth: int) -> _Type:
        some = [each for each in choices if each != {"type": "null"}] if isinstance(choices, list) else []
        if len(some) != 1:
            raise SchemaError(f"{at} must have exactly one type besides null")
        made = self.read(some[0], at, depth + 1)
        made.takes_null = True
        return made

    def _find(self, reference: object, at: str) -> object:
        if not isinstance(reference, str) or not reference.startswith("#/"):
            raise SchemaError(f"{at}: only references within the document are supported, not {reference}")
        found: Any = self._document
        for part in reference[2:].split("/"):
            name = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, Mapping) or name not in found:
                raise SchemaError(f"{at}: {reference} does not exist")
            found = found[name]
        return found

    @staticmethod
    def _implied(said: Mapping[str, Any]) -> str | list[str]:
        if "properties" in said or "additionalProperties" in said:
            return "object"
        if "items" in said:
            return "array"
        values = said.get("enum", [said["const"]] if "const" in said else [])
        kinds = {type(each) for each in values} if isinstance(values, list) else set()
        if str in kinds and kinds <= {str, type(None)}:
            return ["string", "null"] if type(None) in kinds else "string"
        return "null"

    @staticmethod
    def _refuse_others(said: Mapping[str, Any], known: set[str], at: str) -> None:
        for keyword in said:
            if keyword not in known:
                raise SchemaError(f"{at}: the keyword {keyword} is not supported")


def _checks(said: Mapping[str, Any], at: str) -> tuple[Callable[[Any], bool], ...]:
    checks: list[Callable[[Any], bool]] = []
    if "enum" in said:
        allowed = _expect(list, said["enum"], f"{at}/enum")
        checks.append(lambda value: value in allowed)
    if "const" in said:
        only = said["const"]
        checks.append(lambda value: value == only)
    if "minimum" in said:
        least = _expect((int, float), said["minimum"], f"{at}/minimum")
        checks.append(lambda value: type(value) in {int, float} and value >= least)
    if "maximum" in said:
        most = _expect((int, float), said["maximum"], f"{at}/maximum")
        checks.append(lambda value: type(value) in {int, float} and value <= most)
    return tuple(checks)


def _expect(kind: type | tuple[type, ...], said: Any, at: str) -> Any:
    """The keyword's value if it has the expected type. Raises SchemaError."""
    if not isinstance(said, kind):
        raise SchemaError(f"{at}: unexpected value {json.dumps(said)[:40]}")
    return said
