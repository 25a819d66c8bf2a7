"""`tokenbench-tui`: finds the command, and turns every error that a person can mend into one sentence."""

import importlib
import os
import sys
from pathlib import Path

import click

from tokenbench import __version__
from tokenbench.errors import TokenbenchError
from tokenbench.text import visible
from tokenbench_tui.commands import COMMANDS

USAGE = 2
INTERRUPTED = 130


class LazyGroup(click.Group):
    """A group that imports a command only when it is called, so that `--help` stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module = importlib.import_module(f"tokenbench_tui.commands.{entry.module}")
        command = getattr(module, entry.function)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])


@click.group(cls=LazyGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tokenbench-tui")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Tokens per correct answer of a coding agent, measured so that nobody is fooled.

    Without a command: the console on the experiment of this folder.
    """
    if ctx.invoked_subcommand is None:
        from tokenbench_tui.commands.attach import open_here

        open_here(Path.cwd())


def main() -> None:
    """Entry point of the script: exit 2 and one sentence for anything a person can mend."""
    try:
        status = cli.main(standalone_mode=False)
        sys.stdout.flush()
    except TokenbenchError as error:
        click.echo(f"tokenbench-tui: {visible(str(error))}", err=True)
        sys.exit(USAGE)
    except click.exceptions.Abort:
        sys.exit(INTERRUPTED)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except click.ClickException as error:
        error.show()
        sys.exit(USAGE)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        what = error.strerror or str(error)
        click.echo(f"tokenbench-tui: {visible(f'{place}{what}')}. Mend that and try again.", err=True)
        sys.exit(USAGE)
    except Exception as error:  # noqa: BLE001  # the last place that can turn a defect into a sentence
        click.echo(f"tokenbench-tui: {visible(_defect(error))}", err=True)
        sys.exit(USAGE)
    sys.exit(status if isinstance(status, int) else 0)


def _defect(error: Exception) -> str:
    """A sentence for a defect of this program; its traceback goes to a file."""
    import tempfile
    import traceback

    handle, name = tempfile.mkstemp(prefix="tokenbench-defect-", suffix=".txt")
    with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
        traceback.print_exception(error, file=file)
    return f"{name}: a defect of this program: {type(error).__name__}: {error}. Report it with that file."


if __name__ == "__main__":
    main()
