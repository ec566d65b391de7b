#!/usr/bin/env bash
# The whole check of the CUDA path in one call, on a machine with a GPU: parity of every shipped case (reference against
# golden, gpu against golden, gpu against reference), the same run twice, chunked and batched runs, ops at random and at
# fixed sizes, every kernel that can be forced, planted faults, injected launch failures, compute-sanitizer, bench. Works
# from the folder that ci/gpu_pack.sh makes. Writes one JSON.
#     ci/gpu.sh [--pack FOLDER] [--out FILE] [--only SECTION,...] [--count N] [--ranks N] [--gigabytes N] [--on ref]
# Sections: doctor parity repeat draft samples sweep cases tactics faults failures large sanitizer counters bench. Exit 0
# only if each of those asked for passed.
# With --ranks N the sections are those of ci/gpu_ranks.sh: ranks_parity ranks_bits ranks_refusals ranks_text
# ranks_samples ranks_faults ranks_bench, and of ci/gpu_story.sh: ranks_layers ranks_load ranks_extract. --gigabytes: how
# much of the disk the load may take (what is free, but for a sixth). --on ref: faults, load and extraction on a
# smaller model and without a card, to rehearse.
set -Euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
pack=build/gpu
out=build/gpu/result.json
ranks=1
on=gpu
gigabytes=0
only=
whole=doctor,parity,repeat,draft,samples,sweep,cases,tactics,faults,failures,large,sanitizer,counters,bench
count=40
while [ $# -gt 0 ]; do
    case $1 in
    --pack) pack=$2 ;;
    --out) out=$2 ;;
    --only) only=$2 ;;
    --count) count=$2 ;;
    --ranks) ranks=$2 ;;
    --gigabytes) gigabytes=$2 ;;
    --on) on=$2 ;;
    *)
        echo "ci/gpu.sh: found \"$1\", wanted --pack, --out, --only, --count, --ranks, --gigabytes or --on" >&2
        exit 2
        ;;
    esac
    shift 2
done
if [ "$ranks" -gt 1 ]; then
    whole=doctor,ranks_parity,ranks_bits,ranks_refusals,ranks_text,ranks_samples,ranks_faults,ranks_bench,ranks_layers
    whole=$whole,ranks_load,ranks_extract
fi
if [ "$on" = ref ]; then whole=ranks_faults,ranks_load,ranks_extract; fi
only=${only:-$whole}
assay=$pack/assay
export LD_LIBRARY_PATH=$pack/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ -x "$assay" ] || {
    echo "ci/gpu.sh: $assay is missing: ci/gpu_pack.sh makes it" >&2
    exit 2
}
failures=0
sections=
now=start # the section that runs
started=$(date +%s)

say() {
    printf 'gpu: %s\n' "$*"
}

