"""`report.md`: what was found, for people who do not have the console. Banners stand as high as the figures."""

from collections.abc import Iterable, Sequence
from decimal import Decimal

from tokenbench.experiment.composition import Composition, sentence
from tokenbench.figures import Figure, Published, Refusal
from tokenbench.files import write_atomically
from tokenbench.findings.matrix import loses, losing_first
from tokenbench.findings.results import Breakdown, Counts, Ratio, Results, to_json
from tokenbench.text import one_line
from tokenbench.transcripts.evidence import Runs


def publish(runs: Runs, results: Results) -> None:
    """Write results.json and report.md, each whole.

    Raises:
        RunsError: The disk is full, or runs/ may not be written.
    """
    runs.prepare()
    write_atomically(runs.results, to_json(results))
    write_atomically(runs.report, report(results).encode("utf-8", "replace"))


def report(results: Results) -> str:
    """The report as Markdown. Every number stands with its interval, what it comes from, or why it is not there."""
    parts = [
        _head(results),
        _banners(results.banners),
        _headline(results),
        _losing(results),
        _accuracy(results),
        _effort(results),
        _by_question(results),
        _apart(results),
        _judges(results),
        _runs(results),
        _notes(),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def show(value: Published) -> str:
    """A figure with its interval and its codes, or the refusal that stands in its place."""
    if isinstance(value, Refusal):
        return f"**REFUSED {value.code}**"
    shown = _number(value)
    if value.interval is not None:
        low, high = (_bound(bound, value.unit) for bound in value.interval)
        shown += f" ({low} – {high})"
    shown = shown if value.basis == "exact" else f"≈ {shown}"
    return " ".join((shown, *value.codes))


def _number(figure: Figure) -> str:
    value = figure.value
    match figure.unit:
        case "share":
            return f"{float(value):.1%}"
        case "ratio":
            return f"{float(value):.2f}"
        case unit if unit.startswith("USD"):
            return f"${value:.4f}" if isinstance(value, Decimal) else f"${float(value):.4f}"
        case unit if unit.startswith(("turns", "seconds")):
            return f"{float(value):,.1f}"
        case _:
            return f"{float(value):,.0f}"


def _bound(value: float, unit: str) -> str:
    if value == float("inf"):
        return "∞"
    return _number(Figure(value=value, unit=unit, basis="exact"))


def _cell(text: str) -> str:
    """Text inside a table: from tokenbench.toml, a model or a file, so hostile."""
    cleaned = one_line(text).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("`", "'")
    return cleaned.replace("*", "\\*").replace("_", "\\_").replace("[", "\\[")


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'|'.join(['---'] + ['---:'] * (len(head) - 1))}|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines)


def _head(results: Results) -> str:
    about = results.experiment
    classes = ", ".join(f"{name} {count}" for name, count in about.classes.items())
    seal = f"`{results.seal[:16]}…`" if results.seal else "none"
    return "\n".join(
        [
            f"# {_cell(about.name)}: tokens per correct answer",
            "",
            f"- model {_cell(', '.join(about.models))}; {about.questions} questions ({classes}) × "
            f"{len(about.arms)} arms × {about.repeats} repeats = {about.cells} cells",
            f"- {about.counted} of {about.cells} cells have a run that counts",
            f"- corpus {_cell(about.corpus)}: {_composition(about.composition)}",
            f"- baseline {_cell(about.baseline)}, headline arm {_cell(about.headline_arm)}; seal {seal}",
            f"- judges: {_cell(', '.join(about.judges)) or 'none'}; mapping {'opened' if about.opened else 'closed'}",
        ]
    )


def _composition(measured: Composition | None) -> str:
    """What the corpus is made of, in one line, to stand beside every ratio."""
    return "**REFUSED NO-COMPOSITION**" if measured is None else _cell(sentence(measured))


def _banners(banners: Sequence[Refusal]) -> str:
    lines: list[str] = []
    for banner in banners:
        lines.append(f"> ## {banner.code}")
        lines.append(f"> **{_cell(banner.reason)}.**")
        if banner.evidence:
            lines += [">", *(f"> - {_cell(line)}" for line in banner.evidence), ">"]
        lines.append(f"> What would mend it: {_cell(banner.remedy)}.")
        lines.append("")
    return "\n".join(lines).rstrip()


