"""Pulls whose messages another process selects: filter functions (docs/protocol/filters.md).

All candidates of a pull go to the function at once, and the broker goes on with others until it has answered. A pull that is held is
answered only when a message has come that the function wants; until then each that comes is shown to it, and the pull waits on
behind them. A function that cannot be asked refuses its pulls and nobody else's.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor

from broker.filtering.filter_functions import FilterFunctions
from broker.filtering.filters import Refused
from broker.filtering.python_filters import PythonFilterFailed
from broker.pulling.held_pulls import HeldPull, HeldPulls
from broker.pulling.pull_request import PullRequest
from broker.response_codes import code_of_get
from headrace.protocol.remoting_command import RemotingCommand, SerializeType, response_to
from headrace.protocol.response_code import ResponseCode
from headrace.remoting.connection import Connection
from store.query.get import GetResult, warm
from store.query.judged import JudgedGetter, split_records
from store.status import GetMessageStatus

logger = logging.getLogger(__name__)


class JudgedPulls:
    """Reads for such pulls, and answers those that were held. The checks and the answer's form are `PullProcessor`'s."""

    def __init__(
        self,
        functions: FilterFunctions,
        getter: JudgedGetter,
        held: HeldPulls,
        executor: Executor,
        refusal: Callable[[PullRequest], Refused | None],
        answer: Callable[[RemotingCommand, PullRequest, GetResult, ResponseCode], RemotingCommand],
    ) -> None:
        self._functions = functions
        self._getter = getter
        self._held = held
        self._executor = executor
        self._refusal = refusal
        self._answer = answer
        self._tasks: set[asyncio.Task[None]] = set()

    async def read(self, pull: PullRequest) -> GetResult | Refused:
        """The messages from the pull's offset on that its function wants, up to the next few hundred looked at.

        # order: where nothing was there to be judged, nothing is awaited behind the look, so what comes later finds the pull held.
        """
        header, getter = pull.header, self._getter
        assert pull.function is not None
        name = pull.function.name
        place = header.topic, header.queue_id, pull.offset
        wanted = max(header.max_msg_nums, 1)
        if getter.is_cold(*place):
            # Shielded: `warm` must run even if the connection goes meanwhile, because it closes the plan's descriptors.
            plan = getter.plan_warming(*place, self._functions.most_candidates(name, wanted))
            await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._executor, warm, plan))
        shown = getter.candidates(*place, 1)
        if not shown.count:
            return shown

        def show() -> list[bytes]:
            nonlocal shown
            shown = getter.candidates(*place, self._functions.most_candidates(name, wanted))
            return split_records(shown.body)

        try:
            verdicts = await self._functions.match(name, show)
        except PythonFilterFailed as error:
            return ResponseCode.SYSTEM_ERROR, f"{error}; see headrace status where the broker runs"
        return getter.choose(shown, verdicts, header.max_msg_nums) if verdicts else shown

    # -- waiting ----------------------------------------------------------------------------------------------------------

    def hold(self, connection: Connection, command: RemotingCommand, pull: PullRequest, deadline: float) -> None:
        """Keeps the pull until a message that its function wants has come, at most until `deadline` (the loop's time)."""

        def try_again(last: bool) -> bool:
            if not connection.is_closed:
                task = asyncio.get_running_loop().create_task(
                    self._try_again(connection, command, pull, deadline, last)
                )
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            return True

        self._held.hold(HeldPull((pull.header.topic, pull.header.queue_id), deadline, try_again))

    async def _try_again(
        self, connection: Connection, command: RemotingCommand, pull: PullRequest, deadline: float, last: bool
    ) -> None:
        try:
            answer = await self._answer_held(command, pull, last)
        except Exception as error:  # noqa: BLE001 - the outermost loop of this request: nobody above could answer it
            connection.answer_failed(command, error)
            return
        if connection.is_closed:
            return
        if answer is None:
            self.hold(connection, command, pull, deadline)
            return
        # compat: the answer to a pull that was held is always JSON (remoting spec 1.5).
        answer.serialize_type = SerializeType.JSON
        connection.answer_in_turn(command, lambda: answer)

    async def _answer_held(self, command: RemotingCommand, pull: PullRequest, last: bool) -> RemotingCommand | None:
        """The pull evaluated anew, as topic, group and function are by now; None: it waits on."""
        while True:
            function, pull.began_ns = pull.function, time.monotonic_ns()
            refused = self._refusal(pull)
            if refused is not None:
                return response_to(command, *refused, {})
            if pull.function is None:
                return self.begin_anew(command, pull)
            if pull.function != function:
                # What was passed by may be wanted now.
                pull.offset = pull.header.queue_offset
            result = await self.read(pull)
            if isinstance(result, tuple):
                return response_to(command, *result, {})
            code = code_of_get(result.status, pull.header.queue_offset)
            if not last:
                if (
                    result.status is GetMessageStatus.NO_MATCHED_MESSAGE
                    and result.next_begin_offset >= result.max_offset
                ):
                    # Once more: what came while the function was busy found nobody held.
                    pull.offset = result.next_begin_offset
                    continue
                if code == ResponseCode.PULL_NOT_FOUND:
                    return None
            elif code == ResponseCode.PULL_NOT_FOUND and pull.offset != pull.header.queue_offset:
                result.status, code = GetMessageStatus.NO_MATCHED_MESSAGE, ResponseCode.PULL_RETRY_IMMEDIATELY
            return self._answer(command, pull, result, code)

    def begin_anew(self, command: RemotingCommand, pull: PullRequest) -> RemotingCommand:
        """The answer to a held pull whose group now selects in the other way, by a function or without: it is to ask again."""
        header = pull.header
        seen = self._getter.candidates(header.topic, header.queue_id, header.queue_offset, 1)
        nothing = GetResult(GetMessageStatus.NO_MATCHED_MESSAGE, header.queue_offset, seen.min_offset, seen.max_offset)
        return self._answer(command, pull, nothing, ResponseCode.PULL_RETRY_IMMEDIATELY)
