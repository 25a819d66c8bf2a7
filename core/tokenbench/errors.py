"""The exceptions of `tokenbench`.

TokenbenchError
├── ConfigError        tokenbench.toml or a prompt is not what it must be
├── QuestionsError     questions.jsonl, a script or verdicts: a bad line
├── CorpusError        a corpus could not be obtained, or is not what was pinned
├── SearchIndexError       an index is missing, stale, damaged or of another corpus
├── AgentError         no agent CLI, one that is too old, or one that cannot be started
├── RunsError          runs/ cannot be written, or belongs to another experiment
├── RunnerError        a second runner, a runner that does not answer
├── RehearsalError     the scripted API could not be started, or its script is wrong
├── TranscriptError    a file that cannot be read at all
└── GradingError       a verdict or a judge's name that cannot be taken
"""

from functools import partial


class TokenbenchError(Exception):
    """Something a person can mend.

    Attributes:
        where: File, file:line, key or address the problem was found at; empty if there is none.
        what: What is wrong, one sentence without a final full stop.
        remedy: What to do now, one sentence without a final full stop.
    """

    def __init__(self, what: str, *, remedy: str, where: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.remedy = remedy
        self.where = where

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions are pickled by their positional arguments alone; this one may come back from another process.
        return partial(type(self), remedy=self.remedy, where=self.where), (self.what,)

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        return f"{place}{self.what}. {self.remedy}."


class ConfigError(TokenbenchError):
    """tokenbench.toml, or a file it names, is not what it must be."""


class QuestionsError(TokenbenchError):
    """A line of questions.jsonl (or of a file of the same kind) is not what it must be."""


class CorpusError(TokenbenchError):
    """A corpus could not be obtained, or is not the pinned one."""


class SearchIndexError(TokenbenchError):
    """A retrieval index is missing, stale, damaged, or of another corpus."""


class AgentError(TokenbenchError):
    """An agent CLI is missing, too old, or cannot be started."""


class RunsError(TokenbenchError):
    """runs/ cannot be written, is damaged, or belongs to another experiment."""


class RunnerError(TokenbenchError):
    """A runner that is already there, or one that does not answer."""


class RehearsalError(TokenbenchError):
    """The scripted API could not be started, or its script is wrong."""


class TranscriptError(TokenbenchError):
    """A transcript that cannot be read at all."""


class GradingError(TokenbenchError):
    """A verdict, judge or queue that cannot be taken as it is."""
