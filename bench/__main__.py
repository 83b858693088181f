"""`python -m bench`: cycles a second through gRPC, beside the peers, in one run."""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from bench import audit, cycle, models
from bench.peers import FOLDER, Peers

_TITLES = {
    "hango": "hango, through gRPC",
    "a": "LangGraph HITL, in process",
    "f": "floor: 5 commits",
}


def main() -> int:
    """Measure, print a table, and fail where a run did not execute its tool exactly once."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("what", nargs="?", choices=("cycle", "audit", "models"), default="cycle")
    parser.add_argument("--reps", type=int, default=3, help="repeats; each system in turn")
    parser.add_argument("--seconds", type=float, default=6, help="one cell")
    parser.add_argument("--concurrency", default="1,16", help="cycles at a time, by commas")
    parser.add_argument("--peers", default="a,f", help="of the comparison; empty for none")
    options = parser.parse_args()
    match options.what:
        case "audit":
            return _audit()
        case "models":
            return _models(options.seconds)
        case _:
            return _cycles(options)


def _audit() -> int:
    found = audit.measure()
    sys.stdout.write(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores\n\n")
    sys.stdout.write("| audit chain on | measured | wanted |\n|---|---|---|\n")
    sys.stdout.write(
        f"| decides/s over {audit.TENANTS} tenants | {found['decides']:.0f} | 300 |\n"
        f"| rows/s verified, median (min-max) | {_spread(found['verifies'])} | 50000 |\n"
    )
    return 0


def _models(seconds: float) -> int:
    found = models.measure(seconds)
    sys.stdout.write(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores\n\n")
    sys.stdout.write("| models | measured | wanted |\n|---|---|---|\n")
    sys.stdout.write(
        f"| runs/s finished, {models.SLOTS} slots, a model of {models.DELAY:g} s "
        f"| {found['rate']:.1f} | 50 |\n"
        f"| health check beside it, p99 | {1000 * found['lag']:.1f} ms | 50 ms |\n"
        f"| refused meanwhile, since the database was busy | {found['refused']} | |\n"
        f"| cycle after 10 messages | {1000 * found['short']:.1f} ms | |\n"
        f"| cycle after 1,000 messages | {1000 * found['long']:.1f} ms "
        f"({found['long'] / found['short']:.2f} times) | 3 times |\n"
        f"| importing the SDK | {1000 * found['import']:.0f} ms | 500 ms |\n"
    )
    return 0


def _cycles(options: argparse.Namespace) -> int:
    concurrencies = [int(c) for c in options.concurrency.split(",")]
    rates: dict[tuple[str, int], list[float]] = defaultdict(list)
    latencies: dict[int, list[tuple[float, float, float]]] = defaultdict(list)
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="hango-bench-peers-") as folder:
        Path(folder).chmod(0o755)
        peers = Peers(Path(folder)) if options.peers and FOLDER.exists() else None
        for rep in range(options.reps):
            for cell in cycle.measure(concurrencies, options.seconds):
                rates["hango", cell["c"]].append(cell["rate"])
                latencies[cell["c"]] += cell["samples"]
                wrong += cell["not_once"]
                _say(f"rep {rep} hango c={cell['c']}: {cell['rate']:.1f}/s")
            if peers is None:
                continue
            for cell in peers.measure(options.peers, concurrencies, options.seconds):
                rates[cell["peer"], cell["c"]].append(cell["rate"])
                _say(f"rep {rep} {cell['peer']} c={cell['c']}: {cell['rate']:.1f}/s")
    _print_tables(rates, latencies, concurrencies)
    sys.stdout.write(f"\nRuns whose tool did not run exactly once: {wrong}\n")
    return 1 if wrong else 0


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


def _print_tables(
    rates: dict[tuple[str, int], list[float]],
    latencies: dict[int, list[tuple[float, float, float]]],
    concurrencies: list[int],
) -> None:
    out = sys.stdout.write
    out(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores\n\n")
    out("| cycles/s, median (min-max) | " + " | ".join(f"c={c}" for c in concurrencies) + " |\n")
    out("|---|" + "---|" * len(concurrencies) + "\n")
    for who in dict.fromkeys(key for key, _ in rates):
        cells = [_spread(rates[who, c]) for c in concurrencies]
        out(f"| {_TITLES.get(who, who)} | " + " | ".join(cells) + " |\n")
    for who in dict.fromkeys(key for key, _ in rates):
        if who != "hango":
            cells = [_spread(_ratios(rates["hango", c], rates[who, c])) for c in concurrencies]
            out(f"| hango / {who}, pairs of a repeat | " + " | ".join(cells) + " |\n")
    out("\n| hango, ms: p50 / p95 / p99 | to the pause | decide | decide to the end |\n")
    out("|---|---|---|---|\n")
    for c in concurrencies:
        columns: list[Any] = [_percentiles(column) for column in zip(*latencies[c], strict=True)]
        out(f"| c={c} | " + " | ".join(columns) + " |\n")


def _spread(values: list[float]) -> str:
    if not values:
        return "-"
    return f"{statistics.median(values):.1f} ({min(values):.1f}-{max(values):.1f})"


def _ratios(ours: list[float], theirs: list[float]) -> list[float]:
    return [a / b for a, b in zip(ours, theirs, strict=False) if b]


def _percentiles(values: tuple[float, ...]) -> str:
    ordered = sorted(values)
    picks = [ordered[min(len(ordered) - 1, int(len(ordered) * q))] for q in (0.5, 0.95, 0.99)]
    return " / ".join(f"{1000 * v:.1f}" for v in picks)


if __name__ == "__main__":
    sys.exit(main())
