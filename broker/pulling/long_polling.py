"""LongPolling: holds pulls that found no message, sets their timeouts (`hold`), and evaluates them again until they are answered.

    queue has grown ──┐                                 ┌─► a wanted message, a refusal: answer
                      ├─► check ─► select ─► conclude ──┤
    deadline ─────────┘                                 └─► nothing wanted: hold again, after the examined messages

Store spec 13.5. `HeldPulls` keeps the deadlines. Topic, group, subscription and function are looked up each time. A pull by tags or
expression is evaluated in its turn on the connection, a pull by a filter function in a task, because another process selects its
messages.
"""

import asyncio
import logging
from collections.abc import Callable

from msgspec import Struct

from broker.config import BrokerConfig
from broker.errors import LimitReached
from broker.pulling.held_pulls import HeldPull, HeldPulls
from broker.pulling.pull_answers import PullAnswers
from broker.pulling.pull_checks import CheckedPull, PullChecks
from broker.pulling.pull_request import PullRequest
from broker.pulling.selectors import FunctionSelector, Selector
from broker.response_codes import code_of_get
from headrace.protocol.remoting_command import RemotingCommand, SerializeType, response_to
from headrace.protocol.response_code import ResponseCode
from store.query.get import GetResult
from store.status import GetMessageStatus

logger = logging.getLogger(__name__)


class _Progress(Struct):
    """The progress of a held pull: `selector` wants no message below queue offset `offset`."""

    selector: Selector
    offset: int


