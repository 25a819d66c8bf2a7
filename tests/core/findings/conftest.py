"""Makes the fabricated experiment importable as `fabricated`, and hands one out."""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_SUPPORT = Path(__file__).parents[2] / "support" / "fabricated.py"


def _load() -> None:
    spec = importlib.util.spec_from_file_location("fabricated", _SUPPORT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fabricated"] = module
    spec.loader.exec_module(module)


if "fabricated" not in sys.modules:
    _load()


@pytest.fixture(autouse=True)
def _no_power_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dozens of small files a test: waiting for the disk each time would take most of it."""
    monkeypatch.setattr("os.fsync", lambda _handle: None)


@pytest.fixture
def fabricate(tmp_path: Path) -> Callable[..., Any]:
    """Make an experiment in a fresh folder."""
    from fabricated import Fabricated

    return lambda **options: Fabricated(tmp_path / "bench", **options)
