"""Regenerate the stubs in `libs/hango/<domain>/v1` from `proto/`, or check that they are current.

    python tools/generate.py            write the stubs
    python tools/generate.py --check    write nothing; list what differs and exit 1

The generators are grpcio-tools and mypy-protobuf, pinned by requirements.lock, so that the same
proto files give the same bytes everywhere. `__init__.py` files are ours, made when missing.
"""

import argparse
import shutil
import sys
import sysconfig
import tempfile
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"
STUBS = ROOT / "libs"
GENERATED = "hango/*/v1/*_pb2*.py*"


def main() -> int:
    """Return the process's exit status."""
    parser = argparse.ArgumentParser(description="Generate the stubs from proto/.")
    parser.add_argument("--check", action="store_true", help="compare only; fail on a difference")
    check: bool = parser.parse_args().check
    with tempfile.TemporaryDirectory() as scratch:
        fresh = Path(scratch)
        if not generate(fresh):
            return 1
        differences = compare(fresh)
        if not check:
            install(fresh)
    for line in differences:
        print(line)
    if check and differences:
        print("The stubs do not match proto/: run `make generate` and commit the result.")
        return 1
    print(f"stubs {'match proto/' if check else 'written'}, {len(differences)} changed")
    return 0


def generate(target: Path) -> bool:
    """Generate all stubs below `target`; False if protoc refused (it said why on stderr)."""
    scripts = Path(sysconfig.get_path("scripts"))
    arguments = [
        f"--proto_path={PROTO}",
        f"--proto_path={files('grpc_tools') / '_proto'}",
        f"--plugin=protoc-gen-mypy={scripts / 'protoc-gen-mypy'}",
        f"--plugin=protoc-gen-mypy_grpc={scripts / 'protoc-gen-mypy_grpc'}",
        f"--python_out={target}",
        f"--mypy_out=quiet:{target}",
        f"--grpc_python_out={target}",
        f"--mypy_grpc_out=quiet:{target}",
        *(str(path.relative_to(PROTO)) for path in sorted(PROTO.rglob("*.proto"))),
    ]
    return bool(protoc.main(["protoc", *arguments]) == 0)


def compare(fresh: Path) -> list[str]:
    """One line for each file that is missing, left over or different in the checkout."""
    wanted, present = _contents(fresh), _contents(STUBS)
    lines = [f"  missing    {name}" for name in wanted.keys() - present.keys()]
    lines += [f"  left over  {name}" for name in present.keys() - wanted.keys()]
    lines += [
        f"  differs    {name}"
        for name in wanted.keys() & present.keys()
        if wanted[name] != present[name]
    ]
    return sorted(lines)


def install(fresh: Path) -> None:
    """Put the generated files into the checkout and remove those that have no proto any more."""
    wanted, present = _contents(fresh), _contents(STUBS)
    for name in present.keys() - wanted.keys():
        (STUBS / name).unlink()
    for name in wanted:
        target = STUBS / name
        for package in (target.parent.parent, target.parent):
            package.mkdir(parents=True, exist_ok=True)
            (package / "__init__.py").touch()
        shutil.copyfile(fresh / name, target)


def _contents(base: Path) -> dict[str, bytes]:
    return {str(path.relative_to(base)): path.read_bytes() for path in base.glob(GENERATED)}


if __name__ == "__main__":
    sys.exit(main())
