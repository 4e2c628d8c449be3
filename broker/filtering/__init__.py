"""Which messages a consumer wants: tags, SQL92 expressions, Python filter functions."""
