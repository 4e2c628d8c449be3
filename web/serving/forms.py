"""Forms: what a browser or a program sent, as the typed form that a change expects."""

import typing
from collections.abc import Mapping
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs

import msgspec
from sanic import Request

from web.errors import Invalid
from web.serving.visitors import CSRF_FIELD

F = TypeVar("F", bound=msgspec.Struct)

_FORM_TYPE: Final = "application/x-www-form-urlencoded"
_MOST_FIELDS: Final = 1000  # limit: a page of chosen rows, and what goes with them


def read_fields(request: Request) -> dict[str, list[str]]:
    """The fields that a browser sent. Raises Invalid.

    Only the plain type of HTML forms: the sender of a multipart form chooses each field's encoding, and some take minutes to decode.
    """
    if not request.body:
        return {}
    kind = (request.headers.get("content-type") or "").partition(";")[0].strip().lower()
    if kind != _FORM_TYPE:
        raise Invalid(
            "the content type {kind} is not supported",
            "Send the form as {form_type}.",
            kind=repr(kind[:80]),
            form_type=_FORM_TYPE,
        )
    try:
        text = request.body.decode("ascii")
        return parse_qs(text, keep_blank_values=True, errors="replace", max_num_fields=_MOST_FIELDS)
    except ValueError as error:
        raise Invalid("the form is invalid: {error}", "Correct it and send it again.", error=error) from error


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
        raise Invalid("the form is invalid: {error}", "Correct it and send it again.", error=error) from error
