"""Makes the captured and hand-made transcripts importable as `streams`."""

import importlib.util
import sys
from pathlib import Path

_SUPPORT = Path(__file__).parents[2] / "support" / "streams.py"

if "streams" not in sys.modules:
    _spec = importlib.util.spec_from_file_location("streams", _SUPPORT)
    assert _spec is not None
    assert _spec.loader is not None
    _module = importlib.util.module_from_spec(_spec)
    sys.modules["streams"] = _module
    _spec.loader.exec_module(_module)
