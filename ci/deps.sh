#!/usr/bin/env bash
# Sees to it that what the build needs is here: Debian 12, Ubuntu 24.04 or newer. Installs with apt where that is
# allowed (root, or sudo without a password); otherwise says what is missing and exits 3. Quick when all is there.
# What ci/full.sh needs besides: --fuzz: a clang whose libFuzzer works; --browser: a Chromium for ci/html.sh, 80 MB to
# fetch and 300 MB on disk.
set -euo pipefail

cmake_min=3.25
browser=
fuzz=
for word in "$@"; do
    case $word in
    --browser) browser=yes ;;
    --fuzz) fuzz=yes ;;
    *)
        echo "usage: ci/deps.sh [--browser] [--fuzz]" >&2
        exit 2
        ;;
    esac
done

has_program() {
    command -v "$1" > /dev/null
}

# clang alone comes without the runtime of its sanitizers and of libFuzzer.
can_fuzz() {
    local out status=0
    out=$(mktemp)
    echo 'int LLVMFuzzerTestOneInput(const char *p, long n) { return p && n < 0; }' |
        clang -fsanitize=fuzzer,address -x c - -o "$out" 2> /dev/null || status=1
    rm -f "$out"
    return "$status"
}

# Prints the packages whose use fails here, one a line. What counts is that the thing works, not who installed it.
missing() {
    [ -z "$browser" ] || has_program chromium || has_program chromium-browser || has_program google-chrome || echo chromium
    [ -z "$fuzz" ] || can_fuzz || printf '%s\n' clang libclang-rt-dev
    has_program "${CC:-gcc}" || echo build-essential
    has_program make || has_program ninja || echo build-essential
    has_program cmake || echo cmake
    has_program ctest || echo cmake
    # What contract, lint and guard are tested with; without ASSAY_WITHOUT_PYTHON their tests fail where there is none.
    has_program "${ASSAY_PYTHON:-python3}" || [ -n "${ASSAY_WITHOUT_PYTHON:-}" ] || echo python3
    has_program xmllint || echo libxml2-utils # tests of reports against their schema
    if ! has_program pkg-config; then
        echo pkg-config libopenblas-dev libfyaml-dev libjansson-dev libcmocka-dev libssl-dev libzip-dev | tr ' ' '\n'
        return
    fi
    pkg-config --exists openblas || echo libopenblas-dev
    pkg-config --exists libfyaml || echo libfyaml-dev
    pkg-config --exists jansson || echo libjansson-dev
    pkg-config --exists cmocka || echo libcmocka-dev
    pkg-config --exists libcrypto || echo libssl-dev
    pkg-config --exists libzip || echo libzip-dev
}

give_up() {
    echo "ci/deps.sh: missing: $(echo "$wanted" | tr '\n' ' ')($1)" >&2
    exit 3
}

install() {
    local as_root=()
    has_program apt-get || give_up "no apt-get here: install them by hand"
    if [ "$(id -u)" -ne 0 ]; then
        has_program sudo || give_up "neither root nor sudo: run apt-get install as root"
        sudo -n true || give_up "sudo wants a password: run sudo apt-get install"
        as_root=(sudo -n)
    fi
    echo "deps: installing: $(echo "$wanted" | tr '\n' ' ')"
    "${as_root[@]}" apt-get -q update || give_up "apt-get update failed"
    # shellcheck disable=SC2086 # one word a package
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install $wanted ||
        give_up "apt-get install failed"
}

wanted=$(missing | sort -u)
if [ -n "$wanted" ]; then
    install
    wanted=$(missing | sort -u)
    [ -z "$wanted" ] || give_up "installed, and still not usable"
fi

cmake_found=$(cmake --version | sed -n '1s/^cmake version //p')
if [ "$(printf '%s\n' "$cmake_min" "$cmake_found" | sort -V | head -n 1)" != "$cmake_min" ]; then
    echo "ci/deps.sh: cmake $cmake_found found, wanted $cmake_min or newer" >&2
    exit 3
fi
echo "deps: ok"
