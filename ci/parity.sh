#!/usr/bin/env bash
# The main job on the shipped checkpoint: the reference against the outputs of an outside implementation, and a
# planted bug that must be found where it was planted. Exit 0 only if every part is as expected.
# ASSAY_BUILD: another build folder.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${ASSAY_BUILD:-build/release}
assay=$build/bin/assay
model=fixtures/tiny-k25
bound=5e-5
reports=build/reports/parity
work=build/parity

say() {
    printf 'parity: %s\n' "$*"
}

fail() {
    echo "ci/parity.sh: failed: $*" >&2
    exit 1
}

# Runs assay with the given arguments after FILE and EXPECTED status; its JSON goes to FILE without white space.
run() {
    local file=$1 expected=$2 status=0
    shift 2
    "$assay" "$@" --json > "$file.raw" || status=$?
    tr -d ' \n' < "$file.raw" > "$file"
    if [ "$status" -ne "$expected" ]; then
        cat "$file.raw" >&2
        fail "exit $status, wanted $expected: assay $*"
    fi
}

# field FILE NAME: the number or word of a field that holds no object.
field() {
    local value
    value=$(tr -d ' \n' < "$1" | sed -n "s/.*\"$2\":\"\{0,1\}\([^,\"}]*\).*/\1/p")
    [ -n "$value" ] || fail "$1 has no field $2"
    echo "$value"
}

# list FILE NAME: a list of whole numbers, "1,2,3".
list() {
    tr -d ' \n' < "$1" | sed -n "s/.*\"$2\":\[\([0-9,]*\)\].*/\1/p"
}

# How many taps a diff could not compare.
unchecked() {
    grep -o '"unchecked":\[[^]]*\]' "$1" | awk -F'","' '{ print (index($0, "[]") ? 0 : NF) }'
}

mkdir -p "$build" "$reports" "$work"
if [ ! -f "$build/CMakeCache.txt" ]; then
    ci/deps.sh
    cmake --preset release -B "$build"
fi
if ! cmake --build "$build" --parallel "$(nproc)" --target assay > "$build/parity.log" 2>&1; then
    cat "$build/parity.log" >&2
    fail "the build"
fi

for precision in f32 f64; do
    dump=$work/$precision.safetensors
    run "$work/forward-$precision.json" 0 \
        forward "$model" --tokens "@$model/golden.json" --on ref --precision "$precision" --out "$dump"
    run "$work/golden-$precision.json" 0 \
        diff "$dump" "$model/golden.safetensors" --bound "$bound" --out "$reports/$precision"
    compared=$(field "$work/golden-$precision.json" compared)
    [ "$compared" -gt 0 ] || fail "nothing was compared in $precision"
    say "ref $precision against golden: pass: $compared taps within $bound"
done

prompt_length=$(field "$model/golden.json" greedy_prompt)
prompt=$(list "$model/golden.json" tokens | cut -d, -f "1-$prompt_length")
greedy=$(list "$model/golden.json" greedy)
count=$(echo "$greedy" | tr ',' '\n' | wc -l)
run "$work/generate.json" 0 generate "$model" --tokens "$prompt" -n "$count"
[ "$(list "$work/generate.json" tokens)" = "$greedy" ] || fail "greedy tokens: $(list "$work/generate.json" tokens), wanted $greedy"
say "greedy tokens against golden: pass: $count of $count"

run "$work/clean.json" 0 \
    diff fixtures/bugs/clean.safetensors --model "$model" --profile hf --out "$reports/clean"
say "clean dump of an outside engine, profile hf: pass: $(field "$work/clean.json" compared) taps," \
    "$(unchecked "$work/clean.json") that it does not hold"

run "$work/nibble.json" 1 \
    diff fixtures/bugs/nibble.safetensors --model "$model" --profile hf --diagnose --out "$reports/nibble"
diagnosis=$(grep -o '"diagnosis":\[[^]]*\]' "$work/nibble.json") || fail "the planted bug has no diagnosis"
case $diagnosis in *'"fault":"int4.nibble_swap"'*) ;; *) fail "the planted bug has another name: $diagnosis" ;; esac
first=$(grep -o '"first":{[^}]*}' "$work/nibble.json") || fail "the planted bug has no first divergence"
case $first in *'"op":"moe"'*) ;; *) fail "the planted bug is not at op moe: $first" ;; esac
echo "$first" | grep -q '"layer":1[,}]' || fail "the planted bug is not in layer 1: $first"
echo "$first" > "$work/first.json"
say "planted bug (the two codes of each byte swapped): found: op moe, layer 1, tap $(field "$work/first.json" tap);" \
    "named: int4.nibble_swap"
run "$work/plan.json" 0 run fixtures/plans/tiny-k25.yaml --out "$reports/plan"
say "plan fixtures/plans/tiny-k25.yaml: pass: $(field "$work/plan.json" compared) compared," \
    "$(field "$work/plan.json" skipped) steps skipped: see $reports/plan/result.txt"
say "reports: $reports"
say "pass"
