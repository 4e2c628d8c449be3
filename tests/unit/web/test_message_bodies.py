from web.pages.messages.bodies import describe, hex_lines, preview


def test_json_is_indented_and_keeps_its_characters() -> None:
    body = describe('{"name":"李","n":[1]}'.encode())
    assert body.pretty == '{\n  "name": "李",\n  "n": [\n    1\n  ]\n}'
    assert body.text == '{"name":"李","n":[1]}'


def test_broken_or_deep_json_is_text() -> None:
    assert (describe(b'{"a":').pretty, describe(b'{"a":').text) == (None, '{"a":')
    deep = describe(b"[" * 60_000)
    assert deep.pretty is None
    assert deep.text == "[" * 60_000


def test_binary_body_is_shown_in_hexadecimal_only() -> None:
    body = describe(b"\xff\x00AB")
    assert (body.text, body.pretty, body.size) == (None, None, 4)
    assert body.hex == "00000000  ff 00 41 42                                      ..AB"


def test_large_body_is_cut() -> None:
    body = describe(b"x" * 100_000)
    assert body.text is not None
    assert (len(body.text), body.is_cut, len(body.hex.splitlines())) == (65_536, True, 256)


def test_preview_is_one_short_line() -> None:
    assert preview(b"a\n\tb  c") == "a b c"
    assert preview("é".encode() * 1_000) == "é" * 120
    assert preview(b"x" + "é".encode() * 1_000) == "x" + "é" * 119
    assert preview(b"\x00\x01") == "00 01"


def test_lines_of_digits_have_offsets() -> None:
    assert hex_lines(bytes(17)).splitlines()[1].startswith("00000010  00 ")
