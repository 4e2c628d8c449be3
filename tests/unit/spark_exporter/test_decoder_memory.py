"""What the decoder keeps between stretches: memory of bodies; and what it does without Python: hosts and CRCs."""

import subprocess
import sys

import pyarrow as pa

from headrace.model.host import decode_host, format_host
from headrace.protocol.crc32 import find_crc_function
from headrace.protocol.record import encode_record
from spark_exporter.reading.arrow_batches import as_batch
from spark_exporter.reading.record_columns import END, RecordColumns

CLIENTS = 3000


def log_of(text: bytes, records: int, clients: int = 1) -> bytes:
    log = bytearray()
    for number in range(records):
        client = number % clients
        log += encode_record(
            topic="T", body=text + b"%d" % number, physical_offset=len(log), store_timestamp=1,
            born_host=(f"10.{client >> 8}.{client & 255}.1", 40000 + client),
        )  # fmt: skip
    return bytes(log)


def decode(columns: RecordColumns, log: bytes) -> pa.RecordBatch:
    assert columns.decode(memoryview(log), 0, 0, len(log), len(log)) == END
    assert columns.damaged == []
    return as_batch(columns, "c", "b")


def test_body_buffer_is_reused_only_after_its_batch_is_released() -> None:
    columns = RecordColumns(lambda _topic: True)
    first = decode(columns, log_of(b"first", 3))
    second = decode(columns, log_of(b"second", 3))
    part = first["body"].slice(1, 1)
    place = second["body"].buffers()[2].address
    del first
    third = decode(columns, log_of(b"third", 3))
    assert part.to_pylist() == [b"first1"]
    assert second["body"].to_pylist() == [b"second0", b"second1", b"second2"]
    del second
    fourth = decode(columns, log_of(b"fourth", 3))
    assert fourth["body"].buffers()[2].address == place
    assert third["body"].to_pylist() == [b"third0", b"third1", b"third2"]
    assert fourth["body"].to_pylist() == [b"fourth0", b"fourth1", b"fourth2"]


def test_hosts_of_many_clients_with_any_port_are_decoded() -> None:
    columns = RecordColumns(lambda _topic: True)
    hosts = decode(columns, log_of(b"", CLIENTS, CLIENTS))["born_host"].to_pylist()
    assert hosts == [f"10.{number >> 8}.{number & 255}.1:{40000 + number}" for number in range(CLIENTS)]
    for port in (0, 9, 65535, (1 << 31) - 1, -1, -(1 << 31)):
        host = bytes([0, 9, 99, 255]) + port.to_bytes(4, "big", signed=True)
        log = encode_record(topic="T", body=b"", store_timestamp=1, born_host=host, store_host=host)
        row = decode(columns, log)
        assert row["born_host"].to_pylist() == row["store_host"].to_pylist() == [format_host(decode_host(host))]


def test_crc_function_is_found_and_correct() -> None:
    assert find_crc_function() != 0


def test_decoder_computes_crc_itself_without_a_library_function() -> None:
    program = """
import sys
sys.modules["isal"] = None
from spark_exporter.reading.record_columns import END, RecordColumns
log, columns = sys.stdin.buffer.read(), RecordColumns(lambda _topic: True)
assert columns.decode(memoryview(log), 0, 0, len(log), len(log)) == END
print(columns.rows, columns.damaged[0][2])
"""
    log = bytearray(log_of(b"some text to look at ", 50))
    log[-5] ^= 1  # the body's last byte: behind it are the topic, with its length, and the properties' length
    done = subprocess.run([sys.executable, "-c", program], input=bytes(log), capture_output=True, check=False)
    assert done.stdout.decode().strip() == "49 the body does not match its CRC", done.stderr.decode()