def _headline(results: Results) -> str:
    rows: list[list[str]] = []
    reasons: list[str] = []
    for arm in results.experiment.arms:
        value, ratio = results.headline[arm], results.ratios.get(arm)
        accuracy = results.accuracy[arm].counts
        correct = f"{accuracy.correct}/{accuracy.runs}" if accuracy is not None else "–"
        rows.append([_cell(arm), correct, show(value), *_ratio_cells(ratio), _runs_of(value)])
        reasons += [f"- {_cell(arm)}: {line}" for line in _why(value, ratio)]
    table = _table(
        ["arm", "correct", "tokens per correct answer (95 %)", "÷ baseline (95 %)", "reads", "both right ÷", "runs"],
        rows,
    )
    beside = f"Composition of the corpus: {_composition(results.experiment.composition)}."
    return "\n\n".join(["## Headline", table, *(["\n".join(reasons)] if reasons else []), beside])


def _ratio_cells(ratio: Ratio | None) -> list[str]:
    if ratio is None:
        return ["1", "baseline", "1"]
    reads = {"fewer": "fewer tokens", "more": "more tokens", "not distinguishable": "**not distinguishable**"}
    return [
        show(ratio.tokens_per_correct),
        reads[ratio.reading] if ratio.reading is not None else "–",
        show(ratio.both_correct),
    ]


def _runs_of(value: Published) -> str:
    return str(len(value.runs)) if isinstance(value, Figure) else "–"


def _why(value: Published, ratio: Ratio | None) -> list[str]:
    """The sentences of the refusals in a row, each once."""
    cells = [value] + ([ratio.tokens_per_correct, ratio.both_correct] if ratio is not None else [])
    found = {f"{cell.code}: {cell.reason}. {cell.remedy}." for cell in cells if isinstance(cell, Refusal)}
    return [_cell(sentence) for sentence in sorted(found)]


def _losing(results: Results) -> str:
    arm = results.experiment.headline_arm
    if arm not in results.headline:
        return ""
    arms = results.experiment.arms
    rows: list[list[str]] = []
    for name, mine in losing_first(results, arm):
        ratio = mine.ratio
        # A loss is said; that a ratio without an interval lies below 1 is no win.
        says = "**loses**" if loses(mine, results.by_class[name].get(results.experiment.baseline)) else "–"
        rows.append(
            [
                _cell(name),
                *(
                    abstained(results, one) if name == "canary" else _breakdown(results.by_class[name][one])
                    for one in arms
                ),
                "–" if name == "canary" else show(ratio) if ratio is not None else "1",
                says,
            ]
        )
    head = ["class", *(_cell(one) for one in arms), f"{_cell(arm)} ÷ baseline", _cell(arm)]
    return "\n\n".join(
        [
            "## By class, the losing ones first",
            _table(head, rows),
            "Tokens per correct answer and correct answers of runs. Descriptive: too few questions for intervals.",
        ]
    )


def abstained(results: Results, arm: str) -> str:
    """What a canary is for: how often the arm abstained. A correct answer there is none."""
    share = results.abstention[arm].canary_abstained
    return show(share) if isinstance(share, Refusal) else f"abstained {_number(share)}"


def _breakdown(one: Breakdown) -> str:
    correct = f" [{_number(one.correct)}/{one.runs}]" if isinstance(one.correct, Figure) else ""
    return show(one.tokens_per_correct) + correct


def _accuracy(results: Results) -> str:
    rows = [
        [
            _cell(arm),
            show(one.correct_of_all),
            show(one.correct_of_answered),
            show(one.abstained_of_all),
            "–" if one.counts is None else _counts(one.counts),
            show(results.abstention[arm].score),
            show(results.abstention[arm].canary_violations),
        ]
        for arm, one in results.accuracy.items()
    ]
    head = [
        "arm",
        "correct / all",
        "correct / answered",
        "abstained / all",
        "right, wrong, abstained, no answer, unknown",
        "score (+1, −4, 0)",
        "canaries violated",
    ]
    return "\n\n".join(["## Accuracy", _table(head, rows), "Canaries stand in the last two columns alone."])


