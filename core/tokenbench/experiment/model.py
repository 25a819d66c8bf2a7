"""The frozen types of an experiment; how they are read is in `config` and `questions`."""

from decimal import Decimal
from pathlib import Path
from typing import Literal

import msgspec

QuestionClass = Literal["lookup", "mechanism", "multi_hop", "prior_hostile", "index_hostile", "canary"]
CLASSES: tuple[QuestionClass, ...] = (
    "lookup",
    "mechanism",
    "multi_hop",
    "prior_hostile",
    "index_hostile",
    "canary",
)


MCP_PREFIX = "mcp__"
"""How the names of MCP tools begin: `mcp__SERVER__TOOL`."""


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One mechanical rule: exactly one of `number`, `word`, `regex`, `any`; `unless` only under must_not."""

    number: int | float | None = None
    """Found when the answer states this number, compared as a number."""
    word: str | tuple[str, ...] | None = None
    """Found when the answer holds one of these words, whole and whatever the case."""
    regex: str | None = None
    """Found when `re.search` finds it in the normalised answer."""
    any: "tuple[Rule, ...] | None" = None
    """Found when one of these rules is."""
    unless: "Rule | None" = None
    """Under must_not: the rule does not fail an answer in which this is found as well."""


class Citation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where in the corpus the truth stands."""

    path: str
    lines: str
    """First and last line, `25-29`."""
    quote_sha1_of_line_range: str | None = None


class Check(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A fact about the corpus that a machine can check."""

    kind: Literal["absent", "count_files", "count_lines"]
    path: str
    glob: str
    regex: str | None = None
    text: str | None = None
    equals: int | None = None


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of questions.jsonl."""

    id: str
    question_class: QuestionClass = msgspec.field(name="class")
    text: str
    truth: str
    must: tuple[Rule, ...] = ()
    must_not: tuple[Rule, ...] = ()
    citations: tuple[Citation, ...] = ()
    checks: tuple[Check, ...] = ()
    judge_note: str = ""
    derived_from: str = ""


class McpServer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[arms.NAME.mcp.SERVER]`: exactly one of `builtin`, `command` and `url`."""

    builtin: Literal["xq"] | None = None
    """The product's own: `xq` as a server."""
    command: tuple[str, ...] = ()
    """An argument list; the agent starts it, and speaks to it on standard input and output."""
    environment: tuple[str, ...] = ()
    """command: variables of the operator's that it is given, by name. The agent's own tools can read them there."""
    mounts: tuple[str, ...] = ()
    """command: absolute paths that it needs in a sandbox; read-only."""
    url: str | None = None
    """The address of a server that speaks HTTP."""
    headers: dict[str, str] = {}
    """url: header, and the variable of the operator's that holds its value. The runner adds it; no agent sees it."""
    usd_per_call: Decimal | None = None
    """What a call costs elsewhere, in USD, where the server asks models of its own; 0 if it asks none."""


class Arm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One way of answering: `[arms.NAME]`."""

    tools: tuple[str, ...]
    """The tools that exist for the agent, and that it must announce: exactly these."""
    prompt: str
    """Path of the prompt file, relative to the experiment."""
    allowed: tuple[str, ...] = ()
    """Permission rules, as the agent CLI spells them: `Read`, `Bash(xq:*)`."""
    disallowed: tuple[str, ...] = ()
    folder: Literal["corpus", "empty"] = "corpus"
    """The agent's working folder."""
    agent: Literal["claude"] = "claude"
    model: str | None = None
    """Overrides `[experiment] model`."""
    retrieval: bool = False
    """Whether `xq` is on the agent's PATH."""
    mcp: dict[str, McpServer] = {}
    """MCP servers, by name; their tools stand in `tools` as `mcp__SERVER__TOOL`."""
    defer_tools: bool = False
    """Whether definitions of MCP tools are kept out of the prompt until the agent searches for them."""

    @property
    def builtin_tools(self) -> tuple[str, ...]:
        """The agent CLI's own tools."""
        return tuple(tool for tool in self.tools if not tool.startswith(MCP_PREFIX))

    @property
    def searches(self) -> bool:
        """Whether it asks the experiment's index, in whatever way."""
        return self.retrieval or any(server.builtin is not None for server in self.mcp.values())


class CorpusSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[corpus]`: where the corpus comes from, and what pins it."""

    kind: Literal["folder", "pypi"]
    path: str | None = None
    """kind folder: a path, relative to the experiment."""
    package: str | None = None
    """kind pypi: `name==version`, its sdist."""
    sha256: str | None = None
    """kind pypi: of the archive; kind folder: of the tree, optional."""


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[limits]`: what ends a run, and what ends the experiment."""

    run_wall_seconds: float = 600.0
    run_silence_seconds: float = 180.0
    run_turns: int | None = None
    run_usd: Decimal | None = None
    experiment_tokens: int | None = None
    experiment_usd: Decimal | None = None
    attempts: int = 3
    """Attempts of a cell that infrastructure may spoil before the cell is given up."""


class Experiment(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[experiment]`."""

    name: str
    model: str
    repeats: int = 1
    seed: int = 0
    baseline: str = "native"
    headline_arm: str = "hybrid"
    concurrency: int = 1
    warmups: int = 1
    """Runs of each arm before the first counted one; kept, never counted."""
    sandbox: Literal["auto", "required", "off"] = "auto"
    """Whether agents are confined with bubblewrap: where it works, always or the experiment does not start, never."""


class AgentSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[agents.claude]`."""

    path: str | None = None
    """The CLI's path; without it PATH is searched, then the bundle of the `rehearsal` extra."""


class Grading(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[grading]`."""

    audit_share: float = 0.2
    """Share of the mechanical FAILs that is mixed into the blind queue."""


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """tokenbench.toml, whole."""

    experiment: Experiment
    corpus: CorpusSource
    arms: dict[str, Arm]
    limits: Limits = Limits()
    agents: dict[Literal["claude"], AgentSettings] = {}
    grading: Grading = Grading()


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """An experiment as it lies in its folder, read and checked."""

    folder: Path
    config: Config
    questions: tuple[Question, ...]
    prompts: dict[str, str]
    """Text of each arm's prompt, by arm."""
    results: Path | None = None
    """Where results go instead of `runs/`, for a trial that must leave no mark on the experiment."""

    @property
    def runs(self) -> Path:
        """The folder of results."""
        return self.results or self.folder / "runs"

    def question(self, question_id: str) -> Question:
        """The question of that id."""
        return next(q for q in self.questions if q.id == question_id)


class Cell(msgspec.Struct, frozen=True, order=True):
    """Arm × question × repeat."""

    arm: str
    question: str
    repeat: int
    """1 is the first."""

    @property
    def name(self) -> str:
        """The stem of its files: `native__q01__r1`."""
        return f"{self.arm}__{self.question}__r{self.repeat}"

    @classmethod
    def parse(cls, name: str) -> "Cell":
        """The cell of a file's stem.

        Raises:
            ValueError: The name is not `arm__question__rN`.
        """
        arm, question, repeat = name.split("__")
        if not repeat.startswith("r"):
            raise ValueError(name)
        return cls(arm, question, int(repeat[1:]))
