"""Sandboxes the calling process: no files, no network, no processes, little memory. Linux only.

Three walls, each of which would do for most mischief:

    limits      memory, stack of files, no core; no file grows, no process is made
    Landlock    no path can be opened, read, written, executed, linked or removed, whoever asks
    seccomp     of the kernel's calls only those of ALLOWED are served; any other fails with EPERM

What was open before stays open: the caller closes what the sandboxed code must not have. Modules that it may import must have been
imported before. A call that fails raises PermissionError or ImportError in the code that tried; nothing is killed for trying.
"""

import ctypes
import os
import platform
import resource
import struct
from typing import Final

_PR_SET_NO_NEW_PRIVS: Final = 38
_PR_SET_SECCOMP: Final = 22
_SECCOMP_MODE_FILTER: Final = 2
_RET_ALLOW: Final = 0x7FFF0000
_RET_KILL_PROCESS: Final = 0x80000000
_RET_ERRNO: Final = 0x00050000
_EPERM: Final = 1

_LANDLOCK_CREATE_RULESET: Final = 444
_LANDLOCK_RESTRICT_SELF: Final = 446
_LANDLOCK_VERSION_FLAG: Final = 1
# The rights over files that each version of Landlock knows of, from the first on: 13, then refer, truncate, (sockets), ioctl.
_LANDLOCK_FILE_RIGHTS: Final = {
    1: (1 << 13) - 1,
    2: (1 << 14) - 1,
    3: (1 << 15) - 1,
    4: (1 << 15) - 1,
    5: (1 << 16) - 1,
}

# Numbers of the calls that an interpreter needs to compute, to answer on what is open, and to end.
_ALLOWED: Final = {
    "x86_64": (
        0xC000003E,
        (
            0, 1, 3, 9, 10, 11, 12, 13, 14, 15, 24, 25, 28, 35, 39, 60, 96, 131, 186, 201, 202, 228, 229, 230, 231, 318, 334,
            # read write close mmap mprotect munmap brk rt_sigaction rt_sigprocmask rt_sigreturn sched_yield mremap madvise nanosleep
            # getpid exit gettimeofday sigaltstack gettid time futex clock_gettime clock_getres clock_nanosleep exit_group getrandom rseq
        ),
    ),
    "aarch64": (
        0xC00000B7,
        (57, 63, 64, 93, 94, 98, 101, 113, 114, 115, 124, 132, 134, 135, 139, 169, 172, 178, 214, 215, 216, 222, 226, 233, 278, 293),
    ),
}  # fmt: skip


class SandboxUnavailable(Exception):  # noqa: N818  (it says what is wrong)
    """This kernel cannot build the walls; nothing untrusted may run then."""


def check_kernel() -> None:
    """Whether the walls can be built here, as far as one can tell from without. Raises SandboxUnavailable."""
    if platform.machine() not in _ALLOWED:
        raise SandboxUnavailable(f"the architecture {platform.machine()} is not supported")
    _landlock_version(ctypes.CDLL(None, use_errno=True))


def enter(memory_bytes: int) -> None:
    """Builds the walls around this process. It must have one thread. Raises SandboxUnavailable; then it must end."""
    check_kernel()
    libc = ctypes.CDLL(None, use_errno=True)
    _limit(memory_bytes)
    _call(libc, "no_new_privs", libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _deny_files(libc)
    _deny_calls(libc)


def _limit(memory_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    for limit in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC, resource.RLIMIT_MEMLOCK):
        resource.setrlimit(limit, (0, 0))


def _deny_files(libc: ctypes.CDLL) -> None:
    version = _landlock_version(libc)
    rights = struct.pack("Q", _LANDLOCK_FILE_RIGHTS[min(version, max(_LANDLOCK_FILE_RIGHTS))])
    ruleset = libc.syscall(_LANDLOCK_CREATE_RULESET, ctypes.c_char_p(rights), ctypes.c_size_t(len(rights)), 0)
    _call(libc, "landlock_create_ruleset", ruleset)
    try:
        _call(libc, "landlock_restrict_self", libc.syscall(_LANDLOCK_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)


def _landlock_version(libc: ctypes.CDLL) -> int:
    version = int(libc.syscall(_LANDLOCK_CREATE_RULESET, None, 0, _LANDLOCK_VERSION_FLAG))
    if version < 1:
        raise SandboxUnavailable(
            "the kernel does not provide Landlock: Linux 5.13 or newer with landlock in its lsm= list is required"
        )
    return version


def _deny_calls(libc: ctypes.CDLL) -> None:
    program = _filter_program(*_ALLOWED[platform.machine()])
    buffer = ctypes.create_string_buffer(program)
    head = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
    _call(libc, "seccomp", libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.c_char_p(head), 0, 0))


def _filter_program(architecture: int, allowed: tuple[int, ...]) -> bytes:
    """A classic BPF program over (number, architecture, …) of a call.

    architecture is not ours     kill the process
    number is one of allowed     allow
    else                         fail with EPERM
    """
    load, equal, answer = 0x20, 0x15, 0x06
    lines = [(load, 0, 0, 4), (equal, 1, 0, architecture), (answer, 0, 0, _RET_KILL_PROCESS), (load, 0, 0, 0)]
    for place, number in enumerate(allowed):
        lines.append((equal, len(allowed) - place, 0, number))
    lines += [(answer, 0, 0, _RET_ERRNO | _EPERM), (answer, 0, 0, _RET_ALLOW)]
    return b"".join(struct.pack("HBBI", *line) for line in lines)


def _call(libc: ctypes.CDLL, what: str, answer: int) -> None:  # noqa: ARG001  (errno is the library's)
    if answer < 0:
        raise SandboxUnavailable(f"{what}: {os.strerror(ctypes.get_errno())}")
