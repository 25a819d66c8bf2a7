"""Slow work off the event loop: the latest result is kept, and work is never piled up."""

import asyncio
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from tokenbench.errors import TokenbenchError

if TYPE_CHECKING:
    from tokenbench_tui.console.app import TokenbenchApp

T = TypeVar("T")


class Latest(Generic[T]):
    """The latest result of some work that is done again when what it depends on has changed.

    Args:
        app: Whose workers do it; they end with it.
        name: Of the worker.
        pause: Seconds that lie at least between the end of one piece of work and the start of the next.
        seconds: A clock that never goes back.
    """

    def __init__(self, app: "TokenbenchApp", name: str, *, pause: float, seconds: Callable[[], float]) -> None:
        self._app = app
        self._name = name
        self._pause = pause
        self._seconds = seconds
        self._asked: object = None
        self._busy = False
        self._not_before = float("-inf")
        self.value: T | None = None
        """The latest result; an error does not take it away."""
        self.key: object = None
        """What the latest result, or error, was made for."""
        self.error: str | None = None
        """Why the latest work gave nothing."""

    @property
    def busy(self) -> bool:
        """Whether work is under way."""
        return self._busy

    def forget(self) -> None:
        """Have the work done again at the next `ask`, and soon."""
        self._asked = None
        self._not_before = float("-inf")

    def ask(self, key: object, work: Callable[[], T]) -> None:
        """Do the work in a thread, unless it was done for this key, some is under way, or it is too soon.

        Args:
            key: What the result depends on.
            work: Must not touch the screen.
        """
        if self._busy or key == self._asked or self._seconds() < self._not_before:
            return
        self._busy = True
        self._asked = key
        self._app.run_worker(self._do(key, work), name=self._name, group=self._name, exit_on_error=True)

    async def _do(self, key: object, work: Callable[[], T]) -> None:
        began = self._seconds()
        (result,) = await asyncio.gather(asyncio.to_thread(work), return_exceptions=True)
        if isinstance(result, BaseException):
            self.error = _sentence(result)
        else:
            self.value, self.error = result, None
        # Work that takes long is done less often, so that it never takes more than a fifth of a core.
        took = self._seconds() - began
        self._not_before = self._seconds() + max(self._pause, 4 * took)
        self.key = key
        self._busy = False


def _sentence(error: BaseException) -> str:
    """What went wrong, for a person. A defect takes its region away, never the screen from under a run."""
    match error:
        case TokenbenchError():
            return str(error)
        case OSError():
            return f"{error.filename or 'a file'}: {error.strerror or error}"
        case _:
            place = traceback.extract_tb(error.__traceback__)[-1]
            return f"A defect, please report it: {type(error).__name__}: {error} ({place.name}, line {place.lineno})"
