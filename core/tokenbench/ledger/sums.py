"""Sums of counters whose cache writes may not be split by lifetime, and when two such sums are equal."""

from collections.abc import Iterable

import msgspec

from tokenbench.ledger.model import Tokens
from tokenbench.transcripts.events import Usage


class Sum(msgspec.Struct, frozen=True, gc=False):
    """Counters in tokens. Differences of sums may be negative."""

    input: int = 0
    write_5m: int = 0
    write_1h: int = 0
    write_unsplit: int = 0
    """Cache writes whose lifetime was not printed."""
    read: int = 0
    output: int = 0

    @property
    def write(self) -> int:
        """All cache writes."""
        return self.write_5m + self.write_1h + self.write_unsplit

    @property
    def inside(self) -> tuple[int, int, int]:
        """What a call takes in: fresh input, cache writes, cache reads."""
        return self.input, self.write, self.read

    @property
    def billed_input(self) -> int:
        """input + cache writes + cache reads."""
        return self.input + self.write + self.read

    def __add__(self, other: "Sum") -> "Sum":
        return Sum(
            self.input + other.input,
            self.write_5m + other.write_5m,
            self.write_1h + other.write_1h,
            self.write_unsplit + other.write_unsplit,
            self.read + other.read,
            self.output + other.output,
        )

    def __sub__(self, other: "Sum") -> "Sum":
        """The difference; where only one side knows the split, the difference's writes are unsplit."""
        split = not self.write_unsplit and not other.write_unsplit
        return Sum(
            self.input - other.input,
            self.write_5m - other.write_5m if split else 0,
            self.write_1h - other.write_1h if split else 0,
            0 if split else self.write - other.write,
            self.read - other.read,
            self.output - other.output,
        )

    def same_input(self, other: "Sum") -> bool:
        """Whether both took in the same, to the token; the split must agree as far as both know it."""
        return (
            self.inside == other.inside
            and self.write_5m <= other.write_5m + other.write_unsplit
            and self.write_1h <= other.write_1h + other.write_unsplit
            and other.write_5m <= self.write_5m + self.write_unsplit
            and other.write_1h <= self.write_1h + self.write_unsplit
        )

    def covers(self, other: "Sum") -> bool:
        """Whether no counter of what is taken in is below the other's."""
        return all(mine >= theirs for mine, theirs in zip(self.inside, other.inside, strict=True))

    def with_output(self, output: int) -> "Sum":
        """The same input with another output."""
        return Sum(self.input, self.write_5m, self.write_1h, self.write_unsplit, self.read, output)

    def tokens(self, *, unsplit_is_1h: bool = False) -> Tokens:
        """As published counters.

        Args:
            unsplit_is_1h: Where unsplit writes are put. By default they are 5-minute writes, as the CLI prices them.
        """
        five = self.write_5m + (0 if unsplit_is_1h else self.write_unsplit)
        hour = self.write_1h + (self.write_unsplit if unsplit_is_1h else 0)
        return Tokens.of(self.input, five, hour, self.read, self.output)


ZERO = Sum()


def of_usage(usage: Usage) -> Sum:
    """The counters of an API usage object.

    The flat count of cache writes is what is billed; a split that does not add up is cut to it or filled up with
    5-minute writes, which is how the CLI prices a write whose lifetime it was not told.
    """
    hour = min(usage.cache_write_1h or 0, usage.cache_write)
    return Sum(usage.input, usage.cache_write - hour, hour, 0, usage.cache_read, usage.output)


def of_model(usage: Usage) -> Sum:
    """The counters of a `modelUsage` entry; older versions print no split, and one that does not add up is none."""
    if (usage.cache_write_5m is None and usage.cache_write_1h is None) or not usage.consistent:
        return Sum(usage.input, 0, 0, usage.cache_write, usage.cache_read, usage.output)
    return of_usage(usage)


def total(sums: Iterable[Sum]) -> Sum:
    """All of them together."""
    # Added up as numbers: a sum for every step between would cost more than all the additions.
    inside = five = hour = unsplit = read = output = 0
    for item in sums:
        inside += item.input
        five += item.write_5m
        hour += item.write_1h
        unsplit += item.write_unsplit
        read += item.read
        output += item.output
    return Sum(inside, five, hour, unsplit, read, output)
