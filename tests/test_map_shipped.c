/* test_map_shipped.c: the maps of compat/maps, each on taps of transformers (fixtures/tiny-k25)
 * that are laid out and named as its engine does: every tap comes back, bit by bit. */
#include "harness/foreign.h"
#include "harness/map.h"
#include "tests/cli.h"

#include "core/pt.h"
#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 5, RANKS = 2 };

/* A tap and what an engine calls it; %d: the layer. `cut`: ranks hold parts of axis 1. */
struct named_as {
    const char *tap, *name;
    bool cut;
    int first; /* layer from which on it is called so */
};

static struct dump truth;

static int open_truth(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    return dump_open(&truth, FIXTURE("tiny-k25/golden.safetensors"), &err);
}

static int close_truth(void **state)
{
    (void)state;
    dump_close(&truth);
    return 0;
}

/* ---- a tree of values for pt_write() ---- */

enum { VALUES = 256 };

struct tree {
    struct pt_value root, keys[VALUES], items[VALUES];
    struct st_tensor tensors[VALUES];
    void *owned[VALUES];
};

/* A tap's columns of one rank of two, or all; `batch`: [1, T, cols]. */
static void add(struct tree *t, const char *name, const struct dump_tap *tap, int rank, bool cut,
                bool batch)
{
    const int64_t n = t->root.count++, size = dtype_size(tap->tensor->dtype);
    const int64_t cols = cut ? tap->cols / RANKS : tap->cols;
    assert_true(n < VALUES);
    char *data = malloc((size_t)(tap->rows * cols * size));
    t->owned[n] = data;
    for (int64_t r = 0; r < tap->rows; r++)
        memcpy(data + r * cols * size,
               (const char *)tap->tensor->data + (r * tap->cols + (cut ? rank * cols : 0)) * size,
               (size_t)(cols * size));
    t->tensors[n] = (struct st_tensor){.name = "",
                                       .dtype = tap->tensor->dtype,
                                       .dims = batch ? 3 : 2,
                                       .count = tap->rows * cols,
                                       .bytes = tap->rows * cols * size,
                                       .data = data};
    int64_t *shape = t->tensors[n].shape;
    if (batch) *shape++ = 1;
    shape[0] = tap->rows;
    shape[1] = cols;
    t->keys[n] = (struct pt_value){
        .kind = PT_TEXT, .text = textf("%s", name), .count = (int64_t)strlen(name)};
    t->items[n] = (struct pt_value){.kind = PT_TENSOR, .tensor = &t->tensors[n]};
}

static void tree_free(struct tree *t)
{
    for (int64_t i = 0; i < t->root.count; i++) free(t->owned[i]);
    free(t);
}

/* Every tap of the table, of every layer that has it. */
static struct tree *tree_of(const struct named_as *table, int rank, bool batch)
{
    struct tree *t = calloc(1, sizeof *t);
    assert_non_null(t);
    t->root = (struct pt_value){.kind = PT_DICT, .keys = t->keys, .items = t->items};
    for (const struct named_as *n = table; n->tap; n++) {
        const bool layered = strchr(n->tap, '%') != NULL;
        for (int layer = layered ? n->first : 0; layer < (layered ? LAYERS : 1); layer++) {
            char tap[64], name[256];
            snprintf(tap, sizeof tap, n->tap, layer);
            /* The residual of a norm is called by the layer that it enters. */
            const bool next = strstr(n->tap, "output") && strstr(n->name, "norm");
            snprintf(name, sizeof name, n->name, layer + next);
            const struct dump_tap *found = dump_find(&truth, tap);
            if (found) add(t, name, found, rank, n->cut, batch);
        }
    }
    return t;
}

