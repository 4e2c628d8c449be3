"""What a program is doing, for tools that ask a consumer: the stacks of its threads, and of tasks that wait in its own code.

A handler that is a coroutine and waits is on no thread's stack.
"""

import asyncio
import itertools
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final

_MOST_TASKS: Final = 200  # limit: a text for people
_OTHERS: Final = (f"{Path(__file__).parents[2]}/", f"{Path(str(asyncio.__file__)).parent}/")


def stacks() -> str:
    """The name of each thread and task with its stack, the innermost call last. Called in the loop."""
    return "\n".join([*_of_threads(), *itertools.islice(_of_tasks(), _MOST_TASKS)])


def _of_threads() -> Iterator[str]:
    names_of = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():  # noqa: SLF001 (there is no public way to get them)
        yield f"{names_of.get(ident, ident)}\n{''.join(traceback.format_stack(frame))}"


def _of_tasks() -> Iterator[str]:
    """Of tasks that the program, not the client, waits in."""
    for task in asyncio.all_tasks():
        frames = list(_frames(task))
        if task is not asyncio.current_task() and not all(
            frame.f_code.co_filename.startswith(_OTHERS) for frame in frames
        ):
            lines = traceback.StackSummary.extract((frame, frame.f_lineno) for frame in frames).format()
            yield f"{task.get_name()}\n{''.join(lines)}"


def _frames(task: "asyncio.Task[Any]") -> Iterator[FrameType]:
    """The frames of the coroutines that await each other; `Task.get_stack` has only the outermost."""
    waiting: Any = task.get_coro()
    while (frame := getattr(waiting, "cr_frame", None)) is not None:
        yield frame
        waiting = waiting.cr_await
