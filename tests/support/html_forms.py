"""The forms of a page of the console, as a browser sees them."""

from dataclasses import dataclass, field, replace
from html.parser import HTMLParser

Attributes = dict[str, str | None]


@dataclass
class Field:
    """A field. `value` is what would be sent; empty for a checkbox that is not chosen."""

    name: str
    kind: str
    """The type of an input; `select`, `textarea`."""
    value: str = ""
    if_chosen: str = ""
    """What a checkbox sends."""
    options: list[str] = field(default_factory=list)


@dataclass
class Form:
    """A form."""

    action: str
    method: str
    style: str
    """Its class."""
    id: str = ""
    fields: list[Field] = field(default_factory=list)
    is_folded: bool = False
    """Whether it is in a part of the page that is not shown."""
    failure: str = ""
    """Why it was refused."""

    @property
    def hidden(self) -> dict[str, str]:
        """What the page sends with every answer of the user."""
        return {one.name: one.value for one in self.fields if one.kind == "hidden"}

    @property
    def visible(self) -> list[Field]:
        """What users may enter."""
        return [one for one in self.fields if one.kind != "hidden"]

    @property
    def values(self) -> list[tuple[str, str]]:
        """What users see in its fields."""
        return [(one.name, one.value) for one in self.visible]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self._outside: list[tuple[str, Field]] = []
        self._folds: list[bool] = []
        self._form: Form | None = None
        self._select: Field | None = None
        self._option: Attributes | None = None
        self._text: list[str] = []
        self._is_failure = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        name, value = given.get("name") or "", given.get("value") or ""
        self._text = [] if tag in {"textarea", "option"} else self._text
        if tag == "form":
            address = (given.get("action") or "").partition("#")[0]
            self._form = Form(address, given.get("method") or "get", given.get("class") or "", given.get("id") or "")
            self._form.is_folded = not all(self._folds)
            self.forms.append(self._form)
        elif tag == "button" and "formaction" in given and self._form is not None:
            # A form like it, with the same fields.
            self.forms.append(replace(self._form, action=given["formaction"] or "", id=""))
        elif tag == "details":
            self._folds.append("open" in given)
        elif tag == "div" and given.get("role") == "alert":
            self._is_failure = True
        elif tag == "option":
            self._option = given
        elif tag in {"input", "select", "textarea"} and name:
            found = Field(name, (given.get("type") or "text") if tag == "input" else tag, value)
            if found.kind == "checkbox":
                found.value, found.if_chosen = value if "checked" in given else "", value
            if tag == "select":
                self._select = found
            if "form" in given:
                self._outside.append((given["form"] or "", found))
            elif self._form is not None:
                self._form.fields.append(found)

    def handle_data(self, data: str) -> None:
        self._text.append(data)
        if self._is_failure and self._form is not None:
            self._form.failure += data

    def handle_endtag(self, tag: str) -> None:
        text = "".join(self._text)
        if tag == "form":
            self._form = None
        elif tag == "details":
            self._folds.pop()
        elif tag == "div":
            self._is_failure = False
        elif tag == "textarea" and self._form is not None:
            self._form.fields[-1].value = text.removeprefix("\n")
        elif tag == "select":
            self._select = None
        elif tag == "option" and self._select is not None and self._option is not None:
            value = self._option.get("value", text.strip()) or ""
            if "selected" in self._option or not self._select.options:
                self._select.value = value
            self._select.options.append(value)


def forms_of(page: str) -> list[Form]:
    """All forms of a page."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    by_id = {form.id: form for form in reader.forms if form.id}
    for owner, one in reader._outside:
        if owner in by_id:
            by_id[owner].fields.append(one)
    return reader.forms
