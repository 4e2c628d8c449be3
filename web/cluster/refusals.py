"""Refusals: what to do if brokers with access control refuse the console's own account."""

from collections.abc import Iterable
from typing import Final

REFUSAL_ADVICE: Final = (
    "The brokers refuse the console's own account. Create an account with admin: true, set consoleAccessKey and consoleSecretKey in"
    " appliance.toml (for headrace console: ROCKETMQ_ACCESS_KEY and ROCKETMQ_SECRET_KEY in its environment), and restart the appliance"
    " or the console."
)
_EXCEPTION: Final = "org.apache.rocketmq.acl.common.AclException: "
"""With it begins the remark of every refusal by access control, Apache's and ours; the code is that of any failure."""


def is_refusal(texts: Iterable[str]) -> bool:
    """Whether one of the problems is that a broker refused the console's account."""
    return any(_EXCEPTION in text for text in texts)
