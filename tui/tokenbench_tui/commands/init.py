"""`init`: a commented experiment in a folder, ready to be filled with questions."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tokenbench.experiment.model import McpServer

DEFAULT_MODEL = "claude-opus-5"


@click.command()
@click.argument("folder", metavar="[DIR]", type=click.Path(path_type=Path), default=Path())
@click.option("--corpus", metavar="FOLDER", help="The code to ask about; without it, a folder `corpus` beside DIR.")
@click.option("--pypi", metavar="NAME==VERSION", help="Instead: an sdist of the package index; needs --sha256.")
@click.option("--sha256", metavar="HEX", help="With --pypi: of the archive.")
@click.option("--model", metavar="NAME", default=DEFAULT_MODEL, show_default=True, help="The model's full name.")
@click.option(
    "--mcp",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="A .mcp.json: its servers become an arm. They are started once, to see which tools they offer.",
)
def init(
    *, folder: Path, corpus: str | None, pypi: str | None, sha256: str | None, model: str, mcp: Path | None
) -> None:
    """Lay a commented experiment into DIR (default: this folder): configuration, prompts, example questions.

    Nothing is overwritten. What to do next is said at the end.
    """
    import secrets

    from tokenbench.experiment import config
    from tokenbench.experiment.model import CorpusSource
    from tokenbench.rehearsal.starter import lay_out
    from tokenbench.text import one_line

    if (pypi is None) != (sha256 is None):
        raise click.UsageError("--pypi and --sha256 go together: the archive is pinned by its content")
    place = "../corpus" if corpus is None else _seen_from(folder, corpus)
    source = CorpusSource(kind="pypi", package=pypi, sha256=sha256) if pypi else CorpusSource(kind="folder", path=place)
    servers, tools = _servers(mcp) if mcp is not None else ({}, ())
    seed = secrets.randbelow(100_000_000)
    written = lay_out(folder, model=model, corpus=source, seed=seed, servers=servers, tools=tools)
    for path in written:
        click.echo(f"wrote {one_line(str(path), 200)}")
    # What was given on the command line is checked where a mistake in it can still be seen.
    config.load(folder)
    click.echo("Next: write your questions into questions.jsonl, look at tokenbench.toml, then `tokenbench-tui check`.")


def _seen_from(folder: Path, corpus: str) -> str:
    """A path as the shell means it, from where one stands, as tokenbench.toml means it: from the experiment."""
    import os

    return corpus if Path(corpus).is_absolute() else os.path.relpath(Path(corpus).resolve(), folder.resolve())


def _servers(path: Path) -> "tuple[dict[str, McpServer], tuple[str, ...]]":
    """The servers of a `.mcp.json`, and their tools; what has to be set in the environment is said."""
    import asyncio
    import os

    from tokenbench.clock import SystemClock
    from tokenbench.experiment.mcp_json import read_mcp_json
    from tokenbench.probes.servers import offered_tools
    from tokenbench.runner.mcp import values_of

    found = read_mcp_json(path)
    for sentence in found.to_set:
        click.echo(f"before a run, {sentence}: values are not taken over")
    values = values_of(found.servers, os.environ, where=str(path))
    tools = asyncio.run(offered_tools(found.servers, clock=SystemClock(), values=values))
    servers = "1 MCP server offers" if len(found.servers) == 1 else f"{len(found.servers)} MCP servers offer"
    click.echo(f"{servers} {len(tools)} tool{'' if len(tools) == 1 else 's'}")
    if any(server.command for server in found.servers.values()):
        click.echo("In a sandbox a server sees only what `mounts` names: fill it in, in tokenbench.toml")
    return found.servers, tools
