"""What a paid run needs, point by point, before a cent is spent. Nothing here starts a run of the experiment."""

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, Literal, TypeVar

import msgspec

from tokenbench.agents.claude import launch
from tokenbench.errors import RunsError, TokenbenchError
from tokenbench.experiment import corpora, seal
from tokenbench.experiment.corpora import Corpus
from tokenbench.experiment.model import Loaded, Question
from tokenbench.figures import MEANINGS, Code
from tokenbench.ledger import prices
from tokenbench.ledger.attribution import calibration
from tokenbench.probes.table import find_cli, models_of
from tokenbench.rehearsal.starter import EXAMPLE
from tokenbench.retrieval.building import ensure_index
from tokenbench.retrieval.index import index_folder
from tokenbench.runner import lock, sandbox
from tokenbench.runner.prepare import KEY_VARIABLE
from tokenbench.text import one_line
from tokenbench.transcripts.evidence import Runs

State = Literal["ok", "note", "fail"]
BYTES_PER_RUN: Final = 2_000_000
"""A generous transcript: 30 turns with partial messages stay below a megabyte."""
_SYMBOL: Final = re.compile(r"\w*(?:[a-z][A-Z]|_|\d)\w*")
"""A word that is no plain English: `exit_code`, `BaseCommand`, `utf8`."""
T = TypeVar("T")


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at."""

    name: str
    state: State
    """`note`: a run can start, and what is missing will refuse some figures; `fail`: it would not start, or be worth
    nothing."""
    what: str
    remedy: str = ""


def survey(
    loaded: Loaded, *, environment: Mapping[str, str], progress: Callable[[str], None] = lambda _text: None
) -> Iterator[Point]:
    """Look at everything that can be seen without starting an agent; a point as soon as it is known.

    Args:
        loaded: The experiment.
        environment: The operator's, for the API key.
        progress: Receives sentences while a corpus is fetched or an index built.
    """
    runs = Runs(loaded.runs)
    yield from _questions(loaded)
    yield from _prompts(loaded)
    yield _runner(runs)
    yield _results(loaded, runs)
    yield _key(environment)
    yield _budget(loaded)
    cli = _attempt("agent CLI", lambda: find_cli(loaded, scripted=False))
    yield cli if isinstance(cli, Point) else _agent(cli)
    if not isinstance(cli, Point):
        yield _sandbox(loaded, cli, environment.get("PATH"))
    corpus = _attempt("corpus", lambda: _obtain(loaded, progress))
    yield corpus if isinstance(corpus, Point) else Point(name="corpus", state="ok", what=_describe(corpus))
    if isinstance(corpus, Corpus):
        if any(arm.searches for arm in loaded.config.arms.values()):
            yield _index(corpus, progress)
        yield _calibration(runs, corpus)
    yield _prices(loaded, runs, None if isinstance(cli, Point) else cli.version)
    yield _disk(loaded)


def failed(name: str, error: TokenbenchError) -> Point:
    """The point of something that could not be looked at, or is not there."""
    where = f"{one_line(error.where, 200)}: " if error.where else ""
    return Point(name=name, state="fail", what=f"{where}{one_line(error.what, 300)}", remedy=error.remedy)


def _attempt(name: str, action: Callable[[], T]) -> T | Point:
    try:
        return action()
    except TokenbenchError as error:
        return failed(name, error)


def _questions(loaded: Loaded) -> Iterator[Point]:
    examples = [question.id for question in loaded.questions if EXAMPLE in question.truth or EXAMPLE in question.text]
    if examples:
        yield Point(
            name="questions",
            state="fail",
            what=f"{', '.join(examples)}: still the example, with {EXAMPLE} in it",
            remedy="Write questions of your own into questions.jsonl, whose truth you have looked up in the corpus",
        )
    classes: dict[str, int] = {}
    for question in loaded.questions:
        classes[question.question_class] = classes.get(question.question_class, 0) + 1
    listed = ", ".join(f"{number} {name}" for name, number in sorted(classes.items()))
    arms, repeats = len(loaded.config.arms), loaded.config.experiment.repeats
    runs = (
        f"{arms * repeats * len(loaded.questions)} cells: {arms} arms × {len(loaded.questions)} questions × {repeats}"
    )
    if "index_hostile" not in classes:
        meaning = MEANINGS[Code.NO_CONTROL]
        yield Point(
            name="questions",
            state="note",
            what=f"{runs} ({listed}). {Code.NO_CONTROL}: {meaning.sentence}, so there will be no headline",
            remedy=f"{meaning.remedy}: now is the time",
        )
    else:
        yield Point(name="questions", state="ok", what=f"{runs} ({listed})")


def _prompts(loaded: Loaded) -> Iterator[Point]:
    """A prompt that holds an answer would measure its author."""
    held = [
        (arm, question.id, word, cited)
        for arm, text in loaded.prompts.items()
        for question in loaded.questions
        for word, cited in _telling(question)
        if re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE)
    ]
    for arm, question, word, cited in held:
        kind = "the path that answers" if cited else "a symbol of the answer to"
        yield Point(
            name="prompts",
            state="fail" if cited else "note",
            what=f"the prompt of arm {arm} holds {kind} {question}: {one_line(word, 80)}",
            remedy=f"Take it out of {one_line(loaded.config.arms[arm].prompt, 100)}",
        )
    if not held:
        yield Point(name="prompts", state="ok", what="no prompt holds a cited path or a symbol of an answer")


def _telling(question: Question) -> Iterator[tuple[str, bool]]:
    """Cited paths (true), and symbols that its rules ask for."""
    for citation in question.citations:
        yield citation.path, True
    for rule in question.must:
        for word in (rule.word,) if isinstance(rule.word, str) else rule.word or ():
            if _SYMBOL.fullmatch(word):
                yield word, False


def _runner(runs: Runs) -> Point:
    owner = lock.living_owner(runs.lock)
    if owner is None:
        return Point(name="runner", state="ok", what="none is at work here")
    error = lock.taken(runs.lock, owner)
    return Point(name="runner", state="fail", what=error.what, remedy=error.remedy)


def _results(loaded: Loaded, runs: Runs) -> Point:
    if not runs.seal.exists():
        return Point(name="runs/", state="ok", what="not sealed yet: what is measured can still be changed")
    sealed = _attempt("runs/", lambda: seal.read(runs.seal))
    if isinstance(sealed, Point):
        return sealed
    if sealed.scripted:
        return Point(
            name="runs/",
            state="fail",
            what="holds a rehearsal, and nothing of it can be taken over into a paid run",
            remedy="Move runs/ away before the paid run; to go on rehearsing, `tokenbench-tui rehearse`",
        )
    changed = seal.differences(sealed, seal.as_it_lies(sealed, loaded))
    if changed:
        meaning = MEANINGS[Code.SEAL_BROKEN]
        return Point(name="runs/", state="fail", what=f"{Code.SEAL_BROKEN}: {changed[0]}", remedy=meaning.remedy)
    return Point(name="runs/", state="ok", what="sealed, and nothing that is sealed has changed")


def _key(environment: Mapping[str, str]) -> Point:
    if environment.get(KEY_VARIABLE, "").strip():
        return Point(name="API key", state="ok", what=f"{KEY_VARIABLE} is set")
    return Point(
        name="API key",
        state="fail",
        what=f"{KEY_VARIABLE} is not set",
        remedy=f"Set {KEY_VARIABLE}, or rehearse without a key: `tokenbench-tui rehearse`",
    )


def _budget(loaded: Loaded) -> Point:
    limits = loaded.config.limits
    known = [
        text
        for text in (
            f"${limits.experiment_usd}" if limits.experiment_usd is not None else "",
            f"{limits.experiment_tokens:,} tokens" if limits.experiment_tokens is not None else "",
        )
        if text
    ]
    if known:
        return Point(name="budget", state="ok", what=f"the experiment stops at {' or '.join(known)}")
    return Point(
        name="budget",
        state="note",
        what="nothing limits what the experiment may spend",
        remedy="Set `experiment_usd` or `experiment_tokens` in [limits]",
    )


def _sandbox(loaded: Loaded, cli: launch.Cli, search_path: str | None) -> Point:
    with tempfile.TemporaryDirectory(prefix="tokenbench-") as folder:
        setting = loaded.config.experiment.sandbox
        found = _attempt(
            "sandbox", lambda: sandbox.find(setting, cli=cli, scratch=Path(folder), search_path=search_path)
        )
    if isinstance(found, Point):
        return found
    if found.sandbox is not None:
        return Point(name="sandbox", state="ok", what=f"{found.told}: what an arm is not given does not exist for it")
    meaning = MEANINGS[Code.NO_SANDBOX]
    return Point(
        name="sandbox",
        state="note",
        what=f"{Code.NO_SANDBOX}: {found.reason}. Every screen and report will say so",
        remedy=meaning.remedy,
    )


def _agent(cli: launch.Cli) -> Point:
    rehearsed = _attempt("agent CLI", lambda: find_cli(None, scripted=True))
    what = f"claude {cli.version} ({cli.source}: {one_line(str(cli.path), 200)})"
    if isinstance(rehearsed, launch.Cli) and rehearsed.version != cli.version:
        return Point(
            name="agent CLI",
            state="note",
            what=f"{what}; rehearsals run the bundled {rehearsed.version}, which may behave otherwise",
            remedy=f"Set agents.claude.path to the one that is meant, or install claude-agent-sdk with {cli.version}",
        )
    return Point(name="agent CLI", state="ok", what=what)


def _obtain(loaded: Loaded, progress: Callable[[str], None]) -> Corpus:
    return corpora.obtain(
        loaded.config.corpus, experiment=loaded.folder, cache=corpora.default_cache(), progress=progress
    )


def _describe(corpus: Corpus) -> str:
    left_out = f", {len(corpus.left_out)} things left out" if corpus.left_out else ""
    return f"{one_line(corpus.label, 100)}, sha256 {corpus.sha256[:12]}…{left_out}"


def _index(corpus: Corpus, progress: Callable[[str], None]) -> Point:
    folder = index_folder(corpora.default_cache(), corpus.sha256)
    built = _attempt("index", lambda: ensure_index(corpus.root, folder, corpus.sha256, progress))
    if isinstance(built, Point):
        return built
    report, _ = built
    return Point(name="index", state="ok", what=f"{report.documents:,} documents of {report.files:,} files")


def _calibration(runs: Runs, corpus: Corpus) -> Point:
    found = _attempt("calibration", lambda: calibration.read(runs.calibration))
    if isinstance(found, Point):
        return found
    if found is None or found.corpus_sha256 != corpus.sha256 or found.scripted:
        meaning = MEANINGS[Code.UNCALIBRATED]
        other = "" if found is None else " (that of a scripted model, or of another corpus, does not count)"
        return Point(
            name="calibration",
            state="note",
            what=f"{Code.UNCALIBRATED}: {meaning.sentence}, so there will be no shares{other}",
            remedy=f"{meaning.remedy}. Made before the first run it is sealed with it",
        )
    return Point(name="calibration", state="ok", what=f"of this corpus, for {', '.join(sorted(found.models))}")


def _prices(loaded: Loaded, runs: Runs, version: str | None) -> Point:
    table = _attempt("prices", lambda: prices.read(runs.prices))
    if isinstance(table, Point):
        return table
    lacking = [
        model for model in models_of(loaded) if table is None or version is None or table.find(model, version) is None
    ]
    if not lacking:
        return Point(name="prices", state="ok", what=f"known for {', '.join(models_of(loaded))} in claude {version}")
    meaning = MEANINGS[Code.PRICE_UNKNOWN]
    limited = loaded.config.limits.experiment_usd is not None
    later = ", and a run counts for `experiment_usd` only when it has ended" if limited else ""
    return Point(
        name="prices",
        state="note",
        what=f"{Code.PRICE_UNKNOWN}: none for {', '.join(lacking)}, so dollars will not be checked{later}",
        remedy=meaning.remedy,
    )


def _disk(loaded: Loaded) -> Point:
    place = next(folder for folder in (loaded.runs, loaded.folder) if folder.is_dir())
    cells = len(loaded.questions) * len(loaded.config.arms) * loaded.config.experiment.repeats
    needed, free = cells * BYTES_PER_RUN, _free(place)
    what = f"{free / 1e9:,.1f} GB free, {needed / 1e9:,.1f} GB are enough for {cells} transcripts"
    if free < needed:
        return Point(
            name="disk", state="fail", what=what, remedy="Free space there, or move the experiment to another disk"
        )
    return Point(name="disk", state="ok", what=what)


def _free(folder: Path) -> int:
    try:
        return shutil.disk_usage(folder).free
    except OSError as error:
        raise RunsError(
            f"its free space cannot be told: {error.strerror or error}",
            where=one_line(str(folder), 200),
            remedy="Mend the permissions there",
        ) from error
