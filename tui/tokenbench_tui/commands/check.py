"""`check`: what a paid run needs, what its arms trip over, and what it will cost, before a cent is spent."""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from tokenbench.experiment.model import Loaded
    from tokenbench.figures import Published
    from tokenbench.findings.forecast import Forecast
    from tokenbench.findings.stumbles import Stumble
    from tokenbench.probes.preflight import Point

READY: Final = 0
NOT_READY: Final = 1
_INVENTED: Final = (
    "The trial invents what it asks a tool: look whether it works with a script, `tokenbench-tui rehearse`"
)
_MARKS: Final = {"ok": "ok  ", "note": "note", "fail": "FAIL"}


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=Path())
@click.option("--no-trial", is_flag=True, help="Start no agent: leave out the trial of the arms.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def check(folder: Path, no_trial: bool, as_json: bool) -> int:
    """Look whether the experiment in FOLDER is ready for a paid run, and say what it will cost.

    Each arm is tried once with the real agent CLI and a scripted model, in a folder of its own: it costs nothing and
    leaves nothing in runs/. Exit code: 0 ready (notes may stand beside), 1 not ready, 2 an error.
    """
    import os

    from tokenbench.experiment import config
    from tokenbench.findings.forecast import forecast
    from tokenbench.probes.preflight import survey

    loaded = config.load(folder.resolve())

    def progress(text: str) -> None:
        click.echo(f"... {text}", err=True)

    points: list[Point] = []
    for point in survey(loaded, environment=os.environ, progress=progress):
        points.append(point)
        if not as_json:
            _show_point(point)
    if not no_trial:
        for point in _trial(loaded):
            points.append(point)
            if not as_json:
                _show_point(point)
    ahead = forecast(loaded)
    ready = all(point.state != "fail" for point in points)
    if as_json:
        _print_json(ready, points, ahead)
    else:
        for line in forecast_lines(ahead):
            click.echo(line)
        click.echo(_verdict(points))
    return READY if ready else NOT_READY


def _trial(loaded: "Loaded") -> "Iterator[Point]":
    import asyncio
    import os

    from tokenbench.clock import SystemClock
    from tokenbench.errors import TokenbenchError
    from tokenbench.findings.stumbles import stumbles
    from tokenbench.probes.preflight import Point, failed
    from tokenbench.probes.trial import try_out

    with tempfile.TemporaryDirectory(prefix="tokenbench-trial-") as folder:
        try:
            tried = asyncio.run(try_out(loaded, Path(folder), clock=SystemClock(), environment=os.environ))
            found = stumbles(tried)
        except TokenbenchError as error:
            yield failed("arms", error)
            return
    for stumble in found:
        detail = f": {stumble.detail}" if stumble.detail else ""
        state = "fail" if stumble.grave else "note"
        remedy = stumble.remedy if stumble.grave else _INVENTED
        yield Point(name=f"arm {stumble.arm}", state=state, what=f"{stumble.what}{detail}", remedy=remedy)
    for arm in loaded.config.arms:
        if all(stumble.arm != arm for stumble in found):
            yield Point(name=f"arm {arm}", state="ok", what="announces its tools, and each of them may be used")


def _show_point(point: "Point") -> None:
    from tokenbench.text import visible

    click.echo(visible(f"{_MARKS[point.state]}  {point.name}: {point.what}"))
    if point.remedy:
        click.echo(visible(f"        {point.remedy}"))


def _verdict(points: "list[Point]") -> str:
    failed = sum(point.state == "fail" for point in points)
    if failed:
        return f"NOT READY: {failed} point{'s' if failed > 1 else ''} to mend first"
    return "ready: `tokenbench-tui run` starts it, and it costs money"


def _print_json(ready: bool, points: "list[Point]", ahead: "Forecast") -> None:
    import json

    from tokenbench.findings.results import plain

    document = {"ready": ready, "points": plain(tuple(points)), "forecast": plain(ahead)}
    sys.stdout.write(json.dumps(document, ensure_ascii=False) + "\n")


def stumble_lines(found: "tuple[Stumble, ...]") -> list[str]:
    """What a rehearsal tripped over, for a person."""
    if not found:
        return ["Nothing was tripped over."]
    return ["A paid run would trip over this:", *(f"  - {stumble.sentence()}" for stumble in found)]


def forecast_lines(ahead: "Forecast") -> list[str]:
    """A forecast, for a person: a line an arm, what all of it takes, and what it could show."""
    from tokenbench.figures import Refusal

    going = [arm for arm in ahead.arms if arm.open]
    if not going:
        return []
    if isinstance(ahead.tokens, Refusal) and not any(arm.measured for arm in going):
        return [f"forecast: unknown. {ahead.tokens.reason}. {ahead.tokens.remedy}."]
    lines: list[str] = []
    for arm in going:
        basis = f"from {arm.measured} {'warm-ups, which ask less' if arm.warmups_only else 'runs'}"
        told = f" {basis}: {_amounts(arm.tokens, arm.usd, arm.seconds)}" if arm.measured else ", nothing measured yet"
        lines.append(f"      {arm.arm}: {arm.open} of {arm.cells} cells to go{told}")
    return [
        "forecast of what is left (an estimate, 95 % range):",
        *lines,
        f"      in all: {_amounts(ahead.tokens, ahead.usd, ahead.seconds)}",
        *(f"      {arm} against the baseline: {_detectable(value)}" for arm, value in ahead.detectable.items()),
        *(f"      LIMIT: {sentence}" for sentence in ahead.over),
    ]


def _amounts(tokens: "Published", usd: "Published", seconds: "Published") -> str:
    from tokenbench.figures import Refusal

    if isinstance(tokens, Refusal):
        return f"unknown. {tokens.reason}. {tokens.remedy}."
    scripted = "  SCRIPTED-MODEL" if tokens.codes else ""
    return f"{_range(tokens, '{:,.0f}')} tokens, ${_range(usd, '{:,.2f}')}, {_minutes(seconds)}{scripted}"


def _range(value: "Published", style: str) -> str:
    from tokenbench.figures import Refusal

    if isinstance(value, Refusal):
        return "?"
    shown = style.format(float(value.value))
    if value.interval is None:
        return shown
    return f"{shown} ({style.format(value.interval[0])} – {style.format(value.interval[1])})"


def _minutes(value: "Published") -> str:
    from tokenbench.figures import Refusal

    if isinstance(value, Refusal):
        return "time unknown"
    seconds = float(value.value)
    return f"~{seconds / 60:,.0f} min" if seconds >= 90 else f"~{seconds:.0f} s"


def _detectable(value: "Published") -> str:
    from tokenbench.figures import Refusal

    if isinstance(value, Refusal):
        return f"what could be told apart is unknown. {value.reason}. {value.remedy}."
    return (
        f"a saving below {float(value.value):.0%} of tokens would most likely read 'not distinguishable' with this "
        "many questions"
    )
