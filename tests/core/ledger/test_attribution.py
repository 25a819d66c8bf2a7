"""Where the tokens of a run went: the reported cases, and that the parts are the billed input exactly."""

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streams import DATA, Script, ledger, read, text, tool

from tokenbench.figures import Code, Refusal
from tokenbench.ledger.attribution.attribute import attribute
from tokenbench.ledger.attribution.model import Attribution, ClassPrices, Part
from tokenbench.ledger.attribution.plain import lines
from tokenbench.ledger.attribution.rates import Rate, Rates
from tokenbench.ledger.attribution.settling import NOTES_MOST
from tokenbench.ledger.model import CallRow, Ledger, Tokens
from tokenbench.ledger.prices import ModelPrices, PriceTable, Row
from tokenbench.ledger.prices import Rates as TableRates
from tokenbench.ledger.weights import TableWeights

RATES = Rates(by_shape={"code": Rate(characters_per_token=2.785, standard_error=0.02, spread=0.05)})
CASES = sorted({path.name.split(".")[0][:2] for path in (DATA / "cases").glob("*-*.jsonl*")})


def case(number: str) -> Ledger:
    path = min((DATA / "cases").glob(f"{number}-*.jsonl*"))
    return ledger(read(path.with_name(path.name.removesuffix(".gz"))))


def parts_of(found: Ledger, **more: object) -> Attribution:
    got = attribute(found, RATES, prompt=None, **more)  # pyright: ignore[reportArgumentType]
    assert isinstance(got, Attribution)
    return got


def part(got: Attribution, kind: str, name: str = "") -> Part:
    return next(part for part in got.parts if (part.kind, part.name) == (kind, name or part.name))


class Prices:
    """Fresh input 10, 5-minute writes 12, 1-hour writes 20, reads 1, output 50 USD a million."""

    def of_call(self, call: CallRow) -> ClassPrices | None:
        return self.of_rest(call.model, call.tokens)

    def of_rest(self, model: str, tokens: Tokens) -> ClassPrices | None:
        return ClassPrices(*(Decimal(price) / 1_000_000 for price in (10, 12, 20, 1, 50)))


class TestCompaction:
    """18: a result is billed from the call after it up to the boundary."""

    def test_each_result_is_billed_on_the_calls_that_held_it(self) -> None:
        got = parts_of(case("18"))
        # G 1,000 × 2, R 200 × 1, P 100 × 1; the report has 2,299.8 before rounding.
        assert sum(part.billed for part in got.parts if part.kind == "result") == 2300
        assert sum(part.unique for part in got.parts if part.kind == "result") == 1300

    def test_a_fall_of_the_prompt_is_no_negative_tool_output(self) -> None:
        got = parts_of(case("18"))
        assert all(row.unique >= 0 for row in got.growth)
        assert all(part.billed >= 0 for part in got.parts if part.kind != "unattributed")

    def test_the_call_that_compacted_is_itemised(self) -> None:
        got = parts_of(case("18"))
        assert part(got, "side", "compaction").billed == 6203
        assert got.billed_input == 26_518


class TestWhatACompactionKeeps:
    """The last messages stay behind the summary: their results are billed on."""

    def found(self, *, kept: bool) -> Attribution:
        script = Script()
        script.call("m1", (0, 3000, 0, 0, 40), tool("t1"), stop="tool_use")
        script.result_of("t1", "x" * 2785)
        script.call("m2", (0, 1040, 0, 3000, 40), tool("t2"), stop="tool_use")
        script.result_of("t2", "x" * 557)
        rows = [row["uuid"] for row in script.rows if row["type"] == "user"]
        script.row(
            "system",
            subtype="compact_boundary",
            compact_metadata={"trigger": "auto", "preserved_messages": {"uuids": rows[-1:] if kept else []}},
        )
        script.call("m3", (0, 640, 0, 3000, 20), text("done"), stop="end_turn")
        script.end((0, 4680, 0, 6000, 100), {"claude-opus-4-8": (0, 4680, 0, 6000, 100)})
        return parts_of(script.ledger())

    def test_a_result_that_stayed_is_billed_again_and_counted_once(self) -> None:
        got = self.found(kept=True)
        assert part(got, "result").unique == 1200
        assert part(got, "result").billed == 1000 + 200

    def test_the_unique_context_holds_each_thing_once(self) -> None:
        # The prompts hold 3,000 + 40 + 1,000, then 400 + 40 + 200 beside the prefix; the last answer is billed nowhere.
        assert self.found(kept=True).unique_context == 4040 + 640

    def test_what_did_not_stay_is_the_summary(self) -> None:
        kept, dropped = part(self.found(kept=True), "summary"), part(self.found(kept=False), "summary")
        assert (kept.billed, dropped.billed) == (640 - 200 - 40, 640)


class TestParallelTools:
    """44: results come back in another order than they were asked for, in several rows."""

    def test_results_belong_to_the_call_that_asked(self) -> None:
        found = case("44")
        (thread,) = found.threads
        assert [[piece.characters for piece in step.results] for step in thread.steps] == [[40], [200, 30, 100], []]

    def test_growth_of_parallel_tools_is_split_and_marked(self) -> None:
        got = parts_of(case("44"))
        assert {row.tool: row.split for row in got.growth} == {"Grep": True, "Read": True}


