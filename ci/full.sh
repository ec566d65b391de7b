#!/usr/bin/env bash
# Everything that is too slow for every change: the tests under sanitizers, coverage with a floor (a plain debug
# build), fuzzing, a long sweep of the ops, the whole fault campaign. Exit 0 only if all of it holds.
# About an hour on two cores. FUZZ_SECONDS: of each fuzz target (60). SWEEP_COUNT: cases an op (2000).
set -Eeuo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
fuzz_seconds=${FUZZ_SECONDS:-60}
sweep_count=${SWEEP_COUNT:-2000}
jobs=$(nproc)
stage=start
trap 'echo "ci/full.sh: failed: $stage" >&2' ERR

begin() {
    stage=$*
    echo "full: $stage"
}

# The tests of one preset, warnings as errors.
preset() {
    begin "preset $1"
    mkdir -p "build/$1"
    cmake --preset "$1" -DASSAY_WERROR=ON > "build/$1/configure.log"
    cmake --build --preset "$1" --parallel "$jobs" > "build/$1/build.log"
    ctest --preset "$1" --parallel "$jobs" --no-tests=error
}

# One fuzz target on a copy of its corpus; a finding is kept under build/fuzz/findings.
fuzz_one() {
    local build=build/fuzz name=${1##*/fuzz_}
    name=${name%.c}
    mkdir -p "$build/corpus/$name"
    LSAN_OPTIONS=suppressions=tests/fuzz/lsan.supp \
        "$build/tests/fuzz_$name" -max_total_time="$fuzz_seconds" -rss_limit_mb=4096 \
        -artifact_prefix="$build/findings/$name-" -print_final_stats=1 "$build/corpus/$name" \
        "tests/fuzz/corpus/$name" > "$build/$name.log" 2>&1 || {
        tail -n 40 "$build/$name.log" >&2
        return 1
    }
    echo "full: fuzz $name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$build/$name.log") inputs, no finding"
}

# Every target, as many at a time as there are cores.
fuzz() {
    local build=build/fuzz
    begin "fuzz targets, $fuzz_seconds s each"
    mkdir -p "$build/findings"
    CC=clang cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DASSAY_FUZZ=ON -DASSAY_CUDA=OFF > "$build/configure.log"
    cmake --build "$build" --parallel "$jobs" > "$build/build.log"
    export -f fuzz_one
    export fuzz_seconds
    printf '%s\n' tests/fuzz/fuzz_*.c | xargs -P "$jobs" -I{} bash -c 'fuzz_one {}'
}

# First of all, for the fuzz targets come late. Where no Chromium is to be had, ci/html.sh says that it did not look.
ci/deps.sh --fuzz --browser || ci/deps.sh --fuzz
preset asan
preset tsan
begin "coverage, at least 90 %"
ci/coverage.sh --min 90
fuzz
begin "sweep, $sweep_count cases an op"
cmake --preset release > build/release.log
cmake --build --preset release --parallel "$jobs" >> build/release.log
build/release/bin/assay op --sweep --count "$sweep_count"
begin "reports in a browser"
ci/html.sh build/release/bin/assay
begin "10,000 argument vectors through real shells"
QUOTE_VECTORS=10000 build/release/tests/test_quote_arrives
begin "fault campaign, every site"
ci/faults.sh --whole
echo "full: pass"
