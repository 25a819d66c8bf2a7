"""What the figures say now: computed in a thread, anew when runs, verdicts or the mapping have changed."""

from typing import TYPE_CHECKING

from tokenbench.figures import Code, Figure, Published, Refusal
from tokenbench_tui.console.latest import Latest

if TYPE_CHECKING:
    from tokenbench.findings.results import Results
    from tokenbench_tui.console.app import TokenbenchApp

PAUSE = 1.5
"""Seconds at least between two computations."""


class Findings:
    """The latest results, and what they say of the headline."""

    def __init__(self, app: "TokenbenchApp") -> None:
        self._app = app
        self._latest: Latest[Results] = Latest(app, "findings", pause=PAUSE, seconds=app.clock.monotonic)

    @property
    def results(self) -> "Results | None":
        """The latest results; None before the first."""
        return self._latest.value

    @property
    def error(self) -> str | None:
        """Why there are no newer ones."""
        return self._latest.error

    @property
    def busy(self) -> bool:
        """Whether they are being computed."""
        return self._latest.busy

    @property
    def made_for(self) -> object:
        """What the results (or the error) were made from; it changes with them."""
        return self._latest.key

    def ask(self) -> None:
        """Have them computed if anything they rest on has changed."""
        bench = self._app.bench
        self._latest.ask(bench.evidence, bench.results)

    def again(self) -> None:
        """Have them computed now."""
        self._latest.forget()
        self.ask()

    @property
    def headline(self) -> Published | None:
        """The ratio that stands first, or what stands at the headline arm where that is the baseline; None before the
        first results."""
        results = self.results
        if results is None:
            return None
        arm = results.experiment.headline_arm
        return results.ratios[arm].tokens_per_correct if arm in results.ratios else results.headline.get(arm)

    @property
    def refusal(self) -> Refusal | None:
        """Why the headline is refused."""
        return self.headline if isinstance(self.headline, Refusal) else None

    @property
    def shown(self) -> bool:
        """Whether the headline stands."""
        return isinstance(self.headline, Figure)

    @property
    def wants_grading(self) -> bool:
        """Whether verdicts are what is missing."""
        return self.refusal is not None and self.refusal.code == Code.UNGRADED
