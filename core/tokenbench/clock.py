"""The one place that asks the machine for the time, so that tests can be their own clock."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Wall time, monotonic time and sleep, all in seconds."""

    def now(self) -> float:
        """Seconds since the Unix epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for that many seconds of this clock."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class ManualClock:
    """A clock that moves only when it is told to, or when somebody sleeps on it."""

    def __init__(self, start: float = 0.0) -> None:
        self._seconds = start

    def now(self) -> float:
        return self._seconds

    def monotonic(self) -> float:
        return self._seconds

    def advance(self, seconds: float) -> None:
        """Move the clock forward."""
        self._seconds += seconds

    async def sleep(self, seconds: float) -> None:
        self._seconds += max(0.0, seconds)
        await asyncio.sleep(0)
