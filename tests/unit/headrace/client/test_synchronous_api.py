"""`headrace.sync`: the same clients without await, from any thread; and the exports of `headrace`."""

import ast
import asyncio
import importlib
import inspect
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import headrace
import headrace.sync
from headrace.client.cluster.members import ConsumerMember, ProducerMember
from headrace.sync import (
    Message,
    MessageQueue,
    Producer,
    PullScheduler,
    RouteNotFound,
    SendHook,
    StateError,
    TransactionProducer,
)
from headrace.sync.engine import shared_engine
from support.consuming_broker import consuming_cluster
from support.sdk_cluster import Answer, Cluster

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster in a loop and a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    made = Cluster("a")
    asyncio.run_coroutine_threadsafe(made.__aenter__(), loop).result(60)
    yield made
    asyncio.run_coroutine_threadsafe(made.__aexit__(None, None, None), loop).result(60)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_synchronous_producer_sends_messages(cluster: Cluster) -> None:
    with Producer("g", cluster.name_server) as producer:
        result = producer.send(Message("T", b"x"), timeout=60)
        assert result.ok
        future = producer.send_nowait(Message("T", b"x"))
        assert future.result(60).queue_offset == result.queue_offset + 1
        assert len(producer.queues("T")) == 2
        cluster.topics.discard("TBW102")
        with pytest.raises(RouteNotFound):
            producer.send(Message("Unknown", b"x"))
    assert not producer.is_running
    producer.close()
    with pytest.raises(StateError):
        producer.send(Message("T", b"x"))


def test_threads_can_share_a_producer(cluster: Cluster) -> None:
    with Producer("g", cluster.name_server) as producer, ThreadPoolExecutor(16) as threads:
        results = list(threads.map(lambda number: producer.send(Message("T", str(number))), range(400)))
    assert sorted(result.queue_offset for result in results) == list(range(400))
    assert sorted(int(command.body) for command in cluster.brokers["a"].sends) == list(range(400))


def test_transaction_is_a_context_manager(cluster: Cluster) -> None:
    with TransactionProducer("g", cluster.name_server, check=lambda _message: None) as producer:
        with producer.transaction(Message("T", b"x")) as transaction:
            assert transaction.message.unique_id == transaction.result.message_id
        with pytest.raises(KeyError), producer.transaction(Message("T", b"x")):
            raise KeyError
        # The local transaction may use the producer: it runs in a thread of its own.
        told = producer.send_in_transaction(
            Message("T", b"x"), execute=lambda _m, _a: producer.send(Message("T", b"y")).ok
        )
        assert told.state is headrace.TransactionState.COMMIT


def test_call_from_the_engines_own_thread_is_an_error_and_no_deadlock(cluster: Cluster) -> None:
    class Calling(SendHook):
        def after(self, _context: headrace.SendContext) -> None:
            try:
                producer.send(Message("T", b"again"))
            except StateError as error:
                said.append(str(error))

    said: list[str] = []
    with Producer("g", cluster.name_server, hooks=[Calling()]) as producer:
        producer.send(Message("T", b"x"))
    assert "engine" in said[0]


def test_one_thread_serves_all_clients(cluster: Cluster) -> None:
    with Producer("g", cluster.name_server) as one, Producer("h", cluster.name_server) as two:
        one.send(Message("T", b"x"))
        two.send(Message("T", b"x"))
        assert sum(thread.name == "headrace" for thread in threading.enumerate()) == 1
    assert shared_engine() is shared_engine()


def _send_in_child(name_server: str, inherited: "Producer | None", said: "multiprocessing.SimpleQueue[str]") -> None:
    try:
        if inherited is not None:
            inherited.send(Message("T", b"x"))
    except StateError as error:
        said.put(str(error))
    with Producer("g", name_server) as producer:
        said.put(producer.send(Message("T", b"x")).message_id)


def test_forked_child_can_create_its_own_clients(cluster: Cluster) -> None:
    context = multiprocessing.get_context("fork")
    with Producer("g", cluster.name_server) as producer:
        ours = producer.send(Message("T", b"x")).message_id
        said = context.SimpleQueue()
        child = context.Process(target=_send_in_child, args=(cluster.name_server, producer, said))
        child.start()
        child.join(20)
        assert child.exitcode == 0
        assert f"process {os.getpid()}, before a fork" in said.get()
        assert said.get()[:20] != ours[:20], "another process, other ids"
        assert producer.send(Message("T", b"x")).ok


