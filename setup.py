"""Compiles the hot modules: every `.py` that has a `.pxd` of the same name beside it.

A hot module is ordinary typed Python in Cython's pure-Python mode. Its C types stand in the `.pxd`; without a compiler the
`.py` is imported as it is and does the same, slower. All other metadata is in pyproject.toml.

    python setup.py build_ext --inplace      (make compile) compile what is older than its source, where it lies
    python setup.py build_ext --sanitize     (make sanitized) compile apart, under build/sanitized, for fuzzing: every index is
                                             checked, and the compiler's address and undefined-behaviour sanitizers watch

An editable install compiles nothing itself: `make compile` does, and only what has changed. It compiles under build/ and then
moves each module to its place whole: who runs meanwhile sees the old one or the new one, never none.
"""

import os
import sys
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

PACKAGES = ("appliance", "broker", "headrace", "ipc", "nameserver", "spark_exporter", "store")
SANITIZED = "build/sanitized"
SANITIZER_FLAGS = [
    "-O1",
    "-g",
    "-fno-wrapv",
    "-fno-omit-frame-pointer",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
]
# Python's own flags ask for debug information, which takes a quarter of the time and four fifths of each module's size.
# gcc 14 refuses wrong pointers, older ones only warn of them.
COMPILER_FLAGS = [
    "-g0",
    "-O3",
    "-fno-semantic-interposition",
    "-Wno-unreachable-code",
    "-Wno-unused-function",
    "-Werror=incompatible-pointer-types",
]


def find_hot_modules() -> list[Path]:
    """The sources to compile, relative to this folder, sorted."""
    here = Path(__file__).resolve().parent
    types = (file for package in PACKAGES for file in sorted((here / package).rglob("*.pxd")))
    sources = (file.with_suffix(".py") for file in types if file.stem != "__init__")
    return [source.relative_to(here) for source in sources if source.exists()]


def read_extensions() -> list[Extension]:
    """The extensions, translated to C under build/cython; none where setuptools only asks for metadata or an editable install."""
    sources = find_hot_modules() if {"build_ext", "bdist_wheel"} & set(sys.argv) else []
    if not sources:
        return []
    from Cython.Build import cythonize  # noqa: PLC0415  (a metadata query must not need Cython)

    is_sanitized = "--sanitize" in sys.argv
    flags = SANITIZER_FLAGS if is_sanitized else []
    return cythonize(
        [
            Extension(
                ".".join(source.with_suffix("").parts),
                [str(source)],
                extra_compile_args=[*COMPILER_FLAGS, *flags],
                extra_link_args=flags,
            )
            for source in sources
        ],
        build_dir=f"{SANITIZED}/cython" if is_sanitized else "build/cython",
        include_path=["."],
        # Types come from the .pxd alone: Python's `int` in an annotation says nothing about C.
        compiler_directives={"language_level": "3", "annotation_typing": False, "boundscheck": is_sanitized},
    )


class MoveInPlace(build_ext):
    """`build_ext` that puts a finished module into its place by a rename; with --sanitize, into a place of its own."""

    user_options = [*build_ext.user_options, ("sanitize", None, f"compile under {SANITIZED}, with sanitizers")]  # noqa: RUF012
    boolean_options = [*build_ext.boolean_options, "sanitize"]  # noqa: RUF012

    def initialize_options(self) -> None:
        """Called before the command line is read."""
        super().initialize_options()
        self.sanitize = False

    def finalize_options(self) -> None:
        """Called after it has been read."""
        if self.sanitize:
            self.build_lib, self.build_temp = SANITIZED, f"{SANITIZED}/temp"
        super().finalize_options()

    def copy_file(self, infile: str, outfile: str, *arguments: Any, **options: Any) -> Any:
        """Called for each module that has been compiled, to bring it beside its source."""
        beside = f"{outfile}.new"
        result = super().copy_file(infile, beside, *arguments, **options)
        os.replace(beside, outfile)
        return result


setup(ext_modules=read_extensions(), cmdclass={"build_ext": MoveInPlace})
