"""TLS between all pairs: the official client and ours, Apache's servers and ours, with certificates that `headrace tls init` creates."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from headrace import Admin, ConnectError, HeadraceError, Message, PushConsumer, StartFrom, Tls, sync
from support.appliance import Appliance
from support.client import Client, assert_exactly
from support.headrace_process import headrace
from support.java import QUICK_START, Java, openssl_jar
from support.reference import Reference, disposable
from support.sdk import await_registered, dump, eventually, patient, producing, run
from support.servers import Server

pytestmark = pytest.mark.slow

TLS_FLAGS = ("-Dtls.enable=true",)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls") / "certificates"
    for made, client in ((folder, "client"), (folder.with_name("other"), "stranger")):
        done = headrace("tls", "init", made, "--client", client)
        assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def servers(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Server]]:
    """Both with the same tls.properties. They also take plain text, or Apache's could not be seen to have started."""
    folder = tmp_path_factory.mktemp("servers")
    properties = files / "required.properties"
    text = (files / "tls.properties").read_text()
    properties.write_text(text.replace("client.auth=optional", "client.auth=require") + "tls.enable=true\n")
    with ExitStack() as stack:
        started: dict[str, Server] = {
            "reference": stack.enter_context(
                disposable(Reference(folder / "reference", tls=(f"-Dtls.config.file={properties}",)))
            ),
            "headrace": stack.enter_context(Appliance(folder / "data", settings={"tlsConfigFile": str(properties)})),
        }
        for each in started.values():
            await_registered(each.name_server)
        yield started


@pytest.fixture(params=["reference", "headrace"])
def secured(request: pytest.FixtureRequest, servers: dict[str, Server]) -> Server:
    return servers[request.param]


@pytest.fixture(scope="module", params=["JDK", "OpenSSL"])
def java_with_certificate(
    request: pytest.FixtureRequest, files: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Java]:
    """With Java's own TLS, as the client is shipped, and with Netty's OpenSSL."""
    flags = (
        *QUICK_START, *TLS_FLAGS, "-Dtls.test.mode.enable=false", "-Dtls.client.authServer=true",
        f"-Dtls.client.trustCertPath={files}/ca.pem", f"-Dtls.client.certPath={files}/client.pem",
        f"-Dtls.client.keyPath={files}/client.key",
    )  # fmt: skip
    jars = (openssl_jar(),) if request.param == "OpenSSL" else ()
    with Java(tmp_path_factory.mktemp("java"), flags=flags, jars=jars) as java:
        yield java
        assert ("netty_tcnative" in Path(f"/proc/{java.pid}/maps").read_text()) == bool(jars), "the other TLS was used"


def mutual(files: Path) -> Tls:
    return Tls(files / "ca.pem", files / "client.pem", files / "client.key")


def test_java_client_with_certificate_sends_and_consumes(java_with_certificate: Java, secured: Server) -> None:
    client = Client(java_with_certificate, secured)
    client.create_topic("JavaTls", 4)
    sent = [*client.send("JavaTls", 300, mode="async"), *client.send("JavaTls", 20, first=300, size=900_000)]
    client.consume("tls", "JavaTls")
    assert_exactly(client.receive("tls", 320), sent)
    client.stop("tls")


def test_java_client_in_its_default_test_mode_is_served_by_the_default_appliance(tmp_path: Path) -> None:
    with (
        Appliance(tmp_path / "data") as appliance,
        Java(tmp_path / "java", flags=(*QUICK_START, *TLS_FLAGS)) as java,
    ):
        client = Client(java, appliance)
        client.create_topic("Simple", 2)
        sent = client.send("Simple", 50)
        client.consume("simple", "Simple")
        assert_exactly(client.receive("simple", 50), sent)
        client.stop("simple")
        assert (tmp_path / "data" / "tls" / "self-made.pem").exists()


def test_python_client_with_certificate_uses_every_kind_of_connection(files: Path, secured: Server) -> None:
    async def main() -> None:
        config = patient(secured, tls=mutual(files))
        taken = []
        consumer = PushConsumer("tls-push", config, start_from=StartFrom.FIRST)

        @consumer.handler("PythonTls")
        async def take(message: object) -> None:
            taken.append(message)

        async with producing(config, "tls") as producer, Admin(config) as admin:
            await admin.create_topic("PythonTls", queues=2)
            await producer.send_batch([Message("PythonTls", bytes([number])) for number in range(5)])
            await producer.send(Message("PythonTls", b"x" * 3_000_000))
            await producer.send_oneway(Message("PythonTls", b"oneway"))
            assert len(await dump(admin, "PythonTls", 7)) == 7
            async with consumer:

                async def all_there() -> bool:
                    return len(taken) >= 7

                await eventually(all_there, "all consumed")

    run(main())


def test_synchronous_client_uses_the_same_settings(files: Path, secured: Server) -> None:
    with sync.Producer("tls-sync", patient(secured, tls=mutual(files)), send_timeout=60) as producer:
        assert producer.send(Message("TBW102", b"x")).ok


def test_clients_that_cannot_be_verified_or_do_not_trust_the_server_are_refused(files: Path, secured: Server) -> None:
    other = files.with_name("other")
    refused = (
        Tls(files / "ca.pem"),
        Tls(files / "ca.pem", other / "client.pem", other / "client.key"),
        Tls(other / "ca.pem", files / "client.pem", files / "client.key"),
        True,
    )

    async def main() -> None:
        for tls in refused:
            async with Admin(patient(secured, tls=tls, api_timeout=10)) as admin:
                with pytest.raises(HeadraceError) as caught:
                    await admin.topic_route("TBW102")
                if tls is True:
                    assert isinstance(caught.value, ConnectError)
                    assert "CERTIFICATE_VERIFY_FAILED" in str(caught.value)
        async with Admin(patient(secured, tls=mutual(files))) as admin:
            assert (await admin.topic_route("TBW102")).broker_datas

    run(main())
