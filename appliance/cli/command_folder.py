"""A command group made of a package: each module is a command, imported only when it is called.

So `headrace status` does not load what `headrace run` imports.
"""

import importlib
import pkgutil

import click


class CommandFolder(click.Group):
    """A click group whose commands are the modules of a package, by name."""

    def __init__(self, package: str, name: str | None = None, help: str | None = None) -> None:  # noqa: A002  click's name
        super().__init__(name=name, help=help)
        self._package = package

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        """The names of the package's modules, in the command line's spelling."""
        package = importlib.import_module(self._package)
        return sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(package.__path__))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported now; None if there is none."""
        if cmd_name not in self.list_commands(ctx):
            return None
        module = cmd_name.replace("-", "_")
        command = importlib.import_module(f"{self._package}.{module}").command
        assert isinstance(command, click.Command)
        return command
