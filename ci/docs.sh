#!/usr/bin/env bash
# ci/docs.sh [PROGRAM] [FILE...]: runs every command of README.md, CONTRIBUTING.md and docs/, as a reader would type it,
# with `assay` in the PATH, in a folder of its own beside links to fixtures/ and compat/. Fails where one ends with another
# status than is said, or where the output differs from what the page shows.
#
#   ```sh         commands; each must end with 0, or with N where it ends in a comment "# exit N..."
#   ```console    lines of "$ COMMAND" and what it prints, both streams; a line "..." stands for any lines, "..." at a
#                 line's end for the rest of it
#   <!-- not run: REASON -->   before a fence: these are not run. What they say of verbs and options is checked.
#
# Commands of one page share a shell: what one leaves, the next one finds. docs/reference is generated, and not run.
# Besides: verbs, options and files of the tree that a page names exist, and so do the targets of links; a word in
# capitals (NAME) stands for any.
set -Eeuo pipefail
shopt -s inherit_errexit
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
program=${1:-$root/build/release/bin/assay}
program=$(cd "$(dirname "$program")" && pwd)/$(basename "$program")
[ $# -eq 0 ] || shift
cd "$root"
if [ $# -eq 0 ]; then
    mapfile -t pages < <(printf '%s\n' README.md CONTRIBUTING.md && find docs -name '*.md' ! -path 'docs/reference/*' | sort)
else
    pages=("$@")
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
ran=0
not_run=0

complain() {
    echo "docs: $*" >&2
    failures=$((failures + 1))
}

# Cuts a page into $work/steps: one line a command, "LINE KIND STATUS<TAB>COMMAND", KIND run, show or skip; what `show`
# must print goes to $work/expect.LINE. Reasons go to $work/reasons, mistakes of the page to $work/mistakes.
cut_page() {
    awk -v work="$work" '
        function flush_command() {
            if (command == "") return
            status = 0
            if (match(command, /# exit [0-9]+/)) status = substr(command, RSTART + 7, RLENGTH - 7)
            printf "%d %s %d\t%s\n", at, kind, status, command > (work "/steps")
            command = ""
        }
        BEGIN { kind = "" }
        /^<!-- not run: / { reason = $0; sub(/^<!-- not run: /, "", reason); sub(/ -->$/, "", reason); next }
        /^```/ && kind == "" {
            language = substr($0, 4)
            kind = language == "sh" ? "run" : language == "console" ? "show" : "text"
            if (kind != "text" && reason != "") { kind = "skip"; print NR ": " reason >> (work "/reasons") }
            shown = language == "console"
            reason = ""
            next
        }
        /^```/ { if (kind != "text") flush_command(); kind = ""; next }
        kind == "" || kind == "text" {
            if ($0 ~ /^ *(\$ )?assay [a-z]/ && (kind == "text" || $0 ~ /^    /))
                print NR ": a command outside a fence of sh or console" > (work "/mistakes")
            next
        }
        shown && !/^\$ / && command == "" { if (kind == "show") print > (work "/expect." at); next }
        shown && !/^\$ / && !continued { flush_command(); if (kind == "show") print > (work "/expect." at); next }
        !shown && command == "" && /^ *(#|$)/ { next }
        {
            line = $0
            if (!continued) { flush_command(); at = NR; if (shown) { sub(/^\$ /, "", line); printf "" > (work "/expect." at) } }
            continued = line ~ /\\$/
            sub(/\\$/, "", line)
            command = command line
            if (!continued) flush_command()
        }
        END { if (kind != "") print NR ": a fence that does not end" > (work "/mistakes") }
    ' "$1"
}

# Does $2 (what came) match $1 (what the page shows)?
matches() {
    awk -v expect="$1" '
        function fits(e, line, n) {
            n = length(e)
            if (n > 3 && substr(e, n - 2) == "...") return substr(line, 1, n - 3) == substr(e, 1, n - 3)
            return e == line
        }
        # Any lines may stand where the page has "...": tried from the shortest run on.
        function tail(i, k) {
            for (; i <= shown; i++) {
                if (want[i] == "...") {
                    for (; k <= came + 1; k++) if (tail(i + 1, k)) return 1
                    return 0
                }
                if (k > came || !fits(want[i], have[k])) return 0
                k++
            }
            return k == came + 1
        }
        BEGIN { while ((getline line < expect) > 0) want[++shown] = line }
        { have[++came] = $0 }
        END { exit !tail(1, 1) }
    ' "$2"
}

# Verbs and options of a command: `assay help VERB` knows them.
check_words() {
    local page=$1 line=$2 command=$3 verb option
    verb=$(sed -n 's/^\(.*[ (]\)\{0,1\}assay \([a-z][a-z]*\).*/\2/p' <<< "$command")
    [ -n "$verb" ] || return 0
    if [ ! -e "$work/help.$verb" ] && ! "$program" help "$verb" > "$work/help.$verb" 2> /dev/null; then
        complain "$page:$line: no verb $verb"
        return 0
    fi
    # What stands behind " -- " belongs to another program.
    for option in $(sed 's/ -- .*//; s/#.*//; s/.*assay [a-z]* *//' <<< "$command" | grep -oE '(^| )--[a-z][a-z-]*' || true); do
        grep -qE -- "^  $option( |=|\[|$)" "$work/help.$verb" || complain "$page:$line: assay $verb has no $option"
    done
}

# Runs one command in this shell; its streams go to $work/out.
run_command() {
    local page=$1 line=$2 kind=$3 wanted=$4 command=$5 status=0
    set +e
    eval "$command" > "$work/out" 2>&1 < /dev/null
    status=$?
    set -e
    sed -i -E '/^assay: .*( a second, |B\/s)/d' "$work/out" # progress, of what takes over ten seconds here
    ran=$((ran + 1))
    if [ "$status" -ne "$wanted" ]; then
        complain "$page:$line: exit $status, wanted $wanted: $command"
        tail -n 20 "$work/out" | sed 's/^/docs:   /' >&2
    elif [ "$kind" = show ] && ! matches "$work/expect.$line" "$work/out"; then
        complain "$page:$line: other output than the page shows: $command"
        diff "$work/expect.$line" "$work/out" | sed 's/^/docs:   /' >&2 || true
    fi
}

run_page() {
    local page=$1 line kind wanted command
    cd "$2"
    while IFS=$'\t' read -r head command <&3; do
        read -r line kind wanted <<< "$head"
        check_words "$page" "$line" "$command"
        if [ "$kind" = skip ]; then
            not_run=$((not_run + 1))
        else
            run_command "$page" "$line" "$kind" "$wanted" "$command"
        fi
    done 3< "$work/steps"
    cd "$root"
}

# What the prose names is there: links, files of the tree, verbs, options.
check_prose() {
    local page=$1 target word
    while read -r target; do
        [ -e "$(dirname "$page")/$target" ] || complain "$page: a link to $target, which is not there"
    done < <(grep -oE '\]\([^)#: ]+' "$page" | sed 's/^](//' || true)
    while read -r word; do
        [[ $word =~ [A-Z]{2} && ! $word =~ README ]] || [ -e "$word" ] || complain "$page: names $word, which is not there"
    done < <(grep -oE '`(core|ref|gpu|compat|harness|reports|docs|fixtures|tests|ci)/[A-Za-z0-9_./-]+`' "$page" | tr -d '`' || true)
    while read -r word; do
        "$program" help "$word" > /dev/null 2>&1 || complain "$page: no verb $word"
    done < <(grep -oE '`assay [a-z]+' "$page" | sed 's/`assay //' | sort -u || true)
    while read -r word; do
        grep -qE -- "^  $word( |=|\[|$)" "$work/options" || complain "$page: no verb has $word"
    done < <(grep -oE '`(diff |forward |op |inspect |guard |extract |[a-z]+ )?--[a-z][a-z-]+' "$page" | grep -oE -- '--[a-z-]+' | sort -u || true)
}

mkdir "$work/bin"
ln -s "$program" "$work/bin/assay"
export PATH=$work/bin:$PATH NO_COLOR=1 ASSAY_PYTHON=${ASSAY_PYTHON:-python3}
for verb in $("$program" --help | sed -n 's/^  assay \([a-z]*\) .*/\1/p'); do "$program" help "$verb"; done > "$work/options"
printf '  %s\n' --version --prefix --preset --test-dir >> "$work/options" # of assay itself, of cmake and ctest
for page in "${pages[@]}"; do
    : > "$work/steps"
    : > "$work/mistakes"
    folder=$work/page.$(tr '/' '.' <<< "$page")
    mkdir "$folder"
    ln -s "$root/fixtures" "$root/compat" "$root/ci" "$folder/"
    cut_page "$page"
    while read -r mistake; do complain "$page:$mistake"; done < "$work/mistakes"
    check_prose "$page"
    began=$(date +%s%N)
    run_page "$page" "$folder"
    if [ -n "${DOCS_VERBOSE:-}" ]; then echo "docs: $page: $((($(date +%s%N) - began) / 1000000)) ms"; fi
    rm -rf "$folder" "$work"/expect.*
done
if [ -s "$work/reasons" ]; then sed 's/^[0-9]*: //' "$work/reasons" | sort | uniq -c | sed 's/^ */docs: not run: /'; fi
echo "docs: ${#pages[@]} pages, $ran commands run, $not_run not run, $failures wrong"
[ "$ran" -gt 0 ] && [ "$failures" -eq 0 ]
