"""Here so that `pip wheel packaging/sdk` says how the wheel is made, and makes no empty one: the client's sources are not beside this file."""

raise SystemExit("the wheel of the client is made by: python packaging/sdk/build_wheel.py FOLDER")
