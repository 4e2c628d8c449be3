"""A transaction of the synchronous face: `with producer.transaction(message) as transaction:`."""

from types import TracebackType
from typing import Self

from headrace.client.producing import transaction_producer
from headrace.client.sending.send_result import SendResult
from headrace.model.message import Message
from headrace.sync.engine import shared_engine


class Transaction:
    """One message in a transaction: the end of the block commits it, an exception rolls it back and goes on."""

    def __init__(self, transaction: transaction_producer.Transaction) -> None:
        self._transaction = transaction
        self._engine = shared_engine()

    @property
    def message(self) -> Message:
        """The half message, with its `unique_id`. Raises StateError outside of the block."""
        return self._transaction.message

    @property
    def result(self) -> SendResult:
        """What became of the half message. Raises StateError outside of the block."""
        return self._transaction.result

    def rollback(self) -> None:
        """The message is not to be seen, though no exception is raised."""
        self._transaction.rollback()

    def unknown(self) -> None:
        """It is not known yet how the transaction ends: the broker asks later."""
        self._transaction.unknown()

    def __enter__(self) -> Self:
        self._engine.run(self._transaction.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._engine.run(self._transaction.__aexit__(kind, error, trace))
