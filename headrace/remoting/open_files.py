"""The limits of connections, within the process's open file limit."""

import logging
import resource
from typing import Final

from headrace.model.connection_limits import ConnectionLimits
from headrace.model.server_options import ServerOptions

logger = logging.getLogger(__name__)

_UNLIMITED: Final = 1 << 30


def limits_of_process(options: ServerOptions) -> ConnectionLimits:
    """The limits of the options, reduced to what this process may open. Logs them in one line, as a warning if an option had to be reduced."""
    open_files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    limits = options.connection_limits(_UNLIMITED if open_files == resource.RLIM_INFINITY else open_files)
    is_too_low = limits.connections < options.max_connections
    logger.log(
        logging.WARNING if is_too_low else logging.INFO,
        "connection limits set max_connections=%d max_connections_per_address=%d open_files=%d%s",
        limits.connections, limits.connections_per_address, open_files,
        f" configured_max_connections={options.max_connections} advice='raise the open file limit (ulimit -n) to {-(-options.max_connections * 4 // 3)}'"
        if is_too_low else "",
    )  # fmt: skip
    return limits
