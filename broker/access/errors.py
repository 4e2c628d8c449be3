# ruff: noqa: N818  (names say what is wrong)
"""What the ACL files can have wrong.

BadAclFile              a file cannot be read, or a rule in it is invalid: the rules in force stay
└── BadAddressPattern   a pattern of addresses is invalid
"""


class BadAclFile(ValueError):
    """An ACL file or a rule is invalid. The text says what is wrong and never contains a secret key."""


class BadAddressPattern(BadAclFile):
    """A pattern of remote addresses is invalid."""
