"""Fixtures on experiments that are made up on disk."""

from collections.abc import Callable
from pathlib import Path

import pytest
from fabricated import Fabricated


@pytest.fixture(autouse=True)
def no_power_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dozens of small files a test: waiting for the disk each time would take most of it."""
    monkeypatch.setattr("os.fsync", lambda _handle: None)


@pytest.fixture
def fabricate(tmp_path: Path) -> Callable[..., Fabricated]:
    """Make an experiment in a fresh folder."""
    return lambda **options: Fabricated(tmp_path / "bench", **options)
