"""`runs/blind.json`: which cells an item stands for. Secret until it is opened, and only ever extended."""

import fcntl
import hashlib
import hmac
import os
import secrets
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Literal

import msgspec

from tokenbench.decoding import UNREADABLE
from tokenbench.errors import GradingError
from tokenbench.files import PRIVATE_FILE, private_folder, write_atomically
from tokenbench.grading.verdicts import LogState
from tokenbench.transcripts.evidence import Runs

Why = Literal["needs_judge", "audit", "rule_suspended"]
"""Why an item is in the queue; a judge cannot tell."""


class MappedItem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An item and the cells whose answer it is."""

    id: str
    question: str
    answer: str
    """sha256 of the masked answer, white space folded: `Seen.answer`."""
    cells: tuple[str, ...]
    why: Why


class BlindMapping(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """blind.json, whole."""

    format: Literal[1] = 1
    secret: str
    """Seed of the audit's sample and of every judge's order."""
    items: tuple[MappedItem, ...] = ()
    """In no order that tells anything: sorted by id."""
    locked: dict[str, LogState] | None = None
    """What each judge's file held when the queue was locked; None while it is not."""

    def keyed(self, *parts: str) -> bytes:
        """A number that only who holds the secret can know: 32 bytes, for sampling and for order."""
        return hmac.new(bytes.fromhex(self.secret), "\x1f".join(parts).encode(), hashlib.sha256).digest()


def read_mapping(runs: Runs) -> BlindMapping | None:
    """The mapping; None where no queue was made yet.

    Raises:
        GradingError: It is there but is damaged.
    """
    try:
        mapping = msgspec.json.decode(runs.blind.read_bytes(), type=BlindMapping)
        bytes.fromhex(mapping.secret)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, *UNREADABLE) as error:
        raise GradingError(
            f"cannot be read as the mapping of the blind queue: {error}",
            where=str(runs.blind),
            remedy="Restore it from a copy of runs/; the verdicts mean nothing without it",
        ) from error
    return mapping


def lock_sha256(locked: Mapping[str, LogState]) -> str:
    """sha256 of what a lock says of the judges' files: the journal keeps it, so that no lock is renewed unseen."""
    return hashlib.sha256(msgspec.json.encode(locked, order="deterministic")).hexdigest()


def write_mapping(runs: Runs, mapping: BlindMapping) -> None:
    """Replace blind.json, readable by its owner alone."""
    write_atomically(runs.blind, msgspec.json.format(msgspec.json.encode(mapping), indent=1) + b"\n")


def new_mapping() -> BlindMapping:
    """An empty mapping with a fresh secret."""
    return BlindMapping(secret=secrets.token_hex(32))


@contextmanager
def mapping_lock(runs: Runs) -> Generator[None]:
    """Wait until nobody else changes the mapping, and keep it so for as long as the block lasts."""
    private_folder(runs.folder)
    handle = os.open(runs.folder / "blind.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
