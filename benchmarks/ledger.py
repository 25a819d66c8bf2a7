"""How fast transcripts become ledgers, and in how much memory. Medians of interleaved runs.

    python benchmarks/ledger.py [--megabytes 300] [--runs 5] [--ccusage PATH]

Transcripts are made from the rows of a captured run (tests/data/streams) and the text of the test corpus, the same ones
every time. `long` has tool results of 0.5 to 40 KB, of which the CLI prints a copy in `tool_use_result`: 120 lines a
MB, and results with their copies are 90 % of the bytes. `raw` has the raw events of partial messages too: 1,500 lines a
MB, of which 91 % are pieces of content with 36 % of the bytes. All subjects are fresh processes:

    ledgers    `tokenbench-tui ledger --json` over all files, in two processes
    ledger     the same over one file, of all the megabytes and of a twelfth: memory must not grow with it
    line       the same over one transcript that holds one line of 100 MB, `long` only
    start      the same over one small capture: what importing costs
    limit      reads the files and splits their lines
    json       a loop over stdlib json that adds up the counters of each message id: counters only, no ledger
    orjson     the same with orjson, where it is installed: counters only
    ccusage    `claude daily --json --offline` over the same calls as session files, where its binary is named: counters
               only

MB/s is wall time, start included. Where other processes keep the cores busy, MB a CPU second is the steadier figure:
two cores do twice that. Peak memory is that of the largest process;
`ledgers` has three, of which the two that read are alike.
"""

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
CAPTURE = ROOT / "tests/data/streams/claude-2.1.332/normal3.jsonl"
CORPUS = ROOT / "tests/data/corpus"
SIZES = (500, 2_000, 6_000, 12_000, 24_000, 40_000)
"""Characters of tool results, in turn."""
SAID = 600
"""Characters of a text or thinking block."""
FILES = 12
COUNTERS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
COUNT = """
import sys
if sys.argv[1] == "limit":
    for path in sys.argv[2:]:
        with open(path, "rb", buffering=1 << 20) as file:
            for line in file:
                pass
    sys.exit()
loads = __import__(sys.argv[1]).loads
total = 0
for path in sys.argv[2:]:
    calls = {}
    with open(path, "rb", buffering=1 << 20) as file:
        for line in file:
            row = loads(line)
            if row.get("type") == "assistant":
                usage = row["message"]["usage"]
                calls[row["message"]["id"]] = sum(usage.get(name) or 0 for name in COUNTERS)
    total += sum(calls.values())
print(total)
""".replace("COUNTERS", repr(COUNTERS))