class TestListResults:
    """45: text by characters, pictures by pixels, nothing else."""

    def test_a_picture_costs_its_pixels(self) -> None:
        got = parts_of(case("45"))
        assert part(got, "result", "mcp__shot__take").unique == round(17 / 2.785) + 500

    def test_results_without_content_are_nothing(self) -> None:
        assert not any(part.name == "Bash" for part in parts_of(case("45")).parts)


class TestDenials:
    """48: what refused a tool is no use of that tool."""

    def test_denials_are_apart_from_their_tools(self) -> None:
        got = parts_of(case("48"))
        assert {part.name for part in got.parts if part.kind == "denied"} == {"Bash", "Read"}
        assert part(got, "result", "Read").use == "read"


def test_long_lines_are_attributed_whole() -> None:
    found = case("31")
    got = parts_of(found)
    # 70,000 / 2.785 = 25,135; the prompt grew by 26,000, which is within the error of a shape that nobody measured.
    assert 25_135 <= part(got, "result", "Read").unique <= 26_000
    # 1,200,000 / 2.785 = 430,880 is more than the prompt grew by.
    assert 429_900 < part(got, "result", "mcp__dump__all").unique <= 430_000


@pytest.mark.parametrize("number", CASES)
def test_the_parts_of_every_case_are_its_billed_input(number: str) -> None:
    found = case(number)
    got = attribute(found, RATES, prompt=None, weights=Prices())
    if isinstance(got, Refusal):
        assert found.tokens is None or got.code == Code.CALLS_COLLIDE
        return
    assert found.tokens is not None
    assert sum(part.billed for part in got.parts) == got.billed_input == found.tokens.billed_input
    assert sum(part.unique for part in got.parts) == got.unique_context
    assert got.usd == sum((part.usd for part in got.parts if part.usd is not None), Decimal(0))


class TestRefusals:
    def test_without_a_calibration_there_are_no_parts(self) -> None:
        got = attribute(case("44"), None, prompt=None)
        assert isinstance(got, Refusal)
        assert got.code == Code.UNCALIBRATED

    def test_a_run_without_tokens_is_refused_for_the_reason_of_its_tokens(self) -> None:
        got = attribute(case("08"), RATES, prompt=None)
        assert isinstance(got, Refusal)
        assert got.code == Code.NO_RESULT


def two_calls() -> Script:
    script = Script()
    script.call("m1", (0, 3000, 0, 0, 40), tool("t1"), stop="tool_use")
    script.result_of("t1", "x" * 2785)
    script.call("m2", (0, 1050, 0, 3000, 20), text("done"), stop="end_turn")
    script.end((0, 4050, 0, 3000, 60), {"claude-opus-4-8": (0, 4050, 0, 3000, 60)})
    return script


class TestOneTool:
    def found(self) -> Ledger:
        return two_calls().ledger()

    def test_the_prompt_comes_out_of_the_first_call(self) -> None:
        got = attribute(self.found(), RATES, prompt=557)
        assert isinstance(got, Attribution)
        assert part(got, "prompt").unique == 200
        assert part(got, "prefix").unique == 2800
        assert part(got, "prefix").billed == 5600

    def test_what_is_left_of_the_growth_is_unattributed_and_bounds_the_parts(self) -> None:
        got = parts_of(self.found())
        assert part(got, "own").unique == 40
        assert part(got, "result").unique == 1000
        assert part(got, "unattributed").unique == 10
        assert part(got, "result").bound_unique >= 10

    def test_three_shares_have_three_denominators(self) -> None:
        got = parts_of(self.found(), weights=Prices())
        tool = part(got, "result")
        assert got.unique_context == 4050
        assert got.billed_input == 7050
        assert tool.share_of_unique_context == 1000 / 4050
        assert tool.share_of_billed_input == 1000 / 7050
        # 4,050 written at 12 and 3,000 read at 1 USD a million; the result was written.
        assert got.usd == Decimal("0.0516")
        assert tool.usd == Decimal("0.012")

    def test_a_price_table_weighs_the_parts(self) -> None:
        rates = TableRates(*(Decimal(price) for price in ("10", "12", "20", "1", "50", "0.01")))
        row = Row(above=0, speed="standard", region="", rates=rates)
        table = PriceTable(
            (ModelPrices(model="claude-opus-4-8", agent="claude", agent_version="2.1.332", rows=(row,)),)
        )
        got = parts_of(self.found(), weights=TableWeights(table, version="2.1.332"))
        assert got.usd == Decimal("0.0516")
        assert parts_of(self.found(), weights=TableWeights(table, version="2.1.333")).usd is None

    def test_lines_name_each_denominator_once(self) -> None:
        shown = "\n".join(lines(parts_of(self.found(), weights=Prices())))
        for label in ("shares of billed input", "shares of unique context, 4,050", "billed input cost, 0.051600 USD"):
            assert shown.count(label) == 1
        assert max(map(len, shown.split("\n"))) <= 80

    def test_the_growth_is_a_bound_from_above(self) -> None:
        (row,) = parts_of(self.found()).growth
        assert (row.tool, row.unique, row.billed, row.split) == ("Read", 1010, 1010, False)

    def test_an_estimate_over_the_growth_is_put_to_the_growth_less_what_was_said(self) -> None:
        low = Rates(by_shape={"code": Rate(characters_per_token=2.0)})
        got = attribute(self.found(), low, prompt=None)
        assert isinstance(got, Attribution)
        assert part(got, "result").unique == 1050 - 40
        # 1,392 is not beyond the error of a shape that nobody measured: the growth is what is known best.
        assert part(got, "result").bound_unique <= NOTES_MOST + 40

    def test_an_estimate_that_contradicts_the_growth_is_as_unsure_as_they_differ(self) -> None:
        low = Rates(by_shape={"code": Rate(characters_per_token=1.5)})
        got = attribute(self.found(), low, prompt=None)
        assert isinstance(got, Attribution)
        assert part(got, "result").unique == 1050 - 40
        assert part(got, "result").bound_unique >= round(2785 / 1.5) - 1010

    def test_estimates_that_are_together_too_high_leave_a_negative_rest(self) -> None:
        low = Rates(by_shape={"code": Rate(characters_per_token=2785 / 1040)})
        got = attribute(self.found(), low, prompt=None)
        assert isinstance(got, Attribution)
        assert part(got, "unattributed").billed == -30
        assert sum(part.billed for part in got.parts) == 7050


