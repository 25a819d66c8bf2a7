"""Stands in for the claude CLI: prints captured transcripts, as the question tells it.

The announcement is that of the arm it was started for, everything else is as the real CLI printed it.
"""

import json
import os
import sys
import time
from pathlib import Path

DATA = Path(__file__).parents[2] / "data" / "runner"
VERSION = "2.1.332"


def option(name: str) -> str:
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else ""


def lines(name: str, *, announced: bool = True) -> list[bytes]:
    out = []
    for line in (DATA / name).read_bytes().splitlines(keepends=True):
        is_announcement = line.startswith(b'{"type":"system","subtype":"init"')
        out.append(announcement(line) if announced and is_announcement else line)
    return out


def announcement(line: bytes) -> bytes:
    row = json.loads(line)
    tools = [tool for tool in option("--tools").split(",") if tool]
    row.update(tools=tools, model=option("--model"), cwd=str(Path.cwd()), claude_code_version=VERSION)
    return json.dumps(row).encode() + b"\n"


def say(*what: bytes) -> None:
    sys.stdout.buffer.write(b"".join(what))
    sys.stdout.buffer.flush()


def wait_for(name: str) -> None:
    """A file beside the slots, made by the test."""
    gate = Path(os.environ["HOME"]).parents[1] / name
    while not gate.exists():
        time.sleep(0.01)


def main() -> int:
    if "--version" in sys.argv:
        print(f"{VERSION} (Claude Code)")
        return 0
    prompt = sys.stdin.read()
    attempt = int(os.environ["TOKENBENCH_RUN"].split("/")[-2])
    home = Path(os.environ["HOME"])
    if list(home.iterdir()) or list(Path(os.environ["TMPDIR"]).iterdir()):
        print("an earlier run is visible", file=sys.stderr)
        return 7
    (home / "trace").write_text("x")
    answered = lines("answered.jsonl")
    asked = prompt.split("Question:")
    words = asked[-2 if "--last-question-but-one" in sys.argv else -1].split()
    match words[0] if words else "":
        case "OVERLOADED" if attempt <= int(words[1]):
            say(*lines("overloaded.jsonl"))
            return 1
        case "UNANSWERED":
            rows = lines("overloaded.jsonl")
            last = max(number for number, line in enumerate(rows) if b'"api_retry"' in line)
            say(*rows[: last + 1])
            time.sleep(600)
        case "FAILED-LATER":
            retries = [line for line in lines("overloaded.jsonl") if b'"api_retry"' in line]
            say(*answered[:6], *retries)
            time.sleep(600)
        case "OVERLOADED-AT" if attempt == int(words[1]):
            say(*lines("overloaded.jsonl"))
            return 1
        case "NOTHING":
            print("no result today", file=sys.stderr)
            return 1
        case "HANG":
            say(*answered[:4])
            time.sleep(600)
        case "HANG-IN-TOOL":
            say(*answered[:3], next(line for line in answered if b'"tool_use"' in line))
            time.sleep(600)
        case "RESULT-THEN-HANG":
            say(*answered)
            time.sleep(600)
        case "MAX-TURNS":
            say(*lines("max_turns.jsonl"))
            return 1
        case "OTHER-TOOLS":
            say(*lines("answered.jsonl", announced=False))
            return 0
        case "GATE-AT" if attempt == int(words[1]):
            say(*answered[:6])
            wait_for("go")
            say(*answered[6:])
        case "OTHER-TOOLS-AT" if attempt == int(words[1]):
            say(*lines("answered.jsonl", announced=False))
        case "GATE":
            say(*answered[:6])
            wait_for(words[1])
            say(*answered[6:])
        case _:
            say(*answered)
    return 0


if __name__ == "__main__":
    sys.exit(main())
