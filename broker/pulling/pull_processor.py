"""PULL_MESSAGE on the plain path: the checks, the read, the commit of an offset, the answer (remoting spec 4.10).

LITE_PULL_MESSAGE, which lite pull consumers of RocketMQ 5 send, has the same fields and is served alike.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from broker import handler_errors
from broker.clients.queue_visits import QueueVisits
from broker.pulling.hot_pull import PullPath, PullPlan
from broker.pulling.long_polling import LongPolling
from broker.pulling.pull_answers import PullAnswers
from broker.pulling.pull_checks import CheckedPull, PullChecks
from broker.pulling.pull_request import PullRequest
from broker.pulling.selectors import FilterSelector, FunctionSelector, TagSelector
from broker.response_codes import code_of_get
from headrace.model import pull_sys_flag
from headrace.protocol.headers.pull import PullMessageRequestHeader
from headrace.protocol.remoting_command import RemotingCommand, response_to
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from headrace.remoting.connection import Connection
from headrace.remoting.handlers import HandlerTable
from store.query.get import GetResult

Commit = Callable[[str, str, int, int], object]
"""Stores a consumer's offset: group, topic, queue id, queue offset."""

_ENTRIES_READ = (ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY)
"""Response codes of pulls that examined entries, wanted or not."""

_UNREAD = {"commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0"}
"""Fields that a pull should have, but that are read only with certain bits of its sysFlag."""


class PullProcessor:
    """Answers pulls: checks, then reads, then commits, then answers or holds."""

    def __init__(
        self,
        checks: PullChecks,
        answers: PullAnswers,
        polling: LongPolling,
        visits: QueueVisits,
        commit: Commit | None,
        path: PullPath | None = None,
    ) -> None:
        """`commit` is None on a slave, which stores no offsets. `path` is the hot path, prepared here for later pulls."""
        self._checks = checks
        self._answers = answers
        self._polling = polling
        self._visits = visits
        self._commit = commit
        self._path = path

    def register(self, main: HandlerTable) -> None:
        """Serves pulls on the main port only. # compat: RocketMQ's fast port answers them with code 3."""
        codes = (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
        handler_errors.register((main,), dict.fromkeys(codes, self.pull))

    def pull(
        self, connection: Connection, command: RemotingCommand
    ) -> RemotingCommand | Awaitable[RemotingCommand | None] | None:
        """Handles a pull; None while it is held, an awaitable while it is read from disk or a function selects."""
        header = PullMessageRequestHeader.from_ext(_UNREAD | command.ext)
        checked = self._checks.check(header, connection.limit_reached)
        if not isinstance(checked, CheckedPull):
            return response_to(command, *checked, {})
        self._visits.visited(header.consumer_group, header.topic, (header.queue_id,))
        pull, selector = PullRequest(connection, command, header), checked.selector
        if isinstance(selector, FunctionSelector):
            return self._read_by_function(pull, checked, selector)
        if isinstance(selector, TagSelector) and self._path is not None:
            _prepare(self._path, header, checked, selector)
        warming = selector.warm(header)
        if warming is not None:
            return self._read_cold(pull, checked, selector, warming)
        return self._read(pull, checked, selector)

    def _read(
        self, pull: PullRequest, checked: CheckedPull, selector: TagSelector | FilterSelector
    ) -> RemotingCommand | None:
        return self._settle(pull, checked, selector.read(pull.header, pull.header.queue_offset))

    async def _read_cold(
        self,
        pull: PullRequest,
        checked: CheckedPull,
        selector: TagSelector | FilterSelector,
        warming: Awaitable[None],
    ) -> RemotingCommand | None:
        """Waits until a thread has read the records, so that no page fault stalls other requests."""
        # Shielded: the thread must run even if the connection is lost meanwhile, because it closes the plan's descriptors.
        await asyncio.shield(warming)
        pull.connection.answer_in_turn(pull.command, partial(self._read, pull, checked, selector))
        return None

    async def _read_by_function(
        self, pull: PullRequest, checked: CheckedPull, selector: FunctionSelector
    ) -> RemotingCommand | None:
        result = await selector.read(pull.header, pull.header.queue_offset)
        if isinstance(result, tuple):
            return response_to(pull.command, *result, {})
        return self._settle(pull, checked, result)

    def _settle(self, pull: PullRequest, checked: CheckedPull, result: GetResult) -> RemotingCommand | None:
        """Commits the offset in the request, and answers, or holds a pull without messages."""
        header = pull.header
        code = code_of_get(result.status, header.queue_offset)
        if header.max_msg_nums < 0 and code in _ENTRIES_READ:
            # compat: RocketMQ looks at this number only if there is something to read.
            remark = f"maxMsgNums={header.max_msg_nums}: expected at least 1"
            return response_to(pull.command, ResponseCode.SYSTEM_ERROR, remark, {})
        if header.sys_flag & pull_sys_flag.COMMIT_OFFSET and self._commit is not None:
            self._commit(header.consumer_group, header.topic, header.queue_id, header.commit_offset)
        may_hold = header.sys_flag & pull_sys_flag.SUSPEND and not pull.command.is_oneway
        if code == ResponseCode.PULL_NOT_FOUND and may_hold:
            hold_s = self._polling.hold(pull, checked.selector)
            self._visits.visited(header.consumer_group, header.topic, (header.queue_id,), hold_s)
            return None
        return self._answers.answer(pull, checked, result, code)


def _prepare(path: PullPath, header: PullMessageRequestHeader, checked: CheckedPull, selector: TagSelector) -> None:
    """Prepares the hot path to answer such pulls. The checks are valid until it discards its plans."""
    if header.expression_type == "":  # differs from none, although it looks the same there
        return
    topic = checked.topic
    plan = PullPlan(
        header.consumer_group,
        topic.name,
        topic.read_queue_count,
        selector.codes,
        checked.suggested_broker,
        checked.slow_broker,
    )
    path.prepare(plan, header.sys_flag, header.subscription, header.sub_version, header.expression_type)
