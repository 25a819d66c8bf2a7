"""Everything that must be there and sealed before the first run is started."""

import asyncio
import contextlib
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tokenbench.agents.claude import launch
from tokenbench.errors import AgentError, RunnerError, RunsError
from tokenbench.experiment import composition, corpora, plan, seal
from tokenbench.experiment.model import AgentSettings, Cell, Loaded
from tokenbench.ledger.attribution import calibration
from tokenbench.retrieval.access import write_access, write_index_report
from tokenbench.retrieval.building import IndexReport, ensure_index
from tokenbench.retrieval.index import index_folder
from tokenbench.retrieval.template import TEMPLATE_SHA256
from tokenbench.runner import exits, introductions, mcp, sandbox
from tokenbench.runner.places import BASE_VARIABLE, Places
from tokenbench.runner.sandbox import Confinement
from tokenbench.text import one_line
from tokenbench.transcripts.evidence import Runs

KEY_VARIABLE: Final = "ANTHROPIC_API_KEY"
URL_VARIABLE: Final = "ANTHROPIC_BASE_URL"
_XQ_WORKS: Final = frozenset({0, 1})
"""Hits, or no match."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What the runs of one runner have in common."""

    loaded: Loaded
    runs: Runs
    places: Places
    corpus: Path
    """Root of the corpus."""
    corpus_sha256: str
    index: Path | None
    """Folder of the index, None where no arm has retrieval."""
    cli: launch.Cli
    scripted: bool
    key: str
    """The API key: it goes into the environment of the agents and nowhere else."""
    base_url: str | None
    """The API's address, where the operator set one; unused where the model is scripted."""
    cells: tuple[Cell, ...]
    warmups: tuple[str, ...]
    seal: str
    """sha256 of seal.json."""
    newly_sealed: bool
    confinement: Confinement
    values: Mapping[str, str]
    """Of the operator's variables that MCP servers name; they go nowhere else."""


def credentials(environment: Mapping[str, str], *, scripted: bool) -> tuple[str, str | None]:
    """The API key and address for the agents.

    Raises:
        AgentError: The model is real, and there is no key.
    """
    if scripted:
        return launch.DUMMY_KEY, None
    key = environment.get(KEY_VARIABLE, "").strip()
    if not key:
        raise AgentError(
            f"the API key is missing: {KEY_VARIABLE} is not set",
            remedy=f"Set {KEY_VARIABLE}, or rehearse without a key: `tokenbench-tui rehearse`",
        )
    return key, environment.get(URL_VARIABLE) or None


def prepare(
    loaded: Loaded,
    runs: Runs,
    places: Places,
    *,
    scripted: bool,
    environment: Mapping[str, str],
    progress: Callable[[str], None],
) -> Prepared:
    """Fetch the corpus, measure it, build the index, find the CLI, and make or check the seal.

    Args:
        loaded: The experiment.
        runs: Its results.
        places: Its working folders.
        scripted: Whether the model is scripted.
        environment: The operator's, for the key and the address of the API.
        progress: Receives sentences for a person.

    Raises:
        TokenbenchError: Something is missing or does not fit; nothing has been run.
    """
    _refuse_foreign(runs)
    key, base_url = credentials(environment, scripted=scripted)
    values = mcp.named_values(loaded, environment)
    places.prepare()
    settings = loaded.config.agents.get(launch.NAME) or AgentSettings()
    cli = launch.find(settings.path, home=places.clean(0).home, bundle_only=scripted)
    progress(f"claude {cli.version} ({cli.source})")
    corpus = corpora.obtain(
        loaded.config.corpus, experiment=loaded.folder, cache=corpora.default_cache(), progress=progress
    )
    report, folder = None, None
    if any(arm.searches for arm in loaded.config.arms.values()):
        folder = index_folder(corpora.default_cache(), corpus.sha256)
        report, _ = ensure_index(corpus.root, folder, corpus.sha256, progress)
        _try_xq(places, folder, corpus.sha256)
    confinement = confine(loaded, places, cli, corpus.root, search_path=environment.get("PATH"))
    progress(f"sandbox: {confinement.told}" if confinement.sandbox else f"NO-SANDBOX: {confinement.reason}")
    said = _introductions(loaded, places, folder, corpus.sha256, values)
    cells = plan.plan_cells(loaded.config, loaded.questions)
    calibrated = _calibration(runs, corpus.sha256, scripted=scripted)
    now = seal.seal_of(
        loaded,
        scripted=scripted,
        corpus_sha256=corpus.sha256,
        index_sha256=report.sha256 if report is not None else None,
        template_sha256=TEMPLATE_SHA256,
        agents={launch.NAME: cli.version},
        environment=_sealed_environment(loaded, confinement, base_url, scripted=scripted),
        sandbox=_sealed_sandbox(confinement),
        plan=cells,
        calibration_sha256=calibrated,
        servers=said.hashes() if said is not None else {},
    )
    newly_sealed = not runs.seal.exists()
    if newly_sealed:
        _describe(runs, corpus, folder, report, progress)
        seal.write(runs.seal, now)
    else:
        check_seal(runs, now)
        if not runs.composition.exists():
            _describe(runs, corpus, folder, report, progress)
    if said is not None and (newly_sealed or not runs.servers.exists()):
        introductions.write(runs.servers, said)
    return Prepared(
        loaded=loaded,
        runs=runs,
        places=places,
        corpus=corpus.root,
        corpus_sha256=corpus.sha256,
        index=folder,
        cli=cli,
        scripted=scripted,
        key=key,
        base_url=base_url,
        cells=cells,
        warmups=plan.plan_warmups(loaded.config),
        seal=seal.digest(runs.seal),
        newly_sealed=newly_sealed,
        confinement=confinement,
        values=values,
    )


