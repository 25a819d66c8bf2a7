"""The `tokenbench-tui` commands: one module each, loaded only when it is called."""

from typing import Final, NamedTuple


class Command(NamedTuple):
    """Where a command lives, and its line in `--help`."""

    module: str
    function: str
    help: str


COMMANDS: Final[dict[str, Command]] = {
    "demo": Command("demo", "demo", "The shipped rehearsal: the real agent CLI, a scripted model, three arms."),
    "init": Command("init", "init", "Lay a commented experiment into a folder."),
    "check": Command("check", "check", "Whether a paid run is ready, and what it will cost."),
    "rehearse": Command("run", "rehearse", "Run this experiment against the scripted model. Costs nothing."),
    "run": Command("run", "run", "Run this experiment against the real model. Costs money."),
    "attach": Command("attach", "attach", "Open the console on this experiment."),
    "status": Command("status", "status", "What the runner does, from the files."),
    "pause": Command("control", "pause", "Start no more runs until `resume`."),
    "resume": Command("control", "resume", "Go on after `pause`."),
    "stop": Command("control", "stop", "End after the current runs; with --now, end them too."),
    "cancel": Command("control", "cancel", "End one run, or take its cell out of the queue."),
    "ledger": Command("ledger", "ledger", "What transcripts cost, reconciled or refused."),
    "prices": Command("prices", "prices", "What the agent CLI charges, and what shows it."),
    "corpus": Command("corpus", "corpus", "Fetch the corpus and say what it is made of."),
    "index": Command("index", "index", "Build the retrieval index of the corpus."),
    "xq": Command("xq", "xq", "Ask the index, as the retrieval arm does."),
    "calibrate": Command("calibrate", "calibrate", "Characters per token of this corpus and model."),
    "grade": Command("grade", "grade", "Verdicts: state, export, import, open the mapping."),
    "judge": Command("judge", "judge", "Have a model judge what nobody has judged yet."),
    "results": Command("results", "results", "The matrix: tokens per correct answer, or why not."),
    "cache": Command("cache", "cache", "Whether the arms began equally warm, and what that cost."),
    "report": Command("report", "report", "Write report.md."),
}
