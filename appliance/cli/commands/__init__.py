"""The commands, one file each: the module's name is the command's, its object `command` is the command.

A command is found by its file's being here; nothing else has to be told.
"""