/* Every tap that the dump has is that of the golden, and there are as many as were written. */
static void check(const struct dump *d, int64_t count)
{
    assert_int_equal(d->count, count);
    for (int64_t i = 0; i < count; i++) {
        const struct st_tensor *t = d->taps[i].tensor;
        const struct dump_tap *want = dump_find(&truth, d->taps[i].name);
        if (!want) fail_msg("no %s in the golden", d->taps[i].name);
        assert_int_equal(t->dtype, want->tensor->dtype);
        assert_int_equal(d->taps[i].rows, want->rows);
        assert_int_equal(t->bytes, want->tensor->bytes);
        if (memcmp(t->data, want->tensor->data, (size_t)t->bytes) != 0)
            fail_msg("%s is another", d->taps[i].name);
    }
}

static void check_map(const char *path, const char *map, int64_t count)
{
    struct err err = ERR_INIT;
    struct dump d;
    const struct foreign_options o = {.map = map};
    (void)!foreign_open(&d, path, &o, &err);
    assert_ok(&err);
    assert_string_equal(d.engine, map);
    check(&d, count);
    dump_close(&d);
}

/* ---- transformers ---- */

static const struct named_as of_transformers[] = {
    {"embed", "model.embed_tokens", false, 0},
    {"layers.%d.attn_norm", "model.layers.%d.input_layernorm", false, 0},
    {"layers.%d.q", "model.layers.%d.self_attn.q_b_proj", false, 0},
    {"layers.%d.kv_latent", "model.layers.%d.self_attn.kv_a_layernorm", false, 0},
    {"layers.%d.attn", "model.layers.%d.self_attn.o_proj", false, 0},
    {"layers.%d.attn_core", "model.layers.%d.self_attn.o_proj.input", false, 0},
    {"layers.%d.mlp_norm", "model.layers.%d.post_attention_layernorm", false, 0},
    {"layers.%d.router_logits", "model.layers.%d.mlp.gate.0", false, 0},
    {"layers.%d.routed", "model.layers.%d.mlp.experts", false, 0},
    {"layers.%d.shared", "model.layers.%d.mlp.shared_experts", false, 0},
    {"layers.%d.mlp", "model.layers.%d.mlp", false, 0},
    {"layers.%d.output", "model.layers.%d.0", false, 0},
    {"final_norm", "model.norm", false, 0},
    {"logits", "lm_head", false, 0},
    {"layers.%d.mlp", "model.layers.%d.mlp.experts.7.down_proj", false, 1}, /* no tap: left out */
    {NULL, NULL, false, 0}};

static void transformers__names_of_modules(void **state)
{
    struct err err = ERR_INIT;
    struct tree *t = tree_of(of_transformers, 0, true);
    const char *path = folder_path(state, "hf.pt");
    assert_int_equal(pt_write(path, &t->root, &err), ERR_OK);
    int64_t others = 0;
    for (int64_t i = 0; i < t->root.count; i++) others += text_ends(t->keys[i].text, "down_proj");
    assert_true(others > 0 && t->root.count - others > 40);
    check_map(path, "transformers", t->root.count - others);
    tree_free(t);
}

/* msprobe's files have the class and the call in the name. */
static void transformers__names_of_msprobe(void **state)
{
    static const struct named_as table[] = {
        {"embed", "Module.model.embed_tokens.Embedding.forward.0.output.0", false, 0},
        {"layers.%d.attn", "Module.model.layers.%d.self_attn.o_proj.Linear.forward.0.output.0",
         false, 0},
        {"layers.%d.mlp", "Module.model.layers.%d.mlp.DeepseekV3MLP.forward.0.output.0", false, 0},
        {"layers.%d.output", "Module.model.layers.%d.DeepseekV3DecoderLayer.forward.0.output.0",
         false, 0},
        {"layers.%d.attn_norm", "Module.model.layers.%d.mlp.gate_proj.Linear.forward.0.output.0",
         false, 4}, /* no tap: left out */
        {"final_norm", "Module.model.norm.DeepseekV3RMSNorm.forward.0.output.0", false, 0},
        {NULL, NULL, false, 0}};
    struct err err = ERR_INIT;
    struct tree *t = tree_of(table, 0, true);
    const char *path = folder_path(state, "hf.pt");
    assert_int_equal(pt_write(path, &t->root, &err), ERR_OK);
    check_map(path, "transformers", t->root.count - 1);
    tree_free(t);
}

