#!/bin/sh
# Hashing for `inspect --record` against reading the same cached file, in one run:
#   ci/bench_hash.sh ASSAY [FOLDER]
# ASSAY is the program; FOLDER a checkpoint of one file (default: a synthetic one of 2.7 GB, made and removed). Prints
# both rates, best of five each, and their ratio. A report, not a test: on a machine with other work it says little.
set -eu
assay=$1
source=$(cd "$(dirname "$0")/.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
threads=$(nproc)
folder=${2:-}
if [ -z "$folder" ]; then
    sed -e 's/"n_routed_experts": *[0-9]*/"n_routed_experts": 32/' -e 's/"vocab_size": *[0-9]*/"vocab_size": 20480/' \
        "$source/fixtures/full-k25-2l/config.json" > "$scratch/config.json"
    folder=$scratch/model
    "$assay" synth "$scratch/config.json" --seed 1 --out "$folder" > /dev/null
fi
file=$folder/model.safetensors
bytes=$(stat -c %s "$file")
blocks=$(((bytes / 524288 + threads - 1) / threads))
cat "$file" > /dev/null

# Nanoseconds in which this many readers take the file, a part each.
read_once() {
    start=$(date +%s%N)
    i=0
    while [ "$i" -lt "$threads" ]; do
        dd if="$file" of=/dev/null bs=524288 skip=$((i * blocks)) count="$blocks" 2> /dev/null &
        i=$((i + 1))
    done
    wait
    echo $(($(date +%s%N) - start))
}

hash_once() {
    start=$(date +%s%N)
    "$assay" inspect "$folder" --record "$scratch/contract.json" --threads "$threads" > /dev/null
    echo $(($(date +%s%N) - start))
}

read_best=
hash_best=
for round in 1 2 3 4 5; do
    ns=$(read_once)
    if [ -z "$read_best" ] || [ "$ns" -lt "$read_best" ]; then read_best=$ns; fi
    ns=$(hash_once)
    if [ -z "$hash_best" ] || [ "$ns" -lt "$hash_best" ]; then hash_best=$ns; fi
done
awk -v b="$bytes" -v r="$read_best" -v h="$hash_best" -v t="$threads" 'BEGIN {
    printf "%.2f GB cached, %d threads: read %.2f GB/s, record %.2f GB/s, ratio %.2f\n", b / 1e9, t, b / r, b / h, r / h
}'
