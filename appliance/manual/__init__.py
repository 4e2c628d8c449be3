"""Pages of the reference that are made from the code: `make docs` writes them, a test fails when one is stale."""
