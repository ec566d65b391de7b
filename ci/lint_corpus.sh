#!/usr/bin/env bash
# lint_corpus.sh FOLDER [BUILD]: `assay lint` against handlers labelled by hand (fixtures/lint/corpus.tsv): precision and
# recall. FOLDER holds the packages unpacked, FOLDER/NAME-VERSION/...; those that are not there are named. Nothing of
# them is imported or run. To get one: pip download --no-deps NAME==VERSION, then unzip it into FOLDER/NAME-VERSION.
# A row is found when a finding about handlers names its line. Rows: swallow (nobody learns of the error, or not of
# which), empty (its text alone is kept), fine; `held` ones were labelled after the rules were written and changed
# nothing. Fails below 95 % precision.
set -euo pipefail
folder=${1:?the folder of the packages}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
assay=$(realpath "${2:-$root/build}")/bin/assay # the loop below runs it from another folder
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

grep -v '^#' "$root/fixtures/lint/corpus.tsv" > "$work/rows"
while IFS=$'\t' read -r name version; do
    if [ ! -d "$folder/$name-$version" ]; then
        echo "not there: $folder/$name-$version" >&2
        exit 3
    fi
    status=0
    (cd "$folder" && "$assay" lint "$name-$version" --json < /dev/null > "$work/$name.json") || status=$?
    if [ "$status" -gt 1 ]; then
        echo "assay lint $name-$version: exit $status" >&2
        exit 3
    fi
    jq -r '.findings[] | select(.rule | startswith("handler.")) | "\(.file):\(.line)\t\(.rule)"' "$work/$name.json" \
        >> "$work/found"
done < <(cut -f 1,2 "$work/rows" | sort -u)

awk -F '\t' '
    function line(set,    p, r) {
        p = said[set] ? sprintf("%.4f", right[set] / said[set]) : "null"
        r = wanted[set] ? sprintf("%.4f", right[set] / wanted[set]) : "null"
        printf "{\"set\": \"%s\", \"handlers\": %d, \"wanted\": %d, \"reported\": %d, \"right\": %d, \"same_kind\": %d, ",
            set, n[set], wanted[set], said[set], right[set], kind[set]
        printf "\"precision\": %s, \"recall\": %s}\n", p, r
    }
    function count(set, bad, hit) {
        n[set]++
        wanted[set] += bad
        said[set] += hit
        right[set] += bad && hit
        kind[set] += bad && hit && (($5 == "empty") == (rule[key] == "handler.message"))
    }
    FNR == NR { rule[$1] = $2; next }
    { key = $1 "-" $2 "/" $3 ":" $4; bad = $5 != "fine"; hit = key in rule }
    { count("all", bad, hit); count($7, bad, hit) }
    bad != hit { print (hit ? "false: " : "missed: ") key " " $5 " " $6 " " rule[key] > "/dev/stderr" }
    END {
        line("all"); line("tuned"); line("held")
        exit !(said["all"] && right["all"] / said["all"] >= 0.95)
    }' "$work/found" "$work/rows"