# A call that is ended from outside says where it stood, and leaves what it has.
ended() {
    trap '' TERM INT HUP
    say "FAIL ended by signal $1 in section $now"
    tail -qn 3 "$work/log" "$work"/*/log 2> /dev/null | cut -c1-400
    failures=$((failures + 1))
    sections=$sections${sections:+, }"{\"name\": \"$now\", \"verdict\": \"ended\"}"
    write_result
    exit $((128 + $1))
}
trap 'ended 15' TERM
trap 'ended 2' INT
trap 'ended 1' HUP

fail() {
    say "FAIL $*"
    tail -n 12 "$work/log"
    failures=$((failures + 1))
}

# keep NAME FILE: a JSON value of the result.
mkdir "$work/kept"
keep() {
    cp "$2" "$work/kept/$1.json"
}

# check NAME EXPECTED COMMAND...: runs it; its output is kept and shown where the status is another one.
check() {
    local name=$1 expected=$2 status=0
    shift 2
    "$@" > "$work/log" 2>&1 || status=$?
    if [ "$status" -eq "$expected" ]; then
        return 0
    fi
    say "FAIL $name: exit $status, wanted $expected: $*"
    tail -n 12 "$work/log"
    failures=$((failures + 1))
    return 1
}

# section NAME FUNCTION
section() {
    case ,$only, in *,"$1",*) ;; *) return 0 ;; esac
    local before=$failures begun verdict=pass
    now=$1
    begun=$(date +%s.%N)
    "$2"
    [ "$failures" -eq "$before" ] || verdict=fail
    local took
    took=$(awk -v a="$begun" -v b="$(date +%s.%N)" 'BEGIN { printf "%.1f", b - a }')
    say "$1: $verdict, $took s"
    sections=$sections${sections:+, }"{\"name\": \"$1\", \"verdict\": \"$verdict\", \"seconds\": $took}"
}

# The result, of the sections so far.
write_result() {
    local driver device name
    driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2> /dev/null | head -n 1)
    device=$(nvidia-smi --query-gpu=name --format=csv,noheader 2> /dev/null | head -n 1)
    mkdir -p "$(dirname "$out")"
    {
        printf '{"what": "the CUDA path, whole check", "command": "ci/gpu.sh --ranks %d --only %s", "date": "%s", "commit": "%s",\n' \
            "$ranks" "$only" "$(date -u +%F)" "$(cat "$pack/commit" 2> /dev/null || echo unknown)"
        printf ' "device": "%s", "driver": "%s", "seconds": %d, "failures": %d,\n' \
            "${device:-none}" "${driver:-none}" "$(($(date +%s) - started))" "$failures"
        printf ' "sections": [%s]' "$sections"
        printf ',\n "ranks": %d' "$ranks"
        for name in "$work"/kept/*.json; do
            [ -e "$name" ] || continue
            printf ',\n "%s": ' "$(basename "$name" .json)"
            cat "$name"
        done
        printf '}\n'
    } > "$out.tmp"
    mv "$out.tmp" "$out"
}

doctor() {
    check doctor 0 "$assay" doctor
}

# MODEL NAME: golden, reference and device, each against the other.
three_verdicts() {
    local model=$1 name=$2 tokens=@$3/golden.json golden=$3/golden.safetensors
    check "$name ref" 0 "$assay" forward "$model" --tokens "$tokens" --on ref --out "$work/ref.st" &&
        check "$name gpu" 0 "$assay" forward "$model" --tokens "$tokens" --on gpu --out "$work/gpu.st" &&
        check "$name ref-golden" 0 "$assay" diff "$work/ref.st" "$golden" --bound 5e-5 &&
        check "$name gpu-golden" 0 "$assay" diff "$work/gpu.st" "$golden" --model "$model" --profile gpu &&
        check "$name gpu-ref" 0 "$assay" diff "$work/gpu.st" --model "$model" --profile gpu --anchor
}

# The checkpoint of a case: its files, or the seed that it is made from.
model_of() {
    local gain
    if [ -f "fixtures/$1/model.safetensors" ]; then
        echo "fixtures/$1"
    else
        gain=$(field_of "$1" latent_gain)
        echo "synth:fixtures/$1/config.json?seed=$(field_of "$1" seed)${gain:+&latent_gain=$gain}"
    fi
}

parity() {
    local name
    for name in tiny-k25 tiny-dsv3 tiny-k2-plainrope tiny-long tiny-smallnorm mid-k25 full-k25-2l; do
        three_verdicts "$(model_of "$name")" "$name" "fixtures/$name"
    done
}

# field_of CASE NAME: a number of its golden.json, or nothing.
field_of() {
    tr -d ' \n' < "fixtures/$1/golden.json" | sed -n "s/.*\"$2\":\([0-9.e+-]*\).*/\1/p"
}

