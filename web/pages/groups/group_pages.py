"""GroupPages: the pages of consumer groups."""

from web.cluster.cluster import Cluster
from web.pages.charts import RANGE_ARGUMENT
from web.pages.groups.group_list import KINDS, STATES, GroupList
from web.pages.groups.group_page import GroupPage
from web.pages.groups.group_reads import GroupReads
from web.pages.groups.group_settings import Deletion, GroupSettings, NewGroup, Pause, SettingsForm
from web.pages.groups.member_page import MemberPage
from web.pages.groups.resets import CLONE_ARGUMENTS, RESET_ARGUMENTS, Clone, Reset, Resets
from web.routes import Access, Change, Query, Route
from web.sampling.past_members import PastMembers
from web.sampling.sampler import Sampler

SECTION = "Consumer groups"


class GroupPages:
    """The pages of consumer groups."""

    def __init__(self, cluster: Cluster, sampler: Sampler, past: PastMembers) -> None:
        self._reads = GroupReads(cluster)
        self._sampler = sampler
        self._past = past

    def routes(self) -> list[Route]:
        """What it serves."""
        group = "/groups/<group:str>"
        settings, resets = GroupSettings(self._reads), Resets(self._reads)
        return [
            Query(
                "/groups",
                GroupList(self._reads, self._sampler).show,
                "List the consumer groups.",
                menu=SECTION,
                shortcut="c",
                arguments=KINDS.argument | STATES.argument,
            ),
            Query(
                group,
                GroupPage(self._reads, self._past).show,
                "Show a consumer group.",
                section=SECTION,
                arguments=RANGE_ARGUMENT,
            ),
            Query(
                f"{group}/members/<client:str>",
                MemberPage(self._reads).show,
                "Show a member of a group.",
                section=SECTION,
                arguments={"stacks": "`yes`: also the stacks of its threads."},
            ),
            Query(
                "/new-group", settings.show_new, "Show the settings of a new group.", Access.OPERATOR, section=SECTION
            ),
            Change(
                "/new-group",
                NewGroup,
                settings.create,
                "group.create",
                "Create a consumer group.",
                subject=lambda _visit, form: form.name,
            ),
            Change(f"{group}/settings", SettingsForm, settings.change, "group.change", "Change a group's settings."),
            Change(f"{group}/pause", Pause, settings.pause, "group.pause", "Pause the consumption of a group."),
            Change(f"{group}/resume", Pause, settings.resume, "group.resume", "Resume the consumption of a group."),
            Change(f"{group}/delete", Deletion, settings.delete, "group.delete", "Delete a consumer group."),
            Query(
                f"{group}/reset",
                resets.show,
                "Preview a reset of offsets.",
                Access.OPERATOR,
                section=SECTION,
                arguments=RESET_ARGUMENTS,
            ),
            Change(f"{group}/reset", Reset, resets.run, "group.reset", "Reset a group's offsets."),
            Query(
                f"{group}/clone",
                resets.show_clone,
                "Preview a copy of a group's offsets to another group.",
                Access.OPERATOR,
                section=SECTION,
                arguments=CLONE_ARGUMENTS,
            ),
            Change(
                f"{group}/clone",
                Clone,
                resets.run_clone,
                "group.clone",
                "Copy a group's offsets to another group.",
                subject=lambda visit, form: f"{visit.path['group']} to {form.target}",
            ),
        ]