/* output_hidden_states=True: the last entry comes after the final norm. */
static void transformers__hidden_states_as_a_list(void **state)
{
    struct err err = ERR_INIT;
    struct tree *t = calloc(1, sizeof *t);
    const char *path = folder_path(state, "states.pt");
    assert_non_null(t);
    for (int i = 0; i <= LAYERS; i++)
        add(t, "",
            dump_find(&truth, i == 0        ? "embed"
                              : i == LAYERS ? "final_norm"
                                            : textf("layers.%d.output", i - 1)),
            0, false, true);
    struct pt_value key = {.kind = PT_TEXT, .text = "hidden_states", .count = 13},
                    list = {.kind = PT_TUPLE, .count = LAYERS + 1, .items = t->items};
    const struct pt_value root = {.kind = PT_DICT, .count = 1, .keys = &key, .items = &list};
    assert_int_equal(pt_write(path, &root, &err), ERR_OK);
    check_map(path, "transformers", LAYERS + 1);
    tree_free(t);
}

/* torch.stack(hidden_states): [L + 1, 1, T, H]. */
static void transformers__hidden_states_as_a_stack(void **state)
{
    const struct dump_tap *embed = dump_find(&truth, "embed");
    const int64_t bytes = embed->tensor->bytes;
    char *data = malloc((size_t)(bytes * (LAYERS + 1)));
    const char *path = folder_path(state, "states.safetensors");
    for (int i = 0; i <= LAYERS; i++)
        memcpy(data + i * bytes,
               dump_find(&truth, i == 0        ? "embed"
                                 : i == LAYERS ? "final_norm"
                                               : textf("layers.%d.output", i - 1))
                   ->tensor->data,
               (size_t)bytes);
    const struct st_part part = {.name = "hidden_states",
                                 .dtype = DT_F32,
                                 .dims = 4,
                                 .shape = {LAYERS + 1, 1, embed->rows, embed->cols},
                                 .data = data};
    write_safetensors(path, &part, 1, NULL, 0);
    check_map(path, "transformers", LAYERS + 1);
    free(data);
}

/* ---- SGLang ---- */

static const struct named_as of_sglang[] = {
    {"embed", "model.embed_tokens", false, 0},
    {"layers.%d.attn_norm", "model.layers.%d.input_layernorm.0", false, 1},
    {"layers.%d.output", "model.layers.%d.input_layernorm.1", false, 0},
    {"layers.%d.q", "model.layers.%d.self_attn.q_b_proj", true, 0},
    {"layers.%d.kv_latent", "model.layers.%d.self_attn.kv_a_layernorm", false, 0},
    {"layers.%d.mlp_norm", "model.layers.%d.post_attention_layernorm.0", false, 0},
    {"layers.%d.router_logits", "model.layers.%d.mlp.gate", false, 0},
    {"final_norm", "model.norm.0", false, 0},
    {"layers.%d.attn_core", "model.layers.%d.self_attn.attn_mqa", true, 0}, /* no tap: left out */
    {NULL, NULL, false, 0}};

static void sglang__passes_of_two_ranks(void **state)
{
    struct err err = ERR_INIT;
    int64_t count = 0;
    for (int rank = 0; rank < RANKS; rank++) {
        struct tree *t = tree_of(of_sglang, rank, false);
        const char *folder =
            textf("%s/TP%d_PP0_Rank%d_pid%d", (const char *)*state, rank, rank, 40);
        assert_int_equal(file_make_folder(folder, &err), ERR_OK);
        assert_int_equal(pt_write(textf("%s/Pass00000.pt", folder), &t->root, &err), ERR_OK);
        count = t->root.count - LAYERS;
        tree_free(t);
    }
    /* The last layer's output would be the residual of a norm that is not there. */
    check_map(*state, "sglang", count);
}

/* ---- vLLM ---- */