def _introductions(
    loaded: Loaded, places: Places, index: Path | None, corpus_sha256: str, values: Mapping[str, str]
) -> introductions.Introductions | None:
    """What the MCP servers of the experiment's arms say of themselves; None where no arm has one."""
    arms = {name: arm for name, arm in loaded.config.arms.items() if arm.mcp}
    if not arms:
        return None
    access = places.folder / "introductions.json"
    if index is not None:
        write_access(access, index=index, log=None, corpus_sha256=corpus_sha256)
    wanted = mcp.Wanted(f"{places.own_marks}introductions/", access, values, confined=False)
    return asyncio.run(introductions.introductions(arms, wanted))


def confine(
    loaded: Loaded, places: Places, cli: launch.Cli, corpus: Path | None, *, search_path: str | None = None
) -> Confinement:
    """The sandbox of an experiment's agents, tried out, or why they have none.

    Args:
        loaded: The experiment.
        places: Its working folders, made already.
        cli: The agent's CLI.
        corpus: Root of the corpus, once it is there.
        search_path: PATH to search for `bwrap`; that of this process if None.

    Raises:
        RunnerError: The experiment requires one, and there is none that works.
    """
    hidden = [loaded.folder, loaded.runs, corpora.default_cache(), *([corpus] if corpus else [])]
    with contextlib.suppress(RuntimeError):
        # Not everybody has a home.
        hidden.append(Path.home())
    return sandbox.find(
        loaded.config.experiment.sandbox,
        cli=cli,
        scratch=places.sandbox,
        hidden=hidden,
        search_path=search_path,
    )


def _sealed_environment(
    loaded: Loaded, confinement: Confinement, base_url: str | None, *, scripted: bool
) -> dict[str, str]:
    more = {launch.KEY_DESCRIPTOR: "(a pipe)"}
    if any(arm.mcp for arm in loaded.config.arms.values()):
        more["MAX_MCP_OUTPUT_TOKENS"] = f"{launch.MCP_OUTPUT_TOKENS} (arms with MCP servers)"
    if confinement.sandbox is None:
        return launch.sealed_environment(base_url=base_url, more=more)
    if not scripted:
        more |= exits.destination(base_url).environment
    return launch.sealed_environment(base_url=base_url, inside=sandbox.INSIDE, more=more)


def _sealed_sandbox(confinement: Confinement) -> seal.Confined:
    room = confinement.sandbox
    if room is None:
        return seal.Confined(confined=False, reason=confinement.reason)
    return seal.Confined(confined=True, tool=room.name, argv=room.sealed())


