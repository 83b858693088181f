#!/usr/bin/env bash
# Refuse changes of proto/ that break clients built from an earlier commit.
# The baseline is $PROTO_BASELINE, else origin/main where we are ahead of it, else the last
# release's tag, else the previous commit.
set -euo pipefail
cd "$(dirname "$0")/.."

skip() { printf 'SKIPPED, nothing to compare with: %s\n' "$*"; exit 0; }
commit() { git rev-parse --verify --quiet "$1^{commit}" 2>/dev/null; }

baseline() {
  local head main
  head=$(commit HEAD) || return 1
  if [ -n "${PROTO_BASELINE:-}" ]; then commit "$PROTO_BASELINE"; return; fi
  if main=$(commit origin/main) && [ "$main" != "$head" ]; then git merge-base "$main" "$head"; return; fi
  if tag=$(git describe --tags --abbrev=0 --match 'v*' HEAD~1 2>/dev/null); then commit "$tag"; return; fi
  commit HEAD~1
}

command -v git >/dev/null || skip "git is not installed"
base=$(baseline) || skip "no earlier commit here (no repository, or a shallow clone)"
git cat-file -e "$base:proto" 2>/dev/null || skip "commit ${base:0:12} has no proto/"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
git archive "$base" proto buf.yaml | tar -x -C "$scratch"
.venv/bin/buf breaking --against "$scratch"
printf 'compatible with commit %s\n' "${base:0:12}"
