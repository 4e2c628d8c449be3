"""Asking the supervisor from a command, with its errors as one line each."""

import os
from pathlib import Path
from typing import Any

from appliance.errors import ApplianceError, NotRunning
from appliance.paths import AppliancePaths
from appliance.service_files import service_of
from ipc.control_socket import ask
from ipc.errors import IpcError, NobodyListens


def paths_of(data: str) -> AppliancePaths:
    """The paths of the appliance on a data folder, wherever the command was called."""
    return AppliancePaths(os.path.abspath(data))


def ask_supervisor(data: str, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
    """The answer to a request. Raises NotRunning; ApplianceError for a refusal or no answer in time."""
    paths = paths_of(data)
    try:
        answer = ask(paths.control_socket, request, timeout_s)
    except NobodyListens as error:
        unit = service_of(Path(paths.data))
        start = (
            f"start one with: headrace run --data {paths.data}"
            if unit is None
            else f"start its service: systemctl start {unit}"
        )
        raise NotRunning(f"no appliance is running on {paths.data}; check --data, or {start}") from error
    except IpcError as error:
        raise ApplianceError(str(error)) from error
    if not answer.get("ok"):
        raise ApplianceError(str(answer.get("error", "the supervisor rejected the request without giving a reason")))
    return answer
