"""The actions of the audit log in words. The API, CSV and JSON Lines have their identifiers."""

from collections.abc import Mapping
from typing import Final

from web.pages.exports.target_download import ACTION as EXPORT_DOWNLOAD
from web.tables.table import Choice

ACTION_WORDS: Final[Mapping[str, str]] = {
    "login": "log in",
    "logout": "log out",
    "account.password": "change own password",
    "account.zone": "choose time zone",
    "user.create": "create user",
    "user.delete": "delete user",
    "user.password": "set password of user",
    "user.role": "change role of user",
    "session.end": "end session",
    "token.create": "create API token",
    "token.revoke": "revoke API token",
    "topic.create": "create topic",
    "topic.update": "change topic",
    "topic.delete": "delete topic",
    "group.create": "create consumer group",
    "group.change": "change consumer group",
    "group.delete": "delete consumer group",
    "group.pause": "pause consumption",
    "group.resume": "resume consumption",
    "group.reset": "reset offsets",
    "group.clone": "copy offsets to another group",
    "message.send": "send message",
    "message.resend": "resend message",
    "message.push": "make a client consume a message",
    "dead-letter.handle": "mark dead letters as handled",
    "dead-letter.handle-all": "mark all dead letters as handled",
    "dead-letter.unhandle": "mark dead letters as unhandled",
    "dead-letter.unhandle-all": "mark all dead letters as unhandled",
    "dead-letter.resend": "resend dead letters",
    "dead-letter.resend-all": "resend all dead letters",
    "dead-letter.cancel": "cancel resend of dead letters",
    "transaction.check-again": "check half messages again",
    "broker.configure": "change broker option",
    "broker.stop_writes": "stop writes to broker",
    "broker.allow_writes": "allow writes to broker",
    "name_server.configure": "change name server option",
    "acl.account.put": "save ACL account",
    "acl.account.delete": "delete ACL account",
    "acl.white_addresses.put": "change addresses without account",
    "alert.rule.create": "create alert rule",
    "alert.rule.update": "change alert rule",
    "alert.rule.delete": "delete alert rule",
    "alert.channel.save": "save alert channel",
    "alert.channel.delete": "delete alert channel",
    "alert.channel.test": "test alert channel",
    "export.start": "start export",
    "export.stop": "stop export",
    EXPORT_DOWNLOAD: "download export",
}
"""English, keys of the translations, by identifier."""

ACTIONS: Final = Choice("action", "Action", (("all", "All"), *ACTION_WORDS.items()))
"""The filter of the audit log by action."""