def _counts(counts: Counts) -> str:
    return f"{counts.correct}, {counts.wrong}, {counts.abstained}, {counts.no_answer}, {counts.unknown}"


def _effort(results: Results) -> str:
    rows = [
        [
            _cell(arm),
            show(results.medians[arm].tokens),
            show(results.effort[arm].turns),
            show(results.medians[arm].seconds),
            show(results.effort[arm].seconds_per_correct),
            show(results.cost[arm].total),
            show(results.cost[arm].cache_neutral),
            show(results.cost[arm].cold),
            show(results.cost[arm].warm),
            show(results.shares[arm]),
        ]
        for arm in results.experiment.arms
    ]
    head = [
        "arm",
        "median tokens a run",
        "turns a run",
        "median seconds",
        "seconds per correct",
        "USD, as the CLI reckons it",
        "USD, cache-neutral",
        "USD from a cold cache",
        "USD from a warm cache",
        "looked up, of billed input",
    ]
    return "\n\n".join(["## Tokens, turns, time, dollars", _table(head, rows)])


def _by_question(results: Results) -> str:
    arms = results.experiment.arms
    rows = [
        [_cell(question), *(_breakdown(by_arm[arm]) for arm in arms)]
        for question, by_arm in results.by_question.items()
    ]
    return "\n\n".join(["## By question", _table(["question", *(_cell(arm) for arm in arms)], rows)])


def _apart(results: Results) -> str:
    rows = [
        [_cell(arm), str(one.attempts), show(one.tokens), show(one.tokens_per_correct)]
        for arm, one in results.apart.items()
    ]
    return "\n\n".join(
        [
            "## Attempts that did not count",
            _table(["arm", "attempts", "their tokens", "tokens per correct answer with them"], rows),
        ]
    )


def _judges(results: Results) -> str:
    agreement = results.agreement
    lines = ["## Judges"]
    if agreement.judges:
        rows = [
            [
                _cell(judge.name),
                _cell(judge.model or "a person") + (" (scripted)" if judge.scripted else ""),
                str(judge.verdicts),
                str(judge.not_blind),
                str(judge.stale),
                "–" if judge.tokens is None else show(judge.tokens),
            ]
            for judge in agreement.judges
        ]
        lines.append(_table(["judge", "model", "verdicts", "not blind", "stale", "tokens, apart"], rows))
        lines.append(f"Agreement of several judges: {show(agreement.raw)}.")
    else:
        lines.append("Nobody has judged yet.")
    if agreement.disputed:
        lines.append("In dispute: " + ", ".join(_cell(cell) for cell in agreement.disputed) + ".")
    if agreement.problems:
        lines.append("\n".join(f"- {_cell(problem)}" for problem in agreement.problems))
    return "\n\n".join(lines)


def _runs(results: Results) -> str:
    rows = [
        [
            _cell(run.cell),
            _cell(run.outcome),
            "–" if run.result is None else run.result,
            f"{run.tokens.total:,}" if run.tokens is not None else f"≥ {run.lower_bound.total:,}",
            str(run.turns),
            f"{run.seconds:.1f}",
            ", ".join(run.codes) or "–",
        ]
        for run in results.runs
    ]
    if not rows:
        return ""
    head = ["run", "outcome", "answer", "tokens", "turns", "seconds", "codes"]
    return "\n\n".join(["## Every run", _table(head, rows)])


def _notes() -> str:
    return "\n".join(
        [
            "## How to read this",
            "",
            "- Tokens are billed input (fresh, cache writes, cache reads) and output, reconciled to the CLI's totals; "
            "a second model that the CLI bills on its own is in no arm.",
            "- What an index saves costs no LLM tokens; building and keeping it costs time and disk.",
            "- Intervals of the headline and the ratios: bootstrap over questions, repeats together, 10,000 resamples, "
            "expanded percentiles. Of shares: Wilson. An interval that spans 1 is not distinguishable from no "
            "difference.",
            "- Each headline figure is over the number of runs in its last column; their names are in results.json.",
        ]
    )
