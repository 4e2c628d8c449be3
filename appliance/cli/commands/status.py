"""`headrace status`."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from appliance.cli.counted import counted
from appliance.cli.filter_table import function_lines
from appliance.cli.options import data_option
from appliance.cli.supervisor_client import ask_supervisor, paths_of
from appliance.cli.text_table import text_table
from appliance.paths import BrokerPaths
from ipc.control_layout import CELLS
from spark_exporter.running.held_segments import count_held

_LIMIT: Final = "limit."
"""How the counters of limits begin; the option follows."""


@click.command("status", short_help="Show the appliance's status.")
@data_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(data: str, as_json: bool) -> None:
    """Show the appliance's status: roles, log offsets, lags and rates.

    With --json: {"roles": {ROLE: {"pid", "state", "restarts", "heartbeat_age_ms", ...}}, "offsets": {NAME: NUMBER},
    "lag": {ROLE: BYTES}, "rates": {NAME: PER SECOND}, "filter_functions": {NAME: {"calls", "failures", "last_reason", ...}}, ...,
    "held": {"runs", "segments", "kept_bytes"} or null,
    "findings": [{"since", "group", "kind", "about", "what", "members", "queues", "advice", "count"}, ...]}. "held" is set while exports
    protect segments from deletion. "findings" lists current problems of consumer groups. Fails if no appliance is running with data folder DIR.

    "certificates": [{"path", "not_after", "days_left", "message"}, ...] lists the TLS certificates in use; "message" is empty until 30 days before
    a certificate expires.

    With several brokers, roles are named BROKER/ROLE, and "offsets", "lag", "filter_functions", "held" and "findings" are under "brokers":
    {BROKER: {"state", "reason", "address", "role", "store", ...}}; "rates" and "counters" are at both levels.
    """
    status = ask_supervisor(data, {"command": "status"}, timeout_s=5.0)["status"]
    for broker in status["brokers"].values() if "brokers" in status else [status]:
        # Looked for here: the supervisor waits for no disk.
        paths = BrokerPaths(data, broker.get("store") or paths_of(data).broker().store)
        held = count_held(Path(paths.store))
        broker["held"] = asdict(held) if held.segments else None
        broker["filter_functions"] = _filter_functions(Path(paths.filter_report))
    status["certificates"] = _certificates(**status.pop("tls_files", {}))
    print(json.dumps(status, indent=2) if as_json else "\n".join(_lines(status)))


def _certificates(certificates: Sequence[str] = (), authorities: Sequence[str] = ()) -> list[dict[str, Any]]:
    if not (certificates or authorities):
        return []
    from headrace.remoting.certificate_expiry import expiries  # noqa: PLC0415  it imports asyncio and ssl

    now = datetime.now(UTC)
    return [
        {
            "path": each.path,
            "not_after": each.not_after.isoformat(),
            "days_left": each.days_left(now),
            "message": each.describe(now) if each.is_due(now) else "",
        }
        for each in expiries(certificates, authorities)
    ]


def _filter_functions(report: Path) -> dict[str, dict[str, Any]]:
    if not report.exists():
        return {}
    from store.filter.python.functions import read_report  # noqa: PLC0415  most have none, and need not wait for it

    return read_report(report)


def _lines(status: dict[str, Any]) -> list[str]:
    seconds = status["uptime_ms"] // 1000
    uptime = f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    lines = [
        f"{status['state']}, pid {status['pid']}, up {uptime}, data folder {status['data']}",
        "",
        *text_table(
            ("ROLE", "STATE", "PID", "RESTARTS", "HEARTBEAT", ""),
            [
                (
                    name,
                    role["state"],
                    str(role["pid"] or "-"),
                    str(role["restarts"]),
                    "-" if role["heartbeat_age_ms"] is None else f"{role['heartbeat_age_ms']} ms ago",
                    role["long_call"] or role["problem"],
                )
                for name, role in status["roles"].items()
            ],
        ),
    ]
    lines += _limits("nameserver", status["counters"])
    lines += [each["message"] for each in status["certificates"] if each["message"]]
    if "brokers" not in status:
        return [*lines, *_broker_lines(status)]
    for name, broker in status["brokers"].items():
        lines += ["", f"{name}: {broker['state']}, {broker['role']}, {broker['address']}, store {broker['store']}"]
        if broker["reason"] is not None:
            lines.append(f"could not start: {broker['reason']}")
        lines += _broker_lines(broker)
    return lines


def _broker_lines(status: dict[str, Any]) -> list[str]:
    offsets = status["offsets"]
    if not offsets:
        return []  # it never had its store
    return [
        "",
        *text_table(
            ("OFFSET", "BYTES", "LAG"),
            [
                (name, f"{offsets[name]:,}", f"{status['lag'][role]:,}" if role in status["lag"] else "")
                for name, role in (
                    ("min_offset", ""),
                    ("wrote_offset", ""),
                    ("flushed_offset", "flush"),
                    ("reput_offset", "dispatch"),
                    ("push2slave_max_offset", "ha"),
                )
            ],
        ),
        *_flags(offsets),
        *_discarded(status["counters"].get("recover", {})),
        *_deleted_early(status["counters"].get("housekeeper", {})),
        *_unreadable(status["counters"]),
        *_limits("broker", status["counters"]),
        *_held(status["held"]),
        *_findings(status["findings"]),
        "",
        *text_table(("RATE", "PER SECOND"), [(name, f"{rate:,.1f}") for name, rate in status["rates"].items() if rate]),
        *(("", *function_lines(status["filter_functions"])) if status["filter_functions"] else ()),
    ]


def _flags(offsets: dict[str, int]) -> list[str]:
    return [f"{cell.meaning} ({cell.name})" for cell in CELLS if cell.name.startswith("flag_") and offsets[cell.name]]


def _findings(findings: list[dict[str, Any]]) -> list[str]:
    if not findings:
        return []
    lines = ["", "consumer group problems"]
    for finding in findings:
        lines.append(f"  group {finding['group']}: {finding['what']}")
        lines += [f"    {member}" for member in finding["members"]]
        lines.append(f"    {finding['advice']}")
    return lines


def _discarded(counters: dict[str, int]) -> list[str]:
    records = counters.get("discarded_records", 0)
    if not records:
        return []
    first, last = counters["discarded_first_offset"], counters["discarded_last_offset"]
    return [
        f"discarded at startup: {counted(records, 'record')} after corruption in the log, offsets {first} to {last}"
    ]


def _deleted_early(counters: dict[str, int]) -> list[str]:
    files = counters.get("forced_deletions", 0)
    if not files:
        return []
    return [
        f"deleted before the retention time expired: {counted(files, 'file')}, {counters['forced_deleted_bytes']:,} bytes, because the disk was nearly full"
    ]


def _unreadable(counters: dict[str, dict[str, int]]) -> list[str]:
    met = counters.get("broker", {}).get("unreadable_records", 0)
    passed = counters.get("dispatch", {}).get("bad_records", 0)
    return [
        *([f"unreadable records skipped: {met:,} (see logs/headrace.log)"] if met else []),
        *([f"damaged ranges skipped by dispatch: {passed:,} (see logs/headrace.log)"] if passed else []),
    ]


def _limits(role: str, counters: dict[str, dict[str, int]]) -> list[str]:
    reached = {
        name.removeprefix(_LIMIT): count
        for name, count in counters.get(role, {}).items()
        if name.startswith(_LIMIT) and count
    }
    return [f"{role} limit reached: {limit}, {counted(count, 'time')}" for limit, count in reached.items()]


def _held(held: dict[str, int] | None) -> list[str]:
    if held is None:
        return []
    deleted = f"{held['kept_bytes']:,}" if held["kept_bytes"] else "none"
    return [f"held by exports: {counted(held['segments'], 'segment')}; bytes already deleted by the broker: {deleted}"]
