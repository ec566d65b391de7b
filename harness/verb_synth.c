/* verb_synth.c: `assay synth`: arguments and result; the work is in synth.c. */
#include "core/text.h"
#include "harness/synth.h"
#include "harness/verb.h"

#include <stdio.h>
#include <string.h>

static const struct option_row options[] = {
    {"--seed", "S", "seed of the values (needed)", false},
    {"--out", "DIR", "folder to write, made if absent, without a checkpoint in it (needed)", false},
    {"--shards", "N",
     "N files and an index, a layer in one of them where there are no more (default 1: one file)",
     false},
    {"--shrink", "KEY=N,...",
     "a smaller config: KEY is layers, experts, vocab, hidden, heads, intermediate, "
     "moe_intermediate, q_lora or kv_lora",
     false},
    {"--latent-gain", "G", "scale of q_a_proj and kv_a_proj_with_mqa (default 1)", false},
    {NULL, NULL, NULL, false},
};

static enum err_code read_request(const struct args *a, struct synth_request *q, struct err *err)
{
    const char *seed = args_value(a, "--seed");
    *q = (struct synth_request){.config = a->word[0],
                                .folder = args_value(a, "--out"),
                                .latent_gain = args_value(a, "--latent-gain"),
                                .shrink = args_value(a, "--shrink")};
    if (!seed || !q->folder)
        return err_set(err, ERR_USAGE, "arguments|synth|no %s|--seed S --out DIR",
                       seed ? "--out" : "--seed");
    if (!text_u64(seed, &q->seed))
        return err_set(err, ERR_USAGE, "option|--seed|\"%s\"|a whole number of 0 or more", seed);
    return args_int(a, "--shards", 1, 99999, 1, &q->shards, err);
}

static json_t *change_list(const struct shrink *s)
{
    json_t *list = json_array();
    for (int i = 0; i < s->changes; i++) {
        const struct shrink_change *c = &s->change[i];
        json_array_append_new(list, json_pack("{s:s+++, s:s, s:s}", "key", c->parent,
                                              c->parent[0] ? "." : "", c->key, "", "from", c->from,
                                              "to", c->to));
    }
    return list;
}

/* Prompts that end in the real ids would be cut off, or not, in another place. */
static void warn_tokens(const struct shrink *s)
{
    int n = 0;
    for (int i = 0; i < s->changes; i++) {
        const struct shrink_change *c = &s->change[i];
        if (!c->token) continue;
        fprintf(stderr, "%s%s%s%s %s -> %s",
                n++ ? ", " : "assay: warning: token ids moved into the smaller vocabulary: ",
                c->parent, c->parent[0] ? "." : "", c->key, c->from, c->to);
    }
    if (n) fputc('\n', stderr);
}

static enum err_code run(const struct args *a, json_t *result, struct err *err)
{
    struct synth_request q;
    struct synth_result r = {0};
    char bytes[32];
    if (read_request(a, &q, err) != ERR_OK) return err->code;
    if (synth_checkpoint(&q, &r, err) == ERR_OK) {
        progress_end();
        warn_tokens(&r.shrunk);
        json_object_set_new(result, "out", json_string(q.folder));
        json_object_set_new(result, "tensors", json_integer(r.tensors));
        json_object_set_new(result, "bytes", json_integer(r.bytes));
        json_object_set_new(result, "shards", json_integer(q.shards));
        json_object_set_new(result, "changed", change_list(&r.shrunk));
        if (!a->json)
            printf("%lld tensors, %s in %lld file%s -> %s\n", (long long)r.tensors,
                   text_bytes((double)r.bytes, bytes, sizeof bytes), (long long)q.shards,
                   q.shards == 1 ? "" : "s", q.folder);
    }
    synth_result_free(&r);
    return err->code;
}

const struct verb verb_synth = {
    .name = "synth",
    .usage = "CONFIG.json --seed S --out DIR [--shards N] [--shrink layers=4,experts=16,vocab=2048]"
             " [--latent-gain G]",
    .about = "write a synthetic checkpoint in the real layout",
    .details = "The text model alone: no vision tower, no tokenizer.",
    .words_min = 1,
    .words_max = 1,
    .options = options,
    .run = run,
};
