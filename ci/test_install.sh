#!/usr/bin/env bash
# Installs a build into a temporary prefix, moves it, and builds and runs tests/install/main.c against it through
# find_package and pkg-config, shared and static. Usage: ci/test_install.sh BUILD_FOLDER
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
echo "install: find_package and pkg-config, shared and static: ok"
