"""FilterFunctions: the installed functions, the worker that runs each of them, and their statistics.

A function gets a worker at its first use and keeps it; if all workers are in use, the worker of the function that has been idle
longest is reassigned. A function has one worker, so its pulls take turns, and a slow function delays only its own consumers.

    fails on a message        the message does not match; counted, with the last reason
    fails as a process        died, timed out, sent an invalid response, or could not be loaded: the pull is refused, the next one gets another worker
    three such failures       within a minute: disabled until there is a new version of the file (`headrace filter put` or `enable`)

The report for operators is `config/pythonFilters.json`, written only here, about once a second while something changes, and read
by the supervisor for `headrace status` and by `headrace filter list`. It also records which functions are disabled. It is not synced: after
a power cut a disabled function may be used again.
"""

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct, field
from msgspec.structs import asdict

from broker.config import BrokerConfig
from broker.filtering.python_filters import NoWorker, PythonFilterFailed, PythonFilterWorker
from store.filter.python.functions import BadFunctionFile, FilterFunction, FunctionFolder, read_report

logger = logging.getLogger(__name__)

MOST_FAILURES: Final = 3
WITHIN_S: Final = 60.0
CANDIDATES_MOST: Final = 800
"""Messages examined for one pull, as for the other filters."""

_LOOK_S: Final = 1.0  # limit: how late a changed file is noticed; one stat per second costs nothing
_START_S: Final = 20.0  # limit: an interpreter starts in 0.2 s, on a stalled machine in 10 s
_LOAD_S: Final = 5.0
_BUSY_S: Final = 5.0  # limit: the worker of a function that was idle for this long can be reassigned
_RETRY_S: Final = 0.05
_REPORT_S: Final = 1.0
_SAY_S: Final = 10.0  # limit: a function that fails on each message logs one line every ten seconds
_SHARE_LEAST: Final = 0.04
_LATEST: Final = 0.2  # weight of the last batch in the estimate for the next


class Account(Struct):
    """The statistics of one version of a function. Times are wall-clock milliseconds; `busy_ms` is the time of its calls."""

    version: str
    calls: int = 0
    messages: int = 0
    matched: int = 0
    busy_ms: float = 0.0
    failed_messages: int = 0
    failures: int = 0
    last_reason: str = ""
    last_failure_ms: int = 0
    disabled_reason: str = ""
    """Why it is disabled; empty if it is not."""


class _Function(Struct, eq=False):
    """One function in use."""

    found: FilterFunction
    account: Account
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    worker: PythonFilterWorker | None = None
    place: Path | None = None
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=MOST_FAILURES))
    looked_at: float = 0.0
    asked_at: float = 0.0
    said_at: float = float("-inf")
    share: float = 1.0
    """The estimated share of messages that it wants."""
    seconds: float = 0.0
    """The estimated time per message."""


