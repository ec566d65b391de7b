#!/usr/bin/env bash
# Builds with gcov, runs the tests (without the longest, which reach no line of core/ and ref/ that others do not),
# prints the share of lines of core/ and ref/ that ran.
# Usage: ci/coverage.sh [--min PERCENT]     exit 1 below it. The list by file: build/coverage/coverage.txt
set -Eeuo pipefail

min=0
case ${1:-} in
"") ;;
--min) min=${2:?"ci/coverage.sh: --min needs a percentage"} ;;
*)
    echo "ci/coverage.sh: unknown word: $1 (usage: ci/coverage.sh [--min PERCENT])" >&2
    exit 2
    ;;
esac

cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
build=$root/build/coverage
gcov=${GCOV:-gcov}

if ! command -v "$gcov" > /dev/null; then
    echo "ci/coverage.sh: $gcov is missing: it comes with gcc, GCOV names another" >&2
    exit 3
fi
mkdir -p "$build"
cmake --preset coverage > "$build/configure.log"
cmake --build --preset coverage --parallel "$(nproc)" > "$build/build.log"
find "$build" -name '*.gcda' -delete
# On one core: the counters of a line are shared, and two threads that count the same line wait for each other's
# cache most of the time.
one_core=()
if command -v taskset > /dev/null; then one_core=(taskset -c "$(taskset -cp $$ | sed 's/.*: *\([0-9]*\).*/\1/')"); fi
if ! "${one_core[@]}" ctest --preset coverage --no-tests=error > "$build/ctest.log" 2>&1; then
    cat "$build/ctest.log" >&2
    echo "ci/coverage.sh: failed: tests (no coverage figure from a red run)" >&2
    exit 1
fi

# gcov -t prints "count:line:text". A source that is compiled more than once (kernels) counts each line once.
find "$build" -name '*.gcda' -print0 |
    xargs -0 "$gcov" --stdout --relative-only --source-prefix "$root" |
    awk -F: -v min="$min" '
    $3 == "Source" { file = $4; next }
    file !~ /^(core|ref)\// || $1 ~ /^ *-$/ { next }
    { key = file ":" $2; if (!(key in seen)) { seen[key] = 1; lines[file]++ } }
    $1 !~ /[#=]/ && !(key in ran) { ran[key] = 1; hits[file]++ }
    END {
        for (file in lines) {
            printf "%6.1f %%  %5d of %5d  %s\n", 100 * hits[file] / lines[file], hits[file], lines[file], file
            all += lines[file]
            run += hits[file]
        }
        if (all == 0) { print "ci/coverage.sh: no line was instrumented" > "/dev/stderr"; exit 1 }
        share = 100 * run / all
        printf "coverage: %.1f %% of %d lines in core/ and ref/\n", share, all
        if (!(share >= min)) { printf "ci/coverage.sh: below %s %%\n", min > "/dev/stderr"; exit 1 }
    }' > "$build/coverage.unsorted" || status=$?
grep -v '^coverage:' "$build/coverage.unsorted" | sort -n > "$build/coverage.txt"
grep '^coverage:' "$build/coverage.unsorted"
exit "${status:-0}"
