/* test_inspect.c: what an inspection says of checkpoints, dumps and files, and how each problem is
 * worded and counted. Mutations by the hundred: test_inspect_mutate.c; contracts:
 * test_inspect_contract.c. */
#include "harness/inspect.h"

#include "core/weights.h"
#include "reports/text.h"
#include "tests/cli.h"
#include "tests/config_texts.h"
#include "tests/images.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define T "language_model.model."

/* ---- one inspection ---- */

static void open_folder(struct inspection *s, const struct images *m)
{
    struct err err = ERR_INIT;
    images_write(m);
    inspection_open(s, m->folder);
    (void)!inspect_folder(s, &err);
    assert_ok(&err);
}

static const json_t *problem_at(const struct inspection *s, size_t i)
{
    const json_t *p = json_array_get(s->problems, i);
    assert_non_null(p);
    return p;
}

static void dump_problems(const struct inspection *s)
{
    json_dumpf(s->problems, stderr, JSON_INDENT(1));
}

/* Problem i says all of this (NULL: not looked at). */
static void says(const struct inspection *s, size_t i, const char *what, const char *where,
                 const char *tensor, const char *found, const char *wanted)
{
    const char *const keys[] = {"what", "where", "tensor", "found", "wanted"}, *const texts[] = {
                                                                                   what, where,
                                                                                   tensor, found,
                                                                                   wanted};
    for (size_t k = 0; k < 5; k++) {
        const char *text = field_text(problem_at(s, i), keys[k]);
        if (!texts[k] || (texts[k][0] ? strstr(text, texts[k]) != NULL : !text[0])) continue;
        dump_problems(s);
        fail_msg("problem %zu: %s is '%s', not '%s'", i, keys[k], text, texts[k]);
    }
}

static void count_is(const struct inspection *s, size_t problems, size_t missing, size_t extra)
{
    if (json_array_size(s->problems) != problems) dump_problems(s);
    assert_int_equal(json_array_size(s->problems), problems);
    assert_int_equal(json_array_size(s->missing), missing);
    assert_int_equal(json_array_size(s->extra), extra);
}

/* Renames in every shard: each name that begins with `from` gets `to` in its place, and a number
 * where `to` ends in one. Returns how many. */
static int rename_all(struct images *m, const char *from, const char *to, bool numbered)
{
    int n = 0;
    for (int i = m->first; i < m->count; i++) {
        json_t *old = image_header(&m->files[i]), *new = json_object(), *v;
        const char *key;
        json_object_foreach(old, key, v)
        {
            bool hit = strncmp(key, from, strlen(from)) == 0;
            const char *name = !hit       ? key
                               : numbered ? textf("%s%d", to, n)
                                          : textf("%s%s", to, key + strlen(from));
            n += hit;
            json_object_set(new, name, v);
        }
        json_decref(old);
        image_set_header(&m->files[i], new);
    }
    return n;
}

/* The same in the index. */
static void rename_index(struct images *m, const char *from, const char *to)
{
    json_t *root = json_loadb((const char *)m->files[1].data, m->files[1].size, 0, NULL), *v;
    json_t *map = json_object();
    const char *key;
    json_object_foreach(json_object_get(root, "weight_map"), key, v)
    {
        bool hit = strncmp(key, from, strlen(from)) == 0;
        json_object_set(map, hit ? textf("%s%s", to, key + strlen(from)) : key, v);
    }
    json_object_set_new(root, "weight_map", map);
    char *text = json_dumps(root, JSON_COMPACT);
    assert_non_null(text);
    image_set(&m->files[1], m->files[1].name, text, strlen(text));
    free(text);
    json_decref(root);
}

static void set_text(struct images *m, int file, const char *from, const char *to)
{
    char *text = replaced((const char *)m->files[file].data, from, to);
    image_set(&m->files[file], m->files[file].name, text, strlen(text));
    free(text);
}

/* ---- checkpoints ---- */

static void checkpoint__is_described(void **state)
{
    const char *model = small_model(state, "m");
    json_t *r = cli_passes("inspect", model);
    assert_string_equal(field_text(r, "kind"), "checkpoint");
    assert_string_equal(field_text(r, "model_type"), "kimi_k25");
    assert_int_equal(field_int(r, "layers"), 3);
    assert_int_equal(field_int(r, "shards"), 1);
    assert_int_equal(field_int(r, "tensors"), 115);
    assert_int_equal(json_array_size(field(r, "problems")), 0);
    int64_t tensors = 0, bytes = 0;
    size_t i;
    const json_t *g;
    json_array_foreach(field(r, "groups"), i, g)
    {
        tensors += field_int(g, "tensors");
        bytes += field_int(g, "bytes");
    }
    assert_int_equal(tensors, field_int(r, "tensors"));
    assert_int_equal(bytes, field_int(r, "bytes"));
    json_decref(r);
}

