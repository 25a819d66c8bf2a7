"""The counting rule `pieces-1`, as it is stated."""

import base64
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbench.rehearsal.counting import IMAGE_OF_UNKNOWN_SIZE, PieceCounter, image_tokens, is_code

count = PieceCounter().text
words = st.text(alphabet="abcdefghij klmnop\nqrstuvwxyzABC_()=.:;,-0123456789\té漢字🙂 ", max_size=400)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("answer", 1),
        ("documentation", 2),
        ("the answer", 2),
        ("the answer.", 3),
        ("256", 1),
        ("1234567", 3),
        ("a\nb", 3),
        ("漢字", 2),
        ("дом", 2),
    ],
)
def test_prose_costs_its_words_in_pieces_of_seven_digits_in_threes_and_each_sign(text: str, tokens: int) -> None:
    assert count(text) == tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("exit_code = 1", 1 + 1 + 1 + 1 + 1),
        ("BaseCommand()", 1 + 2 + 1 + 1),
        ("HTTPServer()", 1 + 2 + 1 + 1),
        ("        return", 1 + 2),
        ("            return", 2 + 2),
    ],
)
def test_code_costs_its_names_cut_at_changes_of_case_and_then_in_fours(text: str, tokens: int) -> None:
    assert is_code(text)
    assert count(text) == tokens


@pytest.mark.parametrize("line", ["I search for the place where it is set.", "See line 12, then go on.", ""])
def test_sentences_are_no_code(line: str) -> None:
    assert not is_code(line)


@given(st.lists(words.filter(lambda text: "\n" not in text), min_size=1, max_size=8))
def test_a_text_costs_its_lines_and_their_breaks(lines: list[str]) -> None:
    assert count("\n".join(lines)) == sum(map(count, lines)) + len(lines) - 1


@given(st.text(max_size=300))
def test_every_text_can_be_counted_and_never_costs_more_than_a_token_a_character(text: str) -> None:
    assert 0 <= count(text) <= len(text)


def test_the_rate_of_characters_per_token_is_no_constant() -> None:
    texts = (
        "Answers come from what was read in this session and nowhere else, so every statement names its source.",
        "    def resolve_envvar_value(self, ctx: Context) -> t.Optional[str]:\n        rv = super().resolve(ctx)",
        "src/click/core.py:1108:            except Exit as e:",
        "2481632641282565121024",
        "漢字かな交じり文",
    )
    rates = [len(text) / count(text) for text in texts]

    assert max(rates) > 4 * min(rates)
    assert rates[0] > 1.5 * rates[1] > 1.5


def _png(width: int, height: int) -> str:
    return base64.b64encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height)).decode()


def _gif(width: int, height: int) -> str:
    return base64.b64encode(b"GIF89a" + struct.pack("<HH", width, height) + bytes(8)).decode()


def _jpeg(width: int, height: int) -> str:
    comment = b"\xff\xfe" + struct.pack(">H", 6) + b"note"
    frame = b"\xff\xc0" + struct.pack(">HBHH", 17, 8, height, width) + bytes(10)
    return base64.b64encode(b"\xff\xd8" + comment + frame).decode()


def _webp(width: int, height: int) -> str:
    size = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return base64.b64encode(b"RIFF\0\0\0\0WEBPVP8X" + bytes(8) + size).decode()


@pytest.mark.parametrize("image", [_png, _gif, _jpeg, _webp])
def test_an_image_costs_its_pixels_whatever_its_format(image) -> None:
    assert image_tokens(image(750, 100)) == 100
    assert image_tokens(image(300, 300)) == 120


def test_a_large_image_is_scaled_down_first() -> None:
    assert image_tokens(_png(3136, 3136)) == image_tokens(_png(1568, 1568)) == 3279


@pytest.mark.parametrize("data", ["", "not base64!", base64.b64encode(b"\x89PNG\r\n\x1a\n").decode(), "AAAA"])
def test_an_image_whose_size_is_unknown_has_a_stated_price(data: str) -> None:
    assert image_tokens(data) == IMAGE_OF_UNKNOWN_SIZE
