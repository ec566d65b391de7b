#!/bin/sh
# What messages to worker processes cost: a small round trip beside a bare socket pair, a large tensor beside memcpy:
#   ci/bench_workers.sh [BUILD]
# BUILD is a build folder with tests (default: build/release). Prints two lines. A report, not a test: on a machine
# with other work it says little. WORKER_PINGS: round trips (20000); WORKER_BYTES: of the tensor (1 GB).
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$source/build/release}
WORKER_PINGS=${WORKER_PINGS:-20000} WORKER_BYTES=${WORKER_BYTES:-1000000000} "$build/tests/test_workers_speed" 2>&1 |
    grep -E '^(round trip|[0-9.]+ GB)|FAILED'
