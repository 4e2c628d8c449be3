"""`/healthz`, `/readyz` and `/rocketmq/nsaddr`: open to everybody who reaches the port, like the ports of the name server and the broker."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from sanic import HTTPResponse, Request

from headrace.model.address_list import parse_address
from web.health.checks import Report, health, readiness
from web.health.name_server_list import is_subgroup, name_server_line
from web.routes import Access, Raw, Visit
from web.sampling.own_appliance import OwnAppliance
from web.sampling.sample import Sample
from web.sampling.sampler import Sampler

MAX_AGE_S: Final = 2.0
"""How old a verdict may be: however often it is asked for, the cluster is asked once in this time."""
DEADLINE_S: Final = 4.0  # limit: probes give up after 5 s and more

_NO_STORE: Final = {"Cache-Control": "no-store"}


class HealthRoutes:
    """Answers from samples."""

    def __init__(self, sampler: Sampler, own: OwnAppliance, name_servers: Sequence[str]) -> None:
        self._sampler = sampler
        self._own = own
        self._name_servers = list(name_servers)

    def routes(self) -> list[Raw]:
        """The routes of this room."""
        return [
            Raw("/healthz", self._healthz, Access.ANYONE),
            Raw("/readyz", self._readyz, Access.ANYONE),
            Raw("/rocketmq/<subgroup:str>", self._address, Access.ANYONE),
        ]

    async def _healthz(self, request: Request, visit: Visit) -> HTTPResponse:
        status, problem = await self._own.read()  # only the supervisor is asked: a slow cluster is not our fault
        sample = Sample(time.time(), status=status, status_problem=problem)
        return _answer(request, visit, health(sample, has_appliance=self._own.exists))

    async def _readyz(self, request: Request, visit: Visit) -> HTTPResponse:
        try:
            async with asyncio.timeout(DEADLINE_S):
                sample = await self._sampler.latest(MAX_AGE_S)
        except TimeoutError:
            status, problem = await self._own.read()
            sample = Sample(time.time(), (), f"no answer within {DEADLINE_S:g} s", status, problem)
        return _answer(request, visit, readiness(sample, has_appliance=self._own.exists))

    async def _address(self, request: Request, visit: Visit) -> HTTPResponse:
        if not is_subgroup(visit.path.get("subgroup", "")):
            return HTTPResponse("not found\n", status=404, content_type="text/plain; charset=utf-8")
        line = name_server_line(self._name_servers, _local_address(request))
        return HTTPResponse(line, content_type="text/plain; charset=utf-8", headers=_NO_STORE)


def _answer(request: Request, visit: Visit, report: Report) -> HTTPResponse:
    """Strangers get the verdict only: names, addresses and reasons are for users and for programs on this machine."""
    status = 200 if report.ok else 503
    is_known = visit.is_local or bool(visit.user)
    if "verbose" in request.get_args(keep_blank_values=True):
        body = msgspec.json.encode(report.to_json() if is_known else {"ok": report.ok})
        return HTTPResponse(body, status=status, content_type="application/json", headers=_NO_STORE)
    failed = [one for one in report.checks if not one.ok] if is_known else []
    reasons = "".join(f"{one.name}: {one.detail}\n" for one in failed) or "failed\n"
    text = "ok\n" if report.ok else reasons
    return HTTPResponse(text, status=status, content_type="text/plain; charset=utf-8", headers=_NO_STORE)


def _local_address(request: Request) -> str:
    """The console's address by which the client reached it; the header `Host` could be anything."""
    connection: Any = request.conn_info
    name = connection.sockname if connection is not None else None
    address = parse_address(str(name[0])) if isinstance(name, tuple) else None
    return "127.0.0.1" if address is None else str(address)
