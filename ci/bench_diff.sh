#!/usr/bin/env bash
# `diff` of two large dumps in the page cache against reading them, in one run:
#   ci/bench_diff.sh [ASSAY] [GIGABYTES]
# Two dumps of 2 GB (61 layers of outputs, bf16, 7168 wide), made and removed. Prints both rates, best of five each, their
# ratio, and the anonymous memory of diff at its peak. A report, not a test: on a machine with other work it says little.
set -Eeuo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
assay=${1:-build/release/bin/assay}
gigabytes=${2:-2}
threads=$(nproc)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
hidden=7168 layers=61
tokens=$((gigabytes * 1000000000 / (layers * hidden * 2)))
each=$((tokens * hidden * 2))

# A dump whose values are the bytes of a text: finite, not constant.
dump() {
    local header size
    header=$(awk -v n="$layers" -v t="$tokens" -v h="$hidden" -v b="$each" 'BEGIN {
        for (i = 0; i < n; i++)
            printf "%s\"layers.%d.output\":{\"dtype\":\"BF16\",\"shape\":[%d,%d],\"data_offsets\":[%.0f,%.0f]}", \
                i ? "," : "{", i, t, h, i * b, (i + 1) * b
        print "}"
    }')
    size=${#header}
    {
        printf '%b' "$(for s in 0 8 16 24 32 40 48 56; do printf '\\x%02x' $((size >> s & 255)); done)"
        printf '%s' "$header"
        yes "$1" | head -c $((each * layers)) || true
    } > "$2"
}
dump 'every value of this line is finite, none is alike' "$work/a.safetensors"
dump 'every value of this line is finite, none is alike' "$work/b.safetensors"
bytes=$(stat -c %s "$work/a.safetensors")

# Nanoseconds in which this many readers take both files.
read_once() {
    local start blocks=$(((bytes / 524288 + threads - 1) / threads)) i f
    start=$(date +%s%N)
    for f in a b; do
        for ((i = 0; i < threads; i++)); do
            dd if="$work/$f.safetensors" of=/dev/null bs=524288 skip=$((i * blocks)) count="$blocks" 2> /dev/null &
        done
        wait
    done
    echo $(($(date +%s%N) - start))
}

# Nanoseconds of one diff; its anonymous memory is looked at while it runs.
diff_once() {
    local start pid kb
    start=$(date +%s%N)
    "$assay" diff "$work/a.safetensors" "$work/b.safetensors" --bound 1e-6 --json > "$work/result.json" &
    pid=$!
    while kill -0 "$pid" 2> /dev/null; do
        kb=$(sed -n 's/^RssAnon:[[:space:]]*\([0-9]*\) kB/\1/p' "/proc/$pid/status" 2> /dev/null || true)
        [ "${kb:-0}" -le "$peak" ] || peak=$kb
        sleep 0.02
    done
    wait "$pid"
    took=$(($(date +%s%N) - start))
}

peak=0 read_best='' diff_best=''
for _ in 1 2 3 4 5; do
    ns=$(read_once)
    [ -n "$read_best" ] && [ "$ns" -ge "$read_best" ] || read_best=$ns
    diff_once
    [ -n "$diff_best" ] && [ "$took" -ge "$diff_best" ] || diff_best=$took
done
awk -v b="$((2 * bytes))" -v r="$read_best" -v d="$diff_best" -v t="$threads" -v p="$peak" 'BEGIN {
    printf "two dumps of %.2f GB cached, %d threads: read %.2f GB/s, diff %.2f GB/s, ratio %.2f; %.0f MB anonymous\n", \
        b / 2e9, t, b / r, b / d, r / d, p / 1024
}'
