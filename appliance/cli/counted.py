"""Numbers of things, as commands say them: `1 file`, `1,234 files`."""


def counted(number: int, thing: str) -> str:
    """The number with its thing, which takes an s where there are others than one."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
