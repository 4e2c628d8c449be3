"""Access control: RocketMQ's ACL files, their accounts and rules, and what a request needs.

`access_rules` documents the interface; `access_control` holds the rules that are in force.
"""
