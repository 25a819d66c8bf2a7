"""What the console reads: the files of one experiment. Every method may take long and belongs into a thread."""

from pathlib import Path
from typing import TYPE_CHECKING

from tokenbench.clock import Clock
from tokenbench.experiment import config
from tokenbench.experiment.model import Loaded
from tokenbench.runner.board import Board
from tokenbench.runner.journal import JournalReader
from tokenbench.runner.lock import living_owner
from tokenbench.runner.rows import View
from tokenbench.transcripts.evidence import Runs
from tokenbench_tui.console.screens.runs.summary import About

if TYPE_CHECKING:
    from tokenbench.findings.caching import Caching
    from tokenbench.findings.results import Results
    from tokenbench_tui.console.screens.ledger.look import Look, Viewer

LOOK_FOR_RUNNER = 1.0
"""Seconds between two looks at the runner's process."""


class Bench:
    """One experiment, as its folder holds it."""

    def __init__(self, loaded: Loaded, clock: Clock) -> None:
        self.loaded = loaded
        self.runs = Runs(loaded.runs)
        self.clock = clock
        self.about = about(loaded)
        self._journal = JournalReader(self.runs.journal)
        self._board = Board()
        self._looked = float("-inf")
        self._viewer: Viewer | None = None
        self._ran: object = None
        self.evidence: object = None
        """What figures rest on: equal as long as no run, verdict or opening has come."""

    def poll(self) -> View | None:
        """What the journal tells now; None if nothing has changed since the last call. For one caller at a time."""
        self._board.fold(self._journal.new())
        now = self.clock.monotonic()
        if now - self._looked >= LOOK_FOR_RUNNER:
            self._looked = now
            self._board.observe_runner(living_owner(self.runs.lock) is not None)
        view = self._board.view() if self._board.dirty else None
        if view is not None:
            totals = view.totals
            self._ran = (totals.cells, totals.done, totals.cancelled, totals.given_up, view.mapping_opened, view.peeked)
        self.evidence = (self._ran, _sizes(self.runs.verdicts))
        return view

    def look(self, cell: str) -> "Look":
        """What there is to see of one cell. For one caller at a time.

        Raises:
            TokenbenchError: Its transcript or record is there and cannot be read.
        """
        from tokenbench_tui.console.screens.ledger.look import Viewer

        if self._viewer is None:
            self._viewer = Viewer(self.runs)
        return self._viewer.look(cell)

    def results(self) -> "Results":
        """The figures as the files give them.

        Raises:
            TokenbenchError: A file they rest on is damaged.
        """
        from tokenbench.findings import matrix

        return matrix.compute(self.loaded)

    def caching(self) -> "Caching":
        """What the cache did so far.

        Raises:
            TokenbenchError: A file that it rests on is damaged.
        """
        from tokenbench.findings import caching

        return caching.compute(self.loaded)


def _sizes(folder: Path) -> tuple[tuple[str, int], ...]:
    try:
        return tuple(sorted((path.name, path.stat().st_size) for path in folder.iterdir()))
    except OSError:
        return ()


def about(loaded: Loaded) -> About:
    """What the header says of the experiment."""
    experiment, limits = loaded.config.experiment, loaded.config.limits
    return About(experiment.name, experiment.concurrency, limits.experiment_usd, limits.experiment_tokens)


def open_bench(folder: Path, clock: Clock) -> Bench:
    """The experiment in this folder.

    Raises:
        TokenbenchError: There is none, or it is not what it must be.
    """
    return Bench(config.load(folder), clock)
