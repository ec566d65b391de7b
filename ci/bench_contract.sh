#!/bin/sh
# What an API contract costs, beside what Python needs for the same files, in one run:
#   ci/bench_contract.sh LIB CONSUMER [ROUNDS]
# LIB and CONSUMER are wheels (vllm 0.16.0 and speculators 0.3.0 are the ones the README speaks of). `contract record
# LIB --for CONSUMER` is held against one `ast.parse` of each .py file of LIB, `contract check` against an empty
# python3. Best of ROUNDS (default 3); the memory is that of the largest process, and the contract's bytes are shown.
# A report, not a test: on a machine with other work it says little.
set -eu
library=$1
consumer=$2
rounds=${3:-3}
assay=${ASSAY:-$(dirname "$0")/../build/release/bin/assay}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cat > "$scratch/parse.py" <<'PYTHON'
import ast, sys, warnings, zipfile
warnings.simplefilter("ignore")
with zipfile.ZipFile(sys.argv[1]) as wheel:
    for name in wheel.namelist():
        if name.endswith(".py"):
            ast.parse(wheel.read(name))
PYTHON

cat > "$scratch/measure.py" <<'PYTHON'
import resource, subprocess, sys, time
rounds, best = int(sys.argv[1]), None
for _ in range(rounds):
    start = time.monotonic()
    status = subprocess.run(sys.argv[2:], stdout=subprocess.DEVNULL).returncode
    seconds = time.monotonic() - start
    if status not in (0, 1):
        sys.exit(status)
    best = seconds if best is None else min(best, seconds)
print("%.3f %d" % (best, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024))
PYTHON

measure() { python3 "$scratch/measure.py" "$rounds" "$@"; }

record=$(measure "$assay" contract record "$library" --out "$scratch/c.yaml" --for "$consumer")
check=$(measure "$assay" contract check "$consumer" --against "$scratch/c.yaml")
parse=$(measure python3 "$scratch/parse.py" "$library")
empty=$(measure python3 -c pass)
echo "$record $check $parse $empty $(stat -c %s "$scratch/c.yaml")" | awk '{
    printf "record %.2f s, %d MB; ast.parse of the same files %.2f s, %d MB: ratio %.2f\n", $1, $2, $5, $6, $1 / $5
    printf "check %.3f s, %d MB; an empty python3 %.3f s: ratio %.1f\n", $3, $4, $7, $3 / $7
    printf "contract %d bytes\n", $9
}'
