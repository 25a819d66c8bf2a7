"""MCP servers of an arm: what is accepted, and what is wrong with the rest."""

from pathlib import Path

import pytest

from tokenbench.errors import ConfigError
from tokenbench.experiment.config import load_config

HEAD = """\
[experiment]
name = "x"
model = "claude-opus-5"
baseline = "a"
headline_arm = "a"

[corpus]
kind = "folder"
path = "corpus"

[arms.a]
tools = ["mcp__s__find"]
prompt = "p.md"
"""
SERVER = "[arms.a.mcp.s]\n"


def configured(folder: Path, text: str) -> Path:
    path = folder / "tokenbench.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "server",
    [
        'builtin = "xq"',
        'command = ["/opt/x/serve", "--stdio"]\nenvironment = ["X_MODE"]\nmounts = ["/opt/x"]\nusd_per_call = 0',
        'url = "https://example.org/mcp?v=1"\nheaders = { Authorization = "X_KEY" }\nusd_per_call = 0.001',
        'url = "http://127.0.0.1:8080"',
    ],
)
def test_each_kind_of_server_is_read(server: str, tmp_path: Path) -> None:
    arm = load_config(configured(tmp_path, HEAD + SERVER + server)).arms["a"]
    assert list(arm.mcp) == ["s"]
    assert arm.builtin_tools == ()
    assert arm.searches is ("builtin" in server)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (HEAD, "names mcp__s__find, and the arm has no such server"),
        (HEAD + SERVER, "has none of builtin, command and url"),
        (HEAD + SERVER + 'builtin = "xq"\nurl = "https://x.org"', "has builtin, url of builtin"),
        (HEAD + SERVER + 'builtin = "xp"', "`arms.a.mcp.s.builtin` is `xp`"),
        (HEAD + SERVER + 'url = "https://x.org"\nmounts = ["/x"]', "belongs to a server with `command`"),
        (HEAD + SERVER + 'command = ["x"]\nheaders = { A = "B" }', "belongs to a server with `url`"),
        (HEAD + SERVER + 'url = "https://user:secret@x.org"', "Write it as https://HOST/PATH"),
        (HEAD + SERVER + 'url = "x.org"', "Write it as https://HOST/PATH"),
        (HEAD + SERVER + 'url = "https://x.org"\nheaders = { A = "Bearer abc" }', "never a value"),
        (HEAD + SERVER + 'command = ["x"]\nenvironment = ["A=b"]', "never a value"),
        (HEAD + SERVER + 'command = ["x"]\nmounts = ["x"]', "Give absolute paths"),
        (HEAD + SERVER + 'command = ["x"]\nusd_per_call = -1', "below 0"),
        (HEAD + '[arms.a.mcp.s]\nbuiltin = "xq"\n[arms.a.mcp.t]\nbuiltin = "xq"', "of which the arm has no tool"),
        (HEAD + '[arms.a.mcp."s__t"]\nbuiltin = "xq"', "cannot be the name of a server"),
        (HEAD + SERVER + 'builtin = "xq"\nurls = 1', "is not a key that is known here"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(configured(tmp_path, text))
    assert says in str(caught.value)
    assert "tokenbench.toml:" in caught.value.where
