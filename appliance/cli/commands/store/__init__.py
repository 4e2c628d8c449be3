"""`headrace store`: its commands are the modules of this package."""

from appliance.cli.command_folder import CommandFolder

command = CommandFolder(
    __name__,
    name="store",
    help="""Inspect a store, or deliver its timer messages.

    The store may belong to Headrace or RocketMQ.""",
)
