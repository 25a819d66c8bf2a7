"""The shipped rehearsal: an experiment as data, and how it is laid into a folder of the user's."""

from importlib.resources import files
from pathlib import Path
from typing import Final

from tokenbench.errors import ConfigError
from tokenbench.files import private_folder, write_atomically

SCRIPTS: Final = "scripts.jsonl"
_FILES: Final = (
    "prompts/native.md",
    "prompts/retrieval.md",
    "prompts/hybrid.md",
    "questions.jsonl",
    SCRIPTS,
    "tokenbench.toml",
)


def shipped(name: str) -> bytes:
    """The bytes of one shipped file, by its path in the experiment."""
    return files(__name__).joinpath(name).read_bytes()


def install(folder: Path) -> Path:
    """Lay the experiment into a folder that is new, empty, or already holds it; return the path of its scripts.

    tokenbench.toml is written last: a folder that has it is complete.

    Raises:
        ConfigError: The folder holds something else; nothing is written then.
        RunsError: The folder cannot be written.
    """
    if folder.is_dir() and (folder / "tokenbench.toml").exists():
        changed = [name for name in _FILES if not _holds(folder / name, shipped(name))]
        if changed:
            raise ConfigError(
                f"is not the shipped demo: {', '.join(changed)} differ",
                where=str(folder),
                remedy="Name another folder: `tokenbench-tui demo DIR`, or run this experiment with `rehearse`",
            )
        return folder / SCRIPTS
    if folder.exists() and (not folder.is_dir() or _foreign(folder)):
        raise ConfigError(
            "is in use by something else",
            where=str(folder),
            remedy="Name a new or an empty folder: `tokenbench-tui demo DIR`",
        )
    private_folder(folder)
    for name in _FILES:
        private_folder((folder / name).parent)
        write_atomically(folder / name, shipped(name), mode=0o644)
    return folder / SCRIPTS


def _holds(path: Path, content: bytes) -> bool:
    return path.is_file() and path.read_bytes() == content


def _foreign(folder: Path) -> bool:
    """Whether the folder holds anything that an interrupted installation would not have left."""
    ours = {Path(name).parts[0] for name in _FILES}
    return any(entry.name not in ours and not entry.name.endswith(".part") for entry in folder.iterdir())
