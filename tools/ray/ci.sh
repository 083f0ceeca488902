#!/usr/bin/env bash
# The Ray launcher on two real Ray nodes of this machine, where Python and Ray can be had. TOKCLOCK_BINARY names
# the binary to run; without it only what carries bytes is tested.
set -euo pipefail
if [ -n "${TOKCLOCK_BINARY:-}" ]; then TOKCLOCK_BINARY=$(realpath "$TOKCLOCK_BINARY") && export TOKCLOCK_BINARY; fi
cd "$(dirname "$0")"

skip() { printf 'tools/ray: skipped: %s\n' "$*"; exit 0; }

command -v python3 >/dev/null || skip "no python3"
python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' || skip "python3 is older than 3.10"
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv" >"$place/log" 2>&1 || skip "python3 makes no virtual environment"
timeout 120 "$place/venv/bin/pip" install --quiet --retries 1 -e '.[test]' >"$place/log" 2>&1 ||
  skip "Ray is not to be had here: $(tail -n 1 "$place/log")"

# One load by two real nodes, and what needs none: the whole is in README.md.
code=0
TOKCLOCK_RAY_NODES=2 TOKCLOCK_RAY_MAY_SKIP=1 timeout --signal=INT --kill-after=60 200 "$place/venv/bin/python" -m pytest -q -rs "$@" \
  tests/test_parts.py tests/test_load.py::test_one_load_in_parts_is_the_whole_load || code=$?
[ "$code" -ne 124 ] || skip "it took longer than 200 s"
exit "$code"
