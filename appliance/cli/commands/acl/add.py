"""`headrace acl add`."""

import secrets
import sys

import click

from appliance.cli.acl_files import errors_as_lines, files_options, folder_of
from appliance.errors import ApplianceError
from broker.access.acl_editor import AccountChange, AclEditor
from broker.access.acl_file import MIN_KEY_LENGTH
from broker.access.address_pattern import parse_pattern
from broker.access.errors import BadAddressPattern
from broker.access.permission import WORDS

_WORD = click.Choice(list(WORDS), case_sensitive=False)


@click.command("add", short_help="Add or change an account.")
@click.argument("account")
@click.option(
    "--secret",
    metavar="KEY",
    help="The secret key; - reads it from standard input. Default: the account's current key; a new account gets a generated one.",
)
@click.option("--admin/--no-admin", default=None, help="Whether the account may make admin requests.")
@click.option(
    "--topic-default", type=_WORD, metavar="PERMISSION", help="Permission on topics that --topic does not list."
)
@click.option(
    "--group-default", type=_WORD, metavar="PERMISSION", help="Permission on groups that --group does not list."
)
@click.option(
    "--topic", "topics", multiple=True, metavar="NAME=PERMISSION", help="Permission on a topic. Can be repeated."
)
@click.option(
    "--group", "groups", multiple=True, metavar="NAME=PERMISSION", help="Permission on a group. Can be repeated."
)
@click.option(
    "--white-address",
    metavar="PATTERN",
    help="Allow all requests of the account from these addresses, without checking signature or permissions.",
)
@files_options
def command(
    account: str,
    secret: str | None,
    admin: bool | None,
    topic_default: str | None,
    group_default: str | None,
    topics: tuple[str, ...],
    groups: tuple[str, ...],
    white_address: str | None,
    data: str,
    broker: str | None,
    home: str | None,
    plain_file: str | None,
) -> None:
    """Add ACCOUNT (an access key), or change it. Omitted options keep their values; permissions of a new account default to DENY.

    A generated secret key is printed once. --topic and --group replace all permissions that the account has of that kind. A running
    broker with aclEnable=true applies the change within two seconds. Comments in the file are lost.

    PERMISSION is PUB, SUB, PUB|SUB or DENY.
    """
    for flag, entries in (("--topic", topics), ("--group", groups)):
        for entry in entries:
            _check_entry(flag, entry)
    if white_address is not None:
        _check_pattern(white_address)
    folder = folder_of(data, broker, home, plain_file)
    if secret == "-":  # noqa: S105  standard input
        secret = sys.stdin.readline().rstrip("\n")
    with errors_as_lines():
        old = folder.load().rules.account_for(account)
        for name, value in (("the access key", account), ("--secret", secret)):
            if value is not None and len(value) < MIN_KEY_LENGTH:
                raise ApplianceError(f"{name} must have at least {MIN_KEY_LENGTH} characters")
        generated = secrets.token_urlsafe(24) if secret is None and old is None else None
        change = AccountChange(
            account,
            secret or generated,
            white_address,
            admin if admin is not None else old is not None and old.is_admin,
            topic_default,
            group_default,
            topics or None,
            groups or None,
        )
        path = AclEditor(folder).put_account(change)
    print(f"{account} {'added to' if old is None else 'changed in'} {path}")
    if generated is not None:
        print(f"secret key: {generated}")


def _check_entry(flag: str, entry: str) -> None:
    name, _, word = entry.partition("=")
    if not name.strip() or word.strip() not in WORDS:
        raise ApplianceError(f"{flag} {entry}: expected NAME=PERMISSION, such as Orders=PUB|SUB")


def _check_pattern(text: str) -> None:
    try:
        parse_pattern(text)
    except BadAddressPattern:
        raise ApplianceError(
            f"--white-address {text}: expected an address or a pattern, such as 10.1.2.3, 10.1.2.* or 10.1.2.{{3,4}}"
        ) from None
