#!/usr/bin/env bash
# The fault campaign: every known fault injected on purpose, and what must catch it asked whether it does; clean runs
# beside it must raise nothing. Exit 0 only if all are caught, none of the names is wrong, and no clean run is red.
# faults.sh: the quick one, a minute or two on two cores. faults.sh --whole: every site of every case, 2,000 clean runs.
# ASSAY_BUILD: another build folder. FAULT_SEED: what everything is drawn from (1).
set -Eeuo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${ASSAY_BUILD:-build/release}
assay=$build/bin/assay
reports=build/reports/faults
seed=${FAULT_SEED:-1}

case ${1:-} in
'') options=(--quick) ;;
--whole) options=(--clean 2800) ;; # of them at least 2,000 differ in bits
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

status=0
"$assay" fault run "${options[@]}" --seed "$seed" > "$reports/faults.txt" || status=$?
tail -n 3 "$reports/faults.txt" | sed 's/^/faults: /'
if [ "$status" -ne 0 ]; then
    cat "$reports/faults.txt" >&2
    echo "ci/faults.sh: failed: exit $status" >&2
    exit 1
fi