class FilterFunctions:
    """All functions. `workers`: the sockets of their processes. Used only in the broker's event loop."""

    def __init__(
        self,
        folder: FunctionFolder,
        workers: Sequence[Path],
        config: BrokerConfig,
        report: Path,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Reads the report of a predecessor, if there is one."""
        self._folder = folder
        self._config = config
        self._report = report
        self._clock = clock
        self._places: dict[Path, _Function | None] = dict.fromkeys(workers)
        self._functions: dict[str, _Function] = {}
        self._tasks: set[asyncio.Task[list[bool]]] = set()
        self._known = self._load()
        self._is_changed = False

    # -- asking -----------------------------------------------------------------------------------------------------------

    def find(self, name: str) -> FilterFunction | str:
        """The current function, or why it cannot be used and the remedy. At most one system call per second."""
        if not self._places:
            return f"filter function {name} cannot run: the broker has no filter workers; set pythonFilterWorkers"
        function = self._functions.get(name)
        now = self._clock()
        if function is None or now - function.looked_at >= _LOOK_S:
            try:
                function = self._look(name, function)
            except (BadFunctionFile, OSError) as error:
                return f"the filter function {name} cannot be read: {error}"
            if function is None:
                return f"filter function {name} does not exist; install it with: headrace filter put {name}.py"
            function.looked_at = now
        if function.account.disabled_reason:
            return (
                f"the filter function {name} is disabled because it {function.account.disabled_reason}; {_remedy(name)}"
            )
        return function.found

    def most_candidates(self, name: str, wanted: int) -> int:
        """How many messages to pass to the function for a pull of this size, by its earlier selectivity and speed."""
        function = self._functions.get(name)
        if function is None:
            return wanted
        most = int(wanted / max(function.share, _SHARE_LEAST)) + 1
        if function.seconds:
            # A quarter of the timeout, because the time is only an estimate.
            most = min(most, int(self._config.python_filter_timeout / 1000 / 4 / function.seconds) + 1)
        return max(1, min(most, CANDIDATES_MOST))

    async def match(self, name: str, show: Callable[[], list[bytes]]) -> list[bool]:
        """Returns which of these complete records it wants. Raises PythonFilterFailed.

        `show` is called for the records at the function's turn, so that waiting pulls keep none in memory. A waiting pull may be cancelled,
        but a call that has begun is completed, because its worker is in the middle of a response.
        """
        function = self._functions.get(name)
        if function is None:
            raise PythonFilterFailed(name, "does not exist (it was removed)")
        await function.turn.acquire()
        task = asyncio.get_running_loop().create_task(self._match(function, show))
        self._tasks.add(task)
        task.add_done_callback(partial(self._asked, function))
        return await asyncio.shield(task)

    def _asked(self, function: _Function, task: asyncio.Task[list[bool]]) -> None:
        function.turn.release()
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # the caller has the error, if it was not cancelled

    async def _match(self, function: _Function, show: Callable[[], list[bytes]]) -> list[bool]:
        account = function.account
        # While this one waited for its turn …
        if self._functions.get(function.found.name) is not function:
            raise PythonFilterFailed(function.found.name, "was replaced; pull again")
        if account.disabled_reason:
            raise PythonFilterFailed(
                function.found.name,
                f"is disabled because it {account.disabled_reason}; {_remedy(function.found.name)}",
            )
        function.asked_at = self._clock()
        try:
            worker = await self._worker_of(function)
            records = show()
            if not records:
                return []
            failed_before = worker.messages_failed
            began = self._clock()
            verdicts = await worker.match(records, self._config.python_filter_timeout / 1000)
        except PythonFilterFailed as error:
            if self._functions.get(function.found.name) is not function:
                raise PythonFilterFailed(function.found.name, "was replaced; pull again") from None
            self._failed(function, error)
            raise
        self._count(function, verdicts, self._clock() - began)
        if worker.messages_failed > failed_before:
            self._failed_over_messages(function, worker.messages_failed - failed_before, worker.last_error)
        return verdicts

    # -- functions --------------------------------------------------------------------------------------------------------

    def _look(self, name: str, known: _Function | None) -> _Function | None:
        """The function in its file; a new one if the version has changed."""
        version = self._folder.version(name)
        if known is not None and version == known.found.version:
            return known
        found = self._folder.find(name) if version is not None else None
        if known is not None:
            self._release(known)
            del self._functions[name]
            self._is_changed = True
        if found is None:
            self._known.pop(name, None)
            return None
        function = self._functions[name] = _Function(found, self._account_of(name, found.version))
        logger.info("filter function loaded name=%s version=%s", name, found.version)
        return function

    def _account_of(self, name: str, version: str) -> Account:
        account = self._known.get(name)
        if account is None or account.version != version:
            account = self._known[name] = Account(version)
            self._is_changed = True
        return account

    def _look_at_folder(self) -> None:
        """Adds functions that were installed without being used, and removes those that were deleted."""
        names = self._folder.names()
        for name in self._known.keys() - set(names):
            self._look(name, self._functions.get(name))
            self._is_changed = True
        for name in names:
            version = self._folder.version(name)
            if version is not None and name not in self._functions:
                self._account_of(name, version)

    def _count(self, function: _Function, verdicts: list[bool], seconds: float) -> None:
        account = function.account
        account.calls += 1
        account.messages += len(verdicts)
        account.matched += sum(verdicts)
        account.busy_ms += seconds * 1000
        function.share += (sum(verdicts) / len(verdicts) - function.share) * _LATEST
        function.seconds += (seconds / len(verdicts) - function.seconds) * _LATEST
        self._is_changed = True

    def _failed_over_messages(self, function: _Function, count: int, reason: str) -> None:
        account = function.account
        account.failed_messages += count
        account.last_reason = reason
        account.last_failure_ms = int(time.time() * 1000)
        self._warn_rarely(
            function, "messages skipped, filter function failed name=%s messages=%d total=%d error=%r",
            function.found.name, count, account.failed_messages, reason,
        )  # fmt: skip

    def _warn_rarely(self, function: _Function, text: str, *more: object) -> None:
        """Logs a warning that every pull may cause, at most once in a while."""
        now = self._clock()
        if now - function.said_at >= _SAY_S:
            function.said_at = now
            logger.warning(text, *more)

    def _failed(self, function: _Function, error: PythonFilterFailed) -> None:
        account, now = function.account, self._clock()
        self._release(function)
        account.last_reason = error.reason
        account.last_failure_ms = int(time.time() * 1000)
        account.failures += 1
        self._is_changed = True
        if isinstance(error, NoWorker):
            self._warn_rarely(function, "filter function not run name=%s error=%r", error.name, error.reason)
            return
        logger.warning("filter function failed name=%s error=%r", error.name, error.reason)
        function.recent.append(now)
        if len(function.recent) == MOST_FAILURES and now - function.recent[0] <= WITHIN_S:
            account.disabled_reason = error.reason
            logger.error(
                "filter function disabled name=%s failures_per_minute=%d advice='%s'",
                function.found.name, MOST_FAILURES, _remedy(function.found.name),
            )  # fmt: skip
            self.report()

    # -- workers ----------------------------------------------------------------------------------------------------------

    async def _worker_of(self, function: _Function) -> PythonFilterWorker:
        if function.worker is not None and not function.worker.is_dead:
            return function.worker
        self._release(function)
        found = function.found
        last = NoWorker(found.name, "has no worker")
        deadline = self._clock() + _START_S
        while (left := deadline - self._clock()) > 0:
            self._free_one(function)
            for place in [place for place, user in self._places.items() if user is None]:
                # order: taken before it is waited for, or two functions would call the same worker.
                self._places[place], function.place = function, place
                try:
                    function.worker = await PythonFilterWorker.call(found.name, found.source, place, left, _LOAD_S)
                except NoWorker as error:
                    last = error
                    self._release(function)
                    continue
                if function.place is not place:  # released meanwhile: there is another version
                    self._release(function)
                    raise NoWorker(found.name, "was replaced; pull again")
                logger.info("filter function started name=%s worker=%s", found.name, place.stem)
                return function.worker
            # The supervisor restarts workers soon.
            await asyncio.sleep(_RETRY_S)
        raise last

    def _free_one(self, function: _Function) -> None:
        """If no worker is free, releases one of an idle function. Raises NoWorker if all are busy."""
        users = [user for user in self._places.values() if user is not None]
        if len(users) < len(self._places):
            return
        idle = [user for user in users if not user.turn.locked() and self._clock() - user.asked_at >= _BUSY_S]
        if not idle:
            raise NoWorker(
                function.found.name,
                f"has no worker: all {len(users)} are busy with other functions; increase pythonFilterWorkers",
            )
        longest = min(idle, key=lambda user: user.asked_at)
        logger.info("filter worker reassigned from=%s to=%s", longest.found.name, function.found.name)
        self._release(longest)

    def _release(self, function: _Function) -> None:
        if function.worker is not None:
            function.worker.close()
            function.worker = None
        if function.place is not None:
            self._places[function.place] = None
            function.place = None

    def close(self) -> None:
        """Stops all workers and writes the report."""
        for task in self._tasks:
            task.cancel()
        for function in self._functions.values():
            self._release(function)
        self.report()

    # -- reports to operators ------------------------------------------------------------------------------------------------

    async def keep(self) -> None:
        """Writes the report while something changes, until it is cancelled."""
        while True:
            try:
                self._look_at_folder()
            except OSError as error:
                logger.warning("filter function folder unreadable error=%r", str(error))
            if self._is_changed:
                self.report()
            await asyncio.sleep(_REPORT_S)

    def report(self) -> None:
        """Writes the statistics of the functions. A disk error is logged; the next change retries."""
        self._is_changed = False
        if not self._known and not self._report.exists():
            return
        said = {
            name: asdict(account) | {"busy_ms": round(account.busy_ms, 3), "worker": self._place_of(name)}
            for name, account in sorted(self._known.items())
        }
        temporary = self._report.with_name(self._report.name + ".tmp")
        try:
            self._report.parent.mkdir(parents=True, exist_ok=True)
            temporary.unlink(missing_ok=True)  # left by a kill, or a symbolic link: nothing is written through it
            with temporary.open("x", encoding="utf-8") as file:
                file.write(json.dumps(said, indent=1))
            temporary.replace(self._report)
        except OSError as error:
            logger.warning("filter function statistics not saved error=%r", str(error))

    def _place_of(self, name: str) -> str | None:
        function = self._functions.get(name)
        return function.place.stem if function is not None and function.place is not None else None

    def _load(self) -> dict[str, Account]:
        return {
            name: Account(**{key: value for key, value in said.items() if key in Account.__struct_fields__})
            for name, said in read_report(self._report).items()
        }


def _remedy(name: str) -> str:
    """What to do about a disabled function."""
    return f"fix it and run: headrace filter put {name}.py; to enable it unchanged: headrace filter enable {name}"