def _calibration(runs: Runs, corpus_sha256: str, *, scripted: bool) -> str | None:
    """sha256 of the calibration that is, or is to be, sealed.

    One that was made after the seal is no part of it: it decides estimates only, and its journal line tells when.

    Raises:
        RunsError: It cannot be read, or is of another corpus or of the other kind of model.
    """
    if runs.seal.exists() and seal.read(runs.seal).calibration_sha256 is None:
        return None
    found = calibration.read(runs.calibration)
    if found is None:
        return None
    if found.corpus_sha256 != corpus_sha256 or found.scripted != scripted:
        what = "of another corpus" if found.corpus_sha256 != corpus_sha256 else "of the other kind of model"
        raise RunsError(
            f"is {what}: {'scripted' if found.scripted else 'real'}, corpus {found.corpus_sha256[:12]}…",
            where=str(runs.calibration),
            remedy="Remove it, or measure again with `tokenbench-tui calibrate`; nothing was run",
        )
    return seal.digest(runs.calibration)


def check_seal(runs: Runs, now: seal.Seal) -> None:
    """Compare what is about to be run with what was sealed.

    Raises:
        RunsError: SEAL-BROKEN: something has changed, or runs/ is that of another experiment.
    """
    sealed = seal.read(runs.seal)
    changed = seal.differences(sealed, now)
    if not changed:
        return
    others = len(changed) - 1
    more = f" (and {others} more)" if others else ""
    raise RunsError(
        f"SEAL-BROKEN: {changed[0]}{more}",
        where=str(runs.seal),
        remedy="Put the sealed content back, or move runs/ away and start again; nothing was run",
    )


def check_corpus(prepared: Prepared) -> None:
    """Whether a corpus that is somebody's folder is still what was sealed, now that the runs have ended.

    Raises:
        RunsError: SEAL-BROKEN: it changed while the experiment ran.
    """
    source = prepared.loaded.config.corpus
    if source.kind != "folder":
        return
    now = corpora.obtain(
        source, experiment=prepared.loaded.folder, cache=corpora.default_cache(), progress=lambda _text: None
    )
    if now.sha256 != prepared.corpus_sha256:
        raise RunsError(
            "SEAL-BROKEN: the corpus has changed while the experiment ran",
            where=one_line(str(prepared.corpus), 200),
            remedy="Put the sealed content back to go on; which of the runs saw the other content, nobody can tell",
        )


def _refuse_foreign(runs: Runs) -> None:
    """Transcripts without a seal belong to something else; nothing is mixed with them."""
    if runs.seal.exists():
        return
    names = sorted(path.name for path in (*runs.folder.glob("*__*__r*.json*"), *runs.warmups.glob("*.json*")))
    if names:
        raise RunsError(
            f"holds runs ({one_line(names[0], 80)}) and no seal, so they are of another experiment",
            where=str(runs.folder),
            remedy="Restore seal.json, or move runs/ away and start again; nothing was run",
        )


def _describe(
    runs: Runs, corpus: corpora.Corpus, index: Path | None, report: IndexReport | None, progress: Callable[[str], None]
) -> None:
    progress("measuring what the corpus is made of")
    composition.write(runs.composition, composition.measure(corpus.root, corpus_sha256=corpus.sha256))
    if report is not None and index is not None:
        write_index_report(runs.index_report, index=index, report=report)


def _try_xq(places: Places, index: Path, corpus_sha256: str) -> None:
    """Call `xq` as an agent would: a work folder that does not allow execution is found out here, not in a paid run."""
    rooms = places.clean(0)
    access = rooms.temporary / "xq.json"
    write_access(access, index=index, log=None, corpus_sha256=corpus_sha256)
    script = rooms.bin / "xq"
    environment = {"PATH": f"{rooms.bin}:{launch.SYSTEM_PATH}", "HOME": str(rooms.home), launch.ACCESS: str(access)}
    try:
        done = subprocess.run(
            [str(script), "example"],
            env=environment,
            cwd=rooms.empty,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )
        said = f"exit code {done.returncode}: {one_line(os.fsdecode(done.stderr), 200)}"
        works = done.returncode in _XQ_WORKS
    except (OSError, subprocess.TimeoutExpired) as error:
        said, works = one_line(str(error), 200), False
    if not works:
        raise RunnerError(
            f"`xq` does not work there: {said}",
            where=str(script),
            remedy=f"Set {BASE_VARIABLE} to a folder in which programs may be executed",
        )
