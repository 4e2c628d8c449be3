"""`headrace acl remove`."""

import click

from appliance.cli.acl_files import errors_as_lines, files_options, folder_of
from appliance.errors import ApplianceError
from broker.access.acl_editor import AclEditor


@click.command("remove", short_help="Remove an account.")
@click.argument("account")
@files_options
def command(account: str, data: str, broker: str | None, home: str | None, plain_file: str | None) -> None:
    """Remove ACCOUNT (an access key). Within two seconds, a running broker starts to refuse its requests."""
    folder = folder_of(data, broker, home, plain_file)
    with errors_as_lines():
        path = AclEditor(folder).remove_account(account)
        if path is None:
            names = ", ".join(sorted(folder.load().rules.accounts)) or "none"
            raise ApplianceError(f"there is no account {account}; existing accounts: {names}")
    print(f"{account} removed from {path}")
