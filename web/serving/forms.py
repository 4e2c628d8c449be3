"""Forms: what a browser or a program sent, as the typed form that a change expects."""

import typing
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from web.errors import Invalid
from web.serving.visitors import CSRF_FIELD

F = TypeVar("F", bound=msgspec.Struct)


def read_form(form: type[F], sent: Mapping[str, list[str]] | bytes) -> F:
    """The form from a browser's fields, or from JSON. Numbers and `true` in fields are texts. Raises Invalid.

    A list field gets every value of its name, another the first one. Texts lose spaces around them, except those of fields named `body`.
    """
    try:
        if isinstance(sent, bytes):
            return msgspec.json.decode(sent, type=form)
        kinds = typing.get_type_hints(form)
        values: dict[str, Any] = {}
        for name, texts in sent.items():
            if name == CSRF_FIELD or name not in kinds:
                continue
            is_list = typing.get_origin(kinds[name]) is list
            values[name] = texts if is_list else texts[0] if name == "body" else texts[0].strip()
        return msgspec.convert(values, form, strict=False)
    except msgspec.MsgspecError as error:
        raise Invalid(f"the form is invalid: {error}", "Correct it and send it again.") from error
