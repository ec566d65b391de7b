#!/usr/bin/env bash
# Makes a folder that runs on a machine with a GPU and no development packages: the program, the libraries that it
# loads (the system's C library and CUDA's stay the other machine's), what commit it is. ci/gpu.sh runs from it.
#     ci/gpu_pack.sh [FOLDER]            default build/gpu
set -Eeuo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${ASSAY_BUILD:-build/release}
out=${1:-build/gpu}
program=$build/bin/assay

[ -x "$program" ] || {
    echo "ci/gpu_pack.sh: $program is missing: ci/test.sh builds it" >&2
    exit 1
}
if ! "$program" doctor 2>&1 | grep -q 'CUDA'; then
    echo "ci/gpu_pack.sh: $program says nothing of CUDA" >&2
    exit 1
fi
mkdir -p "$out/lib"
cp "$program" "$out/assay"
strip "$out/assay"
ldd "$program" | awk '$2 == "=>" { print $1, $3 }' | while read -r name path; do
    case $name in
    libc.so* | libm.so* | libpthread.so* | libdl.so* | librt.so* | libgcc_s.so* | libstdc++.so* | libcublas* | libcuda* | libnccl*) ;;
    *) cp -L "$path" "$out/lib/$name" ;;
    esac
done
git describe --always --dirty > "$out/commit" 2> /dev/null || echo unknown > "$out/commit"
echo "gpu_pack: $out: $(du -sm "$out" | cut -f1) MB, commit $(cat "$out/commit")"
