"""A refused form is shown again with what was entered."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from support.console import RunningConsole
from support.html_forms import Form, forms_of
from web.serving.form_filler import Entered, fill

TEMPLATES = Path(__file__).resolve().parents[3] / "web" / "templates"
WHY = '<div role="alert">the name is taken</div>'
PAGE = """<main>
<details class="change"><summary>Stop on a</summary>
<form method="post" action="/stop"><input type="hidden" name="way" value="a"><input name="note" value="old"></form></details>
<details class="outer"><details open><summary>Stop on b</summary>
<form method="post" action="/stop" id="b"><input type="hidden" name="way" value="b"><input name="note" value="é &amp; old" required>
<select name="kind"><option value="x" selected>X</option><option>a &amp; b</option></select><textarea name="text" rows="3">old</textarea>
<input type="password" name="password"><input name="key" value=""></form></details></details>
<table><tr><td><input type="checkbox" form="b" name="row" value="1" checked><input type="checkbox" form="b" name="row" value="2"></td></tr></table>
</main>
"""


BUTTONS = """<form method="post" action="/keep"><input name="note"><button>Keep</button><button formaction="/drop">Drop</button></form>"""


def test_form_is_found_by_the_address_of_one_of_its_buttons() -> None:
    page = fill(BUTTONS, Entered("post", "/drop", {"note": ["why"]}), WHY)
    assert page is not None
    assert [form.values for form in forms_of(page)] == [[("note", "why")]] * 2
    assert fill(BUTTONS, Entered("post", "/other", {"note": ["why"]}), WHY) is None


def filled(fields: Mapping[str, Sequence[str]], *secrets: str) -> list[Form]:
    page = fill(PAGE, Entered("post", "/stop", fields, secrets), WHY)
    assert page is not None
    return forms_of(page)


def test_fields_of_every_kind_get_what_was_entered() -> None:
    first, second = filled({
        "way": ["b"], "note": ['"<i>\u2028\n'], "kind": ["a & b"], "text": ["\r\n<b>\r\n'"], "row": ["2"], "key": ["k"]
    })  # fmt: skip
    assert second.values == [
        ("note", '"<i>\u2028\n'), ("kind", "a & b"), ("text", "\n<b>\n'"), ("password", ""), ("key", "k"), ("row", ""), ("row", "2")
    ]  # fmt: skip
    assert (second.failure, second.is_folded) == ("the name is taken", False)
    assert (first.values, first.failure, first.is_folded) == ([("note", "old")], "", True)


def test_secrets_are_not_shown_again() -> None:
    _, second = filled({"way": ["b"], "note": ["n"], "password": ["s3cret"], "key": ["s3cret"]}, "key")
    assert dict(second.values) == {"note": "n", "kind": "x", "text": "old", "password": "", "key": "", "row": ""}


def test_form_whose_hidden_fields_have_changed_since_is_the_first_with_its_address() -> None:
    first, second = filled({"way": ["c"], "note": ["n"]})
    assert (first.values, second.failure) == ([("note", "n")], "")


@pytest.mark.parametrize("entered", [Entered("post", "/start", {}), Entered("get", "/stop", {"note": ["n"]})])
def test_page_without_the_form_is_not_changed(entered: Entered) -> None:
    assert fill(PAGE, entered, WHY) is None


def test_every_form_of_a_change_names_its_page() -> None:
    without = {"layout.html", "login.html", "first_login.html", "macros.html"}
    for path in TEMPLATES.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        if path.name not in without:
            assert len(re.findall('method="post"', text)) == text.count("own_fields()"), path


@pytest.mark.slow
def test_what_was_entered_is_shown_even_if_the_page_of_the_form_is_not(tmp_path: Path) -> None:
    with RunningConsole(tmp_path, api_timeout=0.2) as console:
        admin = console.administrator()
        body = {"body": "many\nlines <b>", "tags": "t", "form_page": "/topics/Orders"}
        failed = admin.send("/topics/Orders/messages", body)  # there is no cluster
        assert failed.status == 502
        assert "<h2>What you entered</h2>" in failed.text
        assert '<pre tabindex="0">many\nlines &lt;b&gt;</pre>' in failed.text
        page = {"form_page": "/users", "user": "olga", "role": "viewer"}
        assert 'value="olga"' in admin.send("/users", {**page, "password": "Typed-4711"}).text
        for form_page in ("", "/nowhere", "//other.example/", "/users/nobody?x=%zz"):
            failed = admin.send("/users", {**page, "form_page": form_page, "password": "Typed-4711"})
            assert (failed.status, "olga</pre>" in failed.text, "Typed-4711" in failed.text) == (400, True, False)
        # Another site must not fill a form that the user then sends.
        foreign = admin.post(
            "/users", {**page, "csrf": "0", "password": "Typed-4711"}, {"Sec-Fetch-Site": "cross-site"}
        )
        assert (foreign.status, "olga" in foreign.text) == (403, False)
        secret = {"key": "aclSecret", "value": "Typed-4711", "form_page": "/cluster"}
        assert "Typed-4711" not in admin.send("/cluster/brokers/a%3A1", secret).text
