"""Work on several files at once, in processes, with the results in the order of the files."""

import gc
import os
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

_Job = TypeVar("_Job")
_Result = TypeVar("_Result")


def in_order(work: Callable[[_Job], _Result], jobs: Sequence[_Job], processes: int) -> Iterator[_Result]:
    """The result of each job, each as soon as it and those before it are there.

    Results wait for their turn only as far as the processes are kept busy, so that memory does not grow with the jobs.

    Args:
        work: A function of a module; it, the jobs and the results go between processes. It leaves no cycles of
            references behind: nobody looks for them there.
        jobs: What it is called with.
        processes: How many; with one, or with one job, all is done here.

    Raises:
        Exception: What `work` raises, in the place of its result.
    """
    if processes < 2 or len(jobs) < 2:
        yield from map(work, jobs)
        return
    # Here, because one file needs no processes, and importing them is a tenth of the start.
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    told = 0
    waiting: deque[Future[_Result]] = deque()
    try:
        with ProcessPoolExecutor(processes, initializer=_begin) as pool:
            try:
                for job in jobs:
                    waiting.append(pool.submit(work, job))
                    if len(waiting) > 2 * processes:
                        result = waiting.popleft().result()
                        told += 1
                        yield result
                while waiting:
                    result = waiting.popleft().result()
                    told += 1
                    yield result
            finally:
                for future in waiting:
                    future.cancel()
    except BrokenProcessPool:
        # A process was killed, for instance for its memory: what it left undone is done here.
        yield from map(work, jobs[told:])


def _begin() -> None:
    """Interrupts are for the parent. What a job leaves holds no cycles; looking for some would copy what was there."""
    from threading import Thread

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A parent that is killed tells nobody; its processes would wait for their next job for ever."""
    from multiprocessing import parent_process

    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