# The same bits twice, in chunks, and in another batch, or the contract says why not (gpu/linear.cuh).
repeat() {
    local model=fixtures/tiny-k25 tokens=@fixtures/tiny-k25/golden.json
    check "run a" 0 "$assay" forward "$model" --tokens "$tokens" --on gpu --out "$work/a.st"
    check "run b" 0 "$assay" forward "$model" --tokens "$tokens" --on gpu --out "$work/b.st"
    check "the same run twice" 0 "$assay" diff "$work/a.st" "$work/b.st" --bound 0
    check "in chunks of 5" 0 "$assay" forward "$model" --tokens "$tokens" --on gpu --prefill-chunk 5 --out "$work/c.st"
    check "chunked against whole" 0 "$assay" diff "$work/c.st" --model "$model" --profile gpu
}

# A trained EAGLE-3 head: tokens and acceptances of the reference's run, chain and tree; samples within their bound.
draft() {
    local model=fixtures/tiny-k25 mode on prompt
    prompt=$(tr -d ' \n' < "$model/golden.json" | sed 's/.*"tokens":\[\([0-9,]*\)\].*/\1/' | cut -d, -f 1-16)
    for mode in chain tree; do
        for on in ref gpu; do
            check "generate $mode $on" 0 "$assay" generate "$model" --tokens "$prompt" -n 48 --on "$on" \
                --draft fixtures/eagle-trained --mode "$mode" --json || return 1
            tr -d ' \n' < "$work/log" | sed 's/.*"tokens":\(\[[0-9,]*\]\).*/\1/' > "$work/$mode-$on.tokens"
            tr -d ' \n' < "$work/log" | sed 's/.*"accepted":\(\[[0-9,]*\]\).*/\1/' > "$work/$mode-$on.accepted"
        done
        # Another token is no fault where the two best are nearly equal: the text is then held, row by row, against the
        # reference's run over the same text.
        if cmp -s "$work/$mode-ref.tokens" "$work/$mode-gpu.tokens"; then
            check "$mode: the same acceptances" 0 cmp "$work/$mode-ref.accepted" "$work/$mode-gpu.accepted"
        else
            say "draft: $mode: other tokens than the reference's: held as text"
            printf '[%s,%s]\n' "$prompt" "$(tr -d '[]' < "$work/$mode-gpu.tokens")" > "$work/text.json"
            check "$mode: its text" 0 "$assay" forward "$model" --tokens "$work/text.json" --on gpu --decode-last 48 \
                --out "$work/text.st" &&
                check "$mode: its text against the reference" 0 "$assay" diff "$work/text.st" --model "$model" --profile gpu
        fi
    done
    check "forward with a head" 0 "$assay" forward "$model" --tokens "@$model/golden.json" --on gpu \
        --draft fixtures/eagle-trained --draft-steps 3 --out "$work/draft.st" &&
        check "draft gpu-ref" 0 "$assay" diff "$work/draft.st" --model "$model" --draft fixtures/eagle-trained \
            --profile gpu
}

# Training samples are the states of the same forward, bit for bit, and those hold against the reference under the
# profile's bound.
samples() {
    local model=fixtures/tiny-k25 ids
    ids=$(tr -d ' \n' < "$model/golden.json" | sed 's/.*"tokens":\[\([0-9,]*\)\].*/\1/' | cut -d, -f 1-40)
    printf '{"input_ids": [%s]}\n' "$ids" > "$work/data.jsonl"
    printf '%s\n' 'assay-map: 1' 'tokens: token_ids' 'taps:' \
        '  - {from: hidden_states, axis: 1, stack: ["layers.{0..3}.output"]}' > "$work/samples.yaml"
    check "extract" 0 "$assay" extract "$model" --data "$work/data.jsonl" --layers 0,1,2,3 --numbering output \
        --format vllm --on gpu --out "$work/samples" &&
        check "forward of a sample's tokens" 0 "$assay" forward "$model" --tokens "$ids" --on gpu --out "$work/whole.st" &&
        check "samples against the forward's states" 0 "$assay" diff "$work/samples/hs_0.safetensors" "$work/whole.st" \
            --map "$work/samples.yaml" --bound 0 &&
        check "those states against the reference" 0 "$assay" diff "$work/whole.st" --model "$model" --profile gpu
}

