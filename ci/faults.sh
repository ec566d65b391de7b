#!/usr/bin/env bash
# The fault campaign: every known fault injected on purpose, and what must catch it asked whether it does; clean runs
# beside it must raise nothing. Exit 0 only if all are caught, none of the names is wrong, and no clean run is red.
# faults.sh: the quick one, a minute or two on two cores. faults.sh --whole: every site of every case, then at least
# 2,000 clean runs over seeds, shapes and profiles whose bits are not the reference's; half an hour.
# ASSAY_BUILD: another build folder. FAULT_SEED: what everything is drawn from (1).
set -Eeuo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${ASSAY_BUILD:-build/release}
assay=$build/bin/assay
reports=build/reports/faults
seed=${FAULT_SEED:-1}
clean_least=2000

case ${1:-} in
'' | --whole) ;;
*)
    echo "usage: ci/faults.sh [--whole]" >&2
    exit 2
    ;;
esac

mkdir -p "$reports"
if [ ! -x "$assay" ]; then
    echo "ci/faults.sh: $assay is missing: ci/test.sh builds it" >&2
    exit 2
fi

# What was caught in which op is shown by `assay cover`, beside what the tests noted.
if [ -d "$build/cover" ]; then
    ASSAY_COVER=$(cd "$build/cover" && pwd)
    export ASSAY_COVER
fi

# campaign NAME OPTIONS: one run of it, kept as NAME.txt
campaign() {
    local report=$reports/$1.txt status=0
    shift
    "$assay" fault run "$@" --seed "$seed" > "$report" || status=$?
    tail -n 3 "$report" | sed 's/^/faults: /'
    if [ "$status" -ne 0 ]; then
        cat "$report" >&2
        echo "ci/faults.sh: failed: exit $status" >&2
        exit 1
    fi
}

if [ "${1:-}" != --whole ]; then
    campaign faults --quick
    exit 0
fi
campaign faults --clean 0
# Three of ten have the reference's bits, which prove nothing. Faults of files are the cheapest to go with them.
campaign clean --fault 'file.*' --seeds 12 --clean 3300
clean=$(sed -n 's/.*; \([0-9]*\) clean runs, .*/\1/p' "$reports/clean.txt")
if [ "${clean:-0}" -lt "$clean_least" ]; then
    echo "ci/faults.sh: failed: ${clean:-0} clean runs that differ in bits, wanted $clean_least" >&2
    exit 1
fi
