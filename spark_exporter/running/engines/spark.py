"""The Spark engine: each range is a task, written by `write_range` in a Python worker of an executor.

Spark schedules the tasks and retries them if a worker, executor or node fails. Rows do not pass through the JVM. A task returns its result twice:
as its return value, which the driver receives when the whole job is done, and as an accumulator update, which it receives when the task is done.
So written ranges are committed while others are still being written. Spark applies only the updates of each task's successful attempt, and each
result is used once. Files of other attempts have different names in staging and are deleted with it.

Executors need the same Python with this package, the segments at the same paths, and the target.
"""

import json
import os
import re
import shlex
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, Any, Final

from spark_exporter import errors
from spark_exporter.errors import DamagedRecords, ExportError, MissingPackage
from spark_exporter.reading.range_scan import ByteRange
from spark_exporter.reading.segments import Segment
from spark_exporter.reading.shared_paths import PathProbe, check_shared_paths
from spark_exporter.running.engines.deferred_signals import deferred_signals
from spark_exporter.running.engines.java_home import java_for_spark
from spark_exporter.running.engines.local import LocalEngine
from spark_exporter.storage.location import Location
from spark_exporter.writing.range_files import WriteTask, write_range
from spark_exporter.writing.range_result import RangeResult

try:
    from py4j.protocol import Py4JError
    from pyspark import InheritableThread, SparkConf, SparkContext
    from pyspark.accumulators import Accumulator, AccumulatorParam
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway
except ImportError:
    raise MissingPackage(
        "the Spark engine requires the package pyspark; run in Headrace's virtual environment: pip install 'headrace-appliance[export]'; "
        "or use --engine local"
    ) from None

