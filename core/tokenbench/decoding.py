"""What goes wrong when bytes that a person or a crash may have changed are decoded."""

from typing import Final

import msgspec

UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What `msgspec` raises at bytes that are not the JSON that was asked for; the last where they are nested too deep."""