def test_open_client_is_closed_when_the_program_ends(cluster: Cluster) -> None:
    program = (
        "import threading\n"
        "from headrace.sync import Producer, Message\n"
        f"producer = Producer('g', {cluster.name_server!r}).start()\n"
        "print(producer.send(Message('T', b'x')).ok)\n"
        "def refuse(thread): raise RuntimeError('no new thread at interpreter shutdown')\n"
        "threading.Thread.start = refuse\n"  # as in Python 3.12
    )
    cluster.brokers["a"].answers = [Answer()]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        timeout=100,
        cwd=ROOT,
        check=False,
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "True", "")
    assert any(command.ext.get("producerGroup") == "g" for command in cluster.brokers["a"].others), "it took its leave"


def test_generated_modules_are_up_to_date() -> None:
    generator = ROOT / "packaging" / "sdk" / "generate_sync.py"
    spec = importlib.util.spec_from_file_location("generate_sync", generator)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "headrace" / "sync" / "clients.py").read_text() == module.generate(), (
        f"run {generator.relative_to(ROOT)}"
    )


def test_every_exported_name_exists_is_documented_and_known_to_type_checkers() -> None:
    tree = ast.parse((ROOT / "headrace" / "__init__.py").read_text())
    (declared,) = [node for node in tree.body if isinstance(node, ast.If)]
    known = {alias.asname for node in declared.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert known == set(headrace.__all__)
    for name in headrace.__all__:
        value = getattr(headrace, name)
        assert getattr(headrace.sync, name) is not None
        if inspect.isclass(value) or inspect.isfunction(value):
            assert inspect.getdoc(value), name
    for name in headrace.sync.__all__:
        assert getattr(headrace.sync, name) is not None
    with pytest.raises(AttributeError):
        _ = headrace.NoSuchName


def test_synchronous_clients_have_the_same_methods_and_parameters() -> None:
    for name in headrace.sync.clients.__all__:
        ours, theirs = getattr(headrace.sync, name), getattr(headrace, name)
        hidden = {"send_half", "end_half", "start", "close"}
        hidden |= set() if name == "Admin" else {*vars(ConsumerMember), *vars(ProducerMember)}
        for method, function in inspect.getmembers(theirs, inspect.isfunction):
            if not method.startswith("_") and method not in hidden:
                mine = getattr(ours, method)
                assert list(inspect.signature(mine).parameters) == list(inspect.signature(function).parameters), method
                assert inspect.getdoc(mine), method
                assert not inspect.iscoroutinefunction(mine), method
        assert hasattr(ours, "__iter__") == hasattr(theirs, "__aiter__")


def test_importing_the_codec_imports_no_client() -> None:
    program = "import sys, headrace.protocol, headrace.model; print([n for n in sys.modules if n.startswith(('headrace.client', 'headrace.remoting', 'asyncio'))])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_scheduler_calls_plain_functions_in_threads() -> None:
    async def main() -> None:
        async with consuming_cluster() as (cluster, broker):
            broker.offsets["g", "T", 0] = 0
            broker.store("T", b"0", b"1", b"2")
            await asyncio.to_thread(pull_all, cluster.name_server)
            assert broker.offsets["g", "T", 0] == 3

    def pull_all(name_server: str) -> None:
        scheduler = PullScheduler("g", name_server)
        found: list[bytes] = []
        all_found = threading.Event()

        @scheduler.task("T")
        def look(queue: MessageQueue, scheduler: PullScheduler) -> float:
            result = scheduler.pull(queue, "*", scheduler.fetch_offset(queue) or 0, 32)
            found.extend(message.body for message in result.messages)
            scheduler.update_offset(queue, result.next_offset)
            if len(found) == 3:
                all_found.set()
            return 0.05

        with scheduler:
            assert all_found.wait(30)
        assert found == [b"0", b"1", b"2"]

    asyncio.run(main())


def test_pull_scheduler_serves_many_queues_at_once() -> None:
    async def main() -> None:
        async with consuming_cluster(queues=16) as (cluster, _):
            await asyncio.to_thread(meet, cluster.name_server)

    def meet(name_server: str) -> None:
        scheduler = PullScheduler("g", name_server)
        all_there = threading.Barrier(17)

        @scheduler.task("T")
        def wait(_queue: MessageQueue, _scheduler: PullScheduler) -> float:
            all_there.wait(60)
            return 3600.0

        with scheduler:
            all_there.wait(60)

    asyncio.run(main())
