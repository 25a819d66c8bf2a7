"""Which claude CLI is started, and with what."""

import os
from decimal import Decimal
from pathlib import Path

import pytest

from tokenbench.agents.claude import launch
from tokenbench.agents.claude.launch import Cli, Rooms
from tokenbench.errors import AgentError
from tokenbench.experiment.model import Arm, Limits

NATIVE = Arm(
    tools=("Grep", "Glob", "Read"),
    prompt="p.md",
    allowed=("Grep", "Glob", "Read"),
    disallowed=("Bash", "WebSearch", "WebFetch", "Task"),
)
RETRIEVAL = Arm(tools=("Bash",), prompt="p.md", allowed=("Bash(xq:*)",), folder="empty", retrieval=True)
BARE = Arm(tools=(), prompt="p.md", folder="empty")
CLI = Cli(Path("/opt/claude"), "2.1.332", "configured", ("/opt/claude",))


def fake(path: Path, says: str = "2.1.332 (Claude Code)", *, first: str = "#!/bin/sh") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{first}\n[ "$1" = --version ] && echo "{says}"\n')
    path.chmod(0o755)
    return path


def find(tmp_path: Path, configured: Path | None, *, search: Path | str = "/nowhere", bundle_only: bool = False) -> Cli:
    return launch.find(
        str(configured) if configured else None, home=tmp_path, bundle_only=bundle_only, search_path=str(search)
    )


# Where it is found.


def test_the_configured_cli_goes_before_that_on_path(tmp_path: Path) -> None:
    configured, other = fake(tmp_path / "a" / "my-claude", "2.1.400 (Claude Code)"), fake(tmp_path / "b" / "claude")
    found = find(tmp_path, configured, search=other.parent)
    assert (found.path, found.version, found.source) == (configured, "2.1.400", "configured")


def test_path_goes_before_the_bundle(tmp_path: Path) -> None:
    other = fake(tmp_path / "b" / "claude", "2.9.1 (Claude Code)")
    assert find(tmp_path, None, search=other.parent)[:3] == (other, "2.9.1", "path")


def test_rehearsals_take_the_bundle_whatever_else_there_is(tmp_path: Path) -> None:
    other = fake(tmp_path / "b" / "claude", "2.9.1 (Claude Code)")
    for configured in (None, other, tmp_path / "none"):
        found = find(tmp_path, configured, search=other.parent, bundle_only=True)
        assert found.source == "bundle"
        assert found.path == launch.bundle()


def test_without_any_cli_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "bundle", lambda: None)
    for bundle_only in (False, True):
        with pytest.raises(AgentError) as caught:
            find(tmp_path, None, bundle_only=bundle_only)
        assert "tokenbench-tui[rehearsal]" in caught.value.remedy


@pytest.mark.parametrize(
    ("says", "why"),
    [
        ("2.1.196 (Claude Code)", "too old"),
        ("1.9.999 (Claude Code)", "too old"),
        ("no number", "said 'no number'"),
        ("", "said ''"),
    ],
)
def test_a_cli_that_will_not_do_is_refused_with_its_path(tmp_path: Path, says: str, why: str) -> None:
    path = fake(tmp_path / "claude", says)
    with pytest.raises(AgentError, match=why) as caught:
        find(tmp_path, path)
    assert caught.value.where == str(path)
    assert caught.value.remedy


def test_the_minimum_is_the_oldest_that_was_tried(tmp_path: Path) -> None:
    minimum = ".".join(map(str, launch.MINIMUM_VERSION))
    assert find(tmp_path, fake(tmp_path / "claude", minimum)).version == minimum


@pytest.mark.parametrize("configured", ["none", "relative/claude"])
def test_a_configured_path_that_is_wrong_is_named(tmp_path: Path, configured: str) -> None:
    path = str(tmp_path / configured) if configured == "none" else configured
    with pytest.raises(AgentError) as caught:
        launch.find(path, home=tmp_path)
    assert configured in caught.value.where


def test_a_file_that_is_no_program_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "claude"
    path.write_text("not a program")
    with pytest.raises(AgentError, match="cannot be started"):
        find(tmp_path, path)


def test_a_cli_that_never_answers_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "_VERSION_SECONDS", 0.2)
    path = tmp_path / "claude"
    path.write_text("#!/bin/sh\nexec sleep 60\n")
    path.chmod(0o755)
    with pytest.raises(AgentError, match="did not tell its version"):
        find(tmp_path, path)


