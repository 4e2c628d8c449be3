"""TLS as an operator sees it: the default, certificates from `headrace tls init`, enforcing on all ports, and the HA link."""

import asyncio
import dataclasses
import json
import socket
import ssl
import stat
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from headrace import Admin, ClientConfig, ConfigError, HeadraceError, Message, Tls
from support.appliance import Appliance
from support.certificates import Certificates, trusting
from support.headrace_process import headrace
from support.sdk import answered, dump, eventually, patient, producing, run
from support.servers import wait_until

pytestmark = pytest.mark.slow

SMALL = {"mappedFileSizeCommitLog": "8388608", "queueTableCapacity": "4096"}
TOPIC = "Secret"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls") / "certificates"
    done = headrace("tls", "init", folder, "--client", "operator")
    assert done.returncode == 0, done.stderr
    assert f'tlsConfigFile = "{folder}/tls.properties"' in done.stdout
    return folder


@pytest.fixture(scope="module")
def enforcing(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    settings = {**SMALL, "tlsMode": "enforcing", "tlsConfigFile": str(files / "tls.properties")}
    with Appliance(tmp_path_factory.mktemp("enforcing") / "data", settings=settings) as appliance:
        yield appliance


def mutual(files: Path) -> Tls:
    return Tls(files / "ca.pem", files / "client.pem", files / "client.key")


def memory_map_of(pid: int) -> str:
    return Path(f"/proc/{pid}/maps").read_text()


def test_tls_init_writes_private_files_and_never_overwrites(files: Path) -> None:
    assert stat.S_IMODE(files.stat().st_mode) == 0o700
    before = {path.name: path.read_bytes() for path in files.iterdir()}
    assert set(before) == {
        "ca.pem", "ca.key", "server.pem", "server.key", "client.pem", "client.key", "tls.properties",
    }  # fmt: skip
    assert {stat.S_IMODE(path.stat().st_mode) for path in files.iterdir()} == {0o600}
    again = headrace("tls", "init", files)
    assert again.returncode != 0
    assert "already contains ca.pem" in again.stderr
    assert {path.name: path.read_bytes() for path in files.iterdir()} == before


def test_tls_init_refuses_invalid_host_names(tmp_path: Path) -> None:
    done = headrace("tls", "init", tmp_path / "new", "--host", "größe.example")
    assert done.returncode != 0
    assert "expected a host name or an IP address" in done.stderr


def test_enforcing_appliance_serves_verified_clients_on_all_ports(enforcing: Appliance, files: Path) -> None:
    """The broker registers with its name server by TLS too, or no client would find it."""

    async def main() -> None:
        config = patient(enforcing, tls=mutual(files))
        async with producing(config, "tls") as producer, Admin(config) as admin:
            await eventually_sent(producer)
            assert (await dump(admin, TOPIC, 1))[0].body == b"first"
        vip = dataclasses.replace(config, vip_channel=True)
        async with producing(vip, "tls-vip") as producer:
            assert (await producer.send(Message(TOPIC, b"x" * 1_000_000))).ok

    async def eventually_sent(producer: object) -> None:
        async def sent() -> bool:
            try:
                return bool((await producer.send(Message(TOPIC, b"first"))).ok)  # type: ignore[attr-defined]
            except HeadraceError:
                return False

        await eventually(sent, "the broker is registered")

    run(main())


def test_pipelined_sends_of_several_clients_are_all_stored_and_read_back(enforcing: Appliance, files: Path) -> None:
    async def main() -> None:
        configs = [patient(enforcing, tls=mutual(files), instance_name=f"tls-{number}") for number in range(8)]
        async with Admin(configs[0]) as admin, AsyncExitStack() as stack:
            await answered(lambda: admin.topic_route("TBW102"), "the broker is registered")
            await admin.create_topic("Pipelined", queues=4)
            producers = [await stack.enter_async_context(producing(config, "pipelined")) for config in configs]
            bodies = [number.to_bytes(2) * 20_000 for number in range(256)]
            sends = (producers[number % 8].send(Message("Pipelined", body)) for number, body in enumerate(bodies))
            assert all(result.ok for result in await asyncio.gather(*sends))
            assert sorted(message.body for message in await dump(admin, "Pipelined", 256)) == bodies

    run(main())


def test_enforcing_appliance_refuses_plain_clients_and_clients_that_do_not_trust_it(
    enforcing: Appliance, files: Path
) -> None:
    other = ssl.create_default_context()

    async def refused(config: ClientConfig) -> None:
        with pytest.raises(HeadraceError):
            async with Admin(config) as admin:
                await admin.topic_route("TBW102")

    async def main() -> None:
        await refused(patient(enforcing))
        await refused(patient(enforcing, tls=other))
        await refused(patient(enforcing, tls=True))
        async with Admin(patient(enforcing, tls=Tls(verify=False))) as admin:
            assert (await admin.topic_route("TBW102")).broker_datas
        for tls in (Tls(files / "nowhere.pem"), Tls(certificate=files / "client.pem", key=files / "server.key")):
            with pytest.raises(ConfigError, match="tls "):
                async with Admin(patient(enforcing, tls=tls)) as admin:
                    await admin.topic_route("TBW102")

    run(main())
    for address in (enforcing.name_server, enforcing.broker):
        host, _, port = address.partition(":")
        with socket.create_connection((host, int(port)), 60) as plain:
            plain.sendall(b"\0\0\0\x7b\0\0\0\x77{")
            assert plain.recv(1) == b""


def test_default_appliance_serves_both_and_makes_its_certificate_at_the_first_hello(tmp_path: Path) -> None:
    with Appliance(tmp_path / "data", settings=SMALL) as appliance:
        made = tmp_path / "data" / "tls" / "self-made.pem"
        assert not made.exists()
        contents = set()
        for address in (appliance.name_server, appliance.broker):
            host, _, port = address.partition(":")
            with (
                socket.create_connection((host, int(port)), 60) as plain,
                trusting().wrap_socket(plain, server_hostname=host) as wrapped,
            ):
                contents.add(wrapped.getpeercert(binary_form=True))
                assert wrapped.version() == "TLSv1.3"
            assert stat.S_IMODE(made.stat().st_mode) == 0o600
        assert len(contents) == 1
        for role in ("nameserver", "broker"):  # another process made it: the library would keep 5 MiB in each
            assert "cryptography" not in memory_map_of(appliance.pid_of(role))
        with socket.create_connection((host, int(port)), 60) as plain:
            plain.sendall(b"\x16 is no TLS record")
            while plain.recv(100):
                pass  # the alert
        wait_until(lambda: appliance.status()["counters"]["broker"]["tls_failures"] == 1, 60, "the failure is counted")


def test_log_says_why_a_certificate_cannot_be_made(tmp_path: Path) -> None:
    with Appliance(tmp_path / "data", settings=SMALL) as appliance:
        (tmp_path / "data" / "tls").touch()
        host, _, port = appliance.broker.partition(":")
        with (
            socket.create_connection((host, int(port)), 60) as plain,
            pytest.raises((ConnectionError, ssl.SSLError)),
            trusting().wrap_socket(plain, server_hostname=host),
        ):
            pass
        said = f"cannot write the self-signed certificate {tmp_path}/data/tls/self-made.pem: File exists"
        wait_until(lambda: said in (appliance.data / "logs" / "headrace.log").read_text(), 60, "the reason is logged")


def test_bad_tls_settings_end_the_start_with_one_line(tmp_path: Path) -> None:
    broken = tmp_path / "tls.properties"
    broken.write_text("tls.test.mode.enable=false\ntls.server.certPath=/nowhere.pem\ntls.server.keyPath=/nowhere.key\n")
    for settings, reason in (
        (f"tlsConfigFile={broken}", "tls.server.certPath=/nowhere.pem: No such file or directory"),
        (f"tlsConfigFile={tmp_path}/none", "No such file or directory"),
        ("tlsMode=on", "tlsMode=on: expected"),
    ):
        done = headrace("run", "--data", tmp_path / "data", "--set", settings)
        assert done.returncode == 2
        assert reason in done.stderr
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("master_requires_tls", [True, False])
def test_slave_copies_its_master_by_tls(files: Path, tmp_path: Path, master_requires_tls: bool) -> None:
    tls = {"tlsConfigFile": str(files / "tls.properties")}
    sizes = {**SMALL, "mappedFileSizeConsumeQueue": "6000"}
    master_settings = {**sizes, **tls, "haTlsEnable": "true" if master_requires_tls else "false"}
    with Appliance(tmp_path / "master", settings=master_settings) as master:
        host, _, port = master.broker.partition(":")
        replicated = {**sizes, "brokerRole": "SLAVE", "brokerId": "1", "haMasterAddress": f"{host}:{int(port) + 1}"}
        with Appliance(tmp_path / "slave", settings={**replicated, **tls, "haTlsEnable": "true"}) as slave:

            async def main() -> None:
                async with producing(patient(master), "replicated") as producer:
                    for number in range(20):
                        await producer.send(Message("Replicated", bytes([number]) * 50_000))

            run(main())
            wait_until(
                lambda: slave.status()["offsets"]["wrote_offset"] == master.status()["offsets"]["wrote_offset"] > 0,
                60, "everything copied",
            )  # fmt: skip
            assert log_of(slave) == log_of(master)
            log = tmp_path / "master" / "logs" / "headrace.log"
            # A process of its own writes the log, perhaps later than the copying ends.
            wait_until(lambda: "slave uses TLS" in log.read_text(), 60, "the connection in the log")
            assert "certificate=CN=operator" in log.read_text()
        if master_requires_tls:
            with Appliance(tmp_path / "plain", settings=replicated) as plain:
                wait_until(lambda: "slaves must use TLS" in log.read_text(), 60, "the plain slave refused")
                assert plain.status()["offsets"]["wrote_offset"] == 0


def log_of(appliance: Appliance) -> bytes:
    files = sorted((appliance.data / "store" / "commitlog").glob("*"))
    return b"".join(path.read_bytes() for path in files).rstrip(b"\0")


def test_status_and_log_name_an_expired_certificate(tmp_path: Path) -> None:
    made = Certificates(tmp_path)
    properties = tmp_path / "tls.properties"
    properties.write_text("".join(f"{key}={text}\n" for key, text in made.properties("expired-server").items()))
    with Appliance(tmp_path / "data", settings={**SMALL, "tlsConfigFile": str(properties)}) as appliance:
        shown = headrace("status", "--data", appliance.data).stdout
        listed = json.loads(headrace("status", "--json", "--data", appliance.data).stdout)["certificates"]
        log = appliance.data / "logs" / "headrace.log"
        wait_until(
            lambda: log.read_text().count("certificate expired path=") == 2, 60, "lines of name server and broker"
        )
    assert f"certificate {tmp_path}/expired-server.pem has expired (" in shown
    assert f"{tmp_path}/ca.pem" not in shown
    assert [(Path(each["path"]).name, each["days_left"] < 0, bool(each["message"])) for each in listed] == [
        ("expired-server.pem", True, True), ("ca.pem", False, False),
    ]  # fmt: skip
    assert log.read_text().count("certificate expired path=") == 2


def test_certificate_that_changes_is_used_without_a_restart(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        assert headrace("tls", "init", folder).returncode == 0
    settings = {**SMALL, "tlsConfigFile": str(first / "tls.properties")}
    with Appliance(tmp_path / "data", settings=settings) as appliance:
        host, _, port = appliance.broker.partition(":")

        def is_trusted(authority: Path) -> bool:
            context = ssl.create_default_context(cafile=str(authority))
            try:
                with socket.create_connection((host, int(port)), 60) as plain:
                    context.wrap_socket(plain, server_hostname=host).close()
            except ssl.SSLCertVerificationError:
                return False
            return True

        assert is_trusted(first / "ca.pem")
        for name in ("server.key", "server.pem"):
            (second / name).rename(first / name)
        end = time.monotonic() + 60
        while not is_trusted(second / "ca.pem"):
            assert time.monotonic() < end
        assert not is_trusted(first / "ca.pem")
