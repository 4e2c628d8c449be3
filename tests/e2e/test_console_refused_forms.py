"""Every form of the console that is refused is shown again with what was entered, except secrets, and why it was refused.

Viewers are shown only what they may use, and pages have the names of their entries in the menu.
"""

import re
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlencode

import msgspec
import pytest

from support.console import PASSWORD, Browser, Page
from support.console_world import World, console_world, declared_routes
from support.html_forms import Field, Form, forms_of
from support.servers import wait_until
from web.routes import Access, Change, Query

pytestmark = pytest.mark.slow
SECRET = "Typed-4711"
"""Too short for a password."""
OF_THE_LAYOUT = {"/language", "/logout", "/search"}
NOT_REACHED = {"/transactions/check-again", "/cluster/writes/<broker:str>/allow", "/exports/<target:str>/stop"}
"""Their forms are on pages only at times, and have nothing to type in."""
WITH_ACCESS_CONTROL = {"/acl/accounts", "/acl/accounts/<account:str>/delete"}
"""In test_console_acl."""
NOTES = {
    f"/dead-letters/<group:str>/{change}" for change in ("handle", "handle-all", "unhandle", "unhandle-all", "resend")
}
"""What is typed in them is a note, and every note is valid."""
PREVIEWS = ("/groups/billing/reset?topic=Orders&to=start", "/groups/billing/clone?topic=Orders&target=copy")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with console_world(tmp_path_factory.mktemp("refused")) as world:
        yield world


@pytest.fixture(scope="module")
def changes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Change]:  # type: ignore[type-arg]
    return {one.path: one for one in declared_routes(tmp_path_factory.mktemp("routes")) if isinstance(one, Change)}


def shape_of(form: Form, changes: dict[str, Change]) -> str:  # type: ignore[type-arg]
    """The route to which a form is sent."""
    return next(path for path in changes if re.fullmatch(re.sub(r"<\w+:\w+>", "[^/]+", path), form.action))


def entered(one: Field) -> str:
    """What the test enters: with what HTML escapes, and refused wherever a name or a number is expected."""
    match one.kind:
        case "password":
            return SECRET
        case "number":
            return "-7"
        case "checkbox":
            return one.if_chosen
        case "select":
            return one.options[-1]
        case "textarea":
            return f'\n <b>{one.name}</b> & "é"\nsecond line\''
        case _:
            return f"<b>{one.name}</b> & \"é' "


def send(browser: Browser, form: Form, values: list[tuple[str, str]]) -> Page:
    hidden = [(one.name, one.value) for one in form.fields if one.kind == "hidden"]
    sent = urlencode([(name, value.replace("\n", "\r\n")) for name, value in [*hidden, *values]])
    if form.method == "get":
        return browser.get(f"{form.action}?{sent}")
    return browser.post(form.action, sent, {"Sec-Fetch-Site": "same-origin"})


def same_form(page: Page, form: Form) -> Form:
    """The form in the answer. Its hidden fields are the same, except the page, of which the answer may know more."""
    [found] = [
        one
        for one in forms_of(page.text)
        if (unquote(one.action), one.style, one.hidden) == (unquote(form.action), form.style, form.hidden)
    ]
    return found


def has_confirmation(page: Page) -> bool:
    """Whether the preview of a change has a form that makes it: a preview without changes has none."""
    return page.status == 200 and any(
        one.method == "post" and one.action not in OF_THE_LAYOUT for one in forms_of(page.text)
    )


def test_every_form_comes_back_with_what_was_entered(world: World, changes: dict[str, Change]) -> None:  # type: ignore[type-arg]
    seen: set[str] = set()
    wait_until(
        lambda: all(map(has_confirmation, map(world.admin.answered, PREVIEWS))), 30, "stored offsets that would change"
    )
    [found] = world.admin.read("/messages?by=key&topic=Orders&key=order-1")["messages"]["rows"]
    message = f"/messages/{found['offset_id']}"
    for path in [*world.pages.values(), *PREVIEWS, message]:
        for form in forms_of(world.admin.answered(path).text):
            if form.method != "post" or form.action in OF_THE_LAYOUT:
                continue
            shape = shape_of(form, changes)
            if shape in seen:
                continue
            seen.add(shape)
            if shape in NOTES or all(one.kind in {"select", "checkbox"} for one in form.visible):
                continue  # nothing is typed
            values = [(one.name, entered(one)) for one in form.visible]
            answer = send(world.admin, form, values)
            assert answer.status >= 400, (path, form)
            again = same_form(answer, form)
            secrets = set(changes[shape].secrets({}))
            assert {one.name for one in form.visible if one.kind == "password"} <= secrets, shape
            assert again.values == [(name, "" if name in secrets else value) for name, value in values], (path, shape)
            assert again.failure.strip(), (path, shape)
            assert not again.is_folded, (path, shape)
            assert SECRET not in answer.text
    with_fields = {path for path, one in changes.items() if msgspec.structs.fields(one.form)}
    assert with_fields - seen == NOT_REACHED | WITH_ACCESS_CONTROL