/* Written by transformers and compressed-tensors. */
static void checkpoint__of_others_passes(void **state)
{
    (void)state;
    json_t *r = cli_passes("inspect", FIXTURE("tiny-k25"));
    assert_int_equal(field_int(r, "tensors"), 805);
    json_decref(r);
}

static void checkpoint__under_another_prefix__is_one_problem(void **state)
{
    struct images m;
    struct inspection s;
    images_make(&m, false, state);
    int n = rename_all(&m, "language_model.", "", false);
    open_folder(&s, &m);
    count_is(&s, 1, 0, 0);
    says(&s, 0, "wrong prefix", "*.safetensors", "model.layers.*",
         textf("\"model.\" before the names of %d tensors", n), "\"language_model.model.\"");
    inspection_close(&s);
    images_free(&m);
    images_make(&m, true, state); /* the index is looked at apart */
    rename_all(&m, "language_model.model.", "language_model.", false);
    open_folder(&s, &m);
    count_is(&s, 1, 0, 0);
    says(&s, 0, "wrong prefix", NULL, NULL, "\"language_model.\" before", NULL);
    inspection_close(&s);
    rename_index(&m, "language_model.", "");
    open_folder(&s, &m);
    count_is(&s, 2, 0, 0);
    says(&s, 1, "wrong prefix", "index.json", "model.layers.*", "\"model.\" before", NULL);
    inspection_close(&s);
    images_remove(&m);
    images_free(&m);
}

static void prefix__of_a_plain_config_is_none(void **state)
{
    struct images m;
    struct inspection s;
    images_make(&m, false, state);
    char *text = replaced((const char *)m.files[0].data,
                          "{\"model_type\": \"kimi_k25\", \"text_config\": ", "");
    text[strlen(text) - strlen(", \"vision_config\": {}}")] = '\0';
    image_set(&m.files[0], "config.json", text, strlen(text));
    free(text);
    open_folder(&s, &m);
    count_is(&s, 1, 0, 0);
    says(&s, 0, "wrong prefix", NULL, NULL, "\"language_model.model.\" before", "\"model.\"");
    inspection_close(&s);
    images_free(&m);
}

static void missing__expert_and_layer_are_one_problem_each(void **state)
{
    struct images m;
    struct inspection s;
    images_make(&m, false, state);
    assert_int_equal(rename_all(&m, T "layers.1.mlp.experts.2.", "vision_tower.a.", true), 9);
    open_folder(&s, &m);
    count_is(&s, 1, 9, 0);
    says(&s, 0, "missing expert", NULL, T "layers.1.mlp.experts.2.*",
         "layer 1: expert 2 is missing: 9 tensors", "config.json");
    assert_int_equal(field_int(s.known, "vision_tower"), 9);
    inspection_close(&s);
    int n = rename_all(&m, T "layers.2.", "vision_tower.b.", true);
    open_folder(&s, &m);
    count_is(&s, 2, 9 + (size_t)n, 0);
    says(&s, 1, "missing layer", NULL, T "layers.2.*", textf("layer 2 is missing: %d tensors", n),
         NULL);
    inspection_close(&s);
    rename_all(&m, T "norm.", "mm_projector.", false);
    rename_all(&m, T "layers.0.self_attn.", "mm_projector.x.", false);
    open_folder(&s, &m); /* not a whole layer: each by itself */
    count_is(&s, 2 + 1 + 7, 9 + (size_t)n + 8, 0);
    says(&s, 0, "missing tensor", NULL, T "norm.weight", "nothing", NULL);
    says(&s, 1, "missing tensor", NULL, T "layers.0.self_attn.", "nothing", NULL);
    inspection_close(&s);
    images_free(&m);
}

