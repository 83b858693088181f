#!/usr/bin/env bash
# Make .venv hold exactly what requirements.lock says, and the checkout itself (editable).
# Usage: tools/setup.sh [PYTHON]. Needs Python >= 3.11 and a package index, nothing else.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=.venv

fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }
say() { printf 'setup: %s\n' "$*"; }
recent() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

find_python() {
  local candidate
  if [ -n "${1:-}" ]; then
    recent "$1" || fail "$1 is not Python 3.11 or later"
    echo "$1"
    return
  fi
  for candidate in python3.11 python3.12 python3.13 python3 python; do
    if recent "$candidate"; then echo "$candidate"; return; fi
  done
  fail "no Python 3.11 or later found; install one, or say 'make setup PYTHON=/path/to/python3.11'"
}

# Debian splits the standard library: its plain python3 can make no environment with pip in it.
make_venv() {
  local python=$1
  if "$python" -c 'import ensurepip' 2>/dev/null; then
    "$python" -m venv "$venv"
  elif "$python" -m pip --version >/dev/null 2>&1; then
    "$python" -m venv --without-pip "$venv"
    "$python" -m pip --python "$venv/bin/python" install --quiet pip
  else
    fail "$python has neither ensurepip nor pip; on Debian and Ubuntu: apt-get install python3-venv"
  fi
}

python=$(find_python "${1:-}")
if [ -e "$venv" ] && ! { recent "$venv/bin/python" && "$venv/bin/python" -m pip --version >/dev/null 2>&1; }; then
  say "$venv is broken or too old; making it anew"
  rm -rf "$venv"
fi
if [ ! -e "$venv" ]; then
  say "environment ($("$python" --version))"
  make_venv "$python"
fi

caches=${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}
if ! { mkdir -p "$caches" && [ -w "$caches" ]; } 2>/dev/null; then
  export UV_NO_CACHE=1 PIP_NO_CACHE_DIR=1 # an account without a home of its own
fi

say "packages (the first time takes about a minute)"
pip=("$venv/bin/python" -m pip --disable-pip-version-check install --quiet --require-hashes)
"${pip[@]}" -r tools/uv.txt
export VIRTUAL_ENV="$PWD/$venv" UV_LINK_MODE=${UV_LINK_MODE:-copy}
uv=("$venv/bin/uv" --quiet pip install)
if ! "${uv[@]}" --require-hashes -r requirements.lock; then
  say "uv could not install them (a package index that only pip knows?); trying pip, which is slower"
  "${pip[@]}" -r requirements.lock
fi
say "hango itself"
"${uv[@]}" --no-deps --no-build-isolation --editable .
say "done"
