"""Check docs/model/approval.pml with Spin: it holds, and each guard taken away breaks it.

    python tools/model.py quick     the small configurations and every mutant; about a minute
    python tools/model.py full      the large configurations; ten to forty minutes, up to 14 GB
    python tools/model.py run -DBATCHES=1 -DMOREDEC    one configuration by hand

Spin and gcc come from Debian (`apt-get install spin gcc`). Where one of them is missing nothing is
checked and a line says so, but with CI=true that is a failure.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

MODEL = Path(__file__).resolve().parent.parent / "docs" / "model" / "approval.pml"
TOOLS = ("spin", "gcc")
CORES = 2
MEGABYTES = 9000
"""For each of the configurations that run side by side."""


@dataclass(frozen=True)
class Case:
    """Flags of the model, and what must be violated: a part of the assertion; empty for nothing."""

    flags: str
    violates: str = ""


SMALL = "-DBATCHES=1"
ASK = "-DBATCHES=1 -DASKS=1 -DNORELEASE"
ASK_CALMLY = f"{ASK} -DNOCANCEL"
TWO = "-DNOCANCEL -DNORELEASE"

QUICK = (
    Case(SMALL),
    Case(ASK_CALMLY),
)
MUTANTS = (
    # A guard of the protocol is taken away.
    Case(f"{SMALL} -DNOJOURNAL -DNOFIN", "eff["),
    Case(f"{SMALL} -DNOFENCE", "nmsg"),
    Case(f"{SMALL} -DNOGUARD", "told"),
    Case(f"{SMALL} -DNOTOMBSTONE", "told"),
    Case(f"{TWO} -DNOGENCHECK", "adec["),
    Case(f"{ASK_CALMLY} -DNOGENCHECK", "ex["),
    Case(f"{SMALL} -DNORECON -DNOFIN", "((rst=="),
    Case(f"{SMALL} -DT2BEARLY", "assert"),
    Case(f"{SMALL} -DNOORDER", "nmsg"),
    Case(f"{SMALL} -DNOCLAIMBUMP", "nmsg"),
    Case(f"{SMALL} -DNOSTATE", "rst=="),
    Case(f"{SMALL} -DNORELEASE -DNOSTATE -DNOEPOCHBUMP", "ex["),
    # An earlier wording of the protocol.
    Case(f"{TWO} -DW_T2BID", "assert"),
    Case(f"{SMALL} -DW_WITHDRAWN", "((rst=="),
    Case("-DW_T5ID -DNORELEASE", "told"),
    Case(f"{SMALL} -DW_STORY", "ereq["),
    Case(f"{SMALL} -DW_SKIPSTARTED", "eff["),
    Case(f"{SMALL} -DW_LEFTSTARTED", "ex["),
    Case(f"{SMALL} -DW_LEFTNONE", "ex["),
    # Asking in the middle of a call.
    Case(f"{ASK_CALMLY} -DASKAFTER -DNOFIN", "eff["),
    Case(f"{ASK_CALMLY} -DASKBACK", "qdec["),
    Case(f"{ASK} -DNOASKFENCE", "ex["),
    Case(f"{ASK_CALMLY} -DW_LEFTASKED", "(2*bat)"),
    Case(f"{TWO} -DBATCHES=1 -DASKS=2 -DNOENTRY", "qentry["),
)
FULL = (
    Case(""),
    Case("-DBATCHES=1 -DASKS=1"),
)


@dataclass(frozen=True)
class Result:
    """What the verifier said: the violated assertion or an empty text, the size of the search."""

    violated: str
    states: int
    seconds: float
    megabytes: float
    complete: bool
    output: str


def main(arguments: Sequence[str]) -> int:
    """Return the process's exit status."""
    parser = argparse.ArgumentParser(description="Check the protocol's model with Spin.")
    parser.add_argument("what", choices=("quick", "full", "run"))
    parser.add_argument("flags", nargs=argparse.REMAINDER, help="of the model, for run")
    given = parser.parse_args(arguments)
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return skip(missing)
    cases = {
        "quick": (*QUICK, *MUTANTS),
        "full": FULL,
        "run": (Case(" ".join(given.flags)),),
    }[given.what]
    return 0 if check(cases) else 1


def skip(missing: Sequence[str]) -> int:
    """Say loudly that the model is not checked; a failure in CI."""
    names = " and ".join(missing)
    in_ci = os.environ.get("CI", "") not in ("", "0", "false")
    print(f"{'FAILED' if in_ci else 'SKIPPED'}: the model is NOT checked, {names} is not installed")
    return 1 if in_ci else 0


def check(cases: Sequence[Case]) -> bool:
    """Run the cases side by side and print a table; whether all came out as they must."""
    width = max(len(c.flags) for c in cases) + 2
    print(f"{'flags':{width}}{'states':>13}{'s':>7}{'MB':>7}  outcome")
    good = True
    with ThreadPoolExecutor(CORES) as pool:
        for case, result in zip(cases, pool.map(verify, cases), strict=True):
            verdict, fine = judge(case, result)
            good &= fine
            print(
                f"{case.flags or '(none)':{width}}{result.states:>13,}{result.seconds:>7.1f}"
                f"{result.megabytes:>7.0f}  {verdict}",
                flush=True,
            )
            if not fine:
                print(result.output)
    return good


def judge(case: Case, result: Result) -> tuple[str, bool]:
    """The outcome in words, and whether it is the one that must be."""
    if case.violates:
        if result.violated and case.violates in result.violated:
            return f"fails as it must: {result.violated[:60]}", True
        wrong = result.violated or "no error"
        return f"WRONG: must violate {case.violates}, but: {wrong}", False
    if result.violated:
        return f"WRONG: {result.violated}", False
    return ("no error", True) if result.complete else ("WRONG: search not completed", False)


def verify(case: Case) -> Result:
    """Generate, compile and run the verifier in a folder of its own."""
    flags = case.flags.split()
    with tempfile.TemporaryDirectory(prefix="hango-model-") as folder:
        started = time.monotonic()
        output = command(["spin", "-a", *flags, str(MODEL)], folder)
        # A mutant ends soon: there the compiler's time is what counts.
        speed = "-O0" if case.violates else "-O2"
        options = ["-DSAFETY", "-DCOLLAPSE", f"-DMEMLIM={MEGABYTES}", "-w"]
        output += command(["gcc", speed, *options, "pan.c", "-o", "pan"], folder)
        table = "-w22" if case.violates else "-w26"
        output += command(["./pan", "-m100000", table], folder)
        seconds = time.monotonic() - started
    violated = re.search(r"pan:\d+: (.*?) \(at depth", output)
    return Result(
        violated=violated[1] if violated else "",
        states=int(float(found(r"([\d.e+]+) states, stored", output))),
        seconds=seconds,
        megabytes=float(found(r"([\d.]+)\s+total actual memory usage", output)),
        complete="errors: 0" in output and "Search not completed" not in output,
        output=output,
    )


def found(pattern: str, text: str) -> str:
    """The first group of the pattern, 0 where it is not there."""
    match = re.search(pattern, text)
    return match[1] if match else "0"


def command(words: Iterable[str], folder: str) -> str:
    """Run it; all that it printed. The verifier's status says nothing: its text is read."""
    done = subprocess.run(
        list(words),
        cwd=folder,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
