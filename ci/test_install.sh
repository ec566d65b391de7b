#!/usr/bin/env bash
# Installs a build into a temporary prefix, moves it, and builds and runs tests/install/main.c against it through
# find_package and pkg-config, shared and static. Then packs the tarball, unpacks it elsewhere, and has the program in it
# do what it needs its own files for: parity on the shipped checkpoint, contract, guard, faults of calls, manual pages.
# Usage: ci/test_install.sh BUILD_FOLDER
set -euo pipefail

if [ $# -ne 1 ]; then
    echo "usage: ci/test_install.sh BUILD_FOLDER" >&2
    exit 2
fi
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$(cd "$1" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cmake --install "$build" --prefix "$folder/first" > "$folder/install.log"
mv "$folder/first" "$folder/prefix" # what is installed must not know where it was installed to
prefix=$folder/prefix

"$prefix/bin/assay" --help > "$folder/help.log"
"$prefix/bin/assay" inspect "$root/fixtures/foreign/sglang_passes" --map sglang --step 1 > "$folder/map.log"

cmake -S "$root/tests/install" -B "$folder/build" -DCMAKE_PREFIX_PATH="$prefix" > "$folder/configure.log"
cmake --build "$folder/build" > "$folder/build.log"
"$folder/build/outside_shared" "$folder/cmake_shared.safetensors"
"$folder/build/outside_static" "$folder/cmake_static.safetensors"

pc=$(find "$prefix" -name assay.pc)
export PKG_CONFIG_PATH
PKG_CONFIG_PATH=$(dirname "$pc"):${PKG_CONFIG_PATH:-}
libdir=$(pkg-config --variable=libdir assay)
text=$(pkg-config --cflags --libs assay)
read -ra flags <<< "$text"
"${CC:-cc}" -std=c17 -Wall -Wextra -Werror "$root/tests/install/main.c" -o "$folder/pc_shared" "${flags[@]}"
LD_LIBRARY_PATH=$libdir "$folder/pc_shared" "$folder/pc_shared.safetensors"

# pkg-config has no word for "this one static, the rest as usual": name the archive in place of -lassay.
text=$(pkg-config --cflags --libs --static assay)
read -ra flags <<< "$text"
static=("${flags[@]/#-lassay/$libdir/libassay.a}")
"${CC:-cc}" -std=c17 -Wall -Wextra -Werror "$root/tests/install/main.c" -o "$folder/pc_static" "${static[@]}"
"$folder/pc_static" "$folder/pc_static.safetensors"

for file in cmake_static pc_shared pc_static; do
    cmp "$folder/cmake_shared.safetensors" "$folder/$file.safetensors"
done
if grep -rIlF -e "$folder/first" -e "$root" "$prefix"; then
    echo "ci/test_install.sh: the files above hold a path of this machine" >&2
    exit 1
fi

# The tarball, unpacked where nothing of the build is near: an empty folder, another working directory.
cpack --config "$build/CPackConfig.cmake" -B "$folder/pack" > "$folder/cpack.log"
tarballs=("$folder"/pack/*.tar.gz)
mkdir "$folder/elsewhere" "$folder/user"
tar -xzf "${tarballs[0]}" -C "$folder/elsewhere" --strip-components=1
rm -rf "$folder/pack"
cd "$folder/user"
away=$folder/elsewhere
assay=$away/bin/assay
share=$away/share/assay

fail() {
    echo "ci/test_install.sh: the unpacked tarball: $*" >&2
    exit 1
}

# expect STATUS TEXT COMMAND...: ends so, and says so on stdout or stderr.
expect() {
    local wanted=$1 text=$2 status=0
    shift 2
    "$@" > out.log 2>&1 || status=$?
    [ "$status" -eq "$wanted" ] && grep -qF -- "$text" out.log && return
    cat out.log >&2
    fail "$*: exit $status, wanted $wanted and \"$text\""
}

version=$(sed -n 's/^project(assay VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")
expect 0 "assay $version" "$assay" --version
expect 0 "compiler: " "$assay" --version
model=$share/fixtures/tiny-k25
expect 0 "" "$assay" forward "$model" --tokens "@$model/golden.json" --out ref.safetensors
expect 0 "PASS" "$assay" diff ref.safetensors "$model/golden.safetensors" --bound 5e-5
expect 1 "int4.nibble_swap" "$assay" diff "$share/fixtures/bugs/nibble.safetensors" --model "$model" --profile hf --diagnose
expect 0 "PASS" "$assay" run "$share/fixtures/plans/tiny-k25.yaml" --out plan
expect 0 "score 1.0000" "$assay" fault run --fault env.fsync_n --quick --clean 0
mkdir lib
printf 'def load(path, strict=True):\n    return path\n' > lib/__init__.py
printf 'import lib\nlib.load("a", 1, 2)\n' > use.py
printf 'try:\n    1 / 0\nexcept Exception:\n    pass\n' > quiet.py
expect 0 "" "$assay" contract record lib --out lib.yaml
expect 1 "use.py:2" "$assay" contract check use.py --against lib.yaml
expect 0 "PASS" "$assay" inspect "$root/fixtures/foreign/sglang_passes" --map sglang --step 1
expect 1 "quiet.py" "$assay" lint quiet.py
expect 1 "ZeroDivisionError" "$assay" guard -- "${ASSAY_PYTHON:-python3}" quiet.py
for verb in $("$assay" --help | sed -n 's/^  assay \([a-z]*\) .*/\1/p'); do
    [ -s "$away/share/man/man1/assay-$verb.1" ] || fail "assay-$verb(1) is missing"
done
if [ -x "$(command -v man)" ]; then
    expect 0 "--diagnose" man -M "$away/share/man" assay-diff
fi
for file in schema/result.schema.json schema/junit.xsd python/assay_taps.py api/assay-worker.yaml ops/moe.yaml; do
    [ -s "$share/$file" ] || fail "share/assay/$file is missing"
done
for file in README.md CHANGELOG.md docs/tutorial.md docs/reference/verbs.md; do
    [ -s "$away/share/doc/assay/$file" ] || fail "share/doc/assay/$file is missing"
done
size=$(du -sm "$away" | cut -f 1)
echo "install: the tarball, unpacked elsewhere: parity, contract, maps, lint, guard, faults, manual: ok ($size MB)"
echo "install: find_package and pkg-config, shared and static: ok"
