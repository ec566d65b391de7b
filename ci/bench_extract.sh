#!/usr/bin/env bash
# What `extract` costs beside a plain `forward` of the same tokens to the same layer, on mid-k25: 4 samples of 512
# tokens, pairs of runs one after the other, so that both see the same machine. The ratio is the median of the pairs'
# ratios of seconds a token; loading is outside of both. Exit 1 where it is above 1.15.
# Usage: ci/bench_extract.sh [FOLDER [PAIRS]]     writes FOLDER/extract.json (default reports/measured, 9 pairs)
set -Eeuo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
assay=${ASSAY:-build/release/bin/assay}
out=${1:-reports/measured}
pairs=${2:-9}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
"$assay" synth fixtures/mid-k25/config.json --seed 19 --out "$work/mid" > /dev/null
awk -v lines="$work/data.jsonl" -v batch="$work/batch.json" 'BEGIN {
    for (n = 0; n < 4; n++) {
        ids = mask = ""
        for (i = 0; i < 512; i++) {
            ids = ids (i ? "," : "") ((n * 512 + i + 1) * 7919) % 1024
            mask = mask (i ? "," : "") 1
        }
        printf "{\"input_ids\": [%s], \"loss_mask\": [%s]}\n", ids, mask > lines
        all = all (n ? "," : "") "[" ids "]"
    }
    printf "[%s]\n", all > batch
}'

seconds() { sed -n 's/^ *"seconds": *\([0-9.e+-]*\).*/\1/p' "$1"; }
for ((i = 0; i < pairs; i++)); do
    rm -rf "$work/samples"
    "$assay" forward "$work/mid" --tokens "$work/batch.json" --taps layers.3.output --out "$work/dump" --json > "$work/f"
    "$assay" extract "$work/mid" --data "$work/data.jsonl" --layers 1,2,3,4 --numbering entry --format vllm \
        --out "$work/samples" --json > "$work/e"
    echo "$(seconds "$work/f") $(seconds "$work/e")" >> "$work/pairs"
done

awk '{ printf "%.6f %.6f %.6f\n", $1, $2, $2 / $1 }' "$work/pairs" > "$work/ratios"
median() { sort -g -k"$1,$1" "$work/ratios" | awk -v k="$1" '{ v[NR] = $k } END { print v[int((NR + 1) / 2)] }'; }
forward=$(median 1) extract=$(median 2) ratio=$(median 3)
cpu=$(sed -n 's/^model name.*: //p;/^model name/q' /proc/cpuinfo | head -1)
awk -v f="$forward" -v e="$extract" -v r="$ratio" -v n="$pairs" -v cpu="$cpu, $(nproc) cores" -v date="$(date -u +%F)" \
    -v commit="$(git rev-parse --short HEAD)" 'BEGIN {
    printf "{\n \"what\": \"extract beside forward to the same layer, mid-k25, 4 samples of 512 tokens, float32; %d interleaved pairs, medians\",\n", n
    printf " \"command\": \"ci/bench_extract.sh\",\n \"forward_seconds\": %.4f,\n \"extract_seconds\": %.4f,\n", f, e
    printf " \"seconds_a_token\": %.3g,\n \"ratio\": %.4f,\n \"bound\": 1.15,\n", e / 2048, r
    printf " \"date\": \"%s\",\n \"commit\": \"%s\",\n \"device\": \"%s\"\n}\n", date, commit, cpu
}' > "$out/extract.json"
echo "forward $forward s, extract $extract s, ratio $ratio (at most 1.15)"
awk -v r="$ratio" 'BEGIN { exit !(r <= 1.15) }'