static void extra__known_parts_are_no_problem(void **state)
{
    const struct st_part parts[] = {
        {"vision_tower.a", DT_BF16, 1, {4}, NULL},
        {"mm_projector.a", DT_BF16, 1, {4}, NULL},
        {T "layers.1.self_attn.rotary_emb.inv_freq", DT_F32, 1, {4}, NULL},
        {T "layers.3.eh_proj.weight", DT_BF16, 1, {4}, NULL},
        {T "layers.3.mlp.experts.9.up_proj.weight", DT_BF16, 1, {4}, NULL},
        {T "layers.4.input_layernorm.weight", DT_BF16, 1, {4}, NULL},
        {T "layers.1.mlp.experts.4.up_proj.weight", DT_BF16, 1, {4}, NULL},
        {T "layers.1.self_attn.q_proj.bias", DT_BF16, 1, {4}, NULL},
    };
    struct images m;
    struct inspection s;
    images_make(&m, true, state);
    m.files[1].gone = true; /* without an index all shards are read */
    write_safetensors(textf("%s/model-x.safetensors", m.folder), parts, 8, NULL, 0);
    open_folder(&s, &m);
    count_is(&s, 3, 0, 3);
    says(&s, 0, "extra tensor", "model-x.safetensors", "experts.4.", "expert 4", "0 to 3");
    says(&s, 1, "extra tensor", NULL, "q_proj.bias", "unknown", NULL);
    says(&s, 2, "extra tensor", NULL, "layers.4.", "layer 4", "layers 0 to 2");
    assert_int_equal(field_int(s.known, "vision_tower"), 1);
    assert_int_equal(field_int(s.known, "mm_projector"), 1);
    assert_int_equal(field_int(s.known, "rotary_inv_freq"), 1);
    assert_int_equal(field_int(s.known, "multi_token_prediction"), 2);
    inspection_close(&s);
    images_free(&m);
}

static void files__are_held_against_their_names(void **state)
{
    struct images m;
    struct inspection s;
    images_make(&m, true, state);
    images_write(&m);
    write_text(textf("%s/model-stray.safetensors", m.folder), "x");
    write_text(textf("%s/golden.safetensors", m.folder), "no shard");
    open_folder(&s, &m);
    count_is(&s, 1, 0, 0);
    says(&s, 0, "unnamed file", "model-stray.safetensors", "", "the index does not name", NULL);
    inspection_close(&s);
    unlink(textf("%s/model-stray.safetensors", m.folder));
    m.files[3].gone = true;
    images_remove(&m);
    open_folder(&s, &m); /* the index names a file that is not there */
    assert_int_equal(json_array_size(s.problems), 1);
    says(&s, 0, "unreadable file", m.files[3].name, "", "No such file", "a shard with 38 tensors");
    assert_int_equal(json_array_size(s.missing), 38);
    inspection_close(&s);
    m.files[1].gone = true;
    images_remove(&m);
    open_folder(&s, &m);
    says(&s, 0, "missing file", "model-00002-of-00003.safetensors", "", "nothing", "3 shards");
    inspection_close(&s);
    images_free(&m);
}

static void shards__that_were_exchanged_show_in_the_index(void **state)
{
    struct images m;
    struct inspection s;
    images_make(&m, true, state);
    struct image first = m.files[2];
    m.files[2].data = m.files[3].data;
    m.files[2].size = m.files[3].size;
    m.files[3].data = first.data;
    m.files[3].size = first.size;
    open_folder(&s, &m);
    count_is(&s, 77, 0, 0);
    says(&s, 0, "tensor of another shard", "model-0000", T, "in model-0000", "as the index says");
    json_t *result = json_object();
    struct err err = ERR_INIT;
    assert_int_equal(inspect_json(&s, "checkpoint", result, &err), ERR_OK);
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    report_inspect_text(result, f, (struct text_view){0});
    fclose(f);
    assert_non_null(strstr(text, "(and 38 more like it)")); /* two lines, one for each file */
    assert_non_null(strstr(text, "(and 37 more like it)"));
    free(text);
    json_decref(result);
    inspection_close(&s);
    images_free(&m);
}

static void tensor__in_two_shards_names_both(void **state)
{
    const struct st_part part = {T "norm.weight", DT_BF16, 1, {64}, NULL};
    struct images m;
    struct inspection s;
    images_make(&m, true, state);
    m.files[1].gone = true;
    write_safetensors(textf("%s/model-again.safetensors", m.folder), &part, 1, NULL, 0);
    open_folder(&s, &m);
    count_is(&s, 1, 0, 0);
    says(&s, 0, "tensor in two shards", "model-again.safetensors", T "norm.weight",
         "also in model-00002-of-000003.safetensors", "one shard");
    inspection_close(&s);
    images_free(&m);
}

