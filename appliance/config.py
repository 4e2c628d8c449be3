"""The appliance's own options: the keys of `appliance.toml`. Those of broker and store are RocketMQ's and stand there.

Here an unknown key is an error, since nobody brings this file along from elsewhere.
"""

from dataclasses import dataclass
from typing import Final

from headrace.model.option import option

LOG_FORMATS: Final = ("text", "json")
LOG_LEVELS: Final = ("debug", "info", "warning", "error")


@dataclass(frozen=True)
class ApplianceConfig:
    """What the supervisor and the logger are told."""

    # -- what runs
    host: str = option("127.0.0.1", help="Address to listen on, and to announce as brokerIP1 (the flag is --host).")
    nameserver_port: int = option(9876, help="Port of the name server (the flag is --nameserver-port).")
    nameserver_enable: bool = option(True, help="Whether a name server runs here; if not, namesrvAddr says where.")
    ha_enable: bool = option(True, help="Whether the ha role runs: a master's port for slaves, a slave's link.")

    python_filter_workers: int = option(
        0, help="Processes for filter functions, one for each function in use; 0: there are none (headrace filter)."
    )
    python_filter_memory: int = option(
        268_435_456, help="Memory that a filter function's process may map, its interpreter included (bytes)."
    )

    # -- shared memory
    queue_table_capacity: int = option(65_536, help="Rows of the queue table: the most queues this broker can have.")

    # -- the supervisor's patience
    heartbeat_timeout: int = option(
        30_000, help="A role silent for longer, outside an announced long call, dumps its stacks and is killed (ms)."
    )
    role_stop_timeout: int = option(60_000, help="How long a role may take to stop before it is killed (ms).")
    store_lock_wait: int = option(
        30_000, help="How long to wait for processes of an appliance that died to let go of the store (ms)."
    )

    # -- logs
    log_level: str = option("info", help="What is logged: debug, info, warning or error, and what is above.")
    log_format: str = option("text", help="text: key=value; json: one JSON object a line, also on standard error.")
    log_file_size: int = option(104_857_600, help="Size at which headrace.log is put aside and begun anew (bytes).")
    log_file_count: int = option(10, help="How many older log files are kept.")
    log_stderr_level: str = option("warning", help="What goes to standard error besides: debug to error, or none.")

    def __post_init__(self) -> None:
        """Raises ValueError for a value outside its range, naming the key."""
        _one_of("logLevel", self.log_level, LOG_LEVELS)
        _one_of("logFormat", self.log_format, LOG_FORMATS)
        _one_of("logStderrLevel", self.log_stderr_level, (*LOG_LEVELS, "none"))
        _between("nameserverPort", self.nameserver_port, 1, 65_535)
        _between("pythonFilterWorkers", self.python_filter_workers, 0, 64)
        _between("pythonFilterMemory", self.python_filter_memory, 64 << 20, 1 << 40)
        _between("queueTableCapacity", self.queue_table_capacity, 1, 4_194_304)
        _between("heartbeatTimeout", self.heartbeat_timeout, 1_000, 3_600_000)
        _between("roleStopTimeout", self.role_stop_timeout, 100, 3_600_000)
        _between("storeLockWait", self.store_lock_wait, 0, 3_600_000)
        _between("logFileSize", self.log_file_size, 4_096, 1 << 40)
        _between("logFileCount", self.log_file_count, 0, 10_000)


def _one_of(key: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{key}={value}: expected {', '.join(allowed[:-1])} or {allowed[-1]}")


def _between(key: str, value: int, lowest: int, highest: int) -> None:
    if not lowest <= value <= highest:
        raise ValueError(f"{key}={value}: expected a number from {lowest} to {highest}")