sweep() {
    check "sweep of the ops" 0 "$assay" op --sweep --on ref,gpu --count "$count"
    tail -n 1 "$work/log"
}

cases() {
    check "fixed cases" 0 "$assay" op --cases fixtures/gpu/cases.txt --on ref,gpu
    grep -E 'FAIL|NOT IMPL' "$work/log" | cut -c1-300
    tail -n 1 "$work/log"
}

# serves CARDS CAPABILITY: whether a line of fixtures/gpu/tactics.txt is for this card.
serves() {
    case $1 in
    all) ;;
    9.0) [ "$2" = 9.0 ] ;;
    9.0+) [ "${2%.*}" -ge 9 ] ;;
    *) false ;;
    esac
}

# forced TACTIC CARD LIST: its cases for this card, against the reference; the others are refused. Of linear and router the
# report must name it. In a folder of its own, where it leaves how many checks failed.
forced() {
    local name=$1 cards tactic op line
    failures=0
    work=$work/$name
    mkdir "$work"
    while read -r cards tactic op line <&3; do
        [ "$tactic" = "$name" ] || continue
        if serves "$cards" "$2"; then
            echo "$op $line" >> "$work/cases.txt"
        else
            check "$name, refused" 2 "$assay" op "$op" "$line" --on ref,gpu --tactic "$name"
        fi
    done 3< <(grep -v '^#' "$3")
    if [ -e "$work/cases.txt" ] &&
        check "$name" 0 "$assay" op --cases "$work/cases.txt" --on ref,gpu --tactic "$name" --json &&
        { [ "${name#linear=}" != "$name" ] || [ "${name#router=}" != "$name" ]; } &&
        ! grep -qiE "\"(kernel|tactic)\": *\"(linear_)?${name#*=}\"" "$work/log"; then
        fail "$name: no kernel of this name in the report"
    fi
    echo "$failures" > "$work/failures"
}

# Each kernel that an op can be forced to, eight at a time: most of it is the host's.
tactics() {
    local list=fixtures/gpu/tactics.txt card tactic kernels
    card=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1)
    kernels=$(awk '!/^#/ { print $2 }' "$list" | sort -u)
    for tactic in $kernels; do
        while [ "$(jobs -rp | wc -l)" -ge 8 ]; do sleep 0.1; done
        (trap - TERM INT HUP EXIT && forced "$tactic" "$card" "$list" < /dev/null) &
    done
    wait
    for tactic in $kernels; do
        failures=$((failures + $(cat "$work/$tactic/failures" || echo 1)))
    done
    say "tactics: $(wc -w <<< "$kernels") kernels forced; of $(cat "$work"/*=*/cases.txt | wc -l) cases on a card of $card"
}

faults() {
    check "faults on the device" 0 "$assay" fault run --on gpu --quick --clean 40
    grep -E '^(missed|wrong)|faults? named|injected|clean runs' "$work/log"
}

# The N-th launch or call fails: one line that says which op, and exit 3.
failures() {
    local n
    for n in 1 2 3 5 10 50 200 400; do
        ASSAY_GPU_FAIL_AT=$n check "failure at launch $n" 3 "$assay" forward fixtures/tiny-k25 --tokens 1,2,3 --on gpu \
            --out "$work/never.st" || continue
        grep -q "ASSAY_GPU_FAIL_AT" "$work/log" || {
            say "FAIL failure at launch $n: $(cat "$work/log")"
            failures=$((failures + 1))
        }
        [ ! -e "$work/never.st" ] || {
            say "FAIL failure at launch $n left a dump"
            failures=$((failures + 1))
        }
    done
}

