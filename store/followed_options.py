"""FollowedOptions: applies changed options to a running role.

A StoreConfig is frozen for everyone else. What changes here changes in the object that all parts of this process hold, so each
sees the new value when it next looks. A role that is started again begins with what was changed before.
"""

import logging

from headrace.model.option import change_options
from ipc.role_context import RoleContext
from store.config import StoreConfig

logger = logging.getLogger(__name__)


class FollowedOptions:
    """One role's StoreConfig, kept up to date by `follow`, which the role's loop calls once a round."""

    def __init__(self, context: RoleContext, config: StoreConfig) -> None:
        self._page = context.instance.changed_options()
        self._config = config
        self._seen = 0

    @property
    def have_changed(self) -> bool:
        """Whether there is something to follow: for those who wait."""
        return self._page.version != self._seen

    def follow(self) -> None:
        """Takes over what has changed since the last call."""
        if not self.have_changed:
            return
        self._seen, texts = self._page.read()
        keys = change_options(self._config, texts)
        if keys:
            logger.info("changed options applied %s", " ".join(f"{key}={texts[key]}" for key in sorted(keys)))
