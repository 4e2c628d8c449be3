"""Transactions of the synchronous clients: `with producer.transaction(message) as transaction:`."""

from types import TracebackType
from typing import Self

from headrace.client.producing import transaction_producer
from headrace.client.sending.send_result import SendResult
from headrace.model.message import Message
from headrace.sync.engine import shared_engine


class Transaction:
    """One message in a transaction: the end of the block commits it, an exception rolls it back."""

    def __init__(self, transaction: transaction_producer.Transaction) -> None:
        self._transaction = transaction
        self._engine = shared_engine()

    @property
    def message(self) -> Message:
        """The half message, with its `unique_id`. Raises StateError before the block is entered."""
        return self._transaction.message

    @property
    def result(self) -> SendResult:
        """The result of the half message. Raises StateError before the block is entered."""
        return self._transaction.result

    def rollback(self) -> None:
        """Rolls the message back at the end of the block, without an exception."""
        self._transaction.rollback()

    def unknown(self) -> None:
        """Leaves the outcome open: the broker checks later."""
        self._transaction.unknown()

    def __enter__(self) -> Self:
        self._engine.run(self._transaction.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._engine.run(self._transaction.__aexit__(kind, error, trace))
