/* test_inspect_mutate.c: 200 checkpoints, each with one field, byte or name changed, by a fixed
 * seed. None may be accepted, none may crash, and the inspection must name the tensor or the file
 * that was changed. Half are one file, half three shards with an index. What a header cannot show
 * (a byte of data, a number of the config that no shape depends on) is found against the contract
 * that was recorded before. */
#include "harness/inspect.h"

#include "core/synth.h"
#include "tests/images.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MUTATIONS = 200, NAME = IMAGE_NAME, SEED = 7 };

/* One change. `r` decides which; the name that must be said goes to `named`. */
struct change {
    struct images *m;
    uint64_t r;
    char named[NAME];
    bool against; /* only the contract can show it */
    bool error;   /* unusable: an error that names the file */
};

static uint64_t draw(struct change *c, uint64_t n)
{
    c->r = synth_x(c->r, 1);
    return c->r % n;
}

static struct image *any_shard(struct change *c)
{
    return &c->m->files[c->m->first + (int)draw(c, (uint64_t)(c->m->count - c->m->first))];
}

/* A tensor of a header, not the metadata; its name goes to c->named. */
static json_t *any_tensor(struct change *c, json_t *root)
{
    const char *key;
    json_t *v;
    uint64_t n = draw(c, json_object_size(root) - 1);
    json_object_foreach(root, key, v)
    {
        if (strcmp(key, "__metadata__") == 0 || n--) continue;
        snprintf(c->named, sizeof c->named, "%s", key);
        return v;
    }
    fail();
    return NULL;
}

static void name_file(struct change *c, const struct image *f)
{
    memcpy(c->named, f->name, sizeof c->named);
}

/* ---- changes of a header ---- */

static void change_dtype(struct change *c)
{
    static const char *const names[] = {"F16", "F32", "I32", "U32", "BF17", "I64", "F8_E5M2", ""};
    struct image *f = any_shard(c);
    json_t *root = image_header(f), *v = any_tensor(c, root);
    const char *name = names[draw(c, 8)], *old = json_string_value(json_object_get(v, "dtype"));
    json_object_set_new(v, "dtype", json_string(strcmp(name, old) ? name : "BOOL"));
    image_set_header(f, root);
}

static void change_shape(struct change *c)
{
    struct image *f = any_shard(c);
    json_t *root = image_header(f), *v = any_tensor(c, root), *shape = json_object_get(v, "shape");
    size_t last = json_array_size(shape) - 1;
    json_int_t x = json_integer_value(json_array_get(shape, last));
    switch (draw(c, 4)) {
    case 0:
        json_array_set_new(shape, last, json_integer(x + 1));
        break;
    case 1:
        json_array_set_new(shape, last, json_integer(-x));
        break;
    case 2: /* the same bytes */
        json_array_append_new(shape, json_integer(1));
        break;
    default:
        json_object_set_new(v, "shape", json_string("64"));
        break;
    }
    image_set_header(f, root);
}

static void change_offsets(struct change *c)
{
    static const json_int_t by[] = {1, -1, 64, 1 << 20};
    struct image *f = any_shard(c);
    json_t *root = image_header(f), *v = any_tensor(c, root);
    json_t *offsets = json_object_get(v, "data_offsets");
    size_t side = draw(c, 2);
    json_int_t x = json_integer_value(json_array_get(offsets, side));
    json_array_set_new(offsets, side, json_integer(x + by[draw(c, 4)]));
    image_set_header(f, root);
}

static void change_name(struct change *c)
{
    struct image *f = any_shard(c);
    json_t *root = image_header(f), *v = any_tensor(c, root);
    char old[NAME];
    snprintf(old, sizeof old, "%s", c->named);
    json_incref(v);
    json_object_del(root, old);
    if (draw(c, 3) == 0) {
        snprintf(c->named, sizeof c->named, "%s", old + strlen("language_model."));
    } else {
        c->named[draw(c, strlen(old))] ^= 1;
    }
    json_object_set_new(root, c->named, v);
    image_set_header(f, root);
}

