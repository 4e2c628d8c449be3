"""Writes the pages of docs/reference that are made from the appliance's own code."""

# ruff: noqa: INP001  a program, not a package

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from appliance.manual import commands, options

commands.main()
options.main()
