"""Counts calls of the product's Python functions. Compiled ones do not count, so the number says what is left to the interpreter, on every machine the same."""

import sys
from collections import Counter
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parents[2]


class PythonCalls:
    """`with calls:` counts what this thread calls meanwhile, by file and function; it may be entered again."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def __enter__(self) -> "PythonCalls":
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(ROOT) and "tests" not in path.parts:
            self.counts[f"{path.relative_to(ROOT)}:{frame.f_code.co_name}"] += 1
