"""Filter functions in Python, in a process that can do nothing but compute (docs/decisions.md, 23).

`worker` is the process; `sandbox` is what it shuts itself in; `wire` is what it says to the broker. The broker's end is
broker/filtering/python_filters.py.
"""