class LongPolling:
    """Holds pulls in `held`. `bounds(topic, queue_id)`: the queue's lowest offset, and one beyond the highest."""

    def __init__(
        self,
        config: BrokerConfig,
        checks: PullChecks,
        answers: PullAnswers,
        held: HeldPulls,
        bounds: Callable[[str, int], tuple[int, int]],
    ) -> None:
        self._config = config
        self._checks = checks
        self._answers = answers
        self._held = held
        self._bounds = bounds
        self._tasks: set[asyncio.Task[None]] = set()

    def hold(self, pull: PullRequest, selector: Selector) -> float:
        """Holds a pull without messages; returns the maximum time in seconds. Raises LimitReached.

        The client chooses the time (ours in `headrace.client.consuming.puller`). As in RocketMQ, it has no upper bound.
        """
        self._check_limits(pull)
        config = self._config
        hold_ms = pull.header.suspend_timeout_millis if config.long_polling_enable else config.short_polling_time_mills
        hold_s = max(hold_ms, 0) / 1000
        progress = _Progress(selector, pull.header.queue_offset)
        self._hold(pull, progress, asyncio.get_running_loop().time() + hold_s)
        return hold_s

    def _check_limits(self, pull: PullRequest) -> None:
        config, held = self._config, self._held
        if held.size >= config.max_held_pulls:
            limit, what = "maxHeldPulls", f"held pulls: {held.size}"
        elif held.count_of(pull.connection) >= config.max_held_pulls_per_connection:
            limit, what = (
                "maxHeldPullsPerConnection",
                f"held pulls of this connection: {held.count_of(pull.connection)}",
            )
        else:
            return
        raise LimitReached(limit, f"too many {what} (limit {limit}); retry later or raise {limit}")

    def _hold(self, pull: PullRequest, progress: _Progress, deadline: float) -> None:
        def try_again(last: bool) -> bool:
            if pull.connection.is_closed:
                return True
            if isinstance(progress.selector, FunctionSelector):
                self._start(pull, progress, deadline, last)
                return True
            return self._evaluate_in_turn(pull, progress, last)

        self._held.hold(HeldPull((pull.header.topic, pull.header.queue_id), deadline, try_again, pull.connection))

    # -- here -------------------------------------------------------------------------------------------------------------

    def _evaluate_in_turn(self, pull: PullRequest, progress: _Progress, last: bool) -> bool:
        """Evaluates the pull once the consumer has read earlier responses; returns whether it is answered or will be."""
        is_answered = last or pull.connection.is_held

        def work() -> RemotingCommand | None:
            nonlocal is_answered
            # order: before the evaluation. If that raises, the error is the answer.
            is_last, is_answered = is_answered, True
            answer = self._evaluate(pull, progress, is_last)
            if answer is None:
                is_answered = False
                return None
            return _as_json(answer)

        pull.connection.answer_in_turn(pull.command, work)
        return is_answered

    def _evaluate(self, pull: PullRequest, progress: _Progress, last: bool) -> RemotingCommand | None:
        checked = self._check(pull, progress)
        if isinstance(checked, RemotingCommand):
            return checked
        selector = checked.selector
        assert not isinstance(selector, FunctionSelector)
        return self._conclude(pull, progress, checked, selector.read(pull.header, progress.offset), last)

    # -- in another process -----------------------------------------------------------------------------------------------

    def _start(self, pull: PullRequest, progress: _Progress, deadline: float, last: bool) -> None:
        task = asyncio.get_running_loop().create_task(self._evaluate_and_answer(pull, progress, deadline, last))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _evaluate_and_answer(self, pull: PullRequest, progress: _Progress, deadline: float, last: bool) -> None:
        connection = pull.connection
        try:
            answer = await self._evaluate_by_function(pull, progress, last)
        except Exception as error:  # noqa: BLE001 - the outermost loop of this request: nobody above could answer it
            connection.answer_failed(pull.command, error)
            return
        if connection.is_closed:
            return
        if answer is None:
            self._hold(pull, progress, deadline)
        else:
            connection.answer_in_turn(pull.command, lambda: _as_json(answer))

    async def _evaluate_by_function(self, pull: PullRequest, progress: _Progress, last: bool) -> RemotingCommand | None:
        while True:
            checked = self._check(pull, progress)
            if isinstance(checked, RemotingCommand):
                return checked
            selector = checked.selector
            assert isinstance(selector, FunctionSelector)
            result = await selector.read(pull.header, progress.offset)
            if isinstance(result, tuple):
                return response_to(pull.command, *result, {})
            answer = self._conclude(pull, progress, checked, result, last)
            # Messages that arrived while the function was busy found no held pull: look once more.
            if answer is not None or result.status is not GetMessageStatus.NO_MATCHED_MESSAGE:
                return answer

    # -- both -------------------------------------------------------------------------------------------------------------

    def _check(self, pull: PullRequest, progress: _Progress) -> CheckedPull | RemotingCommand:
        """Checks the pull again; returns a response if it is refused, or must be repeated because its group now selects in another way."""
        header = pull.header
        checked = self._checks.check(header, pull.connection.limit_reached)
        if not isinstance(checked, CheckedPull):
            return response_to(pull.command, *checked, {})
        before, progress.selector = progress.selector, checked.selector
        if isinstance(before, FunctionSelector) != isinstance(checked.selector, FunctionSelector):
            nothing = GetResult(
                GetMessageStatus.NO_MATCHED_MESSAGE, header.queue_offset, *self._bounds(header.topic, header.queue_id)
            )
            return self._answers.answer(pull, checked, nothing, ResponseCode.PULL_RETRY_IMMEDIATELY)
        if before != checked.selector:
            # Messages skipped before may be wanted now.
            progress.offset = header.queue_offset
        return checked

    def _conclude(
        self, pull: PullRequest, progress: _Progress, checked: CheckedPull, result: GetResult, last: bool
    ) -> RemotingCommand | None:
        """The response; None: the pull stays held. At the deadline its consumer learns about skipped messages."""
        asked = pull.header.queue_offset
        code = code_of_get(result.status, asked)
        if not last:
            if result.status is GetMessageStatus.NO_MATCHED_MESSAGE and result.next_begin_offset >= result.max_offset:
                progress.offset = result.next_begin_offset
                return None
            if code == ResponseCode.PULL_NOT_FOUND:
                return None
        elif code == ResponseCode.PULL_NOT_FOUND and progress.offset != asked:
            result.status, code = GetMessageStatus.NO_MATCHED_MESSAGE, ResponseCode.PULL_RETRY_IMMEDIATELY
        return self._answers.answer(pull, checked, result, code)


def _as_json(answer: RemotingCommand) -> RemotingCommand:
    # compat: the answer to a pull that was held is always JSON (remoting spec 1.5).
    answer.serialize_type = SerializeType.JSON
    return answer
