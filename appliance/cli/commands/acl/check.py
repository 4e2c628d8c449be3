"""`headrace acl check`."""

import click

from appliance import exit_code
from appliance.cli.acl_files import errors_as_lines, files_options, folder_of
from appliance.errors import ApplianceError
from broker.access.explanation import explain
from broker.access.inet_address import peer_address
from broker.access.permission import Permission
from headrace.model import names

_ACTIONS = {"pub": Permission.PUB, "sub": Permission.SUB, "admin": None}


@click.command("check", short_help="Show whether an account may do something, and why.")
@click.argument("account")
@click.argument("action", metavar="ACTION", type=click.Choice(list(_ACTIONS), case_sensitive=False))
@click.argument("resource", default="")
@click.option("--from", "host", metavar="ADDRESS", help="Also check the whitelists, for a client at ADDRESS.")
@files_options
def command(
    account: str,
    action: str,
    resource: str,
    host: str | None,
    data: str,
    broker: str | None,
    home: str | None,
    plain_file: str | None,
) -> int:
    """Show whether ACCOUNT (an access key) may perform ACTION on RESOURCE, and the rule that decides.

    RESOURCE is a topic, or group:NAME for a consumer group. ACTION is pub (send), sub (consume) or admin (change topics, groups
    and configuration; without RESOURCE). The files are read as they are now; no broker needs to be running. Signatures are not
    checked.

    Exit codes: 0 allowed; 1 denied.
    """
    needed = _ACTIONS[action.lower()]
    if needed is not None and not resource:
        raise ApplianceError(f"{action} needs a topic or group:NAME")
    if resource.startswith("group:"):
        resource = names.retry_topic(resource.removeprefix("group:"))
    with errors_as_lines():
        loaded = folder_of(data, broker, home, plain_file).load()
    said = explain(loaded.rules, account, resource, needed, None if host is None else peer_address(host))
    place = loaded.places.get(account)
    print(f"{'allowed' if said.is_allowed else 'denied'}: {said.rule}" + (f" ({place})" if place else ""))
    return exit_code.CLEAN if said.is_allowed else exit_code.FAILED
