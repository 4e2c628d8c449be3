"""`headrace acl`: its subcommands are the modules of this package."""

from appliance.cli.command_folder import CommandFolder

command = CommandFolder(
    __name__,
    name="acl",
    help="""Manage accounts of the access control list (ACL).

    They are stored in conf/plain_acl.yml and conf/acl/*.yml.""",
)