# Kimi-K2.5's own widths: one dense and one MoE layer of 384 experts, 4096 tokens; and a model that cannot fit, which must
# be said before anything is loaded.
large() {
    local tokens=$work/tokens.json config=$work/k25
    seq 1 4096 | awk '{ printf "%s%d", (NR > 1 ? "," : "["), ($1 * 7919) % 2048 } END { print "]" }' > "$tokens"
    check "two layers of K2.5, 4096 tokens" 0 "$assay" forward "synth:fixtures/full-k25-2l/config.json?seed=23" \
        --tokens "$tokens" --on gpu --taps 'layers.*.output' --out "$work/large.st"
    head -n 1 "$work/log"
    mkdir -p "$config"
    sed 's/"num_hidden_layers": *[0-9]*/"num_hidden_layers": 61/' fixtures/full-k25-2l/config.json > "$config/config.json"
    check "a model that does not fit" 3 "$assay" forward "synth:$config/config.json?seed=1" --tokens 1,2,3 --on gpu \
        --out "$work/never.st" && cat "$work/log"
}

# sanitized TOOL COMMAND...: no finding. The race checker takes what the library's products (nvjet) store by the bulk copy
# engine for races; told to leave them out it fails on their exceptions. So they are looked at, and their lines not counted.
sanitized() {
    local tool=$1 status
    shift
    if [ "$tool" != racecheck ]; then
        check "$tool: $*" 0 compute-sanitizer --tool "$tool" --error-exitcode 9 "$assay" "$@"
        return
    fi
    check "$tool: $*" 0 compute-sanitizer --tool racecheck --print-limit 100000 "$assay" "$@" || return 1
    status=0
    grep 'Race reported' "$work/log" | grep -v 'access at nvjet' > "$work/races" || status=$?
    if [ "$status" -eq 0 ] || ! grep -q 'RACECHECK SUMMARY' "$work/log"; then
        say "FAIL racecheck: $*"
        head -n 5 "$work/races"
        failures=$((failures + 1))
    fi
}

# sanitized_by TOOL MODEL: its five runs, in a folder of its own; its exit status is the number that failed.
sanitized_by() {
    local tool=$1 mid=$2 before=0
    failures=0
    work=$work/$tool
    mkdir "$work"
    while read -r command; do
        SECONDS=0
        # shellcheck disable=SC2086 # words of a command without spaces in them
        sanitized "$tool" $command < /dev/null
        [ "$failures" -gt "$before" ] || say "$tool: $SECONDS s, no finding: ${command:0:60}"
        before=$failures
    done << EOF
forward fixtures/tiny-k25 --tokens 1,2,3,4,5,6,7 --on gpu --decode-last 2 --out $work/s.st
forward $mid --tokens $(seq -s , 1 24) --on gpu --decode-last 2 --out $work/s.st
op --cases fixtures/gpu/sanitizer.txt --on ref,gpu
op mla.core heads=17,P=128,R=64,V=128,L=512,context=600:0,rows=1:2,block=64,form=absorbed,profile=gpu --on ref,gpu --tactic mla.decode=parts
generate fixtures/tiny-k25 --tokens 1,2,3 -n 4 --on gpu --draft fixtures/eagle-trained
EOF
    return "$failures"
}

# The tools run side by side: most of their time is the host's, which instruments each kernel.
sanitizer() {
    local tool mid running=() status
    command -v compute-sanitizer > /dev/null || {
        say "FAIL compute-sanitizer is missing"
        failures=$((failures + 1))
        return 1
    }
    export ASSAY_GPU_PREFILL=1 ASSAY_GPU_EVERY_LANE=1
    mid=$(model_of mid-k25)
    for tool in memcheck racecheck initcheck synccheck; do
        (trap - TERM INT HUP EXIT && sanitized_by "$tool" "$mid") &
        running+=($!)
    done
    for tool in "${running[@]}"; do
        status=0
        wait "$tool" || status=$?
        failures=$((failures + status))
    done
    unset ASSAY_GPU_PREFILL ASSAY_GPU_EVERY_LANE
}

