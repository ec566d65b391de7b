#!/usr/bin/env bash
# Builds the release preset with warnings as errors and runs all tests. The last line is "N passed, N failed".
# Exit 0 only if at least one test ran and all passed. ASSAY_BUILD: another build folder.
set -Eeuo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${ASSAY_BUILD:-build/release}
stage=dependencies
trap 'echo "ci/test.sh: failed: $stage" >&2' ERR

ci/deps.sh

mkdir -p "$build"
stage=configure
if ! cmake --preset release -B "$build" -DASSAY_WERROR=ON > "$build/configure.log" 2>&1; then
    cat "$build/configure.log" >&2
    echo "ci/test.sh: failed: $stage" >&2
    exit 1
fi
stage=build
cmake --build "$build" --parallel "$(nproc)"
gpu=$(sed -n 's/^-- gpu: //p' "$build/configure.log")
case $gpu in
yes*) echo "gpu: compiled: ${gpu#yes }" ;;
*) echo "gpu: not compiled: ${gpu#no }" ;;
esac

stage=tests
rm -f "$build/ctest.xml"
rm -rf "$build/cover"
mkdir -p "$build/cover"
ASSAY_COVER=$(cd "$build/cover" && pwd)
export ASSAY_COVER
status=0
ctest --test-dir "$build" --parallel "$(nproc)" --no-tests=error --output-on-failure --output-junit ctest.xml || status=$?
if [ ! -s "$build/ctest.xml" ]; then
    echo "ci/test.sh: failed: ctest ended with $status and left no results" >&2
    exit 1
fi

count() {
    sed -n "s/^[[:space:]]*$1=\"\([0-9]*\)\".*/\1/p; /<testcase/q" "$build/ctest.xml"
}
total=$(count tests)
failed=$(count failures)
skipped=$(($(count skipped) + $(count disabled)))
passed=$((total - failed - skipped))
if [ "$skipped" -ne 0 ]; then
    echo "ci/test.sh: $skipped tests did not run; each counts as failed" >&2
    failed=$((failed + skipped))
fi
unset ASSAY_COVER
stage="reports in a browser"
ci/html.sh "$build/bin/assay"
"$build/bin/assay" cover --from "$build/cover"
echo "$passed passed, $failed failed"
if [ "$status" -ne 0 ] || [ "$failed" -ne 0 ] || [ "$passed" -eq 0 ]; then
    exit 1
fi
