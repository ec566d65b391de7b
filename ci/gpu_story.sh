# shellcheck shell=bash
# The sections of ci/gpu.sh --ranks N that are the story's own shape: layers of Kimi-K2.5's dimensions over N ranks beside
# one card, a checkpoint of 64 files to N ranks, extraction with a bad sample and with a rank that dies. Sourced by
# ci/gpu.sh, whose check(), say() and keep() it uses. With --on ref the same is rehearsed on a smaller model without a card.

# story_config LAYERS FOLDER: a config of Kimi-K2.5's dimensions with so many layers.
story_config() {
    local from=fixtures/full-k25-2l/config.json vocab=163840
    if [ "$on" = ref ]; then from=fixtures/mid-k25/config.json vocab=1024; fi
    mkdir -p "$2"
    sed -e "s/\"num_hidden_layers\": *[0-9]*/\"num_hidden_layers\": $1/" -e "s/\"vocab_size\": *[0-9]*/\"vocab_size\": $vocab/" \
        "$from" > "$2/config.json"
}

# number FILE KEY: the first number of that name in a result.
number() {
    sed -n "s/^ *\"$2\": *\([0-9.e+-]*\).*/\1/p" "$1" | head -n 1
}

# ratio A B [SCALE]
ratio() {
    awk -v a="$1" -v b="$2" -v s="${3:-1}" 'BEGIN { printf "%.4g", (b > 0 ? s * a / b : 0) }'
}

# Seconds since $1, of date +%s.%N.
since() {
    awk -v a="$1" -v b="$(date +%s.%N)" 'BEGIN { printf "%.1f", b - a }'
}

# layer_rows NAME: the rows of the last check's result, a line each, and as JSON: what each took, the share of one rank's
# ceilings, what that is of one card's, and how much of a recorded run was NCCL's (with what a rank waits there).
layer_rows() {
    tr -d '\n' < "$work/log" | sed 's/{ *"op"/\n&/g; s/"against": {/\n&/g; s/"profile": {/\n&/g; s/{ *"kernel"/\n&/g' |
        awk -v name="$1" -v json="$work/rows.json" '
        function value(key, stop,    at, rest) {
            at = index($0, "\"" key "\": ")
            rest = at ? substr($0, at + length(key) + 4) : ""
            sub(/^"/, "", rest)
            match(rest, "^[^" stop "]*")
            return substr(rest, 1, RLENGTH)
        }
        function tell() {
            if (text == "") return
            printf "gpu: %-10s %-38s %9.1f us, %4.1f %% of %s%s\n", name, text, 1e6 * seconds, 100 * share, ceiling,
                ratio ? sprintf(", x%.2f of one card, NCCL %.0f %%", ratio, span ? 100 * nccl / span : 0) : ""
            printf "%s{\"case\": \"%s\", \"seconds\": %s, \"spread\": %s, \"ceiling\": \"%s\", \"share\": %s", rows++ ? ", " : "[",
                text, seconds, spread, ceiling, share > json
            if (ratio) printf ", \"of_one_card\": %s, \"nccl\": %.3f", ratio, span ? nccl / span : 0 > json
            printf "}" > json
            text = ""
            ratio = nccl = span = 0
        }
        /^{ *"op": "layer", *"case": "/ && /"share":/ {
            tell()
            text = value("case", ";")
            seconds = value("seconds", ",}")
            spread = value("spread", ",}")
            share = value("share", ",}")
            ceiling = value("ceiling", "\"")
        }
        /^"profile"/ { span = value("span_seconds", ",}") }
        /^{ *"kernel": "nccl/ { nccl += value("seconds", ",}") }
        /^"against"/ { ratio = value("ratio", ",}") }
        END {
            tell()
            print (rows ? "]" : "[]") > json
            exit !rows
        }' || fail "$1: no row"
}

# What a layer gains by ranks, and the share that one rank's ceilings would allow of what it has to do.
ranks_layers() {
    local way
    check "layers on one card" 0 "$assay" bench layer --on gpu --json || return 1
    cp "$work/log" "$work/one.json"
    layer_rows "one card"
    printf '{"one_card": %s' "$(cat "$work/rows.json")" > "$work/layers.json"
    for way in tp ep; do
        check "layers over --$way $ranks" 0 "$assay" bench layer --on gpu "--$way" "$ranks" --against "$work/one.json" \
            --json || continue
        layer_rows "$way $ranks"
        printf ',\n "%s_%d": %s' "$way" "$ranks" "$(cat "$work/rows.json")" >> "$work/layers.json"
    done
    echo '}' >> "$work/layers.json"
    keep layers "$work/layers.json"
}

# As many layers as the disk takes, but for a sixth of it; at most what --gigabytes allows. The first one, which is dense,
# and both ends of the model are 6 GB, each other layer 10.
layers_that_fit() {
    local free each=9.9 ends=6.1
    [ "$on" = gpu ] || { echo 8; return; }
    free=$(df -B1 --output=avail "$work" | tail -n 1)
    awk -v free="$free" -v most="$gigabytes" -v each="$each" -v ends="$ends" 'BEGIN {
        room = free / 1e9 * 5 / 6
        if (most > 0 && most < room) room = most
        print int((room - ends) / each) + (room > ends) }'
}

