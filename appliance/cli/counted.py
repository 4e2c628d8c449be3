"""Counts with their nouns: `1 file`, `1,234 files`."""


def counted(number: int, thing: str) -> str:
    """The number and the noun, in the plural unless the number is 1."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
