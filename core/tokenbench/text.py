"""Text from a model, a tool or a file is hostile: nothing here reaches a terminal raw.

Controls are shown, never deleted: `256<BS><BS><BS>128` must not be read as `256128`.
"""

import re
from typing import Final

_PICTURES: Final = {code: chr(0x2400 + code) for code in range(0x20)} | {0x7F: "\u2421"}
_ASCII: Final = {code: f"<{code:02X}>" for code in (*range(0x20), *range(0x7F, 0xA0))}
_INVISIBLE: Final = (
    "\u00ad\u061c\u180e\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e"
    "\u2060\u2061\u2062\u2063\u2064\u2066\u2067\u2068\u2069\u206a\u206b\u206c\u206d\u206e\u206f\ufeff\ufff9\ufffa\ufffb"
)
_HOSTILE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f" + _INVISIBLE + "\ud800-\udfff\ue000-\uf8ff\U000e0000-\U000e0fff]"
)
_CR_LF: Final = re.compile("\r\n")
KEY_MARK: Final = "[key masked]"
_KEY: Final = re.compile(
    r"""(?<![A-Za-z0-9])(?:
        sk-(?:ant|proj|svcacct)-[A-Za-z0-9_-]{12,} | sk-[A-Za-z0-9]{20,}    # Anthropic, OpenAI
        | (?:AKIA|ASIA)[A-Z0-9]{16}                                         # AWS
        | gh[opsur]_[A-Za-z0-9]{20,} | github_pat_[A-Za-z0-9_]{20,}         # GitHub
        | glpat-[A-Za-z0-9_-]{16,}                                          # GitLab
        | AIza[A-Za-z0-9_-]{30,}                                            # Google
        | xox[abeoprs]-[A-Za-z0-9-]{10,}                                    # Slack
        | hf_[A-Za-z0-9]{20,} | npm_[A-Za-z0-9]{30,} | pypi-[A-Za-z0-9_-]{30,}
        | eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}     # JSON web tokens
    )
    | -----BEGIN\ (?:[A-Z]+\ )?PRIVATE\ KEY-----
      (?:(?!-----END)[\s\S]){0,8192}(?:-----END\ (?:[A-Z]+\ )?PRIVATE\ KEY-----)?
    """,
    re.VERBOSE,
)
"""Keys by their shapes, as their issuers document them; a word that only resembles one is masked too."""
_HINTS: Final = (
    *("sk-", "AKIA", "ASIA", "ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_", "glpat-", "AIza", "xox"),
    *("hf_", "npm_", "pypi-", "eyJ", "PRIVATE KEY"),
)
"""One of these stands in every key: looking for them first takes a third of the time."""


def _shown(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code in _PICTURES:
        return _PICTURES[code]
    return _ASCII.get(code) or f"<{code:04X}>"


def without_keys(text: str) -> str:
    """The text with what has the shape of a known kind of key masked: what a person sees or takes away."""
    return _KEY.sub(KEY_MARK, text) if any(hint in text for hint in _HINTS) else text


def visible(text: str, *, keep_keys: bool = False) -> str:
    """Text that may be written to a terminal: tab and newline stay, every other control is shown as a sign.

    Args:
        text: As it came.
        keep_keys: Leave what looks like a key as it is: for an agent, whose input must be what the corpus holds.
    """
    shown = _HOSTILE.sub(_shown, _CR_LF.sub("\n", text))
    return shown if keep_keys else without_keys(shown)


def one_line(text: str, limit: int | None = None, *, keep_keys: bool = False) -> str:
    """Text for one line of a table: controls shown, white space folded, cut at `limit` characters with a mark."""
    if limit is not None:
        text = text[: 4 * limit + 64]
    folded = " ".join(visible(text, keep_keys=keep_keys).split())
    if limit is None or len(folded) <= limit:
        return folded
    return folded[: max(0, limit - 1)] + "…"
