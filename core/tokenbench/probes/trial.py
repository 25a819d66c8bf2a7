"""A trial: one question in every arm with the real agent CLI and a scripted model, in a folder that is thrown away.

What it shows costs nothing: whether each arm's tools exist, may be used and answer, and whether the agent stays where
it was put.
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tokenbench.clock import Clock
from tokenbench.errors import RunnerError
from tokenbench.experiment.model import Loaded
from tokenbench.runner.session import Session, Settings, trial_of

SECONDS_PER_ARM: Final = 60.0
"""A scripted run takes one to two."""


async def try_out(
    loaded: Loaded,
    folder: Path,
    *,
    clock: Clock,
    environment: Mapping[str, str],
    progress: Callable[[str], None] = lambda _text: None,
) -> Loaded:
    """Run the trial of an experiment; nothing of it reaches the experiment's own results.

    Args:
        loaded: The experiment.
        folder: An empty folder for the results of the trial.
        clock: For times and limits.
        environment: The operator's.
        progress: Receives sentences for a person.

    Returns:
        The trial, as an experiment whose results lie in `folder`.

    Raises:
        TokenbenchError: What kept it from starting, or from coming to its end.
    """
    settings = Settings(folder=loaded.folder, scripted=True, trial=folder)
    session = Session(settings, clock=clock, dice=random.Random(), environment=environment, progress=progress)
    seconds = SECONDS_PER_ARM * len(loaded.config.arms)
    try:
        await asyncio.wait_for(session.run(), seconds)
    except TimeoutError as error:
        raise RunnerError(
            f"the trial of the arms did not end within {seconds:.0f} s",
            remedy="Look whether this claude CLI answers at all: `tokenbench-tui rehearse`",
        ) from error
    return trial_of(loaded, folder)
