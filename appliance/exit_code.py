"""What the `headrace` command and the roles end with. systemd and scripts go by these numbers.

`COULD_NOT_START` has a number of its own so that nobody restarts what cannot start: a role that ends with it ends the
appliance, and a service manager is told not to try again (RestartPreventExitStatus=2 3).
"""

from typing import Final

CLEAN: Final = 0
FAILED: Final = 1  # a command failed; `store verify` found something; the appliance did not stop cleanly
BAD_CONFIGURATION: Final = 2  # also what click says about wrong usage
COULD_NOT_START: Final = 3
ROLE_KEPT_DYING: Final = 4
