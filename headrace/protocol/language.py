"""The programming language of a peer, as in every frame."""

from enum import IntEnum


class LanguageCode(IntEnum):
    """Its number is used in binary headers, its name in JSON (remoting spec 1.10)."""

    JAVA = 0
    CPP = 1
    DOTNET = 2
    PYTHON = 3
    DELPHI = 4
    ERLANG = 5
    RUBY = 6
    OTHER = 7
    HTTP = 8
    GO = 9
    PHP = 10
    OMS = 11
    RUST = 12
    NODE_JS = 13
