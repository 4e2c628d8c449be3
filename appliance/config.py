"""The appliance's own options: the keys of `appliance.toml`. Options of broker and store are RocketMQ's and are declared in their packages.

An unknown key is an error, because the file is not used by other programs.
"""

import os
from dataclasses import dataclass
from typing import Final

from headrace.model.option import check_range, option

LOG_FORMATS: Final = ("text", "json")
LOG_LEVELS: Final = ("debug", "info", "warning", "error")
DEFAULT_TLS_CONFIG_FILE: Final = "/etc/rocketmq/tls.properties"
TLS_MODES: Final = ("", "disabled", "permissive", "enforcing")


@dataclass(frozen=True)
class ApplianceConfig:
    """Options of the supervisor and the logger."""

    # -- what runs
    host: str = option("127.0.0.1", help="Address to listen on, also the default of brokerIP1 (flag: --host).")
    nameserver_port: int = option(9876, help="Port of the name server (flag: --nameserver-port).")
    nameserver_enable: bool = option(True, help="Run a name server; if false, set namesrvAddr.")
    ha_enable: bool = option(True, help="Run the ha role, which replicates from master to slaves.")

    console_enable: bool = option(True, help="Run the console, the web pages for operators (flag: --no-console).")

    export_folder: str = option(
        "",
        help="Folder of exports that administrators start in the console, an absolute path; empty: `exports` in the data folder.",
    )

    # -- TLS
    tls_mode: str = option(
        "",
        help="TLS on the ports of name server and brokers: disabled, permissive (plain text and TLS on one port) or enforcing;"
        " empty: tls.server.mode of tlsConfigFile, else permissive.",
    )
    tls_config_file: str = option(
        "",
        help=f"RocketMQ's tls.properties with certificates and keys; empty: {DEFAULT_TLS_CONFIG_FILE} if it exists.",
    )

    python_filter_workers: int = option(
        0, help="Number of processes for filter functions, one per function in use; 0 disables filter functions."
    )
    python_filter_memory: int = option(
        268_435_456,
        help="Maximum memory that the process of a filter function may map, including its interpreter (bytes).",
    )

    # -- shared memory
    queue_table_capacity: int = option(
        65_536, help="Rows of the queue table, which limits the number of queues of a broker."
    )

    # -- the supervisor's patience
    heartbeat_timeout: int = option(
        30_000,
        help="A role without a heartbeat for this long, outside an announced long call, dumps its stacks and is killed (ms).",
    )
    role_stop_timeout: int = option(60_000, help="Maximum time for a role to stop before it is killed (ms).")
    store_lock_wait: int = option(
        30_000, help="How long to wait for processes of a crashed appliance to release the store (ms)."
    )

    # -- logs
    log_level: str = option("info", help="Lowest level that is logged: debug, info, warning or error.")
    log_format: str = option(
        "text", help="text: lines for people and grep; json: one JSON object per line. Also applies to standard error."
    )
    log_file_size: int = option(104_857_600, help="Size at which headrace.log is rotated (bytes).")
    log_file_count: int = option(10, help="Number of rotated log files to keep.")
    log_stderr_level: str = option(
        "warning", help="Lowest level that is also written to standard error: debug, info, warning, error or none."
    )

    def __post_init__(self) -> None:
        """Raises ValueError, which names the key, for a value out of range."""
        _one_of("logLevel", self.log_level, LOG_LEVELS)
        _one_of("tlsMode", self.tls_mode, TLS_MODES)
        _one_of("logFormat", self.log_format, LOG_FORMATS)
        _one_of("logStderrLevel", self.log_stderr_level, (*LOG_LEVELS, "none"))
        if self.export_folder and not os.path.isabs(self.export_folder):
            raise ValueError(f"exportFolder={self.export_folder}: expected an absolute path")
        check_range("nameserverPort", self.nameserver_port, 1, 65_535)
        check_range("pythonFilterWorkers", self.python_filter_workers, 0, 64)
        check_range("pythonFilterMemory", self.python_filter_memory, 64 << 20, 1 << 40)
        check_range("queueTableCapacity", self.queue_table_capacity, 1, 4_194_304)
        check_range("heartbeatTimeout", self.heartbeat_timeout, 1_000, 3_600_000)
        check_range("roleStopTimeout", self.role_stop_timeout, 100, 3_600_000)
        check_range("storeLockWait", self.store_lock_wait, 0, 3_600_000)
        check_range("logFileSize", self.log_file_size, 4_096, 1 << 40)
        check_range("logFileCount", self.log_file_count, 0, 10_000)


def _one_of(key: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{key}={value}: expected {', '.join(allowed[:-1])} or {allowed[-1]}")
