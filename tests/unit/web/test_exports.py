"""The pages of exports, with a supervisor of the test behind the control socket."""

import http.client
import io
import json
import os
import re
import socket
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ipc.control_socket import decode, encode
from support.console import PASSWORD, Browser, RunningConsole
from support.exported import export
from support.small_log import SmallLog
from web.pages.exports import export_pages, target_archive
from web.pages.exports.target_archive import TargetArchive

pytestmark = pytest.mark.slow
RUN: dict[str, Any] = {
    "id": 1_795_000_000_000, "target": "orders", "format": "parquet", "topics": ["<b>T"], "broker": "", "from_ms": None, "to_ms": None,
    "pid": 7, "state": "running", "ended_ms": None, "done_bytes": 5 << 20, "total_bytes": 10 << 20, "output": ["<script>alert(1)</script>"],
}  # fmt: skip


class Supervisor:
    """Answers with `answers`, and keeps the requests."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.requests: list[dict[str, Any]] = []
        self.exports: dict[str, Any] = {"ok": True, "folder": str(folder), "brokers": [], "runs": []}
        self.answers: dict[str, Any] = {}
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen(8)
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with client, client.makefile("rb") as file:
                request = decode(file.readline())
                self.requests.append(request)
                command = request["command"]
                answer = self.exports if command == "exports" else self.answers.get(command, {"ok": True})
                client.sendall(encode(answer))

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def asked(self, command: str) -> list[dict[str, Any]]:
        return [request for request in self.requests if request["command"] == command]


@pytest.fixture(scope="module")
def supervisor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supervisor]:
    folder = tmp_path_factory.mktemp("s")
    supervisor = Supervisor(folder / "control.sock", folder / "exports")
    yield supervisor
    supervisor.close()


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory, supervisor: Supervisor) -> Iterator[RunningConsole]:
    socket_path = Path(supervisor.exports["folder"]).with_name("control.sock")
    with RunningConsole(tmp_path_factory.mktemp("exports"), api_timeout=0.2, control_socket=socket_path) as console:
        yield console


@pytest.fixture(scope="module")
def admin(console: RunningConsole) -> Browser:
    return console.administrator()


@pytest.fixture(autouse=True)
def anew(supervisor: Supervisor) -> None:
    supervisor.requests.clear()
    supervisor.exports["runs"] = []
    supervisor.exports["brokers"] = []
    supervisor.answers.clear()


def send(browser: Browser, path: str, form: dict[str, str]) -> tuple[int, str]:
    page = browser.send(path, form, page="/exports")
    return page.status, page.cause


def test_start_is_an_order_of_names_and_is_in_the_audit_log(supervisor: Supervisor, admin: Browser) -> None:
    form = {"target": "orders", "format": "delta", "begin": "2026-11-18T11:06:40", "end": "2026-11-18T12:06:40+01:00"}
    page = admin.send("/exports", form, page="/exports")
    assert (page.status, page.headers["location"]) == (303, "/exports/orders")
    order = {
        "target": "orders",
        "format": "delta",
        "topics": [],
        "broker": "",
        "from_ms": 1_795_000_000_000,
        "to_ms": 1_795_000_000_000,
    }
    assert supervisor.asked("start-export") == [{"command": "start-export", **order}]
    entry = admin.get("/api/v1/audit").json()["audit"]["rows"][0]
    assert (entry["action"], entry["subject"], entry["outcome"]) == ("export.start", "orders", "done")
    assert json.loads(entry["after"]) == order


def test_date_without_a_time_is_a_whole_day(supervisor: Supervisor, admin: Browser) -> None:
    admin.send("/exports", {"target": "orders", "begin": "2026-11-18", "end": "2026-11-18"}, page="/exports")
    [order] = supervisor.asked("start-export")
    assert order["to_ms"] - order["from_ms"] == 86_400_000 - 1


def test_refusal_of_the_supervisor_is_shown_and_in_the_audit_log(supervisor: Supervisor, admin: Browser) -> None:
    supervisor.answers["start-export"] = {"ok": False, "error": "the export to bills is running; wait"}
    status, cause = send(admin, "/exports", {"target": "orders"})
    assert (status, "the export to bills is running; wait" in cause) == (400, True)
    assert (
        admin.get("/api/v1/audit").json()["audit"]["rows"][0]["outcome"]
        == "failed: the export to bills is running; wait"
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [("target", ""), ("target", "x" * 65), ("format", "csv"), ("begin", "yesterday"), ("end", "9" * 41), ("topics", "a " * 101), ("topics", "x" * 30_001)],
)  # fmt: skip
def test_invalid_form_reaches_no_supervisor(supervisor: Supervisor, admin: Browser, field: str, value: str) -> None:
    assert send(admin, "/exports", {"target": "orders", field: value})[0] in {400, 502, 504}
    assert supervisor.asked("start-export") == []


def test_operator_sees_exports_and_starts_and_stops_none(
    supervisor: Supervisor, console: RunningConsole, admin: Browser
) -> None:
    admin.send("/users", {"user": "olga", "password": PASSWORD, "role": "operator"}, "/users")
    olga = console.browser()
    olga.log_in("olga", PASSWORD)
    supervisor.exports["runs"] = [RUN]
    for path in ("/exports", "/exports/orders"):
        page = olga.get(path)
        assert page.status == 200
        assert "50 %" in page.text
        assert 'method="post" action="/exports' not in page.text
    for path, form in (("/exports", {"target": "orders"}), ("/exports/orders/stop", {"run": str(RUN["id"])})):
        page = olga.send(path, form, page="/exports")
        assert (page.status, "requires the role admin" in page.cause) == (403, True)
    assert supervisor.asked("start-export") == supervisor.asked("stop-export") == []


def test_running_export_is_shown_with_progress_and_a_button_to_stop_it(supervisor: Supervisor, admin: Browser) -> None:
    supervisor.exports["runs"] = [RUN]
    for path in ("/exports", "/exports/orders"):
        text = admin.get(path).text
        assert "5.0 MiB / 10.0 MiB" in text
        assert 'action="/exports/orders/stop"' in text
        assert "&lt;script&gt;alert(1)" in text
        assert "<script>alert(1)" not in text
        assert "<b>T" not in text
    page = admin.send("/exports/orders/stop", {"run": str(RUN["id"])}, page="/exports/orders")
    assert (page.status, page.headers["location"]) == (303, "/exports/orders")
    assert supervisor.asked("stop-export") == [{"command": "stop-export", "id": RUN["id"]}]


@pytest.mark.parametrize(("target", "run"), [("bills", RUN["id"]), ("orders", 1)])
def test_stop_of_another_run_is_not_found(supervisor: Supervisor, admin: Browser, target: str, run: int) -> None:
    supervisor.exports["runs"] = [RUN]
    assert send(admin, f"/exports/{target}/stop", {"run": str(run)})[0] == 404
    assert supervisor.asked("stop-export") == []


def test_failed_export_is_shown_with_its_last_words(supervisor: Supervisor, admin: Browser) -> None:
    supervisor.exports["runs"] = [
        {**RUN, "state": "failed", "ended_ms": RUN["id"] + 1, "output": ["headrace: the disk is full"]}
    ]
    text = admin.get("/exports/orders").text
    assert "headrace: the disk is full" in text
    assert "Stop</button>" not in text


def test_pages_have_the_folder_of_the_files_and_when_to_choose_which_format(
    supervisor: Supervisor, admin: Browser
) -> None:
    supervisor.exports["runs"] = [RUN]
    folder = supervisor.exports["folder"]
    text = admin.get("/exports").text
    assert f"<code>{folder}</code>" in text
    assert "Download a target on its page, or copy its folder" in text
    for name in ("Parquet", "Iceberg", "Delta"):
        assert re.search(f"<dt>{name}</dt><dd>[^<]*Choose it ", text)
    assert f"<code>{folder}/orders</code>" in admin.get("/exports/orders").text


def test_several_brokers_are_offered(supervisor: Supervisor, admin: Browser) -> None:
    supervisor.exports["brokers"] = ["broker-a", "broker-b"]
    assert "<option>broker-b</option>" in admin.get("/exports").text


def test_topic_s_name_is_suggested_as_target(admin: Browser) -> None:
    text = admin.get("/exports?topic=%25RETRY%25a%7Cb").text
    assert 'name="target" value="RETRY-a-b"' in text
    assert "%RETRY%a|b</textarea>" in text


@pytest.mark.parametrize("name", ["nothing", "..%2F..%2Fetc", "%00", "x" * 3000])
def test_unknown_target_is_not_found(admin: Browser, name: str) -> None:
    assert admin.get(f"/exports/{name}").status in {400, 404, 414}


def test_formats_whose_package_is_missing_are_not_offered(admin: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    def without(*missing: str) -> None:
        monkeypatch.setattr(export_pages, "find_spec", lambda name: None if name in missing else object())

    without("deltalake")
    text = admin.get("/exports").text
    assert '<option value="iceberg">' in text
    assert '<option value="delta">' not in text
    assert "headrace-appliance[delta]" in text
    assert "The Debian and RPM packages export to Parquet only" in text
    status, cause = send(admin, "/exports", {"target": "orders", "format": "delta"})
    assert (status, "the package deltalake is not installed" in cause) == (502, True)
    without("pyarrow", "pyiceberg", "deltalake")
    text = admin.get("/exports").text
    assert "The exporter is not installed." in text
    assert "headrace-exporter" in text
    assert 'method="post" action="/exports"' not in text
    assert send(admin, "/exports", {"target": "orders"})[0] == 502


@pytest.mark.parametrize(
    "answer",
    [
        {"ok": True},
        {"ok": True, "folder": 7, "brokers": [], "runs": []},
        {"ok": True, "folder": "/", "brokers": [], "runs": [{}]},
    ],
)
def test_invalid_answer_of_the_supervisor_is_an_error(
    supervisor: Supervisor, admin: Browser, monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any]
) -> None:
    monkeypatch.setattr(supervisor, "exports", answer)
    page = admin.get("/exports")
    assert (page.status, "the supervisor sent an invalid answer" in page.cause) == (502, True)


# ---- downloads


@pytest.fixture(scope="module")
def exported(supervisor: Supervisor, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The target `sold` with five messages."""
    log = SmallLog(tmp_path_factory.mktemp("store"))
    for number in range(5):
        log.append(f"order {number}".encode(), topic="Orders")
    log.write()
    target = Path(supervisor.exports["folder"]) / "sold"
    target.parent.mkdir()
    export(log.root, target)
    return target


