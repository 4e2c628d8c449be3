"""FollowedOptions: applies changed options to a running role.

A StoreConfig is frozen everywhere else. Changes are made in the object shared by all parts of this process, so each
sees the new value at its next access. A restarted role begins with the changed options.
"""

import logging

import cython

from headrace.model.option import change_options
from ipc.control_layout import CONFIG_VERSION
from ipc.role_context import RoleContext
from store.config import StoreConfig

if not cython.compiled:
    from ipc.cells import load_cell

_CONFIG_VERSION = CONFIG_VERSION

logger = logging.getLogger(__name__)


class FollowedOptions:
    """One role's StoreConfig, kept up to date by `follow`, which the role's loop calls once a round."""

    def __init__(self, context: RoleContext, config: StoreConfig) -> None:
        self._control = context.control
        self._page = context.instance.changed_options()
        self._config = config
        self._seen = 0

    def have_changed(self) -> bool:
        """Whether there are changes to apply, for waiting loops."""
        return load_cell(self._control.cells, _CONFIG_VERSION) != self._seen

    def follow(self) -> None:
        """Applies the changes since the last call."""
        if not self.have_changed():
            return
        self._seen, texts = self._page.read()
        keys = change_options(self._config, texts)
        if keys:
            logger.info("changed options applied %s", " ".join(f"{key}={texts[key]}" for key in sorted(keys)))
