"""The exceptions of `tokenbench_tui`.

TokenbenchError (of core)
└── FrontEndError
    ├── NoExperiment      the folder holds no experiment
    └── NoTerminal        a screen was asked for where there is none
"""

from pathlib import Path

from tokenbench.errors import TokenbenchError
from tokenbench.text import one_line


class FrontEndError(TokenbenchError):
    """Something about how a command was called."""


class NoExperiment(FrontEndError):
    """The folder holds no tokenbench.toml."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            "is no experiment: it holds no tokenbench.toml",
            where=one_line(str(folder), 200),
            remedy="Go to the folder of an experiment, make one with `tokenbench-tui init DIR`, or see the shipped one "
            "with `tokenbench-tui demo`",
        )


class NoTerminal(FrontEndError):
    """The console needs a terminal."""

    def __init__(self) -> None:
        super().__init__(
            "the console needs a terminal, and standard input or output is none",
            remedy="Use `--headless`, or `tokenbench-tui status` and `tokenbench-tui results`",
        )
