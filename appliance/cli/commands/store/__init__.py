"""`headrace store`: its commands are the modules of this package."""

from appliance.cli.command_folder import CommandFolder

command = CommandFolder(
    __name__, name="store", help="Look into the files of a store, ours or RocketMQ's, running or not."
)