_SMALL_BYTES: Final = 256 << 20  # limit: the local engine reads a log this small before a JVM has started
_ATTEMPTS: Final = 4  # limit: the default of clusters; in local mode Spark would not retry
_REPORT_S: Final = 0.2
_CANCEL_S: Final = 20.0
_SETTLED_S: Final = 1.0
_FIRST_EXECUTOR_S: Final = 60.0
_SILENT_S: Final = 10.0  # limit: how long to wait for executors before warning
_JVM_OPTIONS: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""JVM options: the JVM has little to do here, the cores are for the workers."""


class SparkEngine:
    """Spark on this machine, or on a cluster. The session is started with the first ranges to write, and stopped by `close`.

    In a process that already has a SparkContext (a notebook, spark-submit), that one is used and not stopped.
    """

    def __init__(
        self,
        master: str | None = None,
        workers: int | None = None,
        *,
        is_default: bool = False,
        warn: Callable[[str], None] = lambda _note: None,
    ) -> None:
        """`master`: Spark's master URL; None: this machine. `workers`: ranges at a time; None: one per core.

        `is_default`: Spark was not requested, so small exports use the local engine, and `name` is then the local engine's. `warn` is called while a
        cluster keeps us waiting. Raises MissingPackage.
        """
        self.name = "local" if is_default else "spark"
        self._master = master
        self._asked_workers = workers
        self._least_bytes = _SMALL_BYTES if is_default else 0
        self._context: SparkContext | None = None
        self._is_ours = False
        self._log: IO[bytes] | None = None
        self._warn = warn
        self._opened_at = 0.0
        self._has_executors = False
        with java_for_spark():
            pass  # report missing packages before anything is created

    @property
    def workers(self) -> int:
        """How many ranges are written at a time. For a cluster it is known once executors have been requested."""
        if self._asked_workers is not None:
            return self._asked_workers
        if _find_context() is None and _is_local(self._master):
            return _local_cores(self._master)
        context = self._open()
        try:
            return self._count_cores(context)
        except Py4JError:  # which has no details: the session that it would ask is gone
            said = _last_error(self._log) if self._log is not None else None
            raise ExportError(f"Spark ({self._master}) failed: {said or 'its session has ended'}") from None

    def write(
        self, ranges: Sequence[ByteRange], task: WriteTask, report: Callable[[int], None]
    ) -> Iterator[RangeResult]:
        """See `Engine.write`. Raises ExportError if the Spark job fails."""
        if not ranges:
            return
        if sum(each.size_bytes for each in ranges) < self._least_bytes:
            yield from LocalEngine(self._asked_workers).write(ranges, task, report)
            return
        self.name = "spark"
        context = self._open()
        job = _Job(context, ranges, task)
        try:
            yield from job.results(report, lambda: self._look_for_executors(context))
        finally:
            # No task may still write when staging is deleted.
            if job.is_running and not job.cancel():
                self.close()

    def check_paths(self, segments: Sequence[Segment], target: Location) -> None:
        """See `Engine.check_paths`. Starts the session if there is a cluster."""
        if _find_context() is None and _is_local(self._master):
            return
        context = self._open()
        if not _is_local(context.master):
            check_shared_paths(segments, target, lambda probe: self._run_probe(context, probe))

    def _run_probe(self, context: SparkContext, probe: PathProbe) -> Iterator[str]:
        """Runs the probe on every worker: one task per core, so that each executor gets some."""
        cores = self._count_cores(context)
        tasks = context.parallelize(range(cores), cores).mapPartitions(_ProbeTask(probe))
        answers: list[str] = []
        errors_seen: list[Exception] = []

        def run() -> None:
            try:
                answers.extend(tasks.collect())
            except (Py4JError, PySparkException, OSError, EOFError) as error:
                errors_seen.append(error)

        thread = InheritableThread(target=run, name="spark-probe", daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(_REPORT_S)
            self._look_for_executors(context)
        for error in errors_seen:
            raise _told(error)
        for answer in answers:
            yield _read_answer(answer)

    def close(self) -> None:
        """Stop the session and its JVM if this engine started them."""
        context, self._context = self._context, None
        if context is not None and self._is_ours:
            _stop(context)
        if self._log is not None:
            self._log.close()
            self._log = None

    def _open(self) -> SparkContext:
        if self._context is None:
            found = _find_context()
            if found is not None and not _is_local(self._master) and found.master != self._master:
                raise ExportError(
                    f"this process already has a Spark session on {found.master}, not on {self._master}; stop it, or pass --master {found.master}"
                )
            self._is_ours = found is None
            self._context = found or self._start()
            self._opened_at = time.monotonic()
            self._has_executors = _is_local(self._context.master)
        return self._context

    def _start(self) -> SparkContext:
        # Workers must find the same packages as this process.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        conf = self._configuration()
        # The JVM's output is only of interest if it fails to start.
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  open as long as the session
        try:
            if "PYSPARK_GATEWAY_PORT" in os.environ or SparkContext._gateway is not None:  # noqa: SLF001  launched by others
                return SparkContext(conf=conf)
            with java_for_spark() as java_home:
                before = os.environ.get("JAVA_HOME")
                os.environ["JAVA_HOME"] = str(java_home)
                try:
                    # A JVM abandoned during its start cannot report its port, and would never end.
                    with deferred_signals():
                        gateway = launch_gateway(conf, {"stdout": self._log, "stderr": self._log})  # type: ignore[no-untyped-call]
                finally:
                    _restore("JAVA_HOME", before)
            return SparkContext(conf=conf, gateway=gateway)
        except (Py4JError, PySparkException, OSError) as error:
            said = _last_error(self._log) or _first_line(error)
            _forget_gateway()
            raise ExportError(f"Spark ({self._master or 'local'}) failed to start: {said}") from None

    def _configuration(self) -> SparkConf:
        conf = SparkConf().setAppName("headrace export").set("spark.ui.showConsoleProgress", "false")
        # Workers keep freed memory for the next row group: returning pages and faulting them in again cost a tenth of their time.
        conf.set("spark.executorEnv.MIMALLOC_PURGE_DELAY", "20000")
        if self._master is None and "PYSPARK_GATEWAY_PORT" in os.environ:
            return conf  # spark-submit has set the master
        if not _is_local(self._master):
            assert self._master is not None
            return conf.setMaster(self._master)
        said = _given_options()
        cores = self._asked_workers if self._master is None and self._asked_workers else _local_cores(self._master)
        conf.setMaster(f"local[{cores},{_ATTEMPTS}]")
        for name, value in (
            ("spark.driver.host", "127.0.0.1"),
            ("spark.driver.bindAddress", "127.0.0.1"),
            ("spark.ui.enabled", "false"),
            ("spark.log.level", "ERROR"),
            ("spark.driver.extraJavaOptions", _JVM_OPTIONS),
        ):
            if name not in said:
                conf.set(name, value)
        return conf

    def _count_cores(self, context: SparkContext) -> int:
        """The cores of the cluster, once its executors have registered and no more follow."""
        began = changed = time.monotonic()
        cores = 0
        while time.monotonic() - began < _FIRST_EXECUTOR_S:
            now = int(context.defaultParallelism)
            self._look_for_executors(context)
            if now != cores or not self._has_executors:
                cores, changed = now, time.monotonic()
            elif time.monotonic() - changed >= _SETTLED_S:
                break
            time.sleep(0.1)
        return max(1, cores)

    def _look_for_executors(self, context: SparkContext) -> None:
        """Wait until there are executors, and warn if that takes long. Spark itself would wait forever without a message."""
        if not self._has_executors:
            try:
                self._has_executors = len(_executors(context)) > 1
            except (Py4JError, OSError):
                return  # it has died: the waiting call reports that
            if self._opened_at and time.monotonic() - self._opened_at > _SILENT_S and not self._has_executors:
                self._warn(
                    f"{context.master} has not allocated an executor yet; waiting (check that a worker has enough free cores and memory)"
                )
                self._opened_at = 0.0


class _Job:
    """One Spark job over a list of ranges."""

    def __init__(self, context: SparkContext, ranges: Sequence[ByteRange], task: WriteTask) -> None:
        self._context = context
        self._sizes = {each.start: each.size_bytes for each in ranges}
        self._group = f"headrace-export-{uuid.uuid4().hex}"
        self._gathered: Accumulator[list[str]] = context.accumulator([], _Gathered())
        self._returned: list[str] = []
        self._error: Exception | None = None
        # One range per task, in log order: Spark starts tasks in order, so that commits can follow.
        self._tasks = context.parallelize(list(ranges), len(ranges)).mapPartitions(_RangeWriter(task, self._gathered))
        self._thread = InheritableThread(target=self._run, name="spark-job", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether tasks may still be running."""
        return self._thread.is_alive()

    def results(self, report: Callable[[int], None], look: Callable[[], None]) -> Iterator[RangeResult]:
        """Yields each range's result as soon as it is complete. `look` is called meanwhile."""
        done, taken = 0, 0
        left = dict(self._sizes)
        while left:
            self._thread.join(_REPORT_S)
            is_over = not self._thread.is_alive()
            texts = list(self._gathered.value[taken:])
            taken += len(texts)
            for text in texts + self._returned if is_over else texts:
                result = _read_result(text)
                size = left.pop(result.start, None)
                if size is not None:
                    done += size
                    report(done)
                    yield result
            report(done)
            look()
            if is_over and left:
                raise (
                    _told(self._error)
                    if self._error
                    else ExportError(f"Spark did not return {len(left)} ranges; run the export again")
                )
        self._thread.join()

    def cancel(self) -> bool:
        """Cancel the tasks. Returns whether they stopped soon."""
        until = time.monotonic() + _CANCEL_S
        try:
            self._context.cancelJobGroup(self._group)
            self._thread.join(_CANCEL_S)
            while _count_running(self._context):
                if time.monotonic() > until:
                    return False
                time.sleep(0.05)
        except (Py4JError, OSError):
            return False  # it is dead already
        return True

    def _run(self) -> None:
        try:
            self._context.setJobGroup(self._group, "headrace export", interruptOnCancel=True)
            self._returned = self._tasks.collect()
        except (Py4JError, PySparkException, OSError, EOFError) as error:
            self._error = error


