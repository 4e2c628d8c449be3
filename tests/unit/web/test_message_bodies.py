import tracemalloc

import pytest
import zstandard

from headrace import MessageExt
from headrace.model import sys_flag as sys_flags
from headrace.protocol.compression import compress
from web.pages.messages.bodies import body_of, describe, hex_lines, preview
from web.pages.messages.message_row import row_of

ZSTD = sys_flags.COMPRESSED | sys_flags.COMPRESSION_ZSTD


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


def test_json_that_grows_by_its_indentation_is_text() -> None:
    nested = b"[" * 180 + b"1," * 300 + b"1" + b"]" * 180
    assert describe(nested).pretty is not None
    body = b"[" + b",".join([nested] * 60) + b"]"
    assert len(body) < 65_536
    assert (describe(body).pretty, describe(body).text) == (None, body.decode())


def test_text_of_a_cut_body_ends_with_a_whole_character() -> None:
    body = describe(b"x" + "\u00e9".encode() * 40_000)
    assert body.text == "x" + "\u00e9" * 32_767
    assert body.is_cut


def test_list_reads_only_the_beginning_of_bodies_that_decompress_to_gigabytes() -> None:
    plain = bytes(128 << 20)
    bombs = [
        compress(plain, ZSTD),
        zstandard.ZstdCompressor(write_content_size=False).compress(plain),
    ]
    messages = [MessageExt("T", body=bomb, sys_flag=ZSTD) for bomb in bombs * 16]
    del plain
    tracemalloc.start()
    try:
        rows = [row_of(message) for message in messages]
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    assert rows[0].body == "00 " * 39 + "00"
    assert rows[0].size == len(bombs[0]) < 100_000


def test_message_that_cannot_be_decompressed_is_shown_with_the_reason() -> None:
    row = row_of(MessageExt("T", body=b"no zstd", sys_flag=ZSTD))
    assert "cannot be decompressed" in row.body


@pytest.mark.parametrize(("most", "whole"), [(4, False), (5, True)])
def test_body_without_compression_is_cut_too(most: int, whole: bool) -> None:
    assert body_of(MessageExt("T", body=b"12345"), most) == (b"12345"[:most], whole)
