"""A page in which one form has again what the user entered, and above its fields why it was refused.

It works on the finished page, so that no template has to know about it. What is found by its name: the form, by its address (or that of one of
its buttons) and its hidden fields; its fields, also those outside it (`form="chosen"`). Folded parts of the page that contain the form are unfolded.
"""

from collections.abc import Collection, Mapping, Sequence
from html import escape, unescape
from html.parser import HTMLParser
from typing import Final
from urllib.parse import unquote

from msgspec import Struct, field

PAGE_FIELD: Final = "form_page"
"""The hidden field with the address of the page on which the form is, without the base path."""
_NOT_TYPED: Final = frozenset({"hidden", "submit", "button", "image", "reset", "file", "password"})
_OWN_FIELDS: Final = frozenset({"csrf", PAGE_FIELD})

Attributes = dict[str, str | None]


class Entered(Struct, frozen=True):
    """A form that was sent and refused."""

    method: str
    action: str
    """The path to which it was sent, with the base path."""
    fields: Mapping[str, Sequence[str]]
    secrets: Collection[str] = ()
    """Names of fields that are never shown again."""


class _Tag(Struct):
    """A start tag, or the text between a start tag and its end."""

    name: str
    attributes: Attributes
    begin: int
    end: int
    text_end: int = 0
    """Where the text behind it ends; for `option` and `textarea`."""
    options: list["_Tag"] = field(default_factory=list)
    folds: list["_Tag"] = field(default_factory=list)
    """The `details` around a form."""
    actions: list[str] = field(default_factory=list)
    """Where a form is sent: its address, and those of its buttons."""
    fields: list["_Tag"] = field(default_factory=list)

    def value(self, name: str) -> str:
        return self.attributes.get(name) or ""


def fill(page: str, entered: Entered, failure: str) -> str | None:
    """The page with the form as it was sent, and `failure`, HTML, at its beginning; None if the page does not have the form."""
    reader = _Reader(page)
    found = [form for form in reader.forms if _is_sent_by(form, entered)]
    if not found:
        return None
    form = next((one for one in found if _has_hidden_fields(one, entered)), found[0])
    edits = [(form.end, form.end, failure)]
    edits += [_changed(fold, {**fold.attributes, "open": None}) for fold in form.folds]
    for one in form.fields:
        edits += _filled(one, entered, page)
    for begin, end, text in sorted(edits, reverse=True):
        page = page[:begin] + text + page[end:]
    return page


def _is_sent_by(form: _Tag, entered: Entered) -> bool:
    addresses = {unquote(action.partition("#")[0].partition("?")[0]) for action in form.actions}
    is_there = (form.value("method") or "get").lower() == entered.method and unquote(entered.action) in addresses
    # A GET has no fields but those of its address, which may be those of a table, or of nothing on the page.
    names = {one.value("name") for one in form.fields if one.value("type") != "hidden"}
    return is_there and (entered.method == "post" or bool(names & entered.fields.keys()))


def _has_hidden_fields(form: _Tag, entered: Entered) -> bool:
    hidden: dict[str, list[str]] = {}
    for one in form.fields:
        if one.value("type") == "hidden" and one.value("name") not in _OWN_FIELDS:
            hidden.setdefault(one.value("name"), []).append(one.value("value"))
    return all(list(entered.fields.get(name, ())) == values for name, values in hidden.items())


def _filled(one: _Tag, entered: Entered, page: str) -> list[tuple[int, int, str]]:
    """The changes of one field's tags."""
    name, kind = one.value("name"), one.value("type").lower()
    if name in entered.secrets or (one.name == "input" and kind in _NOT_TYPED):
        return []
    values = entered.fields.get(name, ())
    if kind in {"checkbox", "radio"}:
        return [_changed(one, _chosen(one, "checked", (one.value("value") or "on") in values))]
    if not values:
        return []
    if one.name == "select":
        texts = [_text_of(option, page) for option in one.options]
        if not set(texts) & set(values):
            return []
        return [
            _changed(option, _chosen(option, "selected", text in values))
            for option, text in zip(one.options, texts, strict=True)
        ]
    text = values[0].replace("\r\n", "\n")
    if one.name == "textarea":
        return [(one.end, one.text_end, "\n" + escape(text))]  # browsers drop the first line break
    return [_changed(one, {**one.attributes, "value": text})]


def _text_of(option: _Tag, page: str) -> str:
    return (
        option.value("value") if "value" in option.attributes else unescape(page[option.end : option.text_end]).strip()
    )


def _chosen(tag: _Tag, name: str, is_chosen: bool) -> Attributes:
    others = {key: value for key, value in tag.attributes.items() if key != name}
    return {**others, name: None} if is_chosen else others


def _changed(tag: _Tag, attributes: Attributes) -> tuple[int, int, str]:
    texts = (name if value is None else f'{name}="{escape(value)}"' for name, value in attributes.items())
    return tag.begin, tag.end, f"<{' '.join([tag.name, *texts])}>"


class _Reader(HTMLParser):
    """Finds the forms of a page with their fields, and where each tag is."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.forms: list[_Tag] = []
        self._lines = [0]
        for line in page.split("\n"):
            self._lines.append(self._lines[-1] + len(line) + 1)
        self._fields: list[tuple[_Tag, _Tag | None]] = []
        """With the form around each."""
        self._folds: list[_Tag] = []
        self._form: _Tag | None = None
        self._select: _Tag | None = None
        self._open: _Tag | None = None
        """The `option` or `textarea` whose text is being read."""
        self.feed(page)
        self.close()
        by_id = {form.value("id"): form for form in self.forms}
        for one, around in self._fields:
            owner = by_id.get(one.value("form")) if "form" in one.attributes else around
            if owner is not None:
                owner.fields.append(one)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keeps what matters."""
        begin = self._position()
        one = _Tag(tag, dict(attrs), begin, begin + len(self.get_starttag_text() or ""))
        match tag:
            case "form":
                self._form = one
                one.folds = list(self._folds)
                one.actions = [one.value("action")]
                self.forms.append(one)
            case "button" if self._form is not None and "formaction" in one.attributes:
                self._form.actions.append(one.value("formaction"))
            case "details":
                self._folds.append(one)
            case "input" | "select" | "textarea":
                self._fields.append((one, self._form))
                if tag == "select":
                    self._select = one
                elif tag == "textarea":
                    self._open = one
            case "option" if self._select is not None:
                self._select.options.append(one)
                self._open = one

    def handle_endtag(self, tag: str) -> None:
        """Closes what is open."""
        match tag:
            case "form":
                self._form = None
            case "details" if self._folds:
                self._folds.pop()
            case "select":
                self._select = None
            case "option" | "textarea" if self._open is not None:
                self._open.text_end = self._position()
                self._open = None

    def _position(self) -> int:
        line, column = self.getpos()
        return self._lines[line - 1] + column
