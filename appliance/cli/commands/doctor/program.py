"""`headrace doctor program`."""

import sys

import click

from appliance import exit_code


@click.command("program", short_help="Report whether the hot modules are compiled.")
def command() -> int:
    """Report whether the installed program uses its compiled modules. Without them it runs several times slower.

    Exit codes: 0 all hot modules are compiled; 1 some are not.
    """
    from appliance.hot_modules import find_hot_modules, find_interpreted  # noqa: PLC0415  slow to import
    from headrace import __version__  # noqa: PLC0415

    names = find_hot_modules()
    interpreted = find_interpreted(names)
    python = ".".join(map(str, sys.version_info[:3]))
    print(f"Headrace {__version__} on Python {python}")
    if not interpreted:
        print(f"  ok    {len(names)} of {len(names)} hot modules are compiled")
        return exit_code.CLEAN
    print(f"  SLOW  {len(names) - len(interpreted)} of {len(names)} hot modules are compiled; not compiled:")
    for name, reason in interpreted.items():
        print(f"          {name}: {reason}")
    print("        fix: install a package or a wheel for this Python; in a clone: make compile")
    return exit_code.FAILED
