"""`headrace tls`: its subcommands are the modules of this package."""

from appliance.cli.command_folder import CommandFolder

command = CommandFolder(__name__, name="tls", help="Create certificates for TLS.")
