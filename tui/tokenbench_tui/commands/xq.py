"""`xq` as a command: what the agent gets, word for word."""

import click


class RawCommand(click.Command):
    """A command whose arguments are nobody's options: `--help` and `-Xmx` are queries."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.args = list(args)
        return []


@click.command(cls=RawCommand, add_help_option=False)
@click.pass_context
def xq(ctx: click.Context) -> int:
    """Ask the index of this folder's experiment, as the retrieval arm does: xq "<query>" [k]."""
    from tokenbench.retrieval.xq import run

    return run(ctx.args)