/* ---- shapes and types ---- */

static void scales__show_the_group_size(void **state)
{
    struct images m;
    struct inspection s;
    images_make(&m, false, state);
    set_text(&m, 0, "\"group_size\": 32", "\"group_size\": 16");
    open_folder(&s, &m);
    count_is(&s, 24, 0, 0);
    says(&s, 0, "scale shape", "model.safetensors", "experts.0.gate_proj.weight_scale",
         "[32, 2] (groups of 32)", "[32, 4] (groups of 16)");
    inspection_close(&s);
    set_text(&m, 0, "\"group_size\": 16", "\"group_size\": 48");
    open_folder(&s, &m);
    says(&s, 0, "group size", "config.json", "", "64 columns in groups of 48", "divide");
    says(&s, 1, "group size", "config.json", "", "32 columns in groups of 48", NULL);
    inspection_close(&s);
    images_free(&m);
}

/* Products that no 64-bit number holds, and ones that do but whose bytes none would hold. */
static void shapes__past_all_counting_are_said(void **state)
{
    static const char *const shapes[] = {"[4294967296, 4294967296]", "[1152921504606846976]",
                                         "[9223372036854775807, 2, 9223372036854775807]"};
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct images m;
        struct inspection s;
        images_make(&m, false, state);
        struct image *f = &m.files[m.first];
        json_t *root = image_header(f);
        json_object_set_new(json_object_get(root, T "norm.weight"), "shape",
                            json_loads(shapes[i], 0, NULL));
        image_set_header(f, root);
        open_folder(&s, &m);
        says(&s, 0, "tensor shape", f->name, T "norm.weight", "2^60 elements or more", "fits");
        inspection_close(&s);
        images_free(&m);
    }
}

static void dtypes__that_are_odd_are_said(void **state)
{
    struct images m;
    struct inspection s;
    images_make(&m, true, state);
    const struct st_part part = {T "norm.weight", DT_BF16, 1, {64}, NULL},
                         odd = {T "layers.1.input_layernorm.weight", DT_F32, 1, {64}, NULL};
    m.files[1].gone = true;
    rename_all(&m, odd.name, "vision_tower.a", false);
    rename_all(&m, part.name, "vision_tower.b", false);
    set_text(&m, 0, "\"torch_dtype\": \"bfloat16\"", "\"torch_dtype\": \"float16\"");
    const struct st_part parts[] = {part, odd};
    write_safetensors(textf("%s/model-x.safetensors", m.folder), parts, 2, NULL, 0);
    open_folder(&s, &m);
    says(&s, 0, "wrong dtype", NULL, "embed_tokens.weight", "BF16", "F16 or F32");
    inspection_close(&s);
    set_text(&m, 0, "\"torch_dtype\": \"float16\"", "\"torch_dtype\": \"bfloat16\"");
    open_folder(&s, &m);
    count_is(&s, 1, 0, 0);
    says(&s, 0, "odd dtype", "model-x.safetensors", odd.name, "F32", "BF16, as the other 2");
    inspection_close(&s);
    images_free(&m);
}

/* A file that was sized and not filled: its header is right, its weight_shape were never written.
 */
static void holes__are_told_from_zeros(void **state)
{
    struct images m;
    struct inspection s;
    images_make(&m, false, state);
    struct image *f = &m.files[1];
    size_t header = 8 + (size_t)image_header_size(f);
    images_write(&m);
    const char *path = textf("%s/%s", m.folder, f->name);
    assert_int_equal(truncate(path, (off_t)header), 0);
    assert_int_equal(truncate(path, (off_t)f->size), 0);
    f->gone = true;
    open_folder(&s, &m);
    count_is(&s, 0, 0, 0);
    assert_in_range(s.unwritten, 1, 24); /* one block may hold the header and some of them */
    inspection_close(&s);
    f->gone = false;
    memset(f->data + header, 0, f->size - header);
    open_folder(&s, &m);
    count_is(&s, 24, 0, 0);
    says(&s, 0, "weight_shape", f->name, ".weight_shape", "(0, 0)", "(32, 64)");
    inspection_close(&s);
    images_free(&m);
}

/* ---- files and dumps ---- */