def unpacked(archive: bytes, folder: Path) -> list[str]:
    """The names of the files."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        opened.extractall(folder, filter="data")
        return opened.getnames()


def test_target_is_downloaded_and_its_messages_are_read(exported: Path, admin: Browser, tmp_path: Path) -> None:
    (exported / "link").symlink_to("/etc/passwd")
    (exported / "linked").symlink_to("/etc")
    (exported / "_export" / "staging").mkdir(exist_ok=True)
    (exported / "_export" / "staging" / "leftover").touch()
    os.mkfifo(exported / "pipe")
    try:
        assert 'href="/exports/sold/download" download' in admin.get("/exports/sold").text
        page = admin.get("/exports/sold/download")
    finally:
        for name in ("link", "linked", "pipe", "_export/staging/leftover"):
            (exported / name).unlink()
    assert (page.status, page.headers["content-type"]) == (200, "application/x-tar")
    assert page.headers["content-disposition"] == 'attachment; filename="sold.tar"'
    assert int(page.headers["content-length"]) == len(page.body)
    names = unpacked(page.body, tmp_path)
    assert sorted(names) == sorted(f"sold/{one.relative_to(exported)}" for one in exported.rglob("*") if one.is_file())
    [file] = (tmp_path / "sold").glob("dt=*/*.parquet")
    assert pq.ParquetFile(file).read(columns=["body"]).column(0).to_pylist() == [b"order %d" % one for one in range(5)]
    entry = admin.get("/api/v1/audit").json()["audit"]["rows"][0]
    assert (entry["user"], entry["action"], entry["subject"], entry["outcome"]) == (
        "admin", "export.download", "sold", "done"
    )  # fmt: skip
    assert json.loads(entry["after"]) == {"files": len(names), "bytes": len(page.body)}
    assert admin.get("/api/v1/exports/sold/download").body == page.body
    document = admin.get("/api/v1/openapi.json").json()
    answer = document["paths"]["/exports/{target}/download"]["get"]["responses"]["200"]
    assert answer["content"] == {"application/x-tar": {}}


@pytest.mark.parametrize(
    "name",
    ["nothing", "..%2Fexports%2Fsold", "..", "sold%2F_export", "sold%2F..%2F..", "link", "file", "%00", "x" * 300],
)
def test_download_of_what_is_no_target_is_not_found(exported: Path, admin: Browser, name: str) -> None:
    link, file = exported.with_name("link"), exported.with_name("file")
    link.symlink_to(exported)
    file.touch()
    try:
        assert admin.get(f"/exports/{name}/download").status in {400, 404}
    finally:
        link.unlink()
        file.unlink()
    assert admin.get("/api/v1/audit").json()["audit"]["rows"][0]["subject"] != name


def test_running_export_is_not_downloaded(supervisor: Supervisor, exported: Path, admin: Browser) -> None:
    assert exported.exists()
    supervisor.exports["runs"] = [{**RUN, "target": "sold"}]
    assert "/exports/sold/download" not in admin.get("/exports/sold").text
    page = admin.get("/exports/sold/download")
    assert (page.status, "the export to sold is running" in page.cause) == (400, True)


def test_target_that_a_command_writes_to_is_not_downloaded(exported: Path, admin: Browser) -> None:
    lock = exported / "_export" / "lock"
    before = lock.read_bytes()
    lock.write_text(json.dumps({"pid": 1, "command": "headrace export", "boot": "of another machine"}))
    try:
        assert "/exports/sold/download" not in admin.get("/exports/sold").text
        assert admin.get("/exports/sold/download").status == 400
    finally:
        lock.write_bytes(before)


def test_interrupted_commit_must_be_completed_before_a_download(exported: Path, admin: Browser) -> None:
    pending = exported / "_export" / "pending" / f"{99:020}.json"
    pending.parent.mkdir(exist_ok=True)
    pending.touch()
    try:
        text = admin.get("/exports/sold").text
        assert "The last export was interrupted" in text
        assert "/exports/sold/download" not in text
        page = admin.get("/exports/sold/download")
        assert (page.status, "the last export to sold was interrupted" in page.cause) == (400, True)
    finally:
        pending.unlink()


def test_target_without_a_commit_has_nothing_to_download(exported: Path, admin: Browser) -> None:
    empty = exported.with_name("empty") / "_export"
    empty.mkdir(parents=True)
    (empty / "target.json").write_bytes((exported / "_export" / "target.json").read_bytes())
    assert "/exports/empty/download" not in admin.get("/exports/empty").text
    assert admin.get("/exports/empty/download").status == 404


def test_file_that_becomes_shorter_breaks_the_download_off(
    exported: Path, admin: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = exported / "dt=9999-12-31" / "last.parquet"
    last.parent.mkdir()
    last.write_bytes(b"x" * 1000)
    listed = TargetArchive.list

    def list_and_cut(target: Path) -> TargetArchive:
        archive = listed(target)
        os.truncate(last, 10)
        return archive

    monkeypatch.setattr(TargetArchive, "list", list_and_cut)
    try:
        with pytest.raises(http.client.IncompleteRead):
            admin.get("/exports/sold/download")
    finally:
        last.unlink()
        last.parent.rmdir()
    entry = admin.get("/api/v1/audit").json()["audit"]["rows"][0]
    assert (entry["action"], "last.parquet" in entry["outcome"]) == ("export.download", True)


def test_number_of_files_of_a_download_is_limited(
    exported: Path, admin: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert exported.exists()
    monkeypatch.setattr(target_archive, "MOST_FILES", 1)
    page = admin.get("/exports/sold/download")
    assert (page.status, "sold has more than 1 files" in page.cause) == (400, True)


def test_archive_is_read_in_pieces_and_never_through_a_link(tmp_path: Path) -> None:
    target = tmp_path / "lake"
    inner = target / "dt=2026-01-01"
    inner.mkdir(parents=True)
    (inner / "large.parquet").write_bytes(os.urandom(3_000_001))
    (inner / ("long name " * 20)).write_bytes(b"1")
    archive = TargetArchive.list(target)
    pieces = list(archive.pieces())
    assert max(map(len, pieces)) < 300_000
    assert sum(map(len, pieces)) == archive.length
    assert all(pieces), "an empty piece would end the download"
    unpacked(b"".join(pieces), tmp_path / "unpacked")
    for file in inner.iterdir():
        assert (tmp_path / "unpacked" / file.relative_to(tmp_path)).read_bytes() == file.read_bytes()
    inner.rename(tmp_path / "outside")
    inner.symlink_to(tmp_path / "outside")
    with pytest.raises(NotADirectoryError):
        list(archive.pieces())


def test_console_without_an_appliance_names_the_command(tmp_path: Path) -> None:
    with RunningConsole(tmp_path, api_timeout=0.2) as console:
        admin = console.administrator()
        assert "<code>headrace export SOURCE TARGET</code>" in admin.get("/exports").text
        assert admin.get("/exports/orders").status == 404
        assert admin.get("/exports/orders/download").status == 404
        assert "this is a standalone console and cannot export" in send(admin, "/exports", {"target": "orders"})[1]
