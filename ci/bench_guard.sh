#!/usr/bin/env bash
# What `assay guard` costs a Python program beside running it alone: a numeric script (at most 1.02), and 1e6 narrow
# KeyError handlers (at most 1.05). Pairs of runs one after the other, in turns, so that both see the same machine; the
# ratio is the median of the pairs' ratios of user and system time. Start-up (seconds once) is in both and shown alone.
# The handlers again with --deep, where the Python is 3.12 or later; for that there is no bound.
# Usage: ci/bench_guard.sh [FOLDER [PAIRS]]     writes FOLDER/guard.json (default reports/measured, 15 pairs)
set -Eeuo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
assay=${ASSAY:-build/release/bin/assay}
python=${ASSAY_PYTHON:-python3}
out=${1:-reports/measured}
pairs=${2:-15}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
unset PYTHONDONTWRITEBYTECODE # as it is after the first run: the guard's own modules are compiled once

# Both hold a broad handler, so that they are instrumented; neither enters it.
cat > "$work/numeric.py" << 'SCRIPT'
def work(n):
    total = 0.0
    for i in range(1, n):
        total += (i * 1.000001) / (i + 1.5)
    return total
try:
    print(work(40_000_000))
except Exception:
    pass
SCRIPT
cat > "$work/narrow.py" << 'SCRIPT'
def work(n):
    table, missed = {}, 0
    for i in range(n):
        try:
            table[i]
        except KeyError:
            missed += 1
    return missed
try:
    for _ in range(12):
        print(work(1_000_000))
except Exception:
    pass
SCRIPT
echo 'try: pass
except Exception: pass' > "$work/start.py"

TIMEFORMAT='%U %S'
cpu() { { time "$@" > "$work/said" 2>&1; } 2>&1 | awk '{ print $1 + $2 }'; }
# NAME SCRIPT OPTION...
measure() {
    local name=$1 script=$work/$2.py
    shift 2
    for ((i = 0; i < pairs; i++)); do
        if ((i % 2)); then
            plain=$(cpu "$python" "$script") guarded=$(cpu "$assay" guard "$@" -- "$python" "$script")
        else
            guarded=$(cpu "$assay" guard "$@" -- "$python" "$script") plain=$(cpu "$python" "$script")
        fi
        echo "$plain $guarded"
    done > "$work/$name.pairs"
}
median() { sort -g "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
ratio() { awk '{ print $2 / $1 }' "$work/$1.pairs" > "$work/ratios" && median "$work/ratios"; }
extra() { awk '{ print $2 - $1 }' "$work/$1.pairs" > "$work/extra" && median "$work/extra"; }

for name in numeric narrow start; do measure "$name" "$name"; done
numeric=$(ratio numeric) narrow=$(ratio narrow) start=$(extra start) deep=null
if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 12))'; then
    measure deep narrow --deep
    deep=$(ratio deep)
fi
model=$(sed -n 's/^model name.*: //p;/^model name/q' /proc/cpuinfo | head -1)
awk -v a="$numeric" -v b="$narrow" -v d="$deep" -v s="$start" -v n="$pairs" -v cpu="$model, $(nproc) cores" -v date="$(date -u +%F)" \
    -v commit="$(git rev-parse --short HEAD)" -v python="$("$python" -V)" 'BEGIN {
    printf "{\n \"what\": \"CPU time of a Python program under guard beside alone; %d pairs, median of ratios\",\n", n
    printf " \"command\": \"ci/bench_guard.sh\",\n \"numeric_ratio\": %.4f,\n \"numeric_bound\": 1.02,\n", a
    printf " \"narrow_ratio\": %.4f,\n \"narrow_bound\": 1.05,\n \"start_seconds\": %.4f,\n", b, s
    printf " \"narrow_deep_ratio\": %s,\n", d
    printf " \"date\": \"%s\",\n \"commit\": \"%s\",\n \"python\": \"%s\",\n \"device\": \"%s\"\n}\n", date, commit, python, cpu
}' > "$out/guard.json"
echo "numeric $numeric (at most 1.02), narrow handlers $narrow (at most 1.05; with --deep $deep), start-up $start s once"
awk -v a="$numeric" -v b="$narrow" 'BEGIN { exit !(a <= 1.02 && b <= 1.05) }'
