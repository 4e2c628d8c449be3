"""Tries every request of broker and name server as a peer on another address, in a network namespace of its own.

    unshare --net python -m support.remote_peer DATA < ROUNDS > RESULTS

The namespace has two addresses. The appliance listens on all addresses; a client that binds SOURCE and connects to SERVER is another host to it,
since neither address is a loopback address nor are they the same. ROUNDS and RESULTS are JSON.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from broker.manual import FIELDS, body_of
from broker.served_requests import NAME_SERVER
from headrace.protocol.acl_signature import ACCESS_KEY, SIGNATURE, sign
from headrace.protocol.request_access import ACCESS
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from support.appliance import Appliance
from support.plain_client import PlainClient

SERVER: Final = "198.18.7.1"
SOURCE: Final = "198.18.7.2"
OWN_NETWORK: Final = ("unshare", "--net", *(() if os.geteuid() == 0 else ("--map-root-user",)))
_ACL_REFUSAL: Final = "org.apache.rocketmq.acl.common.AclException: "


def try_all_requests(data: Path, rounds: list[dict[str, Any]]) -> list[dict[str, str]]:
    """For each round, the outcome of each request by its name: allowed or refused."""
    command = [*OWN_NETWORK, sys.executable, "-m", "support.remote_peer", str(data)]
    done = subprocess.run(
        command, input=json.dumps(rounds), capture_output=True, text=True, timeout=240, check=False,
        env={"PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    results: list[dict[str, str]] = json.loads(done.stdout)
    return results


def _try_round(data: Path, given: dict[str, Any]) -> dict[str, str]:
    more = ("--host", "0.0.0.0", *given.get("more", ()))
    settings = {"mappedFileSizeCommitLog": "8388608", "maxHashSlotNum": "1000", "maxIndexNum": "4000"}
    with Appliance(data, settings=settings | given.get("settings", {}), more=more) as appliance:
        outcomes = {}
        for code in sorted(ACCESS):
            port = appliance.ports[0 if code in NAME_SERVER else 1]
            with PlainClient(f"{SERVER}:{port}", source=given.get("source", SOURCE)) as client:
                outcomes[code.name] = _outcome(client, code, given.get("account"))
        return outcomes


def _outcome(client: PlainClient, code: RequestCode, account: list[str] | None) -> str:
    ext, body = dict(FIELDS), body_of(code)
    if account is not None:
        ext[ACCESS_KEY] = account[0]
        ext[SIGNATURE] = sign(account[1], ext, body)
    answer = client.ask(code, ext, body)
    remark = answer.remark or ""
    is_refused = (answer.code == ResponseCode.NO_PERMISSION and " refused: " in remark) or _ACL_REFUSAL in remark
    return "refused" if is_refused else "allowed"


def main() -> None:
    """Runs the rounds of standard input."""
    for arguments in ("link set lo up", f"addr add {SERVER}/32 dev lo", f"addr add {SOURCE}/32 dev lo"):
        subprocess.run(["ip", *arguments.split()], check=True)
    data = Path(sys.argv[1])
    rounds = json.load(sys.stdin)
    json.dump([_try_round(data / str(number), given) for number, given in enumerate(rounds)], sys.stdout)


if __name__ == "__main__":
    main()
