"""Which messages a consumer wants: SQL92 expressions, Bloom filters, and the bitmaps that dispatch works out ahead.

`compile_expression` gives a `Program` or says why it does not; a Program evaluates properties. Used by the broker when it
matches pulls, and by dispatch when it fills extended ConsumeQueues. docs/protocol/filters.md tells the language and its oddities.
"""
