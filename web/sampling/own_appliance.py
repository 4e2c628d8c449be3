"""OwnAppliance: the status of the appliance to which the console belongs, from its supervisor; no broker is asked."""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ipc.control_socket import ask
from ipc.errors import NoAnswer, NobodyListens
from web.errors import Invalid, NotFound, QueryFailed

FRESH_S: Final = 1.0
"""How long an answer is shared: the supervisor is asked once in this time, however many probes there are."""
_TIMEOUT_S: Final = 3.0

NO_EXPORTS: Final = "this is a standalone console and cannot export"
HOW_TO_EXPORT: Final = "On the store's machine, run: headrace export SOURCE TARGET"
"""The cause and the advice for a request without an appliance; all of them are about exports."""

Answer = tuple[Mapping[str, Any] | None, str | None]
"""The status as `headrace status --json` prints it, or why there is none; neither without an appliance."""


class OwnAppliance:
    """Asks for one status at a time. `control_socket` None: a console without an appliance."""

    def __init__(self, control_socket: Path | None) -> None:
        self._path = control_socket
        self._turn = asyncio.Lock()
        self._latest: Answer = (None, None)
        self._asked_s = -FRESH_S

    @property
    def exists(self) -> bool:
        """Whether the console belongs to an appliance."""
        return self._path is not None

    async def read(self) -> Answer:
        """The status, at most a second old."""
        if self._path is None:
            return None, None
        async with self._turn:
            if time.monotonic() - self._asked_s >= FRESH_S:
                self._latest = await asyncio.to_thread(_ask, self._path)
                self._asked_s = time.monotonic()
            return self._latest

    async def request(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """The supervisor's answer to another request. Raises NotFound without an appliance, QueryFailed if there is none, Invalid if the supervisor refuses."""
        if self._path is None:
            raise NotFound(NO_EXPORTS, HOW_TO_EXPORT)
        try:
            answer = await asyncio.to_thread(ask, self._path, dict(request), _TIMEOUT_S)
        except (NobodyListens, NoAnswer) as error:
            raise QueryFailed(str(error), "Check that the appliance is running, then reload the page.") from error
        if answer.get("ok") is not True:
            raise Invalid(str(answer.get("error", "the supervisor rejected the request without giving a reason")))
        return answer


def _ask(path: Path) -> Answer:
    try:
        answer = ask(path, {"command": "status"}, _TIMEOUT_S)
    except (NobodyListens, NoAnswer) as error:
        return None, str(error)
    status = answer.get("status")
    if isinstance(status, dict):
        return status, None
    return None, f"the supervisor answered without a status: {answer.get('error', 'no reason')}"
