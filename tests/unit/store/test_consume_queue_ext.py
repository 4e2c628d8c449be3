"""Extended units: addresses, rolling, taking over, cleaning."""

from pathlib import Path

from headrace.protocol.consume_queue_layout import EXT_ADDRESS_BASE, is_ext_address
from store.consume_queue.ext_reader import ConsumeQueueExtReader, ExtUnit
from store.consume_queue.ext_writer import ConsumeQueueExtWriter

FILE_SIZE = 100


def put_some(writer: ConsumeQueueExtWriter, count: int) -> list[int]:
    addresses = [writer.put(number, 1000 + number, bytes([number]) * 3) for number in range(count)]
    return [address for address in addresses if address is not None]


def test_units_are_read_at_their_addresses(tmp_path: Path) -> None:
    directory = tmp_path / "Topic" / "0"
    writer = ConsumeQueueExtWriter(directory, FILE_SIZE, None)
    addresses = put_some(writer, 10)
    reader = ConsumeQueueExtReader(directory, FILE_SIZE)
    assert [reader.read(address) for address in addresses] == [
        ExtUnit(23, number, 1000 + number, bytes([number]) * 3) for number in range(10)
    ]
    assert all(is_ext_address(address) for address in addresses)
    # Four units of 23 bytes fit beside the four bytes that stay free; then the end is marked.
    assert [address - EXT_ADDRESS_BASE for address in addresses[:6]] == [0, 23, 46, 69, 100, 123]
    first = (directory / f"{0:020d}").read_bytes()
    assert first[92:94] == b"\xff\xff"
    writer.close()


def test_queue_continues_after_the_unit_of_its_last_entry(tmp_path: Path) -> None:
    directory = tmp_path / "Topic" / "0"
    writer = ConsumeQueueExtWriter(directory, FILE_SIZE, None)
    addresses = put_some(writer, 7)
    writer.close()
    again = ConsumeQueueExtWriter(directory, FILE_SIZE, addresses[4])
    assert again.put(5, 1005, b"\x05" * 3) == addresses[5]
    again.close()


def test_unit_larger_than_a_file_has_no_address(tmp_path: Path) -> None:
    writer = ConsumeQueueExtWriter(tmp_path / "Topic" / "0", FILE_SIZE, None)
    assert writer.put(1, 2, bytes(80)) is None
    assert writer.put(1, 2, bytes(40_000)) is None
    writer.close()


def test_files_before_the_unit_of_the_first_entry_are_deleted(tmp_path: Path) -> None:
    directory = tmp_path / "Topic" / "0"
    writer = ConsumeQueueExtWriter(directory, FILE_SIZE, None)
    addresses = put_some(writer, 10)
    writer.clean_expired(addresses[5])
    assert sorted(int(path.name) for path in directory.iterdir()) == [100, 200]
    writer.close()


def test_address_without_a_unit_reads_as_none(tmp_path: Path) -> None:
    directory = tmp_path / "Topic" / "0"
    writer = ConsumeQueueExtWriter(directory, FILE_SIZE, None)
    put_some(writer, 1)
    writer.close()
    reader = ConsumeQueueExtReader(directory, FILE_SIZE)
    assert reader.read(EXT_ADDRESS_BASE + 46) is None
    assert reader.read(EXT_ADDRESS_BASE + 4600) is None