# counted OP: ncu's list of what the op's cases launch, behind those of other ops; the names and units of its columns once.
# Up to three times: with ncu 2025.3.1 (driver 580.159.04) about every second run of `layer` stood still, the host in
# cuStreamSynchronize behind launches that are not counted, the card at 0 %; others of the same program ended in 23 s.
counted() {
    local op=$1 try status metrics=gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum
    metrics=$metrics,sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed
    for try in 1 2 3; do
        status=0
        SECONDS=0
        : > "$work/one.csv"
        timeout -k 5 60 ncu --csv --page raw --print-units base --print-kernel-base function --clock-control none \
            --profile-from-start off --metrics "$metrics" --log-file "$work/one.csv" "$assay" bench "$op" --on gpu \
            > "$work/log" 2>&1 || status=$?
        [ "$status" -eq 124 ] || [ "$status" -eq 137 ] || break
        say "counters: $op: the profiler did not end in $SECONDS s, try $try of 3"
    done
    if [ -s "$work/ncu.csv" ]; then
        grep -Ev '^"(ID)?",' "$work/one.csv" >> "$work/ncu.csv"
    else
        cp "$work/one.csv" "$work/ncu.csv"
    fi
    if [ "$status" -eq 0 ]; then
        say "counters: $op: $SECONDS s"
    elif ! grep '^==ERROR==' "$work/one.csv"; then
        say "FAIL counters: $op: the profiler ended with status $status after $SECONDS s, without a word"
        tail -n 5 "$work/log"
        failures=$((failures + 1))
    fi
}

# What the card itself counts of each case's kernels, once, under NVIDIA's profiler, op by op: bench puts it beside its
# rows. A card that lets nobody count, or a machine without a profiler, is no failure: the report has the reason in its words.
counters() {
    local op
    if ! command -v ncu > /dev/null; then
        echo "==ERROR== ncu was not found" > "$work/ncu.csv"
        say "counters: ncu was not found"
        return 0
    fi
    for op in norm rope linear mlp router mla.core moe layer logits; do counted "$op"; done
}

bench() {
    local counted=()
    [ ! -s "$work/ncu.csv" ] || counted=(--counters "$work/ncu.csv")
    check bench 0 "$assay" bench --on gpu --json "${counted[@]}" || return 1
    keep bench "$work/log"
    tr -d '\n' < "$work/log" | sed 's/{ *"op"/\n&/g' | sed -n \
        's/^{ *"op": "\([^"]*\)", *"case": "\([^"]*\)".*"seconds": \([0-9.e-]*\).*"ceiling": "\([a-z]*\)", *"share": \([0-9.e-]*\).*/\1|\2|\3|\4|\5/p' |
        awk -F'|' '{ printf "gpu: %-10s %-50s %10.1f us  %5.1f %% of %s\n", $1, $2, $3 * 1e6, $5 * 100, $4 }'
}

# shellcheck source=ci/gpu_ranks.sh
. ci/gpu_ranks.sh
# shellcheck source=ci/gpu_story.sh
. ci/gpu_story.sh

section doctor doctor
section parity parity
section repeat repeat
section draft draft
section samples samples
section sweep sweep
section cases cases
section tactics tactics
section faults faults
section failures failures
section large large
section sanitizer sanitizer
section counters counters
section bench bench
if [ "$ranks" -gt 1 ]; then
    find_nccl
    for name in parity bits refusals text samples faults bench layers load extract; do section "ranks_$name" "ranks_$name"; done
fi

[ -n "$sections" ] || {
    echo "ci/gpu.sh: no section of \"$only\" is known" >&2
    exit 2
}
write_result
say "$failures failures; $out"
[ "$failures" -eq 0 ]