static void file__without_taps_is_safetensors(void **state)
{
    json_t *r = cli_passes("inspect", FIXTURE("tiny-k25/model.safetensors"));
    assert_string_equal(field_text(r, "kind"), "safetensors");
    assert_int_equal(field_int(r, "tensors"), 805);
    json_decref(r);
    write_text(folder_path(state, "cut.safetensors"), "\x40");
    r = cli_fails("inspect", folder_path(state, "cut.safetensors"));
    json_decref(r);
    cli_refuses(state, ((struct refusal){2, "inspect", NULL, "a header of", "a folder"}), "inspect",
                FIXTURE("README.md"));
    cli_refuses(state, ((struct refusal){2, "raw files", "golden.json", "seed", "assay-raw"}),
                "inspect", FIXTURE("tiny-k25/golden.json"));
}

static void dump__is_described(void **state)
{
    const char *model = fixture_synth("tiny-k25"), *dump = folder_path(state, "d.safetensors");
    json_decref(cli_passes("forward", model, "--tokens", "1,2,3,4", "--on", "ref", "--out", dump));
    json_t *r = cli_passes("inspect", dump, "--model", model);
    assert_string_equal(field_text(r, "kind"), "dump");
    assert_string_equal(field_text(r, "profile"), "math");
    assert_int_equal(field_int(r, "rows"), 4);
    assert_int_equal(json_array_size(field(r, "tokens")), 4);
    assert_int_equal(json_array_size(field(r, "order")), json_array_size(field(r, "taps")));
    assert_string_equal(field_text(r, "order_from"), "assay.order");
    json_decref(r);
    r = cli_fails("inspect", dump, "--model", fixture_synth("mid-k25"));
    assert_int_equal(json_array_size(field(r, "missing")), 0);
    assert_string_equal(field_text(json_array_get(field(r, "problems"), 0), "what"),
                        "config of another model");
    assert_true(json_array_size(field(r, "extra")) > 0); /* two layers more */
    json_decref(r);
    r = cli_fails("inspect", FIXTURE("tiny-k25/golden-bf16.safetensors"), "--model",
                  FIXTURE("tiny-k25"));
    assert_int_equal(times_in(field(r, "missing"), "final_norm"), 1);
    json_decref(r);
}

static void dump__says_where_it_is_no_number(void **state)
{
    const float rows[6] = {0, 1, 2, 3, 4, 5};
    float bad[6] = {0, 1, 2, 3, 4, 5};
    const uint32_t nan = 0x7fc00000, inf = 0x7f800000;
    memcpy(&bad[4], &nan, sizeof nan);
    memcpy(&bad[5], &inf, sizeof inf);
    const struct st_part parts[] = {{"embed", DT_F32, 2, {3, 2}, rows},
                                    {"final_norm", DT_F32, 2, {3, 2}, bad},
                                    {"logits", DT_F32, 2, {2, 3}, rows}};
    const struct st_meta meta = {"assay.order", "[\"embed\", \"final_norm\", \"layers.0.q\"]"};
    const char *path = folder_path(state, "d.safetensors");
    write_safetensors(path, parts, 3, &meta, 1);
    json_t *r = cli_fails("inspect", path);
    const json_t *p = field(r, "problems");
    assert_int_equal(json_array_size(p), 3);
    assert_string_equal(field_text(json_array_get(p, 0), "found"),
                        "1 NaN, the first at row 2, column 0");
    assert_string_equal(field_text(json_array_get(p, 1), "what"), "rows that differ");
    assert_string_equal(field_text(json_array_get(p, 1), "tensor"), "logits");
    assert_string_equal(field_text(json_array_get(p, 2), "tensor"), "layers.0.q");
    assert_int_equal(field_int(named(field(r, "taps"), "final_norm"), "inf"), 1);
    assert_int_equal(field_int(r, "rows"), -1);
    json_decref(r);
    const struct st_meta tokens = {"assay.tokens", "[1, 2]"};
    write_safetensors(path, parts, 2, &tokens, 1);
    r = cli_fails("inspect", path); /* the reader's refusal is a problem like the others */
    assert_string_equal(field_text(json_array_get(field(r, "problems"), 0), "what"),
                        "dump metadata");
    json_decref(r);
}

/* ---- the command line ---- */

static void usage__is_checked(void **state)
{
    const char *model = small_model(state, "m"), *file = FIXTURE("tiny-k25/model.safetensors");
    const struct refusal usage = {2, "arguments", NULL, NULL, NULL};
    cli_refuses(state, usage, "inspect", model, "--record", "a", "--against", "b");
    cli_refuses(state, usage, "inspect", model, "--threads", "2");
    cli_refuses(state, usage, "inspect", model, "--model", model);
    cli_refuses(state, usage, "inspect", file, "--model", model);
    cli_refuses(state, usage, "inspect", file, "--record", folder_path(state, "x"));
    cli_refuses(state, usage, "inspect");
    cli_refuses(state, ((struct refusal){2, "open", "none", "No such file", NULL}), "inspect",
                folder_path(state, "none"));
    cli_refuses(state, ((struct refusal){2, "open", "config.json", "No such file", NULL}),
                "inspect", *state);
}

