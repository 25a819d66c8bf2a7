"""How long one waits: `--help`, a cold `xq`, a ledger, the first paint of the console. Medians of interleaved runs.

    python benchmarks/start_times.py [--runs 15]

Every process is fresh; a bare `python -c pass` runs in every round, as the floor beneath all of them.
"""

import argparse
import fcntl
import os
import pty
import select
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CLICK = ROOT / "tests/data/corpus/click"
STREAM = ROOT / "tests/data/streams"
PAINTED = b"click-demo"
"""Stands in the first line of the console."""


def command(*arguments: str, environment: dict[str, str] | None = None) -> float:
    """Seconds of a whole process."""
    begun = time.perf_counter()
    # Without a timeout: waiting with one polls, in steps of up to 50 ms.
    subprocess.run(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=environment, check=True)
    return time.perf_counter() - begun


def first_paint(folder: Path, columns: int, lines: int) -> float:
    """Seconds until the name of the experiment is on a terminal of this size."""
    begun = time.perf_counter()
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm-256color"
        os.execv(sys.executable, [sys.executable, "-m", "tokenbench_tui", "attach", str(folder)])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    seen = b""
    try:
        while PAINTED not in seen:
            ready, _, _ = select.select([terminal], [], [], 20)
            if not ready:
                raise TimeoutError("the console painted nothing within 20 s")
            seen += os.read(terminal, 65536)
        return time.perf_counter() - begun
    finally:
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)
        os.close(terminal)


def prepare(folder: Path) -> dict[str, Callable[[], float]]:
    """What is measured, by name."""
    from tokenbench.rehearsal.demo import install
    from tokenbench.retrieval.access import write_access
    from tokenbench.retrieval.building import build_index

    experiment = folder / "experiment"
    install(experiment)
    index = folder / "index"
    build_index(CLICK, index, "0" * 64, lambda _text: None)
    access = folder / "xq.json"
    write_access(access, index=index, log=None)
    asking = {**os.environ, "TOKENBENCH_XQ": str(access)}
    stream = next(path for path in sorted(STREAM.rglob("normal3.jsonl")))
    python = sys.executable
    xq = shutil.which("xq", path=str(Path(python).parent)) or "xq"
    return {
        "python -c pass": lambda: command(python, "-c", "pass"),
        "tokenbench-tui --help": lambda: command(python, "-m", "tokenbench_tui", "--help"),
        "xq, cold": lambda: command(xq, "ClickException exit_code", environment=asking),
        "ledger of one run": lambda: command(python, "-m", "tokenbench_tui", "ledger", str(stream)),
        "first paint 80x24": lambda: first_paint(experiment, 80, 24),
        "first paint 160x48": lambda: first_paint(experiment, 160, 48),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=15, help="rounds; each runs everything once")
    rounds: int = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        subjects = prepare(Path(folder))
        times: dict[str, list[float]] = {name: [] for name in subjects}
        for _ in range(rounds + 1):
            for name, measure in subjects.items():
                times[name].append(measure())
    floor = statistics.median(times["python -c pass"][1:])
    print(f"{'milliseconds':24} {'min':>6} {'median':>7} {'max':>6} {'÷ python':>9}")
    for name, seconds in times.items():
        warm = seconds[1:]  # the first round fills the file cache
        middle = statistics.median(warm)
        print(f"{name:24} {min(warm) * 1e3:6.0f} {middle * 1e3:7.0f} {max(warm) * 1e3:6.0f} {middle / floor:9.1f}")


if __name__ == "__main__":
    main()
