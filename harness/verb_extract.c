/* verb_extract.c: `assay extract`: arguments and result; the work is in extract.c. */
#include "harness/extract.h"
#include "harness/kernel_report.h"
#include "harness/verb.h"

#include <stdio.h>

static const struct option_row options[] = {
    {"--data", "FILE", "JSONL with input_ids and loss_mask a line, or a token list (needed)",
     false},
    {"--layers", "I,J,...", "states to store, ascending; the last one is the target (needed)",
     false},
    {"--numbering", "entry|output", "id i enters layer i, or leaves it (needed, no default)",
     false},
    {"--format", "NAME", "speculators-v0.3, vllm or specforge (needed)", false},
    {"--out", "DIR", "folder to write, empty or new (needed)", false},
    {"--on", "ref|gpu", "the engine (default ref)", false},
    {"--resume", NULL, "go on where a killed or stopped run ended", false},
    {"--skip-bad", NULL, "list bad samples and go on (exit 1)", false},
    {"--dtype", "bf16|f16|f32", "type of the states (default: the model's)", false},
    {"--profile", "NAME", "math, hf, hf4, vllm, sgl, or NAME+exact (default math)", false},
    {"--precision", "f32|f64", "arithmetic of the reference (default f32)", false},
    {"--threads", "N", "threads; never changes a bit (default: all)", false},
    {"--prefill-chunk", "N", "prefill in steps of N tokens a sample; on ref changes no bit", false},
    {"--batch", "N", "samples of a batch at most; changes no bit (on a device: 1)", false},
    {"--batch-tokens", "N", "tokens of a batch at most (default 4096); changes no bit", false},
    {"--max-length", "N", "longer samples are bad (default: the model's positions)", false},
    {"--draft-vocab", "N", "write d2t and t2d for the N most frequent ids", false},
    RANKS_OPTION_ROWS,
    {NULL, NULL, NULL, false},
};

static void print_result(const struct extract_request *r, const struct extract_result *f)
{
    size_t skipped = json_array_size(f->skipped);
    for (size_t i = 0; i < skipped; i++) {
        const json_t *v = json_array_get(f->skipped, i);
        printf("skipped %s\n", json_string_value(json_object_get(v, "why")));
    }
    printf("%lld samples written, %lld there before, %zu skipped -> %s (%lld tokens, %.2f s)\n",
           (long long)f->written, (long long)f->resumed, skipped, r->out, (long long)f->tokens,
           f->seconds);
    if (f->kernels) kernels_print(f->kernels, stdout);
}

static enum err_code run(const struct args *a, json_t *result, struct err *err)
{
    struct extract_request r;
    struct extract_result f;
    if (extract_request_read(a, &r, err) != ERR_OK) return err->code;
    (void)!extract_run(&r, &f, err);
    progress_end();
    json_t *fields = extract_json(&r, &f);
    json_object_update(result, fields);
    json_decref(fields);
    bool judged = err->code == ERR_OK || err->code == ERR_DIFF;
    if (!a->json && judged) print_result(&r, &f);
    extract_result_free(&f);
    return err->code;
}

const struct verb verb_extract = {
    .name = "extract",
    .usage = "MODEL --data FILE --layers I,J,... --numbering entry|output --format NAME --out DIR "
             "[options]",
    .about = "write EAGLE-3 training samples: hidden states of a model, a file a sample",
    .words_min = 1,
    .words_max = 1,
    .options = options,
    .run = run,
};
