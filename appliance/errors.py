"""Errors of the appliance as a whole.

::

    ApplianceError            one line for the operator; `exit_code` is the exit code of the command
    ├── ConfigurationError    a file, a flag or --set is invalid
    ├── PreflightFailed       this machine, as it is now, cannot run the appliance (port, folder, lock, memory, space)
    ├── RoleFailedToStart     a role reported why it cannot start
    ├── RoleGivenUp           a role kept dying before it was ready for the first time
    ├── ProgramReplaced       an upgrade replaced the program while it was running
    ├── NotRunning            no supervisor listens on the control socket
    └── ExportRefused         an export that the console has requested was not started
"""

from typing import ClassVar

from appliance import exit_code


class ApplianceError(Exception):
    """The root. Its text is one line with cause and remedy, and is printed unchanged."""

    exit_code: ClassVar[int] = exit_code.FAILED


class ConfigurationError(ApplianceError):
    """A configuration file, a flag or `--set` is invalid. Nothing has been changed."""

    exit_code = exit_code.BAD_CONFIGURATION


class PreflightFailed(ApplianceError):  # noqa: N818  the design's name
    """The machine cannot run this appliance now. The store has not been changed."""

    exit_code = exit_code.COULD_NOT_START


class RoleFailedToStart(ApplianceError):  # noqa: N818  the design's name
    """A role ended before it was running and reported why."""

    exit_code = exit_code.COULD_NOT_START


class RoleGivenUp(ApplianceError):  # noqa: N818  the design's name
    """A role kept dying before it was ready for the first time, and the supervisor stopped trying."""

    exit_code = exit_code.ROLE_KEPT_DYING


class ProgramReplaced(ApplianceError):  # noqa: N818  the design's name
    """An upgrade replaced the program while it was running, and a role must be started. The next start runs the new version."""

    exit_code = exit_code.PROGRAM_REPLACED


class NotRunning(ApplianceError):  # noqa: N818  the design's name
    """No appliance runs on this data folder."""

    exit_code = exit_code.FAILED


class ExportRefused(ApplianceError):  # noqa: N818  the design's name
    """An export that the console has requested was not started, or not continued. Nothing has been changed."""
