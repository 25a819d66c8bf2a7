"""What a paid run needs is looked at point by point, and each point that is missing says what to do."""

from pathlib import Path

import pytest

from tokenbench.experiment import config
from tokenbench.experiment.model import CorpusSource, Loaded
from tokenbench.probes.preflight import KEY_VARIABLE, Point, survey
from tokenbench.rehearsal.starter import EXAMPLE, lay_out


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An experiment on a tree of one file, with questions of its own, and a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", "/nowhere")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "client.py").write_text("def read_timeout():\n    return 30\n")
    folder = tmp_path / "bench"
    lay_out(folder, model="claude-opus-5", corpus=CorpusSource(kind="folder", path="../tree"), seed=1)
    questions = folder / "questions.jsonl"
    questions.write_text(questions.read_text().replace(EXAMPLE, ""))
    return folder


def points(loaded: Loaded, key: str = "sk-x") -> dict[str, list[Point]]:
    found: dict[str, list[Point]] = {}
    for point in survey(loaded, environment={KEY_VARIABLE: key}):
        found.setdefault(point.name, []).append(point)
    return found


def edited(folder: Path, name: str, old: str, new: str) -> Loaded:
    path = folder / name
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    return config.load(folder)


def test_an_experiment_that_is_ready_fails_nothing_and_leaves_no_mark(bench: Path) -> None:
    found = points(config.load(bench))
    assert [point for group in found.values() for point in group if point.state == "fail"] == []
    assert found["corpus"][0].state == found["index"][0].state == found["agent CLI"][0].state == "ok"
    assert not (bench / "runs").exists()


def test_what_only_refuses_figures_is_a_note(bench: Path) -> None:
    found = points(config.load(bench))
    assert "UNCALIBRATED" in found["calibration"][0].what
    assert "PRICE-UNKNOWN" in found["prices"][0].what
    assert "`tokenbench-tui prices --probe`" in found["prices"][0].remedy


def test_without_bwrap_a_note_says_what_will_stand_everywhere_and_a_requirement_fails(bench: Path) -> None:
    (point,) = points(config.load(bench))["sandbox"]
    assert (point.state, point.what.partition(".")[0]) == ("note", "NO-SANDBOX: bwrap is not on PATH")
    loaded = edited(bench, "tokenbench.toml", "[experiment]\n", '[experiment]\nsandbox = "required"\n')
    (point,) = points(loaded)["sandbox"]
    assert (point.state, "required" in point.what) == ("fail", True)


def test_a_missing_key_fails_and_a_key_is_never_repeated(bench: Path) -> None:
    assert points(config.load(bench), key=" ")["API key"][0].state == "fail"
    told = points(config.load(bench), key="sk-ant-secret")
    assert "secret" not in str(told)


def test_example_questions_fail(bench: Path) -> None:
    loaded = edited(bench, "questions.jsonl", '"truth": ": 30 s', f'"truth": "{EXAMPLE}: 30 s')
    assert points(loaded)["questions"][0].what.startswith("q01_lookup: still the example")


def test_questions_that_retrieval_cannot_lose_are_noted_while_they_can_be_changed(bench: Path) -> None:
    loaded = edited(bench, "questions.jsonl", '"index_hostile"', '"lookup"')
    (point,) = points(loaded)["questions"]
    assert point.state == "note"
    assert "NO-CONTROL" in point.what


def test_a_prompt_with_the_place_of_an_answer_fails(bench: Path) -> None:
    loaded = edited(bench, "prompts/hybrid.md", "Be concise", "Look into src/client.py. Be concise")
    (point,) = points(loaded)["prompts"]
    assert point.state == "fail"
    assert "arm hybrid" in point.what
    assert "q01_lookup: src/client.py" in point.what


def test_a_prompt_with_a_symbol_of_an_answer_is_noted(bench: Path) -> None:
    edited(bench, "questions.jsonl", '"must": [{"number": 30}]', '"must": [{"word": "read_timeout"}]')
    loaded = edited(bench, "prompts/native.md", "Be concise", "Mind Read_Timeout. Be concise")
    (point,) = points(loaded)["prompts"]
    assert point.state == "note"
    assert "read_timeout" in point.what


def test_an_experiment_without_a_budget_is_noted(bench: Path) -> None:
    loaded = edited(bench, "tokenbench.toml", "experiment_usd = 20 ", "# experiment_usd = 20 ")
    assert points(loaded)["budget"][0].state == "note"


def test_a_corpus_that_is_not_there_fails_and_what_rests_on_it_is_left_out(bench: Path) -> None:
    loaded = edited(bench, "tokenbench.toml", '"../tree"', '"../nowhere"')
    found = points(loaded)
    assert found["corpus"][0].state == "fail"
    assert "index" not in found


def test_an_agent_that_is_not_there_fails(bench: Path) -> None:
    loaded = edited(
        bench,
        "tokenbench.toml",
        '# [agents.claude]\n# path = "/opt/claude/claude"',
        '[agents.claude]\npath = "/no/claude"',
    )
    assert "no such file" in points(loaded)["agent CLI"][0].what
