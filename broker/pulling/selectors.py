"""Selectors: which messages of a queue a pull wants, and how they are read.

    TagSelector        messages whose tags' hash is in a set, or all
    FilterSelector     messages that an SQL92 expression selects, or the filter of a retry topic
    FunctionSelector   messages that a filter function selects in another process (docs/protocol/filters.md)

The checks choose a selector at each evaluation of a pull. Two selectors are equal if they want the same messages: a held pull whose
selector is replaced by an equal one need not examine skipped messages again.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from broker.filtering.consumer_filter_table import LimitReached
from broker.filtering.filter_functions import FilterFunctions
from broker.filtering.pull_filters import PullFilters, Refused
from broker.filtering.python_filters import PythonFilterFailed
from headrace.model.subscription import SubscriptionData
from headrace.protocol.headers.pull import PullMessageRequestHeader
from headrace.protocol.response_code import ResponseCode
from store.filter.message_filter import MessageFilter
from store.filter.python.functions import FilterFunction
from store.query.filtered import FilteredGetter
from store.query.function_filtered import FunctionFilteredGetter, split_records
from store.query.get import GetResult, MessageGetter

Warm: TypeAlias = Callable[[list[tuple[int, int, int]]], Awaitable[None]]
"""Reads parts of files into memory on a thread, and closes their descriptors."""


@dataclass(frozen=True, slots=True)
class TagSelector:
    """Selects by tags."""

    codes: set[int] | None
    """Hashes of the wanted tags; None: all messages. Do not modify."""
    getter: MessageGetter = field(compare=False)
    run_warm: Warm = field(compare=False)

    def warm(self, header: PullMessageRequestHeader) -> Awaitable[None] | None:
        """Reads the messages into memory, which `read` must wait for; None if they are there."""
        place = header.topic, header.queue_id, header.queue_offset
        if not self.getter.is_cold(*place):
            return None
        return self.run_warm(self.getter.plan_warming(*place, header.max_msg_nums))

    def read(self, header: PullMessageRequestHeader, offset: int) -> GetResult:
        """The wanted messages from a queue offset on."""
        return self.getter.get(header.topic, header.queue_id, offset, header.max_msg_nums, self.codes)


@dataclass(frozen=True, slots=True)
class FilterSelector:
    """Selects by an expression."""

    wanted: MessageFilter
    getter: FilteredGetter = field(compare=False)
    run_warm: Warm = field(compare=False)

    def warm(self, header: PullMessageRequestHeader) -> Awaitable[None] | None:
        """Reads the messages into memory, which `read` must wait for; None if they are there."""
        place = header.topic, header.queue_id, header.queue_offset
        return self.run_warm(self.getter.plan_warming(*place)) if self.getter.is_cold(*place) else None

    def read(self, header: PullMessageRequestHeader, offset: int) -> GetResult:
        """The wanted messages from a queue offset on."""
        return self.getter.get(header.topic, header.queue_id, offset, header.max_msg_nums, self.wanted)


class FunctionReader:
    """Reads messages and lets a filter function select among them. The broker serves other requests until the function has answered."""

    def __init__(self, functions: FilterFunctions, getter: FunctionFilteredGetter, warm: Warm) -> None:
        self._functions = functions
        self._getter = getter
        self._warm = warm

    async def read(self, function: str, header: PullMessageRequestHeader, offset: int) -> GetResult | Refused:
        """The messages from a queue offset on that the function wants, among the next several hundred.

        # order: if there is no message, nothing is awaited after the check, so that the pull is held before the next message arrives.
        """
        getter, place, most = self._getter, (header.topic, header.queue_id, offset), max(header.max_msg_nums, 1)
        if getter.is_cold(*place):
            # Shielded: `warm` must run even if the connection is lost meanwhile, because it closes the plan's descriptors.
            await asyncio.shield(
                self._warm(getter.plan_warming(*place, self._functions.most_candidates(function, most)))
            )
        shown = getter.candidates(*place, 1)
        if not shown.count:
            return shown

        def show() -> list[bytes]:
            nonlocal shown
            shown = getter.candidates(*place, self._functions.most_candidates(function, most))
            return split_records(shown.body)

        try:
            verdicts = await self._functions.match(function, show)
        except PythonFilterFailed as error:
            return ResponseCode.SYSTEM_ERROR, f"{error}; run headrace status on the broker's machine for details"
        return getter.choose(shown, verdicts, header.max_msg_nums) if verdicts else shown


@dataclass(frozen=True, slots=True)
class FunctionSelector:
    """Selects by a filter function."""

    function: FilterFunction
    reader: FunctionReader = field(compare=False)

    async def read(self, header: PullMessageRequestHeader, offset: int) -> GetResult | Refused:
        """The wanted messages from a queue offset on, or why the function cannot be run."""
        return await self.reader.read(self.function.name, header, offset)


Selector: TypeAlias = TagSelector | FilterSelector | FunctionSelector


class Selectors:
    """Makes selectors from requests and subscriptions. Without `functions` there are no filter functions."""

    def __init__(
        self,
        filters: PullFilters,
        getter: MessageGetter,
        filtered: FilteredGetter,
        warm: Warm,
        functions: FunctionReader | None = None,
    ) -> None:
        self._filters = filters
        self._getter = getter
        self._filtered = filtered
        self._warm = warm
        self._functions = functions

    def by_tags(self, codes: set[int] | None) -> TagSelector:
        """Messages whose tags' hash is in `codes`; None: all."""
        return TagSelector(codes, self._getter, self._warm)

    def of_request(
        self, header: PullMessageRequestHeader, codes: set[int] | None, limit_reached: LimitReached
    ) -> Selector | Refused:
        """For a pull with its own expression; `codes` if it is an expression of tags."""
        found = self._filters.of_request(header.topic, header.subscription, header.expression_type, limit_reached)
        return self._choose(codes, found)

    def of_subscription(
        self, header: PullMessageRequestHeader, subscription: SubscriptionData, codes: set[int] | None
    ) -> Selector | Refused:
        """For a pull by a subscription of its group; `codes` if it is a subscription by tags."""
        found = self._filters.of_subscription(header.consumer_group, subscription, header.sub_version)
        return self._choose(codes, found)

    def _choose(
        self, codes: set[int] | None, found: MessageFilter | FilterFunction | Refused | None
    ) -> Selector | Refused:
        if isinstance(found, tuple):
            return found
        if isinstance(found, FilterFunction):
            assert self._functions is not None, "filters found a function, so there are functions"
            return FunctionSelector(found, self._functions)
        # compat: RocketMQ selects by tags alone if there are any.
        if codes is None and found is not None:
            return FilterSelector(found, self._filtered, self._warm)
        return TagSelector(codes, self._getter, self._warm)
