"""The series that a request names."""

from web.errors import Invalid
from web.history.history_file import MOST_NAMES_READ
from web.routes import Visit


def requested_series(visit: Visit) -> list[str]:
    """The names in the argument `series`, separated by commas. Raises Invalid."""
    names = [name for name in visit.arguments.get("series", "").split(",") if name]
    if not 0 < len(names) <= MOST_NAMES_READ:
        raise Invalid(
            "series: expected 1 to {most} names separated by commas, got {count}",
            most=MOST_NAMES_READ,
            count=len(names),
        )
    return names