# Out of the page cache, as far as this system lets go of it.
forget_files() {
    local f
    for f in "$1"/*.safetensors; do dd if="$f" iflag=nocache count=0 status=none; done
}

# loaded NAME FOLDER: a forward over ranks, which loads it: what it took, what each rank told on the way.
loaded() {
    local name=$1 begun status=0 bytes seconds peak told
    ASSAY_LOAD_LINE_S=1 "$assay" forward "$2" --tokens 1,2,3,4,5 --on "$on" --tp "$ranks" --taps 'layers.*.output' \
        --out "$work/$name.st" --json > "$work/log" 2> "$work/told" || status=$?
    if [ "$status" -ne 0 ]; then
        cat "$work/told" >> "$work/log"
        fail "load $name: exit $status"
        return 1
    fi
    bytes=$(cat "$2"/*.safetensors | wc -c) seconds=$(number "$work/log" seconds) peak=$(number "$work/log" peak_bytes)
    told=$(for r in $(seq 0 $((ranks - 1))); do grep -c "rank $r: assay: load: " "$work/told"; done | sort -n | head -n 1)
    say "load $name: $(ratio "$bytes" 1e9) GB to $ranks ranks in $(ratio "$seconds" 1) s: $(ratio "$bytes" "$seconds" 1e-9) GB/s," \
        "a rank's part $(ratio "$bytes" "$((ranks * 1000000))") MB at $(ratio "$bytes" "$seconds" "$(ratio 1e-9 "$ranks")") GB/s;" \
        "host memory $(ratio "$peak" 1e6) MB of all ranks; progress: $told lines of the rank that told least"
    sed -n 's/^.*\(rank [0-9]*: assay: load: .*\)/\1/p' "$work/told" | awk '{ last[$2] = $0 } END { for (r in last) print "gpu:   " last[r] }' | sort
    # Tables, buffers, what a device's library keeps: none of it grows with the checkpoint.
    awk -v p="$peak" -v n="$ranks" 'BEGIN { exit !(p > 0 && p <= n * 2e9) }' ||
        fail "load $name: $peak bytes of host memory, more than 2 GB a rank"
    [ "$told" -gt 0 ] || awk -v s="$seconds" 'BEGIN { exit !(s < 5) }' || fail "load $name: a rank told nothing of its load"
    printf '{"bytes": %s, "seconds": %s, "bytes_a_second": %s, "bytes_a_second_a_rank": %s, "peak_bytes": %s, "progress_lines": %s}\n' \
        "$bytes" "$seconds" "$(ratio "$bytes" "$seconds")" "$(ratio "$bytes" "$seconds" "$(ratio 1 "$ranks")")" "$peak" "$told" \
        > "$work/load-$name.json"
}

ranks_load() {
    local layers begun wrote
    layers=$(layers_that_fit)
    [ "$layers" -ge 2 ] || {
        say "FAIL load: the disk takes $layers layers of Kimi-K2.5's dimensions"
        failures=$((failures + 1))
        return 1
    }
    story_config "$layers" "$work/config"
    begun=$(date +%s.%N)
    check synth 0 "$assay" synth "$work/config/config.json" --seed 1 --out "$work/k25" --shards 64 || return 1
    wrote=$(since "$begun")
    say "synth: $layers layers, $(du -sB1000000 "$work/k25" | cut -f 1) MB in 64 files, $wrote s"
    sync
    forget_files "$work/k25"
    if loaded cold "$work/k25" && loaded warm "$work/k25"; then
        check "what was loaded is what the address makes" 0 "$assay" forward "synth:$work/config/config.json?seed=1" \
            --tokens 1,2,3,4,5 --on "$on" --tp "$ranks" --taps 'layers.*.output' --out "$work/made.st" &&
            check "bit for bit" 0 "$assay" diff "$work/cold.st" "$work/made.st" --bound 0
        printf '{"layers": %d, "files": 64, "synth_seconds": %s, "cold": %s, "warm": %s}\n' "$layers" "$wrote" \
            "$(cat "$work/load-cold.json")" "$(cat "$work/load-warm.json")" > "$work/load.json"
        keep load "$work/load.json"
    fi
    rm -rf "$work/k25"
}

# Samples of 3 to some hundred tokens; number 16 has a token that is none.
story_samples() {
    awk -v longest="$1" -v vocab="$2" 'BEGIN {
        for (i = 0; i < 32; i++) {
            n = 3 + (i * 37) % longest
            ids = ""
            for (k = 0; k < n; k++) {
                id = (i * 7919 + k * 104729) % vocab
                if (i == 16 && k == 2) id = 999999999
                ids = ids (k ? "," : "") id
            }
            printf "{\"input_ids\": [%s]}\n", ids
        }
    }'
}

# extraction OUT OPTION...: four layers, TP over all ranks.
extraction() {
    local out=$1 model
    shift
    model="synth:$work/story/config.json?seed=1"
    "$assay" extract "$model" --data "$work/story.jsonl" --layers 0,1,2,3 --numbering output --format vllm --on "$on" \
        --tp "$ranks" --batch 1 --rank-timeout 60 --out "$out" "$@"
}

# In the middle a sample that is none; in another run a rank that is killed, and the run taken up again: the same files.
ranks_extract() {
    local begun took killed
    local longest=500 vocab=163840
    [ "$on" = gpu ] || longest=60 vocab=1000
    story_config 4 "$work/story"
    story_samples "$longest" "$vocab" > "$work/story.jsonl"
    check "a bad sample stops it" 2 extraction "$work/stops" &&
        says "a bad sample stops it" 'sample 16 (line 17): input_ids\[2\]: found 999999999'
    [ ! -e "$work/stops/manifest.json" ] || fail "a run that stopped left a manifest"
    begun=$(date +%s.%N)
    check "a bad sample is passed over" 1 extraction "$work/whole" --skip-bad --json || return 1
    took=$(since "$begun")
    says "a bad sample is passed over" '"written": 31'
    [ "$(grep -o '"sample": *16,' "$work/whole/manifest.json" | wc -l)" = 1 ] && grep -q '"written": *31' "$work/whole/manifest.json" ||
        fail "the manifest does not say what was written and skipped"
    say "extract: 31 of 32 samples, $(number "$work/log" tokens) tokens in $took s, $(ratio "$(number "$work/log" tokens_per_second)" 1) tokens a second without the load"
    begun=$(date +%s.%N)
    ASSAY_RANK_FAULT=proc.worker_signal@rank=$((ranks - 1)),signal=9,call=9,step=9 \
        check "a rank is killed" 3 extraction "$work/killed" --skip-bad
    killed=$(since "$begun")
    says "a rank is killed" "assay: error: .*rank $((ranks - 1)) was ended by a signal.*signal 9"
    says "a rank is killed" "samples\? 8"
    [ ! -e "$work/killed/manifest.json" ] || fail "a run that was cut short left a manifest"
    say "extract, a rank killed: exit 3 after $killed s: $(grep -m 1 'assay: error' "$work/log" | cut -c1-300)"
    check "taken up again" 1 extraction "$work/killed" --skip-bad --resume --json && says "taken up again" '"resumed": 8' &&
        check "the same files" 0 diff -r "$work/whole" "$work/killed"
    printf '{"samples": 32, "bad": 1, "written": 31, "seconds": %s, "rank_killed": {"exit": 3, "seconds": %s, "resumed": 8}}\n' \
        "$took" "$killed" > "$work/extract.json"
    keep extract "$work/extract.json"
}