static const struct named_as of_vllm[] = {
    {"embed", "Module.model.embed_tokens.VocabParallelEmbedding.forward.0.output.0", false, 0},
    {"layers.%d.attn_norm", "Module.model.layers.%d.input_layernorm.RMSNorm.forward.0.output.0",
     false, 0},
    {"layers.%d.output", "Module.model.layers.%d.input_layernorm.RMSNorm.forward.0.output.1", false,
     0},
    {"layers.%d.q",
     "Module.model.layers.%d.self_attn.q_b_proj.ColumnParallelLinear.forward.0.output.0", true, 0},
    {"layers.%d.attn_core",
     "Module.model.layers.%d.self_attn.o_proj.RowParallelLinear.forward.0.input.0", true, 0},
    {"layers.%d.attn",
     "Module.model.layers.%d.self_attn.o_proj.RowParallelLinear.forward.0.output.0", false, 0},
    {"layers.%d.mlp_norm",
     "Module.model.layers.%d.post_attention_layernorm.RMSNorm.forward.0.output.0", false, 0},
    {"layers.%d.router_logits",
     "Module.model.layers.%d.mlp.gate.ReplicatedLinear.forward.0.output.0", false, 0},
    {"layers.%d.mlp", "Module.model.layers.%d.mlp.DeepseekV2MoE.forward.0.output.0", false, 0},
    {"final_norm", "Module.model.norm.RMSNorm.forward.0.output.0", false, 0},
    {"layers.%d.mlp",
     "Module.model.layers.%d.mlp.gate_up_proj.MergedColumnParallelLinear.forward.0.output.0", true,
     4}, /* no tap: left out */
    {NULL, NULL, false, 0}};

/* A folder as msprobe writes it: a file a tensor, all of them listed. */
static int64_t write_msprobe(const char *folder, const struct tree *t)
{
    struct err err = ERR_INIT;
    json_t *data = json_object();
    assert_int_equal(file_make_folder(textf("%s/dump_tensor_data", folder), &err), ERR_OK);
    for (int64_t i = 0; i < t->root.count; i++) {
        const char *name = textf("%s.pt", t->keys[i].text);
        assert_int_equal(
            pt_write(textf("%s/dump_tensor_data/%s", folder, name), &t->items[i], &err), ERR_OK);
        json_object_set_new(data, name, json_pack("{s:[{s:s}]}", "output", "data_name", name));
    }
    json_t *root = json_pack("{s:s, s:o}", "task", "tensor", "data", data);
    assert_int_equal(json_dump_file(root, textf("%s/dump.json", folder), 0), 0);
    json_decref(root);
    return t->root.count;
}

static void vllm__msprobe_of_two_ranks(void **state)
{
    int64_t count = 0;
    for (int rank = 0; rank < RANKS; rank++) {
        struct tree *t = tree_of(of_vllm, rank, false);
        count = write_msprobe(textf("%s/step0/rank%d", (const char *)*state, rank), t) - 1;
        tree_free(t);
    }
    check_map(*state, "vllm", count);
}

/* ---- finding them ---- */

static void path__is_a_file_s_own__or_that_of_a_shipped_map(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    char path[FILE_PATH];
    static const char *const own[] = {"./vllm", "names.yaml", "a/b"};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(map_path(own[i], path, &err), ERR_OK);
        assert_string_equal(path, own[i]);
    }
    assert_int_equal(map_path("vllm", path, &err), ERR_OK);
    assert_true(text_ends(path, "/share/assay/maps/vllm.yaml") && file_exists(path));
    assert_int_equal(map_path("tensorrt", path, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "map names", "tensorrt", "no map of that name",
               "sglang, transformers, vllm");
}

#define in_folder(test) cmocka_unit_test_setup_teardown(test, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_folder(transformers__names_of_modules),
        in_folder(transformers__names_of_msprobe),
        in_folder(transformers__hidden_states_as_a_list),
        in_folder(transformers__hidden_states_as_a_stack),
        in_folder(sglang__passes_of_two_ranks),
        in_folder(vllm__msprobe_of_two_ranks),
        cmocka_unit_test(path__is_a_file_s_own__or_that_of_a_shipped_map),
    };
    return cmocka_run_group_tests(tests, open_truth, close_truth);
}