static void drop_tensor(struct change *c)
{
    struct image *f = any_shard(c);
    json_t *root = image_header(f);
    (void)any_tensor(c, root);
    json_object_del(root, c->named);
    image_set_header(f, root);
}

static void add_key(struct change *c)
{
    struct image *f = any_shard(c);
    json_t *root = image_header(f);
    json_object_set_new(any_tensor(c, root), "stride", json_integer(1));
    image_set_header(f, root);
}

static void duplicate_key(struct change *c)
{
    struct image *f = any_shard(c);
    json_t *root = image_header(f), *v = any_tensor(c, root);
    char *entry = json_dumps(v, JSON_COMPACT), *text = json_dumps(root, JSON_COMPACT);
    size_t size = strlen(text) + strlen(entry) + NAME + 8;
    char *all = malloc(size);
    assert_true(entry && text && all);
    snprintf(all, size, "{\"%s\":%s,%s", c->named, entry, text + 1);
    image_set_header_text(f, all);
    free(all);
    free(text);
    free(entry);
    json_decref(root);
}

static void change_metadata(struct change *c)
{
    struct image *f = any_shard(c);
    json_t *root = image_header(f);
    c->against = draw(c, 2) == 0;
    json_object_set_new(json_object_get(root, "__metadata__"), "format",
                        c->against ? json_string("tf") : json_integer(1));
    name_file(c, f);
    image_set_header(f, root);
}

/* ---- changes of bytes ---- */

static void change_length(struct change *c)
{
    struct image *f = any_shard(c);
    int byte = (int)draw(c, 8);
    f->data[byte] ^= (unsigned char)(1 + draw(c, 255));
    name_file(c, f);
}

/* Whatever it hits: a name, a number, a brace, a space. The header's own hash shows the last. */
static void change_header_byte(struct change *c)
{
    struct image *f = any_shard(c);
    f->data[8 + draw(c, image_header_size(f))] ^= (unsigned char)(1 + draw(c, 255));
    c->against = true;
    name_file(c, f);
}

static void cut(struct change *c)
{
    static const size_t by[] = {1, 7, 100, 5000};
    struct image *f = any_shard(c);
    f->size -= by[draw(c, 4)];
    if (draw(c, 5) == 0) f->size = draw(c, 9);
    name_file(c, f);
}

static void lengthen(struct change *c)
{
    struct image *f = any_shard(c);
    unsigned char *all = calloc(1, f->size + 16);
    assert_non_null(all);
    memcpy(all, f->data, f->size);
    image_set(f, f->name, all, f->size + 1 + draw(c, 15));
    free(all);
    name_file(c, f);
}

/* The data of a tensor, its first byte and how many. */
static unsigned char *data_of(struct image *f, const json_t *v, int64_t *bytes)
{
    const json_t *offsets = json_object_get(v, "data_offsets");
    json_int_t begin = json_integer_value(json_array_get(offsets, 0));
    *bytes = json_integer_value(json_array_get(offsets, 1)) - begin;
    return f->data + 8 + image_header_size(f) + begin;
}

static void flip_bit(struct change *c)
{
    struct image *f = any_shard(c);
    json_t *root = image_header(f);
    int64_t bytes;
    unsigned char *data = data_of(f, any_tensor(c, root), &bytes);
    data[draw(c, (uint64_t)bytes)] ^= (unsigned char)(1 << draw(c, 8));
    c->against = true;
    json_decref(root);
}

static void change_weight_shape(struct change *c)
{
    struct image *f = any_shard(c);
    json_t *root = image_header(f), *v;
    int64_t bytes;
    do {
        v = any_tensor(c, root);
    } while (!strstr(c->named, ".weight_shape"));
    unsigned char *data = data_of(f, v, &bytes);
    data[draw(c, (uint64_t)bytes)] ^= (unsigned char)(1 + draw(c, 255));
    json_decref(root);
}

/* ---- changes of the folder ---- */

