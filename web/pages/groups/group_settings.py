"""Settings of groups: created, changed, deleted; and consumption paused and resumed."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec.structs import replace

from headrace import SubscriptionGroupConfig
from web.cluster.protection import check_group
from web.errors import Invalid, NotFound
from web.pages.groups.group_reads import GroupReads
from web.paths import path_of
from web.routes import Outcome, View, Visit

BrokerId = Annotated[int, msgspec.Meta(ge=0, le=1 << 31)]


class SettingsForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A group's settings, the same at all brokers that have it."""

    is_enabled: bool = True
    retries: Annotated[int, msgspec.Meta(ge=-1, le=10_000)] = 16
    retry_queues: Annotated[int, msgspec.Meta(ge=1, le=1_024)] = 1
    may_broadcast: bool = True
    starts_at_first: bool = True
    broker_id: BrokerId = 0
    slow_broker_id: BrokerId = 1
    notifies: bool = True


class NewGroup(SettingsForm, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A group to be created."""

    name: str


class Deletion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The deletion of a group."""

    name: str
    """The group's name again, typed by the user."""
    remove_offsets: bool = True


class Pause(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nothing needs to be given."""


class GroupSettings:
    """Creates, changes and deletes groups."""

    def __init__(self, reads: GroupReads) -> None:
        self._reads = reads

    async def show_new(self, _visit: Visit) -> View:
        """The form for a new group."""
        return View("Create a consumer group", "groups/new.html", {"settings": SettingsForm()})

    async def create(self, _visit: Visit, form: NewGroup) -> Outcome:
        """Creates a group at all masters. Raises Invalid if it exists, HeadraceError."""
        check_group(form.name)
        settings, _ = await self._reads.settings()
        if form.name in settings:
            raise Invalid(
                "the consumer group {name} already exists", "Change its settings on its page.", name=form.name
            )
        await self._reads.cluster.admin.update_group(_config(form.name, form))
        return Outcome("The consumer group was created.", location=path_of("groups", form.name), after=form)

    async def change(self, visit: Visit, form: SettingsForm) -> Outcome:
        """Changes a group's settings at all brokers that have it. Raises NotFound, HeadraceError."""
        group = visit.path["group"]
        before = await self._own(group)
        for address in before:
            await self._reads.cluster.admin.update_group(_config(group, form), broker=address)
        return Outcome("The settings were changed.", location=path_of("groups", group), before=before, after=form)

    async def pause(self, visit: Visit, _form: Pause) -> Outcome:
        """Makes brokers refuse the pulls of the group; other settings stay. Raises NotFound, HeadraceError."""
        return await self._set_enabled(visit.path["group"], is_enabled=False)

    async def resume(self, visit: Visit, _form: Pause) -> Outcome:
        """Makes brokers answer the pulls of the group again. Raises NotFound, HeadraceError."""
        return await self._set_enabled(visit.path["group"], is_enabled=True)

    async def _set_enabled(self, group: str, *, is_enabled: bool) -> Outcome:
        self._reads.cluster.forget()  # settings that were changed since must not be written back
        before = await self._own(group)
        for address, config in before.items():
            await self._reads.cluster.admin.update_group(replace(config, consume_enable=is_enabled), broker=address)
        return Outcome(
            "Consumption was resumed. Brokers: {count}." if is_enabled else "Consumption was paused. Brokers: {count}.",
            {"count": len(before)},
            path_of("groups", group),
            before={address: {"consume_enable": config.consume_enable} for address, config in before.items()},
            after={address: {"consume_enable": is_enabled} for address in before},
        )

    async def delete(self, visit: Visit, form: Deletion) -> Outcome:
        """Deletes a group at all brokers that have it. Raises Invalid, NotFound, HeadraceError."""
        group = visit.path["group"]
        if form.name != group:
            raise Invalid(
                "{name} is not the name of this group",
                "Type {group} to delete it.",
                name=repr(form.name[:300]),
                group=group,
            )
        before = await self._own(group)
        members = await self._reads.members(group)
        if members.connection_set:
            raise Invalid(
                "the group {group} has {count} connected members, which would create it again",
                "Stop its members first.",
                group=group,
                count=len(members.connection_set),
            )
        for address in before:
            await self._reads.cluster.admin.delete_group(group, remove_offsets=form.remove_offsets, broker=address)
        return Outcome("The consumer group was deleted.", location="/groups", before=before)

    async def _own(self, group: str) -> dict[str, SubscriptionGroupConfig]:
        """The group's settings by the address of the broker, to be changed. Raises Invalid, NotFound."""
        check_group(group)
        settings, problems = await self._reads.settings()
        if problems:
            raise Invalid("; ".join(problems), "Nothing was changed: settings must be the same on all brokers.")
        own = settings.get(group)
        if own is None:
            raise NotFound(
                "no broker has settings for the consumer group {group}",
                "Choose one from the list of consumer groups.",
                group=group,
            )
        masters = await self._reads.cluster.read(("masters",), lambda admin: admin.masters())
        return {masters[broker]: config for broker, config in own.items() if broker in masters}


def forms_of(settings: Mapping[str, SubscriptionGroupConfig]) -> dict[str, dict[str, Any]]:
    """The fields of the form with a group's present settings, of each broker."""
    return {broker: msgspec.to_builtins(_form(config)) for broker, config in settings.items()}


def _form(config: SubscriptionGroupConfig) -> SettingsForm:
    return SettingsForm(
        config.consume_enable,
        config.retry_max_times,
        config.retry_queue_count,
        config.consume_broadcast_enable,
        config.consume_from_min_enable,
        config.broker_id,
        config.which_broker_when_consume_slowly,
        config.notify_consumer_ids_changed_enable,
    )


def _config(name: str, form: SettingsForm) -> SubscriptionGroupConfig:
    return SubscriptionGroupConfig(
        name,
        form.is_enabled,
        form.starts_at_first,
        form.may_broadcast,
        form.retry_queues,
        form.retries,
        form.broker_id,
        form.slow_broker_id,
        form.notifies,
    )