def test_every_search_comes_back_with_what_was_entered(world: World) -> None:
    seen: set[str] = set()
    refused = 0
    for path in world.pages.values():
        for form in forms_of(world.admin.answered(path).text):
            key = f"{form.action} {form.hidden}"
            if form.method != "get" or form.style != "fields" or key in seen:
                continue
            seen.add(key)
            values = [(one.name, entered(one)) for one in form.visible]
            answer = send(world.admin, form, values)
            again = same_form(answer, form)
            shown = [(name, value.strip()) for name, value in again.values]
            assert shown == [(name, value.strip()) for name, value in values], (path, answer.status)
            if answer.status != 200:
                refused += 1
                assert again.failure.strip()
                assert not again.is_folded
    assert refused >= 3


def test_page_has_the_name_of_its_menu_entry(world: World, tmp_path: Path) -> None:
    entries = [one for one in declared_routes(tmp_path / "declared") if isinstance(one, Query) and one.menu]
    found = {str(one.menu): re.findall(r"<h1>([^<]*)", world.admin.get(one.path).text)[0].strip() for one in entries}
    assert {menu: heading for menu, heading in found.items() if heading != menu} == {}


class Boxes(HTMLParser):
    """The summaries and headings of a page below which there is nothing, and its buttons that are links."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.empty: list[str] = []
        self.links: list[str] = []
        self._open: list[tuple[str, list[str]]] = []
        """Summaries and headings of which nothing was seen yet: the tag, and the title's words."""
        self._in_title = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in {"summary", "h2"}:
            if tag == "h2":
                self._end_box("h2")
            self._open.append((tag, []))
            self._in_title = True
        elif tag in {"table", "form", "svg", "canvas", "input", "select", "textarea", "button"}:
            self._open.clear()
        elif tag == "a" and given.get("class") == "button" and given.get("href"):
            self.links.append(str(given["href"]))

    def handle_endtag(self, tag: str) -> None:
        if tag in {"summary", "h2"}:
            self._in_title = False
        elif tag == "details":
            self._end_box("summary")
        elif tag == "main":
            self._end_box("h2")

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self._open[-1][1].append(data.strip())
        elif data.strip():
            self._open.clear()

    def _end_box(self, tag: str) -> None:
        self.empty += [" ".join(words) for kind, words in self._open if kind == tag]
        self._open = [one for one in self._open if one[0] != tag]


def test_viewer_is_shown_no_button_that_leads_to_nothing(world: World, changes: dict[str, Change]) -> None:  # type: ignore[type-arg]
    assert world.admin.send("/users", {"user": "vera", "password": PASSWORD, "role": "viewer"}).status == 303
    viewer = Browser(world.port)
    assert viewer.log_in("vera", PASSWORD).status == 303
    [found] = world.admin.read("/messages?by=key&topic=Orders&key=order-1")["messages"]["rows"]
    shown = 0
    faults: list[tuple[str, object]] = []
    for path in [*world.pages.values(), *PREVIEWS, f"/messages/{found['offset_id']}"]:
        page = viewer.answered(path)
        if page.status in {403, 404}:  # a token of the administrator
            continue
        assert page.status == 200, (path, page.cause)
        shown += 1
        boxes = Boxes(page.text)
        faults += [(path, title) for title in boxes.empty]
        faults += [(path, label) for label in ("Stop or allow writes", "Reset the offsets") if label in page.text]
        faults += [(path, link) for link in boxes.links if viewer.answered(unescape(link)).status == 403]
        for form in forms_of(page.text):
            if form.method == "post" and form.action not in OF_THE_LAYOUT:
                route = changes[shape_of(form, changes)]
                faults += [(path, form.action)] if route.access > Access.VIEWER else []
    assert faults == []
    assert shown >= 20
