# shellcheck shell=bash
# The sections of ci/gpu.sh --ranks N: a model over N ranks, one a device by NCCL where there are as many, else several a
# device over the host. Sourced by ci/gpu.sh, whose check(), say(), model_of() it uses.

ranks_cases=(tiny-k25 tiny-dsv3 tiny-k2-plainrope tiny-long tiny-smallnorm mid-k25 full-k25-2l)

# NCCL where Python's packages keep it, if the system has none.
find_nccl() {
    local folder
    ldconfig -p 2> /dev/null | grep -q 'libnccl\.so\.2' && return
    folder=$(python3 -c 'import os, nvidia.nccl as n; print(os.path.join(list(n.__path__)[0], "lib"))' 2> /dev/null) || return
    export LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$folder
}

# The ways to use N ranks, a line each; two by two is worth its four ranks even on fewer devices.
ranks_ways() {
    printf '%s\n' "--tp $ranks" "--ep $ranks"
    if [ $((ranks % 4)) -eq 0 ]; then echo "--tp $((ranks / 2)) --ep 2"; else echo "--tp 2 --ep 2"; fi
}

# over NAME MODEL TOKENS OUT WAY...: a forward over ranks. Status 1: this model cannot be cut so, which is said.
over() {
    local name=$1 model=$2 tokens=$3 out=$4 status=0
    shift 4
    "$assay" forward "$model" --tokens "$tokens" --on gpu --out "$out" "$@" > "$work/log" 2>&1 || status=$?
    [ "$status" -eq 0 ] && return 0
    if [ "$status" -eq 2 ] && grep -q 'shard plan' "$work/log"; then
        say "$name $*: not cut so: $(cut -c1-160 "$work/log" | head -n 1)"
        return 1
    fi
    say "FAIL $name $*: exit $status"
    tail -n 12 "$work/log"
    failures=$((failures + 1))
    return 1
}

# Every rank's choice of experts and its last rows are compared on the way (ASSAY_GPU_AGREE). A few cases run at once,
# each in a folder of its own, and say what they found in the end.
ranks_parity() {
    local n=0 i way name held=0
    while read -r way; do
        for name in "${ranks_cases[@]}"; do
            n=$((n + 1))
            mkdir -p "$work/$n"
            # shellcheck disable=SC2030,SC2086
            (work=$work/$n && failures=0 && parity_over "$name" $way && echo "$failures" > "$work/failures") \
                > "$work/$n.txt" 2>&1 &
            while [ "$(jobs -rp | wc -l)" -ge 6 ]; do wait -n; done
        done
    done < <(ranks_ways)
    wait
    for i in $(seq "$n"); do
        # shellcheck disable=SC2031
        cat "$work/$i.txt"
        # shellcheck disable=SC2031
        failures=$((failures + $(cat "$work/$i/failures" 2> /dev/null || echo 1)))
        # shellcheck disable=SC2031
        if [ -e "$work/$i/held" ]; then held=$((held + 1)); fi
    done
    say "ranks_parity: $held of $n hold against golden and reference"
    printf '{"held": %d, "of": %d}\n' "$held" "$n" > "$work/parity.json"
    keep parity "$work/parity.json"
    [ "$held" -gt 0 ] || failures=$((failures + 1))
}

# NAME WAY...
parity_over() {
    local name=$1 model
    shift
    model=$(model_of "$name")
    export ASSAY_GPU_AGREE=1
    over "$name" "$model" "@fixtures/$name/golden.json" "$work/r.st" "$@" || return 0
    check "$name $* golden" 0 "$assay" diff "$work/r.st" "fixtures/$name/golden.safetensors" --model "$model" \
        --profile gpu &&
        check "$name $* ref" 0 "$assay" diff "$work/r.st" --model "$model" --profile gpu --anchor && : > "$work/held"
    return 0
}

# Which rank computes an expert is no matter, and the way that parts travel changes no bit.
ranks_bits() {
    local model=fixtures/tiny-k25 tokens=@fixtures/tiny-k25/golden.json how reduce
    for how in "--expert-map round-robin" "--redundant 3"; do
        # shellcheck disable=SC2086
        over "$how" "$model" "$tokens" "$work/ep.st" --decode-last 4 --ep "$ranks" $how &&
            check "$how against the reference" 0 "$assay" diff "$work/ep.st" --model "$model" --profile gpu
    done
    model=$(model_of mid-k25) tokens=@fixtures/mid-k25/golden.json
    for reduce in f32 bf16; do
        over "$reduce" "$model" "$tokens" "$work/a.st" --tp "$ranks" --reduce "$reduce" --decode-last 4 || continue
        ASSAY_GPU_TRANSPORT=host over "$reduce" "$model" "$tokens" "$work/b.st" --tp "$ranks" --reduce "$reduce" \
            --decode-last 4 &&
            check "$reduce: the same bits over the host" 0 "$assay" diff "$work/a.st" "$work/b.st" --bound 0
    done
}

# says NAME WORDS: the last check's output has them.
says() {
    grep -q -- "$2" "$work/log" || fail "$1: no \"$2\" in its output"
}

# What cannot be is one clear line.
ranks_refusals() {
    local way=(--ep 16)
    ASSAY_GPU_TRANSPORT=nccl check "more ranks than devices" 3 "$assay" forward fixtures/tiny-k25 --tokens 1,2,3 \
        --on gpu --out "$work/never.st" "${way[@]}" && says "more ranks than devices" 'a device for each rank'
    ASSAY_GPU_TRANSPORT=pigeon check "no such transport" 2 "$assay" forward fixtures/tiny-k25 --tokens 1,2,3 \
        --on gpu --out "$work/never.st" --ep "$ranks"
}

