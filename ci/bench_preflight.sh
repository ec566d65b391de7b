#!/bin/sh
# How long `assay preflight` takes on the story of fixtures/story (61 layers in 64 small shards, contracts of two vLLM
# releases, lint, layers, disk, ranks, commands), and with --rehearse; beside an empty python3, of which it starts four:
#   ci/bench_preflight.sh [ROUNDS]
# Worst of ROUNDS (default 5), after one that is not counted. Fails where the plain run takes 5 seconds or more. On a machine with other work it
# says little.
set -eu
rounds=${1:-5}
root=$(dirname "$0")/..
assay=${ASSAY:-$root/build/release/bin/assay}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cp "$root"/fixtures/story/*.py "$root"/fixtures/story/plan.yaml "$root"/compat/api/vllm-*.yaml "$scratch"
sed 's/"num_hidden_layers": 6,/"num_hidden_layers": 61,/' "$root/fixtures/tiny-k25/config.json" > "$scratch/config.json"
"$assay" synth "$scratch/config.json" --seed 1 --shards 64 --out "$scratch/checkpoint" > "$scratch/log"
truncate -s -100 "$scratch/checkpoint/model-00041-of-000064.safetensors"

cat > "$scratch/measure.py" <<'PYTHON'
import subprocess, sys, time
rounds, wanted, worst = int(sys.argv[1]), int(sys.argv[2]), 0
for i in range(rounds + 1):
    start = time.monotonic()
    status = subprocess.run(sys.argv[3:], stdout=subprocess.DEVNULL).returncode
    if status != wanted:
        sys.exit("exit %d, wanted %d" % (status, wanted))
    if i:
        worst = max(worst, time.monotonic() - start)
print("%.3f" % worst)
PYTHON

measure() { python3 "$scratch/measure.py" "$rounds" "$@"; }

empty=$(measure 0 python3 -I -S -c pass)
plain=$(measure 1 "$assay" preflight "$scratch/plan.yaml")
rehearsed=$(measure 1 "$assay" preflight "$scratch/plan.yaml" --rehearse)
echo "preflight of the story: $plain s; with --rehearse $rehearsed s; an empty python3 $empty s"
awk -v seconds="$plain" 'BEGIN { exit !(seconds < 5) }'
