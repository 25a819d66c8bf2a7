"""The size of a picture from the head of its base64."""

import base64
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbench.transcripts.images import image_size

PNG = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + struct.pack(">II", 750, 500)
GIF = b"GIF89a" + struct.pack("<HH", 30, 20) + b"\0" * 8
JPEG = b"\xff\xd8" + b"\xff\xe1\x00\x08Exif\0\0" + b"\xff\xc0\x00\x11\x08" + struct.pack(">HH", 20, 30) + b"\0" * 9


@pytest.mark.parametrize(("data", "size"), [(PNG, (750, 500)), (GIF, (30, 20)), (JPEG, (30, 20)), (b"%PDF-1.7", None)])
def test_the_header_tells_the_size(data: bytes, size: tuple[int, int] | None) -> None:
    assert image_size(base64.b64encode(data + b"\0" * 3).decode()) == size


@given(st.text(max_size=40) | st.binary(max_size=40).map(lambda data: base64.b64encode(b"\xff\xd8" + data).decode()))
def test_any_text_has_a_size_or_none(encoded: str) -> None:
    found = image_size(encoded)
    assert found is None or min(found) >= 0
