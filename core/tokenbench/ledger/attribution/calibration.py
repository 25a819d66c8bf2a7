"""`runs/calibration.json`: characters per token of one corpus, by model, with the points that it comes from."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from tokenbench.errors import RunsError
from tokenbench.figures import Code, Refusal, refuse
from tokenbench.files import write_atomically
from tokenbench.ledger.attribution.fitting import fit
from tokenbench.ledger.attribution.rates import Rate, Rates, Shape
from tokenbench.ledger.model import Tokens
from tokenbench.text import one_line

FORMAT: Final = 1
COMMAND: Final = "tokenbench-tui calibrate"
MOST: Final = 1_000.0
"""Characters per token, and standard deviations of them; no tokenizer comes near, and arithmetic stays finite below."""
_LEAST: Final = 0.01


class Point(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One pair of prompts that differ by a known text."""

    shape: Shape
    piece: str
    """Where the text comes from: `path:line`, or `prompts`."""
    characters: int
    tokens: int
    """By which the billed input of the longer prompt is higher."""


class ModelRates(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was measured for one model."""

    rates: Mapping[Shape, Rate]
    points: tuple[Point, ...]
    spent: Tokens
    """What the calibration cost."""


class Calibration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file."""

    format: int = FORMAT
    corpus_sha256: str
    agent: str
    agent_version: str
    scripted: bool
    """The counting rule of the scripted API was measured, no model's."""
    made: float
    """Seconds since the Unix epoch."""
    models: Mapping[str, ModelRates]


def read(path: Path) -> Calibration | None:
    """The calibration at this path; None where there is none.

    Raises:
        RunsError: It is there and cannot be read, or holds a rate that is impossible or not that of its points.
    """
    remedy = f"Restore it, or remove it and run `{COMMAND}` again"
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Calibration)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RunsError(
            f"is no calibration: {one_line(str(error), 200)}", where=one_line(str(path), 200), remedy=remedy
        ) from error
    for model, entry in found.models.items():
        rates = entry.rates.values()
        if "code" not in entry.rates or not all(
            _LEAST <= rate.characters_per_token <= MOST
            and 0 <= rate.standard_error <= MOST
            and 0 <= rate.spread <= MOST
            for rate in rates
        ):
            raise RunsError(
                f"holds an impossible rate for {one_line(model, 80)}", where=one_line(str(path), 200), remedy=remedy
            )
        if unproved := next((shape for shape, rate in entry.rates.items() if not _proved(entry, shape, rate)), None):
            raise RunsError(
                f"holds a rate of {unproved} for {one_line(model, 80)} that is not that of its own points",
                where=one_line(str(path), 200),
                remedy=remedy,
            )
    return found


def _proved(entry: ModelRates, shape: Shape, rate: Rate) -> bool:
    """Whether a rate, its error and its spread are what the points of the calibration give."""
    fitted = fit([(point.characters, point.tokens) for point in entry.points if point.shape == shape])
    return fitted is not None and all(
        math.isclose(mine, theirs, rel_tol=1e-9, abs_tol=1e-12)
        for mine, theirs in (
            (rate.characters_per_token, fitted.characters_per_token),
            (rate.standard_error, fitted.standard_error),
            (rate.spread, fitted.spread),
        )
    )


def write(path: Path, calibration: Calibration) -> None:
    """Store it.

    Raises:
        RunsError: The disk is full, or the folder may not be written.
    """
    write_atomically(path, msgspec.json.format(msgspec.json.encode(calibration), indent=1) + b"\n")


def rates_for(
    calibration: Calibration | None, *, model: str, corpus_sha256: str | None, scripted: bool | None
) -> Rates | Refusal:
    """The rates of a corpus and model, or UNCALIBRATED.

    Args:
        calibration: What lies in `runs/`, if anything.
        model: The model that was asked for.
        corpus_sha256: Of the sealed corpus; None where it is unknown.
        scripted: Whether the runs were scripted; None where it is unknown.
    """
    if calibration is None:
        return refuse(Code.UNCALIBRATED)
    if corpus_sha256 is not None and calibration.corpus_sha256 != corpus_sha256:
        return refuse(
            Code.UNCALIBRATED,
            f"calibrated: corpus {calibration.corpus_sha256[:12]}…",
            f"measured: corpus {corpus_sha256[:12]}…",
            reason="The calibration is of another corpus",
        )
    if scripted is not None and calibration.scripted != scripted:
        one, other = ("a scripted model", "a real one") if calibration.scripted else ("a real model", "a scripted one")
        return refuse(Code.UNCALIBRATED, reason=f"The calibration measured {one}, and the runs are of {other}")
    entry = calibration.models.get(model)
    if entry is None:
        return refuse(
            Code.UNCALIBRATED,
            f"calibrated: {', '.join(sorted(calibration.models))}",
            reason=f"The calibration does not hold the model {one_line(model, 80)}",
        )
    return Rates(by_shape=entry.rates)
