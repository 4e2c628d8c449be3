"""Options: how a package declares its configuration once.

A configuration is a frozen dataclass whose fields are created with `option`: RocketMQ's key, a default, one sentence. The reader of its file, the
check of unknown keys, and the reference page are derived from it.

    @dataclass(frozen=True)
    class BrokerConfig:
        listen_port: int = option(10911, help="Port of the main listener.")

Types are int, bool, float and str, and `str | None` if None is a valid value. The key is the field's name in camelCase unless one is given.
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from headrace.model.camel_case import camel_case

T = TypeVar("T")

_INTEGER = re.compile(r"[+-]?[0-9]+")


def option(
    default: Any,
    key: str | None = None,
    help: str = "",  # noqa: A002
    changeable: bool = False,
    by_request: bool = True,
    secret: bool = False,
) -> Any:
    """Returns a field of a configuration. `changeable`: it may be changed at run time. `secret`: its value is left out of `repr`.

    `by_request`: requests may change it if it is changeable. False for addresses, paths, ports and what concerns access: these are only read
    from the file.
    """
    metadata = {"key": key, "help": help, "changeable": changeable, "by_request": changeable and by_request}
    return dataclasses.field(default=default, repr=not secret, metadata=metadata)


def key_of(field: "dataclasses.Field[Any]") -> str:
    """Returns RocketMQ's name of an option."""
    return str(field.metadata.get("key") or camel_case(field.name))


def help_of(field: "dataclasses.Field[Any]") -> str:
    """Returns the sentence that describes an option."""
    return str(field.metadata.get("help", ""))


def is_changeable(field: "dataclasses.Field[Any]") -> bool:
    """Whether the option may be changed at run time."""
    return bool(field.metadata.get("changeable"))


def is_changeable_by_request(field: "dataclasses.Field[Any]") -> bool:
    """Whether a request may change the option at run time."""
    return bool(field.metadata.get("by_request"))


def keys_of(configuration: type) -> "dict[str, dataclasses.Field[Any]]":
    """Returns RocketMQ's names of all options of a configuration class, in the order of its fields."""
    return {key_of(field): field for field in dataclasses.fields(configuration)}


def parse_value(field: "dataclasses.Field[Any]", text: str) -> Any:
    """Parses an option's value. Raises ValueError that names key, value and what is expected."""
    kind = _kind_of(field)
    stripped = text.strip()
    if kind == "int" and _INTEGER.fullmatch(stripped):
        return int(stripped)
    if kind == "bool" and stripped.lower() in ("true", "false"):
        return stripped.lower() == "true"
    if kind == "float":
        try:
            return float(stripped)
        except ValueError:
            pass
    if kind == "str":
        return text
    expected = {"int": "a whole number", "bool": "true or false", "float": "a number"}.get(kind, kind)
    raise ValueError(f"{key_of(field)}={text}: expected {expected}")


def check_range(key: str, value: int, least: int, most: int | None = None) -> None:
    """Raises ValueError, which names the option and the range, if the value is not in it."""
    if value < least or (most is not None and value > most):
        expected = f"at least {least}" if most is None else f"a number from {least} to {most}"
        raise ValueError(f"{key}={value}: expected {expected}")


def format_value(value: Any) -> str:
    """Returns the text of an option's value, as `parse_value` reads it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def from_mapping(configuration: type[T], texts: Mapping[str, str]) -> T:
    """Returns a configuration with the options in `texts` (by key) set; ignores unknown keys. Raises ValueError."""
    fields = keys_of(configuration)
    return configuration(
        **{fields[key].name: parse_value(fields[key], text) for key, text in texts.items() if key in fields}
    )


def change_options(configuration: Any, texts: Mapping[str, str]) -> frozenset[str]:
    """Changes options of a shared configuration at run time; returns the keys whose values have changed.

    Ignores unknown keys and options that cannot be changed. Raises ValueError; then nothing is changed.
    """
    fields = keys_of(type(configuration))
    values = {
        key: parse_value(fields[key], text)
        for key, text in texts.items()
        if key in fields and is_changeable(fields[key])
    }
    changed = {key: value for key, value in values.items() if value != getattr(configuration, fields[key].name)}
    for key, value in changed.items():
        object.__setattr__(configuration, fields[key].name, value)
    return frozenset(changed)


def nearest_key(name: str, keys: Iterable[str]) -> str | None:
    """The key that `name` most likely stands for, or None if none is similar."""
    by_lower = {key.lower(): key for key in keys}
    import difflib  # noqa: PLC0415  2 ms of every start, for an error

    near = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return by_lower[near[0]] if near else None


def _kind_of(field: "dataclasses.Field[Any]") -> str:
    """The name of the field's type, whether its module's annotations are objects or text."""
    # Since Python 3.14 a union has a `__name__`, which does not name its members.
    text = field.type.__name__ if isinstance(field.type, type) else str(field.type)
    return str(text).replace(" ", "").removesuffix("|None")
