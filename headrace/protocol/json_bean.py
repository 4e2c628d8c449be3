"""Converts objects to JSON and back, like RocketMQ's beans: a Struct (of msgspec) is an object, with its fields in alphabetical order of their names on the wire.

The name on the wire is the field's in camelCase, unless the class has another one in NAMES (for classes of the model, which do not depend on the
protocol, in the table below). A field's annotation determines how it is read: scalars, `list[X]`, `frozenset[X]`, `dict[K, X]` with K one of str, int and
MessageQueue, other Structs, enums by name, and each of these `| None`.

Reading is as tolerant as fastjson: unknown keys and null are ignored, a missing key leaves the field's default, numbers and booleans may be in
quotes, an unknown name of an enum counts as missing. Other errors raise RemoteProtocolError, which names the field.
"""

import types
from collections.abc import Callable, Mapping
from enum import Enum, IntEnum
from typing import Any, ClassVar, Final, NamedTuple, Self, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec.structs
from msgspec import Struct

from headrace.errors import RemoteProtocolError
from headrace.model.camel_case import camel_case
from headrace.model.message_queue import MessageQueue
from headrace.model.subscription_group import SubscriptionGroupConfig
from headrace.model.topic_config import TopicConfig
from headrace.protocol import fastjson

T = TypeVar("T")

_MODEL_NAMES: dict[type, dict[str, str]] = {
    TopicConfig: {
        "name": "topicName",
        "read_queue_count": "readQueueNums",
        "write_queue_count": "writeQueueNums",
        "permission": "perm",
        "filter_type": "topicFilterType",
        "sys_flag": "topicSysFlag",
    },
    SubscriptionGroupConfig: {"retry_queue_count": "retryQueueNums"},
}


class _Missing(Exception):  # noqa: N818 (never leaves this module)
    """The value counts as missing."""


class _Misfit(ValueError):  # noqa: N818 (never leaves this module)
    """The value does not have the field's type."""


class _Member(NamedTuple):
    attribute: str
    key: str
    read: Callable[[Any], Any]
    is_mandatory: bool
    key_text: str
    """The key in quotes, and a colon."""


class JsonBody(Struct):
    """A body that is a JSON object."""

    NAMES: ClassVar[Mapping[str, str]] = {}
    """Names on the wire that are not the field's in camelCase."""

    def encode(self) -> bytes:
        """The body's bytes, compact."""
        return _text(self).encode()

    def encode_pretty(self) -> str:
        """Returns the text as RocketMQ writes it to a configuration file."""
        return fastjson.dumps_pretty(to_value(self))

    @classmethod
    def decode(cls, data: bytes | str, *, untrusted: bool = False) -> Self:
        """Decodes the body; `untrusted`: it may come from any peer, so its size is limited. Raises RemoteProtocolError."""
        return from_value(cls, fastjson.loads(data, untrusted=untrusted))


def encode_bean(bean: Any) -> bytes:
    """Encodes a Struct, such as a DataVersion or a SubscriptionGroupConfig, as compact JSON."""
    return _text(bean).encode()


def decode_bean(kind: type[T], data: bytes | str, *, untrusted: bool = False) -> T:
    """Decodes a Struct; `untrusted`: it may come from any peer, so its size is limited. Raises RemoteProtocolError."""
    return from_value(kind, fastjson.loads(data, untrusted=untrusted))


_PLAIN: Final = frozenset({int, str, float, bool, type(None)})


def _text(item: Any) -> str:
    """The text that `fastjson.dumps` makes of the item's value, in a third of the time: without the value."""
    kind = type(item)
    if kind is int:
        return str(item)
    if kind is str:
        return fastjson.quote(item)
    if kind is dict:
        pairs = [f"{fastjson.key_text(_to_key(key))}:{_text(one)}" for key, one in item.items() if one is not None]
        return f"{{{','.join(pairs)}}}"
    if kind is list:
        return f"[{','.join(map(_text, item))}]"
    if issubclass(kind, Struct):
        pairs = []
        for member in _members_of(kind):
            one = getattr(item, member.attribute)
            if one is not None:
                pairs.append(f"{member.key_text}{_text(one)}")
        return f"{{{','.join(pairs)}}}"
    return fastjson.dumps(to_value(item))


def to_value(item: Any) -> Any:
    """Converts an object for `fastjson.dumps`."""
    if type(item) in _PLAIN or isinstance(item, (str, int, float)):  # including enums
        return item
    if isinstance(item, Struct):
        return {member.key: to_value(getattr(item, member.attribute)) for member in _members_of(type(item))}
    if isinstance(item, Mapping):
        return {_to_key(key): to_value(value) for key, value in item.items()}
    if isinstance(item, (frozenset, set)):
        return [to_value(one) for one in sorted(item)]
    return [to_value(one) for one in item]


def _to_key(key: Any) -> Any:
    if type(key) is MessageQueue:  # the same text in a fifth of the time: an answer may have a hundred thousand
        name, topic = fastjson.quote(key.broker_name), fastjson.quote(key.topic)
        return fastjson.ObjectKey(f'{{"brokerName":{name},"queueId":{key.queue_id},"topic":{topic}}}')
    return fastjson.ObjectKey(fastjson.dumps(to_value(key))) if isinstance(key, Struct) else key


