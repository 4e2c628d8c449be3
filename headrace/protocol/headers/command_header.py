"""CommandHeader: a Struct whose fields are a command's ext fields.

Every ext value is a string. A field's annotation determines how it is converted: `str`, `bool`, `float`, `I32` and `I64` (whole numbers of that many
bits). Fields with `| None` or a default may be missing. The name on the wire is the field's in camelCase, unless the class has another one in
NAMES.

    class GetMaxOffsetRequestHeader(CommandHeader, frozen=True):
        CODE: ClassVar = RequestCode.GET_MAX_OFFSET
        topic: str
        queue_id: I32
"""

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, NamedTuple, Self, get_args, get_type_hints

import msgspec.structs
from msgspec import Struct

from headrace.errors import RemoteProtocolError
from headrace.model.camel_case import camel_case
from headrace.protocol.request_code import RequestCode

I32 = Annotated[int, 32]
I64 = Annotated[int, 64]

_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")


class _Field(NamedTuple):
    attribute: str
    key: str
    parse: Callable[[str], Any]
    is_mandatory: bool


class CommandHeader(Struct, frozen=True):
    """The base class of all headers; see the module."""

    CODE: ClassVar[RequestCode | None] = None
    """The code of the header's request; None for responses."""

    NAMES: ClassVar[Mapping[str, str]] = {}
    """Names on the wire that are not the attribute's in camelCase."""

    def to_ext(self) -> dict[str, str]:
        """Returns the ext fields, without those that are None."""
        return {
            key: _text(value)
            for attribute, key, _, _ in _fields_of(type(self))
            if (value := getattr(self, attribute)) is not None
        }

    @classmethod
    def from_ext(cls, ext: Mapping[str, str] | None) -> Self:
        """Creates the header from a command's ext fields; unknown ones are ignored.

        Raises RemoteProtocolError, which names the missing or invalid field.
        """
        values: dict[str, Any] = {}
        for attribute, key, parse, is_mandatory in _fields_of(cls):
            text = ext.get(key) if ext else None
            if text is not None:
                try:
                    values[attribute] = parse(text)
                except ValueError as error:
                    raise RemoteProtocolError(f"{cls.__name__}: the field {key} is {text[:80]!r}: {error}") from None
            elif is_mandatory:
                raise RemoteProtocolError(f"{cls.__name__}: the field {key} is missing")
        return cls(**values)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:d}" if isinstance(value, int) else str(value)


def _parse_bool(text: str) -> bool:
    # compat: Java reads every value except `true` as false.
    return text.lower() == "true"


def _whole_parser(bits: int) -> Callable[[str], int]:
    limit = 1 << bits - 1

    def parse(text: str) -> int:
        value = int(text) if _WHOLE.fullmatch(text) else limit
        if not -limit <= value < limit:
            raise ValueError(f"expected a whole number of {bits} bits")
        return value

    return parse


_PARSERS: dict[Any, Callable[[str], Any]] = {
    str: str,
    bool: _parse_bool,
    float: float,
    I32: _whole_parser(32),
    I64: _whole_parser(64),
}


_fields: dict[type[CommandHeader], tuple[_Field, ...]] = {}


def _fields_of(header: type[CommandHeader]) -> tuple[_Field, ...]:
    """The header's fields, determined at the first use."""
    return _fields.get(header) or _fields.setdefault(header, _work_out(header))


def _work_out(header: type[CommandHeader]) -> tuple[_Field, ...]:
    hints = get_type_hints(header, include_extras=True)
    fields = []
    for field in msgspec.structs.fields(header):
        hint = hints[field.name]
        if hint not in _PARSERS:  # X | None
            hint = get_args(hint)[0]
        fields.append(
            _Field(field.name, header.NAMES.get(field.name, camel_case(field.name)), _PARSERS[hint], field.required)
        )
    return tuple(fields)
