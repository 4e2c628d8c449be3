"""Version numbers of peers: ordinals in RocketMQ's list of releases (remoting spec 1.10)."""

from typing import Final

CURRENT_VERSION: Final = 409
"""4.9.8: the version that we send."""

MIN_RESET_OFFSET_VERSION: Final = 28
"""Clients from 3.0.7 on support RESET_CONSUMER_CLIENT_OFFSET and GET_CONSUMER_STATUS_FROM_CLIENT."""

MIN_REGISTER_BODY_VERSION: Final = 37
"""Brokers from 3.0.11 on register with a body that has a list of filter servers."""

MIN_RUNNING_INFO_VERSION: Final = 62
"""Clients from 3.1.8 on support GET_CONSUMER_RUNNING_INFO and CONSUME_MESSAGE_DIRECTLY."""

MIN_MAX_RECONSUME_TIMES_VERSION: Final = 121
"""From 3.4.9 on a client's `maxReconsumeTimes` is used."""

MIN_SQL_FILTER_VERSION: Final = 232
"""Brokers from 4.1.0 on support SQL92 filters."""

MIN_STANDARD_JSON_VERSION: Final = 401
"""Clients from 4.9.4 on request routes in standard JSON."""

_MAX_ORDINAL: Final = 540  # limit: above any known release; RocketMQ treats higher numbers as its newest


def version_text(version: int) -> str:
    """RocketMQ's name of a release, such as `V4_9_8`; the number for ordinals that do not follow the list's pattern.

    Each release has two entries in the list: its snapshot (even) and itself (odd). From 4.0.0 on, minor numbers are 0 to 9.
    """
    if 212 <= version <= _MAX_ORDINAL:
        release, final = divmod(version - 212, 2)
        major, rest = divmod(release + 400, 100)
        return f"V{major}_{rest // 10}_{rest % 10}" + ("" if final else "_SNAPSHOT")
    return str(version)