def corpus_text() -> str:
    """The corpus as one text, long enough to cut results out of."""
    files = sorted(path for path in CORPUS.rglob("*.py") if path.is_file())
    text = "".join(path.read_text(errors="replace") for path in files)
    return text * (1 + 200_000 // len(text))


class Writer:
    """Writes transcripts that reconcile."""

    def __init__(self, *, raw: bool) -> None:
        rows: list[dict[str, Any]] = [json.loads(line) for line in CAPTURE.read_text().splitlines()]
        self._raw = raw
        self._init = rows[0]
        self._result = next(row for row in rows if row["type"] == "result")
        blocks = [(row, row["message"]["content"][0]["type"]) for row in rows if row["type"] == "assistant"]
        self._of_kind = {kind: row for row, kind in reversed(blocks)}
        self._user = next(row for row in reversed(rows) if row["type"] == "user")
        self._text = corpus_text()
        self._number = 0

    def write(self, path: Path, size: int, name: str) -> None:
        """One transcript of about this size, in bytes."""
        self._number = 0
        calls = 0
        written = 0
        with path.open("wb") as file:
            for row in [self._init]:
                written += file.write(_line(row))
            while written < size:
                calls += 1
                for row in self._turn(f"msg_{name}_{calls:06d}", calls):
                    written += file.write(_line(row))
            file.write(_line(self._end(calls)))

    def write_line(self, path: Path, size: int) -> None:
        """A transcript of one call, whose tool printed so much that the CLI's own copy makes a line of this size."""
        self._number = 0
        with path.open("wb") as file:
            file.write(_line(self._init))
            *rows, result = self._turn("msg_line_000001", 1)
            copy = {"type": "text", "file": {"content": self._text * (size // len(json.dumps(self._text)))}}
            for row in (*rows, {**result, "tool_use_result": copy}, self._end(1)):
                file.write(_line(row))

    def _turn(self, message_id: str, call: int) -> Iterator[dict[str, Any]]:
        at = call * 7_919 % 100_000
        said = self._text[at : at + SAID]
        tool_id = f"toolu_{message_id}"
        blocks = (
            {"type": "thinking", "thinking": said, "signature": "EqoBCkgIChABGAIiQL8mock"},
            {"type": "text", "text": said[::-1]},
            {"type": "tool_use", "id": tool_id, "name": "Read", "input": {"file_path": f"/srv/repo/{call}.py"}},
        )
        if self._raw:
            message: dict[str, Any] = {
                **self._of_kind["text"]["message"],
                "id": message_id,
                "content": [],
                "usage": _usage(1),
            }
            yield self._event({"type": "message_start", "message": message})
        for index, block in enumerate(blocks):
            if self._raw:
                for start in range(0, SAID, 24):
                    delta = {"type": "text_delta", "text": said[start : start + 24]}
                    yield self._event({"type": "content_block_delta", "index": index, "delta": delta})
            row = self._of_kind[block["type"]]
            message = {**row["message"], "id": message_id, "content": [block], "usage": _usage(1)}
            yield self._new(row, message=message)
        if self._raw:
            yield self._event({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": _usage(50)})
            yield self._event({"type": "message_stop"})
        result = self._text[at : at + SIZES[call % len(SIZES)]]
        content = [{"tool_use_id": tool_id, "type": "tool_result", "content": result}]
        copy = {"type": "text", "file": {"filePath": f"/srv/repo/{call}.py", "content": result, "numLines": 9}}
        yield self._new(self._user, message={"role": "user", "content": content}, tool_use_result=copy)

    def _end(self, calls: int) -> dict[str, Any]:
        usage = {name: value * calls for name, value in _usage(50).items() if isinstance(value, int)}
        (model,) = self._result["modelUsage"]
        entry = {
            **self._result["modelUsage"][model],
            "inputTokens": usage["input_tokens"],
            "outputTokens": usage["output_tokens"],
            "cacheReadInputTokens": usage["cache_read_input_tokens"],
            "cacheCreationInputTokens": usage["cache_creation_input_tokens"],
            "cacheCreationEphemeral5mInputTokens": usage["cache_creation_input_tokens"],
            "cacheCreationEphemeral1hInputTokens": 0,
        }
        split = {"ephemeral_5m_input_tokens": usage["cache_creation_input_tokens"], "ephemeral_1h_input_tokens": 0}
        return self._new(
            self._result,
            usage={**self._result["usage"], **usage, "cache_creation": split},
            modelUsage={model: entry},
            model_usage_since_last_result={model: entry},
            num_turns=calls + 1,
        )

    def _event(self, event: dict[str, Any]) -> dict[str, Any]:
        row = {"type": "stream_event", "event": event, "session_id": self._init["session_id"]}
        return self._new(row, parent_tool_use_id=None)

    def _new(self, row: dict[str, Any], **fields: Any) -> dict[str, Any]:
        self._number += 1
        return {**row, **fields, "uuid": f"00000000-0000-4000-8000-{self._number:012d}"}


def _usage(output: int) -> dict[str, Any]:
    return {
        "input_tokens": 3,
        "cache_creation_input_tokens": 900,
        "cache_read_input_tokens": 21_000,
        "cache_creation": {"ephemeral_5m_input_tokens": 900, "ephemeral_1h_input_tokens": 0},
        "output_tokens": output,
        "service_tier": "standard",
    }


def _line(row: dict[str, Any]) -> bytes:
    return json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def sessions(folder: Path, files: list[Path]) -> Path:
    """The same calls as ccusage reads them: session files below `projects/`, with time stamps and request ids."""
    home = folder / "ccusage" / "projects" / "-srv-repo"
    home.mkdir(parents=True)
    for path in files:
        with path.open("rb") as lines, (home / path.name).open("wb") as file:
            for number, line in enumerate(lines):
                row = json.loads(line)
                if row["type"] in {"assistant", "user"}:
                    row |= {"sessionId": path.stem, "timestamp": "2026-11-30T20:51:59.095Z", "version": "2.1.332"}
                    row["requestId"] = (row.get("message") or {}).get("id", f"r{number}")
                    file.write(_line(row))
    return home.parents[1]


class Measured(NamedTuple):
    """One process with its children."""

    seconds: float
    cpu: float
    """Seconds."""
    peak: float
    """MB of the largest process."""


WATCH = """
import json, resource, subprocess, sys, time
begun = time.perf_counter()
subprocess.run(json.loads(sys.argv[1]), stdout=subprocess.DEVNULL, check=False)
seconds = time.perf_counter() - begun
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([seconds, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6]))
"""


def measure(argv: list[str], environment: dict[str, str] | None = None) -> Measured:
    """Run a process. A watcher between it and this one has no other children to be mixed up with."""
    watcher = [sys.executable, "-c", WATCH, json.dumps(argv)]
    done = subprocess.run(watcher, env=environment, capture_output=True, check=True, stdin=subprocess.DEVNULL)
    return Measured(*json.loads(done.stdout))


def following(path: Path) -> tuple[float, float, float]:
    """Milliseconds a line of a ledger that follows a run: median, 99 %, worst."""
    from tokenbench.ledger.build import LedgerBuilder
    from tokenbench.transcripts.lines import read_lines

    builder = LedgerBuilder(transcript="followed")
    took: list[float] = []
    for line in read_lines(path):
        begun = time.perf_counter()
        builder.feed(line)
        builder.live()
        took.append(time.perf_counter() - begun)
    took.sort()
    return statistics.median(took) * 1e3, took[int(len(took) * 0.99)] * 1e3, took[-1] * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=300, help="of transcripts, for each shape")
    parser.add_argument("--runs", type=int, default=5, help="rounds; each runs everything once")
    parser.add_argument("--ccusage", help="the binary of @ccusage/ccusage-linux-x64")
    arguments = parser.parse_args()
    total: int = arguments.megabytes * 1_000_000
    python, ledger = sys.executable, [sys.executable, "-m", "tokenbench_tui", "ledger", "--json"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subjects: dict[str, tuple[list[str], int, dict[str, str] | None]] = {
            "start": ([*ledger, str(CAPTURE)], CAPTURE.stat().st_size, None)
        }
        for shape in ("long", "raw"):
            writer = Writer(raw=shape == "raw")
            files = [folder / f"{shape}{number:02d}.jsonl" for number in range(FILES)]
            for path in files:
                writer.write(path, total // FILES, path.stem)
            paths, size = [str(path) for path in files], sum(path.stat().st_size for path in files)
            one = folder / f"{shape}.jsonl"
            writer.write(one, total, "one")
            if shape == "long":
                line = folder / "line.jsonl"
                writer.write_line(line, 100_000_000)
                subjects["long: ledger, 100 MB line"] = ([*ledger, str(line)], line.stat().st_size, None)
            subjects[f"{shape}: ledgers, {FILES} files"] = ([*ledger, *paths], size, None)
            subjects[f"{shape}: ledger, 1 file"] = ([*ledger, str(one)], one.stat().st_size, None)
            subjects[f"{shape}: ledger, 1 small file"] = ([*ledger, paths[0]], files[0].stat().st_size, None)
            subjects[f"{shape}: limit"] = ([python, "-c", COUNT, "limit", *paths], size, None)
            subjects[f"{shape}: json, counters"] = ([python, "-c", COUNT, "json", *paths], size, None)
            if importlib.util.find_spec("orjson") is not None:
                subjects[f"{shape}: orjson, counters"] = ([python, "-c", COUNT, "orjson", *paths], size, None)
            if arguments.ccusage and shape == "long":
                home = sessions(folder, files)
                held = sum(path.stat().st_size for path in home.rglob("*.jsonl"))
                environment = {**os.environ, "CLAUDE_CONFIG_DIR": str(home), "HOME": str(folder)}
                command = [arguments.ccusage, "claude", "daily", "--json", "--offline"]
                subjects[f"{shape}: ccusage, counters"] = (command, held, environment)
        results: dict[str, list[Measured]] = {subject: [] for subject in subjects}
        for _ in range(arguments.runs):
            for subject, (argv, _, environment) in subjects.items():
                results[subject].append(measure(argv, environment))
        print(f"{'':28} {'MB':>5} {'s':>6} {'MB/s':>6} {'CPU s':>6} {'MB/CPU s':>8} {'peak MB':>8}")
        for subject, measured in results.items():
            size = subjects[subject][1] / 1e6
            seconds = statistics.median(one.seconds for one in measured)
            cpu = statistics.median(one.cpu for one in measured)
            peak = max(one.peak for one in measured)
            speed = size / seconds
            print(f"{subject:28} {size:5.0f} {seconds:6.2f} {speed:6.0f} {cpu:6.2f} {size / cpu:8.0f} {peak:8.0f}")
        print(f"\n{'following, ms a line':28} {'median':>6} {'99 %':>7} {'worst':>6}")
        for shape in ("long", "raw"):
            median, most, worst = following(folder / f"{shape}00.jsonl")
            print(f"{shape:28} {median:6.3f} {most:7.3f} {worst:6.1f}")


if __name__ == "__main__":
    main()