static void lose_file(struct change *c)
{
    struct image *f = any_shard(c);
    name_file(c, f);
    f->gone = true;
    c->error = c->m->first == 1; /* the only one */
    if (c->error) snprintf(c->named, sizeof c->named, "%.200s", c->m->folder);
}

static void swap_files(struct change *c)
{
    struct image *f = any_shard(c), *g = &c->m->files[2 + (f - c->m->files - 1) % 3], other = *f;
    if (c->m->first == 1) {
        flip_bit(c);
        return;
    }
    f->data = g->data;
    f->size = g->size;
    g->data = other.data;
    g->size = other.size;
    name_file(c, f);
}

static void change_index(struct change *c)
{
    struct image *f = &c->m->files[1];
    if (c->m->first == 1) {
        change_weight_shape(c);
        return;
    }
    json_t *root = json_loadb((const char *)f->data, f->size, 0, NULL), *value;
    json_t *map = json_object_get(root, "weight_map");
    const char *key;
    uint64_t n = draw(c, json_object_size(map));
    json_object_foreach(map, key, value)
    {
        if (n-- == 0) snprintf(c->named, sizeof c->named, "%s", key);
    }
    switch (draw(c, 6)) {
    case 0:
        json_object_del(map, c->named);
        break;
    case 1:
        json_object_set_new(map, c->named, json_string("model-00009-of-000003.safetensors"));
        snprintf(c->named, sizeof c->named, "model-00009-of-000003.safetensors");
        break;
    case 2: {
        const char *old = json_string_value(json_object_get(map, c->named));
        json_object_set_new(map, c->named,
                            json_string(strcmp(old, c->m->files[2].name) ? c->m->files[2].name
                                                                         : c->m->files[3].name));
        break;
    }
    case 3:
        json_object_set_new(map, c->named, json_integer(1));
        break;
    case 4:
        snprintf(c->named, sizeof c->named, "no.such.tensor");
        json_object_set_new(map, c->named, json_string(c->m->files[2].name));
        break;
    default:
        json_object_set_new(json_object_get(root, "metadata"), "total_size", json_integer(12345));
        name_file(c, f);
        break;
    }
    char *text = json_dumps(root, JSON_COMPACT);
    assert_non_null(text);
    image_set(f, f->name, text, strlen(text));
    free(text);
    json_decref(root);
}

/* ---- changes of the config ---- */

static void change_config(struct change *c)
{
    static const struct {
        const char *from, *to, *named;
        bool against;
    } rows[] = {
        {"\"vocab_size\": 48", "\"vocab_size\": 47", "embed_tokens.weight", false},
        {"\"hidden_size\": 64", "\"hidden_size\": 96", "norm.weight", false},
        {"\"num_hidden_layers\": 3", "\"num_hidden_layers\": 4", "layers.3.*", false},
        {"\"num_hidden_layers\": 3", "\"num_hidden_layers\": 2", "layers.2.", false},
        {"\"n_routed_experts\": 4", "\"n_routed_experts\": 5", "experts.4.*", false},
        {"\"n_routed_experts\": 4", "\"n_routed_experts\": 3", "experts.3.", false},
        {"\"kv_lora_rank\": 16", "\"kv_lora_rank\": 17", "kv_a_layernorm.weight", false},
        {"\"group_size\": 32", "\"group_size\": 16", "weight_scale", false},
        {"\"num_bits\": 4", "\"num_bits\": 8", "weight_packed", false},
        {"\"first_k_dense_replace\": 1", "\"first_k_dense_replace\": 2", "layers.1.", false},
        {"\"n_shared_experts\": 1", "\"n_shared_experts\": 2", "shared_experts", false},
        {"\"model_type\": \"kimi_k25\"", "\"model_type\": \"kimi_k26\"", "config.json", false},
        {"\"rope_theta\": 50000.0", "\"rope_theta\": 10000.0", "config.json", true},
        {"\"routed_scaling_factor\": 2.827", "\"routed_scaling_factor\": 2.5", "config.json", true},
        {"\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 3", "config.json", true},
        {"\"v_head_dim\": 12", "\"v_head_dim\"; 12", "config.json", false},
    };
    size_t i = draw(c, sizeof rows / sizeof rows[0]);
    char *text = replaced((const char *)c->m->files[0].data, rows[i].from, rows[i].to);
    image_set(&c->m->files[0], "config.json", text, strlen(text));
    free(text);
    c->against = rows[i].against;
    c->error = i == 11 || i == 15;
    snprintf(c->named, sizeof c->named, "%s", rows[i].named);
}

