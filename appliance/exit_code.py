"""Exit codes of the `headrace` command and of roles. systemd and scripts depend on these numbers.

`COULD_NOT_START` is a separate code so that a failed start is not repeated: a role that exits with it ends the
appliance, and service managers are configured not to restart it (RestartPreventExitStatus=2 3).
"""

from typing import Final

CLEAN: Final = 0
FAILED: Final = 1  # a command failed; `store verify` found something; the appliance did not stop cleanly
BAD_CONFIGURATION: Final = 2  # also click's exit code for wrong usage
COULD_NOT_START: Final = 3
ROLE_KEPT_DYING: Final = 4
PROGRAM_REPLACED: Final = 5  # service managers start the new version
