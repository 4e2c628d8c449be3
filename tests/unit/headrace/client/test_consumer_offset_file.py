"""LocalOffsets reads and writes the Java client's file."""

import asyncio

import pytest

from headrace import ConfigError, MessageQueue
from headrace.client.consuming.offset_file import LocalOffsets, offset_directory
from support.sdk import run

ONE, TWO = MessageQueue("T", "a", 0), MessageQueue("%RETRY%g", "b", 7)

JAVA = """{
\t"offsetTable":{{
\t\t\t"brokerName":"a",
\t\t\t"queueId":0,
\t\t\t"topic":"T"
\t\t}:12,{
\t\t\t"brokerName":"b",
\t\t\t"queueId":7,
\t\t\t"topic":"%RETRY%g"
\t\t}:3
\t}
}"""


def store(directory: object) -> LocalOffsets:
    return LocalOffsets(offset_directory(directory), "10.0.0.1@DEFAULT", "g")  # type: ignore[arg-type]


def test_file_of_the_java_client_is_read(tmp_path: object) -> None:
    async def main() -> None:
        offsets = store(tmp_path)
        offsets.path.parent.mkdir(parents=True)
        offsets.path.write_text(JAVA)
        await offsets.load()
        assert offsets.offsets() == {ONE: 12, TWO: 3}
        assert offsets.offsets("T") == {ONE: 12}
        assert await offsets.stored(TWO) == 3
        assert str(offsets.path).endswith("10.0.0.1@DEFAULT/g/offsets.json")

    run(main())


def test_written_offsets_are_merged_into_the_existing_file(tmp_path: object) -> None:
    async def main() -> None:
        first = store(tmp_path)
        await first.load()
        assert await first.stored(ONE) is None
        first.update(ONE, 5)
        first.update(ONE, 3, only_up=True)
        await first.persist([ONE, TWO])
        second = store(tmp_path)
        second.update(TWO, 9)
        await second.persist([TWO])
        third = store(tmp_path)
        await third.load()
        assert third.offsets() == {ONE: 5, TWO: 9}
        assert "".join(third.path.read_text().split()).startswith(
            '{"offsetTable":{{"brokerName":"b","queueId":7,"topic":"%RETRY%g"}:9,{'
        )

    run(main())


@pytest.mark.parametrize("broken", ["", "{", '{"offsetTable":[]', "\x00\x00"])
def test_backup_is_read_when_the_file_is_corrupt(tmp_path: object, broken: str) -> None:
    async def main() -> None:
        offsets = store(tmp_path)
        for offset in (1, 2):
            offsets.update(ONE, offset)
            await offsets.persist([ONE])
        offsets.path.write_text(broken)
        assert await store(tmp_path).stored(ONE) == 1
        offsets.path.with_name("offsets.json.bak").write_text("{")
        if broken:
            with pytest.raises(ConfigError, match="cannot be read"):
                await store(tmp_path).load()

    run(main())


def test_concurrent_writes_store_all_offsets(tmp_path: object) -> None:
    async def main() -> None:
        offsets = store(tmp_path)
        queues = [MessageQueue("T", "a", number) for number in range(24)]
        for queue in queues:
            offsets.update(queue, 1)
        await asyncio.gather(*(offsets.persist([queue]) for queue in queues))
        offsets.update(ONE, 5)
        early = asyncio.create_task(offsets.persist(queues))
        await asyncio.sleep(0)
        offsets.update(ONE, 7)
        await asyncio.gather(early, offsets.persist([ONE]))
        fresh = store(tmp_path)
        await fresh.load()
        assert fresh.offsets() == {queue: 7 if queue == ONE else 1 for queue in queues}
        assert not offsets.path.with_name("offsets.json.tmp").exists()

    run(main())
