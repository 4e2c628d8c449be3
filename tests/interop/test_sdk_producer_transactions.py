"""Transactions of the Python client at a broker that checks early."""

import asyncio
from collections.abc import Iterator

import pytest

from headrace import (
    Admin,
    Message,
    MessageExt,
    TransactionProducer,
    TransactionState,
)
from support.appliance import Appliance
from support.not_served import NOT_SERVED
from support.reference import Reference, disposable
from support.sdk import PATIENCE_S, await_registered, dump, patient, run
from support.servers import Server

MAKERS = {"reference": Reference} if "transactions" in NOT_SERVED else {"reference": Reference, "headrace": Appliance}
SETTINGS = {"transactionCheckInterval": "500", "transactionTimeOut": "300"}


@pytest.fixture(scope="module", params=MAKERS)
def asking(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose broker checks undecided transactions after half a second."""
    data = tmp_path_factory.mktemp(f"asking-{request.param}") / "data"
    with disposable(MAKERS[request.param](data, settings=SETTINGS)) as server:
        await_registered(server.name_server)
        yield server


def nobody(message: MessageExt) -> None:
    """A check that returns unknown."""


def test_committed_messages_are_visible_and_rolled_back_ones_are_not(asking: Server) -> None:
    async def main() -> None:
        seen: list[str] = []

        def execute(message: Message, arg: object) -> bool:
            seen.append(f"{message.unique_id} {arg}")
            return arg == "commit"

        async with (
            TransactionProducer(
                "tx-commit", patient(asking), check=nobody, execute=execute, send_timeout=PATIENCE_S
            ) as producer,
            Admin(patient(asking)) as admin,
        ):
            await admin.create_topic("TxCommit", 1)
            committed = await producer.send_in_transaction(
                Message("TxCommit", b"yes", keys="k", delay_level=3), "commit"
            )
            rolled_back = await producer.send_in_transaction(Message("TxCommit", b"no"), "roll back")
            assert committed.state is TransactionState.COMMIT
            assert rolled_back.state is TransactionState.ROLLBACK
            assert seen == [f"{committed.message_id} commit", f"{rolled_back.message_id} roll back"]
            # A broker may process the ends of two transactions in any order.
            await dump(admin, "TxCommit", 1)
            async with producer.transaction(Message("TxCommit", b"also")) as transaction:
                assert transaction.message.unique_id == transaction.result.message_id
            with pytest.raises(KeyError):
                async with producer.transaction(Message("TxCommit", b"never")):
                    raise KeyError
            stored = await dump(admin, "TxCommit", 2)
            assert [message.body for message in stored] == [b"yes", b"also"]
            assert stored[0].message_id == committed.message_id
            assert stored[0].properties["PGROUP"] == "tx-commit"

    run(main())


@pytest.mark.parametrize("is_async", [False, True])
def test_transaction_check_decides_the_outcome(asking: Server, is_async: bool) -> None:
    topic = f"TxCheck{is_async}"

    async def main() -> None:
        asked: list[MessageExt] = []

        def check(message: MessageExt) -> bool | None:
            asked.append(message)
            if message.body == b"raise" and len(asked) < 3:
                raise RuntimeError("not now")
            return message.body != b"no"

        async def check_later(message: MessageExt) -> bool | None:
            await asyncio.sleep(0)
            return check(message)

        async with (
            TransactionProducer(
                f"tx-check-{is_async}",
                patient(asking),
                check=check_later if is_async else check,
                send_timeout=PATIENCE_S,
            ) as producer,
            Admin(patient(asking)) as admin,
        ):
            await admin.create_topic(topic, 1)

            def fail(message: Message, _arg: object) -> None:
                raise ValueError(message.topic)

            unknown = await producer.send_in_transaction(Message(topic, b"raise"), execute=fail)
            assert unknown.state is TransactionState.UNKNOWN
            assert isinstance(unknown.error, ValueError)
            async with producer.transaction(Message(topic, b"no")) as transaction:
                transaction.unknown()
            stored = await dump(admin, topic, 1)
            # A broker asks again if an answer takes longer than its interval, and commits again: more than one copy is possible.
            assert {message.body for message in stored} == {b"raise"}
            assert {message.topic for message in asked} == {topic}
            assert unknown.message_id in {message.message_id for message in asked}

    run(main())


def test_send_in_transaction_requires_execute(asking: Server) -> None:
    async def main() -> None:
        async with TransactionProducer("tx-none", patient(asking), check=nobody, send_timeout=PATIENCE_S) as producer:
            with pytest.raises(ValueError, match="execute"):
                await producer.send_in_transaction(Message("TxNone", b"x"))

    run(main())