def from_value(kind: type[T], value: Any) -> T:
    """Creates an object from the result of `fastjson.loads`. Raises RemoteProtocolError, which names the invalid field."""
    if not isinstance(value, dict):
        raise RemoteProtocolError(f"{kind.__name__}: expected an object, not {_shown(value)}")
    found: dict[str, Any] = {}
    for attribute, key, read, _, _ in _members_of(kind):
        given = value.get(key)
        if given is None:
            continue
        try:
            found[attribute] = read(given)
        except _Missing:
            continue
        except RemoteProtocolError:
            raise
        except (ValueError, OverflowError) as error:
            raise RemoteProtocolError(f"{kind.__name__}.{key}: {error}") from None
    try:
        return kind(**found)
    except TypeError:
        # The only possible TypeError is a missing field without a default.
        lacking = [member.key for member in _members_of(kind) if member.attribute not in found and member.is_mandatory]
        raise RemoteProtocolError(f"{kind.__name__}: missing fields: {', '.join(lacking)}") from None


_members: dict[type, tuple[_Member, ...]] = {}


def _members_of(kind: type) -> tuple[_Member, ...]:
    return _members.get(kind) or _members.setdefault(kind, _work_out(kind))


def _work_out(kind: type) -> tuple[_Member, ...]:
    hints = get_type_hints(kind)
    names = _MODEL_NAMES.get(kind) or getattr(kind, "NAMES", {})
    members = [
        _Member(
            field.name,
            key := names.get(field.name, camel_case(field.name)),
            _reader(hints[field.name]),
            field.required,
            f"{fastjson.quote(key)}:",
        )
        for field in msgspec.structs.fields(kind)
    ]
    return tuple(sorted(members, key=lambda member: member.key))


def _shown(value: Any) -> str:
    return repr(value)[:60]


def _reader(hint: Any) -> Callable[[Any], Any]:
    """Returns the reader for values with this annotation."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _reader(next(one for one in arguments if one is not type(None)))
    if origin in (list, frozenset):
        return _list_reader(origin, _reader(arguments[0]))
    if origin is dict:
        return _dict_reader(_key_reader(arguments[0]), _reader(arguments[1]))
    if hint is Any:
        return lambda value: value
    if hint in _SCALARS:
        return _SCALARS[hint]
    if issubclass(hint, Enum):
        return _enum_reader(hint)
    return lambda value: from_value(hint, value)


_LEAST: Final = -(1 << 63)
_MOST: Final = (1 << 63) - 1


def _read_text(value: Any) -> str:
    return value if isinstance(value, str) else fastjson.dumps(value)


def _read_whole(value: Any) -> int:
    if type(value) is int and _LEAST <= value <= _MOST:
        return value
    if isinstance(value, str):
        text = value.strip()
        if not text or text == "null":
            raise _Missing
        if len(text) > 20:  # limit: 64-bit numbers are not longer
            raise _Misfit(f"expected a whole number, not {_shown(value)}")
        value = int(text)
    if not isinstance(value, (int, float)):
        raise _Misfit(f"expected a whole number, not {_shown(value)}")
    number = int(value)
    if not _LEAST <= number <= _MOST:
        raise _Misfit(f"expected a 64-bit integer, not {_shown(value)}")
    return number


def _read_float(value: Any) -> float:
    if not isinstance(value, (int, float, str)):
        raise _Misfit(f"expected a number, not {_shown(value)}")
    return float(value)


def _read_bool(value: Any) -> bool:
    if isinstance(value, str):
        return value.strip().lower() in ("true", "1")
    if not isinstance(value, (bool, int)):
        raise _Misfit(f"expected true or false, not {_shown(value)}")
    return bool(value)


_SCALARS: dict[Any, Callable[[Any], Any]] = {str: _read_text, int: _read_whole, float: _read_float, bool: _read_bool}


def _enum_reader(kind: type[Enum]) -> Callable[[Any], Enum]:
    def read(value: Any) -> Enum:
        if isinstance(value, str) and value in kind.__members__:
            return kind[value]
        # compat: fastjson accepts an enum's ordinal in place of its name.
        if isinstance(value, int) and issubclass(kind, IntEnum) and value in kind._value2member_map_:
            return kind(value)
        raise _Missing

    return read


def _list_reader(kind: Callable[[Any], Any], read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def read_list(value: Any) -> Any:
        if not isinstance(value, list):
            raise _Misfit(f"expected a list, not {_shown(value)}")
        return kind(read(one) for one in value if one is not None)

    return read_list


def _dict_reader(read_key: Callable[[Any], Any], read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def read_dict(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _Misfit(f"expected an object, not {_shown(value)}")
        return {read_key(key): read(one) for key, one in value.items() if one is not None}

    return read_dict


def _key_reader(hint: Any) -> Callable[[Any], Any]:
    if hint is int:
        return _read_whole
    if hint is str:
        return str
    assert hint is MessageQueue
    return _read_queue_key


def _read_queue_key(key: Any) -> MessageQueue:
    if not isinstance(key, str):
        raise _Misfit(f"expected an object, not {_shown(key)}")
    given = fastjson.loads(key)
    # What brokers write, in a fraction of the time: an answer may have a hundred thousand.
    if type(given) is dict and len(given) == 3:
        topic, broker, number = given.get("topic"), given.get("brokerName"), given.get("queueId")
        if type(topic) is str and type(broker) is str and type(number) is int and _LEAST <= number <= _MOST:
            return MessageQueue(topic, broker, number)
    return from_value(MessageQueue, given)
