"""Requests of operators' tools: one file for each family of requests.

Each class receives what it uses, and `handlers()` lists the request codes that it handles. A refusal has RocketMQ's response code and a remark with
the reason and the remedy; `handler_errors` answers unreadable requests.
"""
