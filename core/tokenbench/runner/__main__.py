"""`python -m tokenbench.runner FOLDER`: the runner's process."""

import argparse
import asyncio
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tokenbench.clock import SystemClock
from tokenbench.errors import RunnerError, RunsError, TokenbenchError
from tokenbench.files import PRIVATE_FILE
from tokenbench.runner import processes
from tokenbench.runner.session import Session, Settings
from tokenbench.runner.start import Note, Teller
from tokenbench.text import one_line, visible

FAILED: Final = 2


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tokenbench.runner", description="Run an experiment, in this process."
    )
    parser.add_argument("folder", type=Path, help="the experiment")
    parser.add_argument("--scripts", type=Path, help="scripts of the model: a rehearsal")
    parser.add_argument("--scripted", action="store_true", help="a rehearsal, with scripts or without")
    parser.add_argument("--only", action="append", default=[], metavar="arm=NAME|question=ID|repeat=N")
    parser.add_argument("--rerun", action="append", default=[], metavar="CELL", help="run it again: arm__question__rN")
    parser.add_argument("--reason", default="", help="why; it goes into the journal")
    parser.add_argument("--force", action="store_true", help="run again although the mapping is open")
    parser.add_argument("--ready-fd", type=int, help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run to the end: 0 all done, 1 cells are left over, 2 an error, which is told in one sentence."""
    arguments = _arguments(argv)
    teller = Teller(arguments.ready_fd)
    folder: Path = arguments.folder.resolve()
    settings = Settings(
        folder=folder,
        scripted=arguments.scripted or arguments.scripts is not None,
        scripts=arguments.scripts,
        only=tuple(arguments.only),
        rerun=tuple(arguments.rerun),
        reason=arguments.reason,
        force=arguments.force,
    )
    # A handler, not SIG_IGN: what is ignored here would be ignored by the agents too. A closed terminal ends nothing.
    signal.signal(signal.SIGHUP, lambda _number, _frame: None)
    session = Session(
        settings,
        clock=SystemClock(),
        dice=random.Random(),
        environment=os.environ,
        progress=lambda text: teller.tell(Note(progress=one_line(text, 300))),
        ready=teller.ready,
        adopts=processes.adopt_orphans(),
        guards=True,
    )
    try:
        return asyncio.run(session.run())
    except TokenbenchError as error:
        wrong = error
    except KeyboardInterrupt:
        wrong = RunnerError("interrupted while it was getting ready", remedy="Start it again; nothing was run")
    except OSError as error:
        wrong = RunsError(
            error.strerror or str(error),
            where=os.fsdecode(error.filename) if error.filename else str(folder),
            remedy="Free space or mend the permissions there, then start again; what had ended is kept",
        )
    except Exception as error:  # noqa: BLE001  # the last place that can turn a defect into a sentence
        wrong = _defect(error, folder)
    print(f"tokenbench.runner: {visible(str(wrong))}", file=sys.stderr, flush=True)
    teller.error(wrong)
    return FAILED


def _defect(error: Exception, folder: Path) -> TokenbenchError:
    """A sentence for a defect of this program; its traceback goes to a file of its own."""
    report = folder / "runs" / "logs" / f"defect-{int(time.time())}.txt"
    try:
        handle = os.open(report, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE)
        with os.fdopen(handle, "w") as file:
            traceback.print_exception(error, file=file)
    except OSError:
        report = folder
    return RunnerError(
        f"a defect of this program: {type(error).__name__}: {one_line(str(error), 200)}",
        where=str(report),
        remedy="Report it with that file, then start again; what had ended is kept",
    )


if __name__ == "__main__":
    sys.exit(main())
