"""`headrace store`: its commands are the modules of this package."""

from appliance.cli.command_folder import CommandFolder

command = CommandFolder(
    __name__, name="store", help="Inspect a store of Headrace or RocketMQ, or deliver its timer messages."
)
