"""Signed requests and TLS of the Python client against RocketMQ's own servers."""

import re
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import (
    Admin,
    ConnectError,
    Credentials,
    LitePullConsumer,
    Message,
    PermissionDenied,
    PushConsumer,
    ReceivedMessage,
    StartFrom,
    TransactionProducer,
    TransactionState,
)
from support.appliance import Appliance
from support.reference import Reference, disposable
from support.sdk import await_registered, dump, eventually, patient, producing, run
from support.servers import Server

ACCOUNTS = """
globalWhiteRemoteAddresses: []
accounts:
  - accessKey: tester-key
    secretKey: tester-secret
    defaultTopicPerm: PUB|SUB
    defaultGroupPerm: PUB|SUB
    topicPerms:
      - Closed=DENY
  - accessKey: operator-key
    secretKey: operator-secret
    admin: true
"""

TESTER = Credentials("tester-key", "tester-secret")


@pytest.fixture(scope="module", params=["reference", "headrace"])
def guarded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A broker that requires signatures; TLS is optional, as with all RocketMQ servers."""
    root: Path = tmp_path_factory.mktemp("guarded")
    home = root / "data"
    (home / "conf").mkdir(parents=True)
    (home / "conf" / "plain_acl.yml").write_text(ACCOUNTS)
    settings = {"aclEnable": "true"}
    with disposable(
        Reference(home, settings=settings, more=(f"--home={home}",))
        if request.param == "reference"
        else Appliance(home, settings=settings)
    ) as server:
        await_registered(server.name_server)
        yield server


@pytest.mark.parametrize("binary_headers", [False, True])
def test_signed_requests_are_accepted(guarded: Server, binary_headers: bool) -> None:
    topic = f"Signed{binary_headers}"

    async def main() -> None:
        config = patient(guarded, credentials=TESTER, binary_headers=binary_headers)
        async with producing(config, "signed") as producer, Admin(config) as admin:
            await producer.send(Message(topic, "größe", keys="k"))
            await producer.send_batch([Message(topic, b"1"), Message(topic, b"2")])
            await producer.send_oneway(Message(topic, b"3"))
            assert len(await dump(admin, topic, 4)) == 4

    run(main())


@pytest.mark.parametrize(
    "credentials", [None, Credentials("tester-key", "wrong-secret"), Credentials("nobody", "no-secret")]
)
def test_unsigned_and_wrongly_signed_requests_are_refused_at_once(
    guarded: Server, credentials: Credentials | None
) -> None:
    async def main() -> None:
        config = patient(guarded, credentials=credentials)
        async with producing(config, "refused") as producer:
            with pytest.raises(PermissionDenied) as caught:
                await producer.send(Message("Refused", b"x"))
            assert not caught.value.retryable

    run(main())


def test_account_is_limited_to_its_permissions(guarded: Server) -> None:
    async def main() -> None:
        config = patient(guarded, credentials=TESTER)
        async with producing(config, "allowed") as producer, Admin(config) as admin:
            with pytest.raises(PermissionDenied, match="No default permission"):
                await producer.send(Message("Closed", b"x"))
            with pytest.raises(PermissionDenied, match="admin permission"):
                await admin.create_topic("OnlyOperators")
        operator = patient(guarded, credentials=Credentials("operator-key", "operator-secret"))
        async with Admin(operator) as admin:
            await admin.create_topic("OnlyOperators")
            (broker,) = (await admin.masters()).values()
            before = (await admin.acl_version(broker)).all_acl_file_version
            await admin.update_account("fresh-one", "fresh-secret", default_topic_permission="PUB", broker=broker)
            assert (await admin.acl_version(broker)).all_acl_file_version != before
            await admin.delete_account("fresh-one", broker=broker)

    run(main())


def test_accounts_are_listed_by_admin_accounts(guarded: Server) -> None:
    async def main() -> None:
        if guarded.name == "headrace":
            # Apache's broker answers every account.
            async with Admin(patient(guarded, credentials=TESTER)) as admin:
                with pytest.raises(PermissionDenied):
                    await admin.acl_config(guarded.broker)
        operator = patient(guarded, credentials=Credentials("operator-key", "operator-secret"))
        async with Admin(operator) as admin:
            found = await admin.acl_config(guarded.broker)
            assert {one.access_key: one.admin for one in found.plain_access_configs} == {
                "tester-key": False,
                "operator-key": True,
            }
            assert "operator-secret" not in repr(found)

    run(main())


def test_every_kind_of_client_signs_its_requests(guarded: Server) -> None:
    """Half messages and their ends, checks, traces, pushes with heartbeats and commits, lite pulls."""
    topic = "Kinds"

    async def main() -> None:
        config = patient(guarded, credentials=TESTER)
        taken: list[bytes] = []
        consumer = PushConsumer("kinds-push", config, start_from=StartFrom.FIRST, trace=True)

        @consumer.handler(topic)
        async def take(message: ReceivedMessage) -> None:
            taken.append(message.body)

        transactions = TransactionProducer("kinds-transactions", config, check=lambda _message: True, send_timeout=60)
        async with transactions:
            done = await transactions.send_in_transaction(
                Message(topic, b"whole"), execute=lambda _message, _argument: True
            )
            assert done.state is TransactionState.COMMIT
        async with producing(config, "kinds", trace=True) as producer, Admin(config) as admin:
            await producer.send(Message(topic, b"traced"))
            await dump(admin, topic, 2)
            async with consumer:

                async def all_there() -> bool:
                    return sorted(taken) == [b"traced", b"whole"]

                await eventually(all_there, "both consumed")
        async with LitePullConsumer("kinds-lite", config, start_from=StartFrom.FIRST) as lite:
            lite.subscribe(topic)
            found: list[bytes] = []

            async def polled() -> bool:
                found.extend([message.body for message in await lite.poll(1)])
                return sorted(found) == [b"traced", b"whole"]

            await eventually(polled, "both polled")

    run(main())


def test_tls_works_for_all_requests_and_rejects_untrusted_certificates(guarded: Server) -> None:
    async def main() -> None:
        trusting = ssl.create_default_context()
        trusting.check_hostname = False
        trusting.verify_mode = ssl.CERT_NONE
        async with producing(patient(guarded, tls=trusting, credentials=TESTER), "tls") as producer:
            assert (await producer.send(Message("Tls", b"x" * 100_000))).ok
        async with producing(patient(guarded, tls=True, credentials=TESTER), "tls") as producer:

            async def refused() -> str:
                with pytest.raises(ConnectError) as caught:
                    await producer.send(Message("Tls", b"x"))
                said = str(caught.value)
                return "" if "within" in said else said  # the TLS handshake of a JVM may be slow

            assert re.search(r"TLS.*[Cc]ertificate|CERTIFICATE", await eventually(refused, "it is refused"))

    run(main())
