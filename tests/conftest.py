"""What holds for all tests."""

import importlib.util
import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

# How long an example takes says how busy the machine is, and nothing about the code.
settings.register_profile("tokenbench", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tokenbench")

# Price tables are made in tests of every package: `priced` is importable from all of them.
if "priced" not in sys.modules:
    _spec = importlib.util.spec_from_file_location("priced", Path(__file__).parent / "support" / "priced.py")
    assert _spec is not None
    assert _spec.loader is not None
    _module = importlib.util.module_from_spec(_spec)
    sys.modules["priced"] = _module
    _spec.loader.exec_module(_module)
