"""How a compaction looks in the requests of the claude CLI, as 2.1.332 makes it.

Where the API says that a prompt is too long, the CLI asks the model to sum the conversation up, puts the summary in its
place, keeps the last messages as they are, and goes on.
"""

from typing import Final

TOO_LONG: Final = "prompt is too long: 210000 tokens > 200000 maximum"
"""What the API answers to a prompt above the context window; by its first words the CLI knows it."""
_ASKS: Final = "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools."
_CONTINUES: Final = "This session is being continued from a previous conversation"


def asks_for_summary(closing: str) -> bool:
    """Whether a conversation ends by asking the model to sum it up.

    Args:
        closing: The last text that stands in it under the role `user`; tool results are none.
    """
    return closing.startswith(_ASKS)


def continues(opening: str) -> bool:
    """Whether a conversation begins with the summary of one that went before.

    Args:
        opening: The text of its first user message.
    """
    return opening.startswith(_CONTINUES)