def test_a_script_whose_interpreter_is_only_on_the_operators_path_is_given_it(tmp_path: Path) -> None:
    interpreter = tmp_path / "node" / "bin" / "node"
    interpreter.parent.mkdir(parents=True)
    interpreter.write_text('#!/bin/sh\nexec /bin/sh "$@"\n')
    interpreter.chmod(0o755)
    script = fake(tmp_path / "claude", first="#!/usr/bin/env node")
    found = find(tmp_path, script, search=interpreter.parent)
    assert found.command == (str(interpreter), str(script))


# What it is started with.


def test_argv_of_an_arm() -> None:
    assert launch.argv(CLI, NATIVE, "claude-opus-5", Limits()) == (
        "/opt/claude", "-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages",
        "--model", "claude-opus-5",
        "--tools", "Grep,Glob,Read", "--allowedTools", "Grep,Glob,Read",
        "--disallowedTools", "Bash,WebSearch,WebFetch,Task", "--strict-mcp-config", "--setting-sources", "user",
    )  # fmt: skip


def test_an_arm_without_tools_asks_for_none() -> None:
    arguments = launch.argv(CLI, BARE, "m", Limits())
    assert arguments[arguments.index("--tools") + 1] == ""
    assert "--allowedTools" not in arguments


def test_limits_become_options() -> None:
    arguments = launch.argv(CLI, BARE, "m", Limits(run_turns=7, run_usd=Decimal("0.50")))
    assert arguments[-4:] == ("--max-turns", "7", "--max-budget-usd", "0.50")


def test_the_environment_is_an_allowlist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    rooms = Rooms(Path("/w/s1/home"), Path("/w/s1/tmp"), Path("/w/s1/empty"), Path("/w/bin"))
    values = launch.environment(rooms, NATIVE, run="x/1/", key="sk", base_url="http://127.0.0.1:1/run/t", access=None)
    assert values["PATH"] == "/usr/bin:/bin"
    assert (values["HOME"], values["TMPDIR"]) == ("/w/s1/home", "/w/s1/tmp")
    assert (values["TZ"], values["LANG"], values["DISABLE_AUTOUPDATER"]) == ("UTC", "C.UTF-8", "1")
    assert (values["ANTHROPIC_API_KEY"], values["TOKENBENCH_RUN"]) == ("sk", "x/1/")
    assert not set(values) & set(os.environ) - {"PATH", "HOME", "TMPDIR", "TZ", "LANG", "ANTHROPIC_API_KEY"}


def test_only_an_arm_with_retrieval_has_xq_on_its_path() -> None:
    rooms = Rooms(Path("/w/h"), Path("/w/t"), Path("/w/e"), Path("/w/bin"))
    access = Path("/w/xq.json")
    with_xq = launch.environment(rooms, RETRIEVAL, run="r", key="k", base_url=None, access=access)
    assert with_xq["PATH"] == "/w/bin:/usr/bin:/bin"
    assert with_xq["TOKENBENCH_XQ"] == "/w/xq.json"
    assert "ANTHROPIC_BASE_URL" not in with_xq
    without = launch.environment(rooms, NATIVE, run="r", key="k", base_url=None, access=access)
    assert "TOKENBENCH_XQ" not in without


def test_what_is_sealed_of_the_environment_holds_no_key_no_token_and_no_path_of_a_run() -> None:
    rooms = Rooms(Path("/w/h"), Path("/w/t"), Path("/w/e"), Path("/w/bin"))
    values = launch.environment(rooms, NATIVE, run="r/1/", key="sk-secret", base_url="http://x/run/token", access=None)
    sealed = launch.sealed_environment()
    assert set(values) - set(sealed) == {"ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "TOKENBENCH_RUN"}
    assert not [value for value in sealed.values() if "secret" in value or "token" in value or "/w/" in value]
    constant = {name: value for name, value in values.items() if name in sealed and name not in ("HOME", "TMPDIR")}
    assert constant == {name: sealed[name] for name in constant}


def test_an_address_that_the_operator_set_is_sealed() -> None:
    assert launch.sealed_environment(base_url="https://gateway")["ANTHROPIC_BASE_URL"] == "https://gateway"


def test_the_prompt_is_the_arms_then_the_question() -> None:
    assert launch.prompt("Answer from what you read.\n", " Where is it?\n") == (
        b"Answer from what you read.\n\nQuestion: Where is it?\n"
    )
    assert launch.prompt("é", "ü") == "é\n\nQuestion: ü\n".encode()
