"""Stands in for the agent CLI in tests of the till: asks the API for each message and prints what the call cost."""

import json
import os
import sys
import urllib.request
from pathlib import Path

MODE, STARTS = sys.argv[1:3]
MODEL = sys.argv[sys.argv.index("--model") + 1]
PRICE = 5e-6


def say(**event: object) -> None:
    print(json.dumps({"session_id": "s", **event}), flush=True)


def ask() -> dict[str, int]:
    request = urllib.request.Request(
        os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages",
        json.dumps({"model": MODEL, "messages": []}).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)["usage"]


with Path(STARTS).open("a") as file:
    file.write("x")
say(type="system", subtype="init", model=MODEL)
for turn, _ in enumerate(sys.stdin):
    if MODE == "silent":
        sys.exit(3)
    if MODE == "full" and turn == 2:
        say(type="result", uuid=str(turn), subtype="success", is_error=True, model_usage_since_last_result={})
        continue
    for _ in range(2 if MODE == "twice" else 1):
        usage = ask()
    cost = usage["input_tokens"] * PRICE
    entry = {"inputTokens": usage["input_tokens"], "costUSD": cost * (turn + 1) if MODE == "old" else cost}
    if MODE == "free":
        entry.pop("costUSD")
    since = {} if MODE == "old" else {"model_usage_since_last_result": {MODEL: entry}}
    say(
        type="result",
        uuid=str(turn),
        subtype="success",
        is_error=False,
        result="ok",
        modelUsage={MODEL: entry},
        **since,
    )
