"""`headrace acl list`."""

import json
from pathlib import Path

import click

from appliance.cli.acl_files import errors_as_lines, files_options, folder_of
from appliance.cli.text_table import text_table
from broker.access.acl_listing import list_acl
from headrace.protocol.bodies.acl import PlainAccessConfig

_HEAD = ("ACCOUNT", "ADMIN", "TOPICS", "GROUPS", "ADDRESSES", "FILE")


@click.command("list", short_help="List accounts and their permissions.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@files_options
def command(as_json: bool, data: str, broker: str | None, home: str | None, plain_file: str | None) -> None:
    """List accounts with their permissions, and the addresses whose requests are not checked. Secret keys are not shown.

    TOPICS and GROUPS show the default permission, then the entries. With --json: {"globalWhiteRemoteAddresses": [...],
    "accounts": {NAME: {"admin", "defaultTopicPerm", "defaultGroupPerm", "topicPerms", "groupPerms", "whiteRemoteAddress", "file"}}}.
    """
    folder = folder_of(data, broker, home, plain_file)
    with errors_as_lines():
        places = folder.load().places
        found = list_acl(folder)
    accounts = {one.access_key: one for one in found.plain_access_configs}
    if as_json:
        listed = {name: {**_fields(one), "file": str(places[name])} for name, one in accounts.items()}
        print(json.dumps({"globalWhiteRemoteAddresses": found.global_white_addrs, "accounts": listed}, indent=2))
        return
    if accounts:
        print("\n".join(text_table(_HEAD, [_row(one, places[name]) for name, one in accounts.items()])))
    else:
        print("no accounts; add one with: headrace acl add ACCOUNT")
    if found.global_white_addrs:
        print(f"\nall requests are allowed, without an account, from: {', '.join(found.global_white_addrs)}")


def _fields(account: PlainAccessConfig) -> dict[str, object]:
    return {
        "admin": account.admin,
        "defaultTopicPerm": account.default_topic_perm or "DENY",
        "defaultGroupPerm": account.default_group_perm or "DENY",
        "topicPerms": account.topic_perms or [],
        "groupPerms": account.group_perms or [],
        "whiteRemoteAddress": account.white_remote_address or "",
    }


def _row(account: PlainAccessConfig, place: Path) -> tuple[str, ...]:
    has_all = account.admin and not account.topic_perms and not account.group_perms
    return (
        account.access_key,
        "yes" if account.admin else "no",
        "all" if has_all else " ".join([account.default_topic_perm or "DENY", *(account.topic_perms or ())]),
        "all" if has_all else " ".join([account.default_group_perm or "DENY", *(account.group_perms or ())]),
        account.white_remote_address or "-",
        str(place),
    )
