#!/usr/bin/env bash
# lint_peers.sh FOLDER [BUILD]: `assay lint` beside ruff and shellcheck on the same files, as one JSON object: for each
# rule the lines of fixtures/lint/found/ that each tool reports (within three lines: a peer may name the log call and
# not the handler) and what it reports in fixtures/lint/fine/; then the handlers of ci/lint_corpus.sh, FOLDER as there.
# ruff: RUFF (default: ruff of PATH) with its nearest rules; shellcheck: all that it reports by default, style left out.
set -euo pipefail
folder=$(cd "${1:?the folder of the packages}" && pwd)
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
assay=${2:-$root/build}/bin/assay
ruff=${RUFF:-ruff}
nearest=BLE001,E722,S110,S112,TRY400,TRY401,B904,SIM105,SIM107,B012,S605,S607,PLW1510,RUF006,S101,TRY203,LOG014,G201
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Lines "LINE RULE" of one tool on one file; a status of 1 says that there are some.
ours() {
    local status=0
    "$assay" lint "$1" --json > "$work/ours" || status=$?
    [ "$status" -le 1 ] || return "$status"
    jq -r '.findings[] | select(.accepted | not) | "\(.line) \(.rule)"' "$work/ours"
}

peer() {
    local status=0
    if [[ $1 == *.py ]]; then
        "$ruff" check --isolated --no-cache --preview --select "$nearest" --output-format json "$1" > "$work/peer" || status=$?
        [ "$status" -le 1 ] || return "$status"
        jq -r '.[] | "\(.location.row) \(.code)"' "$work/peer"
    else
        shellcheck -S info -f json "$1" > "$work/peer" || status=$?
        [ "$status" -le 1 ] || return "$status"
        jq -r '.[] | "\(.line) SC\(.code)"' "$work/peer"
    fi
}

# How many marked lines of FILE have a finding in LIST, from that line to NEAR lines below.
hits() {
    awk -v near="$3" 'FNR == NR { at[$1] = 1; next }
        /# found/ { for (i = 0; i <= near; i++) if ((FNR + i) in at) { n++; next } } END { print n + 0 }' "$2" "$1"
}

rules() {
    local file rule name fine
    for file in "$root"/fixtures/lint/found/*; do
        name=$(basename "$file")
        rule=${name%.*}
        fine=$root/fixtures/lint/fine/$name
        [ "$rule" != lint.suppress ] || continue
        ours "$file" > "$work/a"
        peer "$file" > "$work/b"
        ours "$fine" | awk -v rule="$rule" '$2 == rule' > "$work/c"
        peer "$fine" > "$work/d"
        jq -n --arg rule "$rule" --argjson marked "$(hits "$file" <(seq 1 999) 0)" \
            --argjson assay "$(hits "$file" "$work/a" 0)" --argjson peer "$(hits "$file" "$work/b" 3)" \
            --argjson fine "$(wc -l < "$work/c")" --argjson fine_peer "$(wc -l < "$work/d")" \
            --arg by "$(cut -d ' ' -f 2 "$work/b" | sort -u | tr '\n' ' ')" \
            --arg tool "$([[ $file == *.py ]] && echo ruff || echo shellcheck)" \
            '{rule: $rule, lines: $marked, assay: $assay, peer: $tool, found_by_peer: $peer,
              peer_rules: ($by | split(" ") | map(select(. != ""))), assay_on_fine: $fine, peer_on_fine: $fine_peer}'
    done | jq -s .
}

# ruff on the labelled handlers: said where one of its rules names the handler's line or the next three.
corpus_of_ruff() {
    local status=0
    (cd "$folder" && grep -v '^#' "$root/fixtures/lint/corpus.tsv" | awk -F '\t' '{ print $1 "-" $2 "/" $3 }' | sort -u |
        xargs "$ruff" check --isolated --no-cache --preview --select BLE001,E722,S110,S112,TRY400 --output-format json) \
        > "$work/ruff" || status=$?
    [ "$status" -le 123 ] || return "$status"
    jq -r --arg root "$folder/" '.[] | "\(.filename | ltrimstr($root)):\(.location.row)"' "$work/ruff" > "$work/said"
    grep -v '^#' "$root/fixtures/lint/corpus.tsv" | awk -F '\t' '
        FNR == NR { at[$0] = 1; next }
        { hit = 0; for (i = 0; i < 4; i++) if (($1 "-" $2 "/" $3 ":" $4 + i) in at) hit = 1 }
        { n++; bad = $5 != "fine"; wanted += bad; said += hit; right += bad && hit }
        END { printf "{\"handlers\": %d, \"wanted\": %d, \"reported\": %d, \"right\": %d, \"precision\": %.4f, \"recall\": %.4f}\n",
                n, wanted, said, right, said ? right / said : 0, right / wanted }' "$work/said" -
}

rules > "$work/rules.json"
status=0
"$root/ci/lint_corpus.sh" "$folder" "${2:-$root/build}" 2> "$work/rows" > "$work/corpus" || status=$?
if [ "$status" -gt 1 ]; then # its stderr, else kept as rows, says why
    cat "$work/rows" >&2
    exit "$status"
fi
corpus_of_ruff > "$work/corpus.ruff"
jq -n --arg assay "$("$assay" --version | sed -n 1p)" --arg ruff "$("$ruff" --version)" --arg nearest "$nearest" \
    --arg shellcheck "$(shellcheck --version | awk '/^version:/ { print $2 }')" --slurpfile rules "$work/rules.json" \
    --slurpfile corpus "$work/corpus" --slurpfile by_ruff "$work/corpus.ruff" --rawfile rows "$work/rows" \
    '{command: "ci/lint_peers.sh FOLDER", versions: {assay: $assay, ruff: $ruff, shellcheck: $shellcheck},
      ruff_rules: $nearest, rules: $rules[0], corpus: {assay: $corpus, ruff: $by_ruff[0],
      differs: ($rows | split("\n") | map(select(. != "")))}}'