CAPTURES = sorted(
    {str(path.relative_to(DATA)).removesuffix(".gz") for path in (DATA / "streams").glob("*/*.jsonl*")}
    - {str(path.relative_to(DATA)).removesuffix(".gz") for path in (DATA / "streams").glob("*/*.calls.jsonl*")}
)


def test_there_are_captures() -> None:
    assert len(CAPTURES) > 50


@pytest.mark.parametrize("name", CAPTURES)
def test_the_parts_of_every_capture_are_its_billed_input(name: str) -> None:
    found = ledger(read(DATA / name))
    got = attribute(found, RATES, prompt=30, weights=Prices())
    if isinstance(got, Refusal):
        assert found.tokens is None or got.code == Code.CALLS_COLLIDE
        return
    assert found.tokens is not None
    assert sum(part.billed for part in got.parts) == found.tokens.billed_input
    assert sum(part.unique for part in got.parts) == got.unique_context
    assert got.usd == sum((part.usd for part in got.parts if part.usd is not None), Decimal(0))


@st.composite
def runs(draw: st.DrawFn) -> tuple[Script, int]:
    """A run of the main loop: calls of any size, tools in any number, results of any length, compactions."""
    script = Script()
    totals = [0, 0, 0, 0, 0]
    calls = draw(st.integers(1, 8))
    for number in range(calls):
        usage = tuple(draw(st.integers(0, 5000)) for _ in totals)
        totals = [total + mine for total, mine in zip(totals, usage, strict=True)]
        last = number == calls - 1
        tools = [] if last else [f"t{number}_{at}" for at in range(draw(st.integers(1, 3)))]
        names = [draw(st.sampled_from(["Read", "Grep", "Bash", "Task"])) for _ in tools]
        blocks = [tool(key, name) for key, name in zip(tools, names, strict=True)]
        script.call(f"m{number}", usage, *(blocks or [text("done")]), stop="tool_use" if tools else "end_turn")
        for key in draw(st.permutations(tools)):
            script.result_of(key, "x" * draw(st.integers(0, 9000)), is_error=draw(st.booleans()))
        if not last and draw(st.integers(0, 5)) == 0:
            rows = draw(st.lists(st.sampled_from([row["uuid"] for row in script.rows])))
            script.row("system", subtype="compact_boundary", compact_metadata={"preserved_messages": {"uuids": rows}})
    script.end(totals, {"claude-opus-4-8": totals})
    return script, sum(totals[:4])


@settings(max_examples=60)
@given(
    run=runs(),
    rate=st.floats(0.5, 20),
    prompt=st.none() | st.integers(0, 100_000),
)
def test_parts_and_rest_are_the_billed_input_of_any_run(
    run: tuple[Script, int], rate: float, prompt: int | None
) -> None:
    script, billed = run
    found = script.ledger()
    got = attribute(
        found,
        Rates(by_shape={"code": Rate(characters_per_token=rate)}),
        prompt=prompt,
        weights=Prices(),
    )
    if isinstance(got, Refusal):
        assert found.tokens is None
        return
    assert sum(part.billed for part in got.parts) == got.billed_input == billed
    assert sum(part.unique for part in got.parts) == got.unique_context
    assert got.usd == sum((part.usd for part in got.parts if part.usd is not None), Decimal(0))
    assert all(part.billed >= 0 and part.unique >= 0 for part in got.parts if part.kind != "unattributed")