static void (*const changes[])(struct change *c) = {
    change_dtype,
    change_shape,
    change_offsets,
    change_name,
    drop_tensor,
    add_key,
    duplicate_key,
    change_metadata,
    change_length,
    change_header_byte,
    cut,
    lengthen,
    flip_bit,
    lose_file,
    swap_files,
    change_index,
    change_config,
    change_weight_shape,
    change_index,
    flip_bit,
};

enum { KINDS = sizeof changes / sizeof changes[0] };

/* ---- the test ---- */

static bool names(const json_t *problems, const char *text)
{
    const json_t *p;
    size_t i;
    json_array_foreach(problems, i, p)
    {
        if (strstr(json_string_value(json_object_get(p, "where")), text) ||
            strstr(json_string_value(json_object_get(p, "tensor")), text))
            return true;
    }
    return false;
}

static void inspect_change(const struct change *c, int number)
{
    struct err err = ERR_INIT;
    struct inspection s;
    char line[ERR_LINE];
    json_t *result = json_object();
    inspection_open(&s, c->m->folder);
    (void)!inspect_folder(&s, &err);
    if (c->error) {
        err_line(&err, line, sizeof line);
        if (err.code != ERR_INPUT || !strstr(line, c->named))
            fail_msg("mutation %d: no error that names %s", number, c->named);
    } else {
        assert_ok(&err);
        if (c->against) (void)!ins_against(&s, c->m->contract, 2, result, &err);
        assert_ok(&err);
        if (json_array_size(s.problems) == 0)
            fail_msg("mutation %d of %s was accepted", number, c->named);
        if (!names(s.problems, c->named)) {
            json_dumpf(s.problems, stderr, JSON_INDENT(1));
            fail_msg("mutation %d: %s is not named", number, c->named);
        }
        assert_int_equal(inspect_json(&s, "checkpoint", result, &err), ERR_OK);
    }
    inspection_close(&s);
    json_decref(result);
}

static void record(const struct images *m)
{
    struct err err = ERR_INIT;
    struct inspection s;
    json_t *result = json_object();
    images_write(m);
    inspection_open(&s, m->folder);
    assert_int_equal(inspect_folder(&s, &err), ERR_OK);
    if (json_array_size(s.problems)) json_dumpf(s.problems, stderr, JSON_INDENT(1));
    assert_int_equal(json_array_size(s.problems), 0); /* or every mutation would be "found" */
    assert_int_equal(ins_record(&s, m->contract, 2, result, &err), ERR_OK);
    assert_int_equal(ins_against(&s, m->contract, 2, result, &err), ERR_OK);
    assert_int_equal(json_array_size(s.problems), 0);
    inspection_close(&s);
    json_decref(result);
    images_remove(m);
}

static void mutations__are_each_named(void **state)
{
    struct images base[2];
    for (int k = 0; k < 2; k++) {
        images_make(&base[k], k == 1, state);
        record(&base[k]);
    }
    for (int i = 0; i < MUTATIONS; i++) {
        struct images m = images_copied(&base[i / KINDS % 2]);
        struct change c = {.m = &m, .r = synth_x(SEED, i)};
        changes[i % KINDS](&c);
        images_write(&m);
        inspect_change(&c, i);
        images_remove(&m);
        images_free(&m);
    }
    images_free(&base[0]);
    images_free(&base[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(mutations__are_each_named, folder_setup, folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
