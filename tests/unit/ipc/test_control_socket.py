import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ipc.control_socket import MAX_LINE_BYTES, LineReader, ask, decode, encode, listen
from ipc.errors import NoAnswer, NobodyListens


def test_object_round_trips_as_one_line() -> None:
    message = {"command": "restart", "role": "flush", "why": "two\nlines, Grüße"}
    line = encode(message)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decode(line) == message


@pytest.mark.parametrize("line", [b"[1]", b"status", b"3", b"", b"\xff{}"])
def test_line_that_is_not_an_object_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError):
        decode(line)


def test_objects_are_split_from_the_stream_however_it_arrives() -> None:
    messages = [{"number": number} for number in range(5)]
    stream = b"".join(map(encode, messages)) + b"\n"
    assert LineReader().feed(stream) == messages
    by_byte = LineReader()
    assert [found for byte in stream for found in by_byte.feed(bytes([byte]))] == messages


def test_endless_line_is_refused() -> None:
    reader = LineReader()
    with pytest.raises(ValueError, match="line longer than"):
        reader.feed(b"x" * (MAX_LINE_BYTES + 1))


def serve_once(server: socket.socket, answer: Callable[[bytes], bytes]) -> threading.Thread:
    server.setblocking(True)

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            request = connection.recv(65_536)
            for byte in answer(request):
                connection.sendall(bytes([byte]))

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


def test_request_receives_its_reply(tmp_path: Path) -> None:
    with listen(tmp_path / "control.sock") as server:
        thread = serve_once(server, lambda request: encode({"ok": True, "to": decode(request)}))
        assert ask(tmp_path / "control.sock", {"command": "status"}, 60) == {"ok": True, "to": {"command": "status"}}
        thread.join()


def test_path_longer_than_a_socket_address_works(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    with listen(folder / "control.sock") as server:
        thread = serve_once(server, lambda _: encode({"ok": True}))
        assert ask(folder / "control.sock", {}, 60) == {"ok": True}
        thread.join()


def test_socket_is_accessible_only_to_owner_and_group(tmp_path: Path) -> None:
    with listen(tmp_path / "control.sock"):
        assert os.stat(tmp_path / "control.sock").st_mode & 0o777 == 0o660


def test_socket_of_a_predecessor_is_replaced(tmp_path: Path) -> None:
    listen(tmp_path / "control.sock").close()
    with listen(tmp_path / "control.sock") as server:
        thread = serve_once(server, lambda _: encode({"ok": True}))
        assert ask(tmp_path / "control.sock", {}, 60) == {"ok": True}
        thread.join()


def test_missing_socket_is_reported(tmp_path: Path) -> None:
    with pytest.raises(NobodyListens, match=r"no supervisor is listening on .*control\.sock"):
        ask(tmp_path / "control.sock", {}, 1)


def test_socket_without_a_listener_is_reported(tmp_path: Path) -> None:
    listen(tmp_path / "control.sock").close()
    with pytest.raises(NobodyListens, match="start the appliance with: headrace run"):
        ask(tmp_path / "control.sock", {}, 1)


def test_socket_of_another_user_is_not_reported_as_a_missing_appliance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr("ipc.control_socket._connect", refuse)
    with pytest.raises(NoAnswer, match=r"permission denied on control socket .*as the user that started"):
        ask(tmp_path / "control.sock", {}, 1)


def test_request_times_out_when_the_supervisor_does_not_answer(tmp_path: Path) -> None:
    with listen(tmp_path / "control.sock"), pytest.raises(NoAnswer, match=r"within 0\.05 s"):
        ask(tmp_path / "control.sock", {}, 0.05)


@pytest.mark.parametrize(("answer", "said"), [(b"", "without responding"), (b"hello\n", "sent an invalid response")])
def test_invalid_answer_is_reported(tmp_path: Path, answer: bytes, said: str) -> None:
    with listen(tmp_path / "control.sock") as server:
        thread = serve_once(server, lambda _: answer)
        with pytest.raises(NoAnswer, match=said):
            ask(tmp_path / "control.sock", {}, 60)
        thread.join()