# Decodes over ranks, by graphs where NCCL is; what they say is held, row by row, against the reference. Graphs change
# no token.
ranks_text() {
    local how
    while read -r how; do
        # shellcheck disable=SC2086
        text_over $how || return 1
    done < <(printf '%s\n' "fixtures/tiny-k25 --ep $ranks" "fixtures/tiny-k25 --ep $ranks --draft fixtures/eagle-trained" \
        "$(model_of mid-k25) --tp $ranks")
}

# MODEL OPTION...
text_over() {
    local model=$1 prompt=1,420,348,395,7 graph
    shift
    for graph in 1 0; do
        ASSAY_GPU_GRAPH=$graph check "generate $*" 0 "$assay" generate "$model" --tokens "$prompt" -n 24 --on gpu --json \
            "$@" || return 1
        tr -d ' \n' < "$work/log" | sed 's/.*"tokens":\[\([0-9,]*\)\].*/\1/' > "$work/text$graph"
    done
    check "$*: graphs change no token" 0 cmp "$work/text0" "$work/text1"
    printf '[%s,%s]\n' "$prompt" "$(cat "$work/text1")" > "$work/text.json"
    over text "$model" "$work/text.json" "$work/text.st" "$1" "$2" --decode-last 24 &&
        check "$*: its text against the reference" 0 "$assay" diff "$work/text.st" --model "$model" --profile gpu
}

# Samples over ranks are the states of a forward over the same ranks.
ranks_samples() {
    local model ids
    model=$(model_of mid-k25)
    ids=$(tr -d ' \n' < fixtures/mid-k25/golden.json | sed 's/.*"tokens":\[\([0-9,]*\)\].*/\1/' | cut -d, -f 1-40)
    printf '{"input_ids": [%s]}\n' "$ids" > "$work/data.jsonl"
    printf '%s\n' 'assay-map: 1' 'tokens: token_ids' 'taps:' \
        '  - {from: hidden_states, axis: 1, stack: ["layers.{0..2}.output"]}' > "$work/samples.yaml"
    check "extract over ranks" 0 "$assay" extract "$model" --data "$work/data.jsonl" --layers 0,1,2 --numbering output \
        --format vllm --on gpu --tp "$ranks" --out "$work/samples" &&
        over states "$model" "$ids" "$work/whole.st" --tp "$ranks" &&
        check "samples against the forward's states" 0 "$assay" diff "$work/samples/hs_0.safetensors" "$work/whole.st" \
            --map "$work/samples.yaml" --bound 0
}

# What ranks do wrong together is caught; a rank that dies, hangs or drops out in the middle of a step is named, with what
# the others waited for, and the run ends in seconds.
ranks_faults() {
    local fault began who took next=
    check "faults of ranks" 0 "$assay" fault run --on "$on" --fault 'tp.*' --fault 'ep.*' --ranks $((ranks < 4 ? 2 : 4)) --clean 0 --quick
    grep -E '^(missed|wrong)|faults? named|injected' "$work/log"
    grep -E '^(missed|wrong)|faults? named|injected' "$work/log" | sed 's/["\\]/\\&/g; s/.*/"&",/' | tr -d '\n' |
        sed 's/^/{"tp_and_ep": [/; s/,$/], "processes": [/' > "$work/faults.json"
    for fault in proc.worker_signal@rank=1,signal=9 proc.nccl_abort@rank=1 proc.hang@rank=1 proc.worker_exit_0@rank=0; do
        began=$(date +%s)
        ASSAY_RANK_FAULT=$fault,call=1,step=20 check "$fault" 3 "$assay" forward "$(model_of mid-k25)" --tokens 1,2,3,4 \
            --on "$on" --tp "$ranks" --rank-timeout 10 --out "$work/never.st" || continue
        took=$(($(date +%s) - began))
        who=${fault#*rank=}
        # The first cause is the guilty rank's, and the error that ends the run is that one.
        says "$fault" "^assay: rank ${who%%,*}: cause: "
        says "$fault" "^assay: error: .*rank ${who%%,*}"
        [ "$took" -le 40 ] && [ ! -e "$work/never.st" ] || fail "$fault: $took s, or a dump is left"
        say "$fault: $took s: $(grep -m 1 'assay: error' "$work/log" | cut -c1-300)"
        printf '%s{"fault": "%s", "exit": 3, "seconds": %d, "said": "%s"}' "$next" "$fault" "$took" \
            "$(grep -m 1 'assay: error' "$work/log" | sed 's/["\\]/\\&/g')" >> "$work/faults.json"
        next=', '
    done
    echo ']}' >> "$work/faults.json"
    keep faults "$work/faults.json"
}

ranks_bench() {
    check bench 0 "$assay" bench collectives --on gpu --tp "$ranks" --json || return 1
    keep collectives "$work/log"
    tr -d '\n' < "$work/log" | sed 's/{ *"op"/\n&/g' | sed -n \
        's/^{ *"op": "\([^"]*\)", *"case": "\([^"]*\)".*"seconds": \([0-9.e-]*\).*"busbw_gbps": \([0-9.e-]*\).*/\1|\2|\3|\4/p' |
        awk -F'|' '{ printf "gpu: %-10s %-55s %10.1f us  bus %7.1f GB/s\n", $1, $2, $3 * 1e6, $4 }'
}
