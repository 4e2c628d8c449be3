"""Hashes of passwords: Argon2id, in a thread, one at a time, because each takes tens of milliseconds and 64 MiB."""

import asyncio
from typing import Final

import argon2

SHORTEST: Final = 12
LONGEST: Final = 1_024


class Passwords:
    """Makes and checks hashes."""

    def __init__(self, hasher: argon2.PasswordHasher | None = None) -> None:
        self._hasher = hasher or argon2.PasswordHasher()
        self._turn = asyncio.Lock()
        self._unknown: str | None = None

    async def hash(self, password: str) -> str:
        """The hash of a password, with its parameters and salt."""
        async with self._turn:
            return await asyncio.to_thread(self._hasher.hash, password)

    async def is_right(self, stored: str | None, password: str) -> bool:
        """Whether the password belongs to the hash. For a user that does not exist (None) it takes as long."""
        if stored is None:
            if self._unknown is None:
                self._unknown = await self.hash("a password that nobody has")
            await self._verify(self._unknown, password)
            return False
        return await self._verify(stored, password)

    def is_weak(self, stored: str) -> bool:
        """Whether the hash was made with weaker parameters than today's."""
        return self._hasher.check_needs_rehash(stored)

    async def _verify(self, stored: str, password: str) -> bool:
        async with self._turn:
            try:
                return await asyncio.to_thread(self._hasher.verify, stored, password)
            except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHashError):
                return False