class _ProbeTask:
    """The task that runs the probe on a worker. Can be pickled."""

    def __init__(self, probe: PathProbe) -> None:
        self._probe = probe

    def __call__(self, _numbers: Iterable[int]) -> Iterator[str]:
        try:
            yield json.dumps({"name": self._probe.run()})
        except ExportError as error:
            # Returned, not raised: Spark would retry on another worker, which might have access.
            yield json.dumps({"refused": str(error), "kind": type(error).__name__})


class _RangeWriter:
    """The body of a task. Can be pickled."""

    def __init__(self, task: WriteTask, gathered: "Accumulator[list[str]]") -> None:
        self._task = task
        self._gathered = gathered

    def __call__(self, ranges: Iterable[ByteRange]) -> Iterator[str]:
        for byte_range in ranges:
            try:
                said: dict[str, Any] = write_range(byte_range, self._task).as_json()
            except DamagedRecords as error:
                said = {"refused": str(error)}  # a retry would fail, too
            text = json.dumps(said)
            self._gathered.add([text])
            yield text


class _Gathered(AccumulatorParam[list[str]]):
    """An accumulator: a list to which tasks append."""

    def zero(self, value: list[str]) -> list[str]:  # noqa: ARG002  Spark's signature
        return []

    def addInPlace(self, value1: list[str], value2: list[str]) -> list[str]:  # noqa: N802
        value1.extend(value2)
        return value1


