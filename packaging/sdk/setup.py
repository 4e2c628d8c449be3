"""Makes `pip wheel packaging/sdk` fail with instructions: the client's sources are not beside this file."""

raise SystemExit("the client's wheel cannot be built here; use: python packaging/sdk/build_wheel.py FOLDER")
