"""What each tool was asked and gave, counted by tool use id, so that order and repetition do not matter."""

from dataclasses import dataclass

from tokenbench.ledger.model import ToolRow
from tokenbench.transcripts.events import Denial, Image, ToolResult, ToolUse

UNKNOWN = "(unknown)"
"""Stands for the tool of a result whose use is not in the transcript."""
LONGEST_EDGE = 1568
"""Pixels; the API scales larger pictures down to it."""
PIXELS_A_TOKEN = 750
"""Vendor's rule for the tokens of a picture: width × height / 750."""


@dataclass(slots=True)
class _Use:
    name: str = UNKNOWN
    asked: bool = False
    parent: str | None = None
    resulted: bool = False
    is_error: bool = False
    denied: bool = False
    characters: int = 0
    images: tuple[Image, ...] = ()


class ToolTable:
    """Tool uses and their results."""

    def __init__(self) -> None:
        self._uses: dict[str, _Use] = {}
        self._listed: set[str] = set()

    def use(self, event: ToolUse) -> None:
        """The model asked for a tool."""
        use = self._uses.setdefault(event.id, _Use())
        use.name, use.asked, use.parent = event.name or UNKNOWN, True, event.parent

    def result(self, event: ToolResult) -> None:
        """A result went to the model; of a result that is repeated the longest one counts."""
        use = self._uses.get(event.tool_use_id)
        if use is None:
            use = self._uses[event.tool_use_id] = _Use(parent=event.parent)
        use.resulted = True
        use.is_error = use.is_error or event.is_error
        use.denied = use.denied or event.denied
        use.characters = max(use.characters, len(event.text))
        if len(event.images) > len(use.images):
            use.images = event.images

    def listed(self, denials: tuple[Denial, ...]) -> None:
        """The agent's own list of denials."""
        for denial in denials:
            self._listed.add(denial.tool_use_id)
            use = self._uses.setdefault(denial.tool_use_id, _Use(name=denial.tool or UNKNOWN))
            use.denied = True

    def rows(self) -> tuple[ToolRow, ...]:
        """A row for each tool, by name."""
        by_name: dict[str, list[_Use]] = {}
        for use in self._uses.values():
            by_name.setdefault(use.name, []).append(use)
        return tuple(_row(name, uses) for name, uses in sorted(by_name.items()))

    @property
    def grounded(self) -> bool:
        """Whether any tool gave something without an error."""
        return any(use.resulted and not use.is_error and not use.denied for use in self._uses.values())

    @property
    def denied(self) -> bool:
        """Whether any tool use was denied."""
        return any(use.denied for use in self._uses.values())

    @property
    def unlisted_denial(self) -> bool:
        """Whether a denial stands in the results that the agent's list leaves out."""
        return any(use.denied and key not in self._listed for key, use in self._uses.items())

    @property
    def orphans(self) -> int:
        """Results of the main loop whose use is not in the transcript."""
        return sum(use.resulted and not use.asked and use.parent is None for use in self._uses.values())

    def used(self, *names: str) -> bool:
        """Whether one of these tools was used."""
        return any(use.asked and use.name in names for use in self._uses.values())


def _row(name: str, uses: list[_Use]) -> ToolRow:
    images = [image for use in uses if not use.denied for image in use.images]
    sizes = [image_tokens(image) for image in images]
    return ToolRow(
        name=name,
        uses=sum(use.asked for use in uses),
        errors=sum(use.is_error and not use.denied for use in uses),
        denied=sum(use.denied for use in uses),
        result_characters=sum(use.characters for use in uses if not use.denied),
        images=len(images),
        image_tokens=None if any(size is None for size in sizes) else sum(size or 0 for size in sizes),
    )


def image_tokens(image: Image) -> int | None:
    """Tokens of a picture, estimated from its pixels; None where its size is unknown."""
    if image.width is None or image.height is None:
        return None
    width, height = image.width, image.height
    longest = max(width, height)
    if longest > LONGEST_EDGE:
        width, height = width * LONGEST_EDGE / longest, height * LONGEST_EDGE / longest
    return round(width * height / PIXELS_A_TOKEN)