def _read_answer(text: str) -> str:
    said: dict[str, str] = json.loads(text)
    if "refused" in said:
        kind: type[ExportError] = getattr(errors, said["kind"], ExportError)
        raise kind(said["refused"])
    return said["name"]


def _read_result(text: str) -> RangeResult:
    said = json.loads(text)
    if "refused" in said:
        raise DamagedRecords(said["refused"])
    return RangeResult.from_json(said)


def _find_context() -> SparkContext | None:
    return SparkContext._active_spark_context  # noqa: SLF001  getOrCreate would make one


def _executors(context: SparkContext) -> list[Any]:
    """Includes the driver's own."""
    return list(context._jsc.sc().statusTracker().getExecutorInfos())  # noqa: SLF001  the only way to see them


def _count_running(context: SparkContext) -> int:
    """The running tasks, including those of cancelled jobs."""
    return sum(int(each.numRunningTasks()) for each in _executors(context))


def _stop(context: SparkContext) -> None:
    try:
        context.stop()
    except (Py4JError, OSError):
        pass  # its JVM is dead
    gateway = SparkContext._gateway  # noqa: SLF001  no other way to end the JVM before this process
    process = getattr(gateway, "proc", None)
    if gateway is not None and process is not None:
        gateway.shutdown()  # type: ignore[no-untyped-call]
        process.stdin.close()  # the JVM ends when its standard input ends
        process.wait()
        _forget_gateway()


def _forget_gateway() -> None:
    SparkContext._active_spark_context = None  # noqa: SLF001
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001


def _is_local(master: str | None) -> bool:
    return master is None or master == "local" or master.startswith("local[")


def _local_cores(master: str | None) -> int:
    said = re.match(r"local(?:\[(\d+|\*))?", master or "local[*]")
    if said is None or said[1] == "*":
        return len(os.sched_getaffinity(0))
    return max(1, int(said[1] or 1))


def _given_options() -> str:
    """The user's settings for Spark: PYSPARK_SUBMIT_ARGS and the file in SPARK_CONF_DIR."""
    said = " ".join(shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "")))
    try:
        with open(os.path.join(os.environ["SPARK_CONF_DIR"], "spark-defaults.conf"), encoding="utf-8") as file:
            return said + file.read()
    except (KeyError, OSError):
        return said


def _told(error: Exception) -> ExportError:
    """The original error if it is one of ours, raised in a worker; otherwise Spark's message in one line."""
    text = str(error)
    ours = re.findall(r"^(?:.*: )?spark_exporter\.errors\.(\w+): (.*)$", text, re.MULTILINE)
    if ours:
        kind = getattr(errors, ours[-1][0], ExportError)
        raised: ExportError = kind(ours[-1][1])
        return raised
    missing = re.search(r"ModuleNotFoundError: No module named '([\w.]+)'", text)
    if missing:
        return MissingPackage(
            f"Spark's workers have no package {missing[1]}: install the exporter on every node, and set PYSPARK_PYTHON to its Python"
        )
    said = re.search(r"^(?:.*Exception|Caused by): (.*Job aborted.*|.*)$", text, re.MULTILINE)
    return ExportError(f"Spark job failed: {said[1] if said else _first_line(error)}")


def _last_error(log: IO[bytes]) -> str | None:
    """The JVM's last output that looks like a reason."""
    log.seek(0)
    lines = [line.strip() for line in log.read().decode(errors="replace").splitlines()]
    said = [line for line in lines if re.search(r"(Exception|Error|ERROR)\b", line) and not line.startswith("at ")]
    return said[-1] if said else None


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _restore(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