static void text__groups_what_is_alike(void **state)
{
    struct images m;
    struct cli r;
    images_make(&m, false, state);
    set_text(&m, 0, "\"moe_intermediate_size\": 32", "\"moe_intermediate_size\": 64");
    images_write(&m);
    cli(&r, "inspect", m.folder);
    assert_int_equal(r.status, 1);
    assert_non_null(strstr(r.out, "FAIL: checkpoint, 115 tensors"));
    assert_non_null(strstr(r.out, "experts              I32"));
    assert_non_null(strstr(r.out,
                           "packed shape: model.safetensors: " T
                           "layers.1.mlp.experts.0.gate_proj.weight_packed: found [32, 8], wanted "
                           "[64, 8], as config.json says (and 7 more like it)"));
    cli_free(&r);
    images_free(&m);
}

static void text__of_a_dump_says_whose_it_is(void **state)
{
    struct cli r;
    (void)state;
    cli(&r, "inspect", FIXTURE("tiny-k25/golden.safetensors"));
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.out, "PASS: dump, 82 tensors"));
    assert_non_null(strstr(r.out, "82 taps, 48 rows, 0 tokens, 1 sequences; engine unknown"));
    assert_non_null(strstr(r.out, "from embed to logits"));
    cli_free(&r);
}

static void text__is_cut__and_says_so(void **state)
{
    char *text = NULL;
    size_t size = 0;
    (void)state;
    json_t *r = json_pack("{s:s, s:i, s:[], s:{s:i}, s:i, s:i}", "kind", "checkpoint", "shards", 1,
                          "groups", "known_extra", "vision_tower", 3, "files_with_holes", 2,
                          "unwritten_shapes", 5),
           *problems = json_array();
    for (int i = 0; i < 9; i++) /* three kinds: a file, one of three tensors, five by their group */
        json_array_append_new(
            problems, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "what", "odd", "where", "f",
                                "tensor", i == 0 ? "" : textf("layers.%d.%s", i, "norm"), "found",
                                "x", "wanted", "y", "group", i > 3 ? "all" : ""));
    json_object_set_new(r, "problems", problems);
    FILE *f = open_memstream(&text, &size);
    report_inspect_text(r, f, (struct text_view){.colour = true, .most = 2});
    fclose(f);
    assert_non_null(strstr(text, "\x1b[31mFAIL\x1b[0m"));
    assert_non_null(strstr(text, "odd: f: found x, wanted y\n"));
    assert_non_null(
        strstr(text, "odd: f: layers.1.norm: found x, wanted y (and 2 more like it)\n"));
    assert_non_null(strstr(text, "... and 5 more (--json lists all)\n"));
    assert_non_null(strstr(text, "vision_tower, 3 tensors"));
    assert_non_null(strstr(text, "2 files are mostly holes"));
    assert_non_null(strstr(text, "5 weight_shape tensors lie in holes"));
    free(text);
    json_decref(r);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_setup, folder_teardown)
    const struct CMUnitTest tests[] = {
        TEST(checkpoint__is_described),
        TEST(checkpoint__of_others_passes),
        TEST(checkpoint__under_another_prefix__is_one_problem),
        TEST(prefix__of_a_plain_config_is_none),
        TEST(missing__expert_and_layer_are_one_problem_each),
        TEST(extra__known_parts_are_no_problem),
        TEST(files__are_held_against_their_names),
        TEST(shards__that_were_exchanged_show_in_the_index),
        TEST(tensor__in_two_shards_names_both),
        TEST(scales__show_the_group_size),
        TEST(shapes__past_all_counting_are_said),
        TEST(dtypes__that_are_odd_are_said),
        TEST(holes__are_told_from_zeros),
        TEST(file__without_taps_is_safetensors),
        TEST(dump__is_described),
        TEST(dump__says_where_it_is_no_number),
        TEST(usage__is_checked),
        TEST(text__groups_what_is_alike),
        TEST(text__of_a_dump_says_whose_it_is),
        TEST(text__is_cut__and_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
