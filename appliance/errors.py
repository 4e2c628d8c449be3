"""What can go wrong with the appliance as a whole.

::

    ApplianceError            one clear line for the operator; `exit_code` is what the command ends with
    ├── ConfigurationError    a file, a flag or --set says something that cannot be
    ├── PreflightFailed       this machine, as it is now, cannot run the appliance (port, folder, lock, memory, space)
    ├── RoleFailedToStart     a role said why it cannot start
    ├── RoleGivenUp           a role died again and again before it was ready for the first time
    └── NotRunning            nobody answers on the control socket
"""

from typing import ClassVar

from appliance import exit_code


class ApplianceError(Exception):
    """The root. Its text is one line that says cause and cure; it is printed as it is."""

    exit_code: ClassVar[int] = exit_code.FAILED


class ConfigurationError(ApplianceError):
    """A configuration file, a flag or `--set` is wrong. Nothing has been touched."""

    exit_code = exit_code.BAD_CONFIGURATION


class PreflightFailed(ApplianceError):  # noqa: N818  the design's name
    """The machine cannot run this appliance now. Nothing has been damaged."""

    exit_code = exit_code.COULD_NOT_START


class RoleFailedToStart(ApplianceError):  # noqa: N818  the design's name
    """A role ended before it was running and said why."""

    exit_code = exit_code.COULD_NOT_START


class RoleGivenUp(ApplianceError):  # noqa: N818  the design's name
    """A role kept dying before it was ready for the first time, and the supervisor stopped trying."""

    exit_code = exit_code.ROLE_KEPT_DYING


class NotRunning(ApplianceError):  # noqa: N818  the design's name
    """No appliance runs on this data folder."""

    exit_code = exit_code.FAILED
