"""`headrace doctor`: its subcommands are the modules of this package."""

from appliance.cli.command_folder import CommandFolder

command = CommandFolder(__name__, name="doctor", help="Check the installation and a configuration's security.")
