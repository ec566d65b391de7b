/* test_model.c: binding of tensors to roles: on a synthetic source, and on folders written from it
 * in which one tensor is missing, misshapen or misnamed. */
#include "tests/config_texts.h"
#include "tests/support.h"

#include "core/model.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS_MAX = 256 };

/* Every tensor of a bound model as a part that can be written; data is made, the caller's to free
 * with drop(). */
struct list {
    struct st_part parts[PARTS_MAX];
    int64_t count;
};

static void add_tensor(struct list *l, const struct tensor *t)
{
    if (!tensor_exists(t)) return;
    assert_true(l->count < PARTS_MAX);
    struct st_part *p = &l->parts[l->count++];
    void *data = calloc((size_t)tensor_count(t) + 1, (size_t)dtype_size(t->dtype));
    assert_non_null(data);
    const void *at = tensor_elements(t, 0, tensor_count(t), data);
    if (at != data) memcpy(data, at, (size_t)(tensor_count(t) * dtype_size(t->dtype)));
    *p =
        (struct st_part){.name = strdup(t->name), .dtype = t->dtype, .dims = t->dims, .data = data};
    memcpy(p->shape, t->shape, sizeof p->shape);
}

static void add_matrix(struct list *l, const struct matrix *m)
{
    add_tensor(l, &m->data);
    add_tensor(l, &m->scale);
}

static struct list list_of(const struct model *m)
{
    struct list l = {.count = 0};
    struct err err = ERR_INIT;
    add_tensor(&l, &m->embed);
    add_tensor(&l, &m->norm);
    if (!m->config->tied_embeddings) add_matrix(&l, &m->head);
    for (int64_t i = 0; i < m->config->layers; i++) {
        const struct layer *at = &m->layers[i];
        const struct tensor *const vectors[] = {&at->attn_norm, &at->mlp_norm, &at->q_norm,
                                                &at->kv_norm, &at->bias};
        const struct matrix *const matrices[] = {&at->q_a,  &at->q_b, &at->kv_a, &at->kv_b,  &at->o,
                                                 &at->gate, &at->up,  &at->down, &at->router};
        for (size_t k = 0; k < sizeof vectors / sizeof *vectors; k++) add_tensor(&l, vectors[k]);
        for (size_t k = 0; k < sizeof matrices / sizeof *matrices; k++) add_matrix(&l, matrices[k]);
        for (int64_t e = 0; at->moe && e < m->config->experts; e++) {
            struct expert expert;
            (void)!model_expert(m, i, e, &expert, &err);
            assert_ok(&err);
            add_matrix(&l, &expert.gate);
            add_matrix(&l, &expert.up);
            add_matrix(&l, &expert.down);
        }
    }
    return l;
}

static void drop(struct list *l)
{
    for (int64_t i = 0; i < l->count; i++) {
        free((void *)(uintptr_t)l->parts[i].name);
        free((void *)(uintptr_t)l->parts[i].data);
    }
}

static void open_synth(void **state, struct weights *w, const char *config)
{
    struct err err = ERR_INIT;
    char model[FILE_PATH];
    write_text(folder_path(state, "config.json"), config);
    snprintf(model, sizeof model, "synth:%s?seed=7", folder_path(state, "config.json"));
    (void)!weights_open(w, model, &err);
    assert_ok(&err);
}

static struct list synth_list(void **state, const char *config)
{
    struct err err = ERR_INIT;
    struct weights w;
    struct model m;
    open_synth(state, &w, config);
    (void)!model_bind(&m, &w, &err);
    assert_ok(&err);
    struct list l = list_of(&m);
    model_release(&m);
    weights_close(&w);
    return l;
}

/* Binds the folder; where `what` is NULL it must work. */
static void bind_folder(void **state, const struct list *l, const char *what, const char *where,
                        const char *found, const char *wanted, const char *note)
{
    struct err err = ERR_INIT;
    struct weights w;
    struct model m;
    write_safetensors(folder_path(state, "model.safetensors"), l->parts, l->count, NULL, 0);
    (void)!weights_open(&w, *state, &err);
    assert_ok(&err);
    enum err_code rc = model_bind(&m, &w, &err);
    if (what) {
        assert_int_equal(rc, ERR_INPUT);
        assert_err(&err, ERR_INPUT, what, where, found, wanted);
        assert_int_equal(err.notes, note ? 1 : 0);
        if (note) assert_string_equal(err.note[0], note);
    } else {
        assert_ok(&err);
    }
    model_release(&m);
    weights_close(&w);
}

static void bind__gives_every_role_its_shape__on_a_synthetic_source(void **state)
{
    struct err err = ERR_INIT;
    struct weights w;
    struct model m;
    open_synth(state, &w, CONFIG_K25);
    (void)!model_bind(&m, &w, &err);
    assert_ok(&err);
    assert_ptr_equal(m.config, &w.config);
    assert_string_equal(m.embed.name, "language_model.model.embed_tokens.weight");
    assert_string_equal(m.norm.name, "language_model.model.norm.weight");
    assert_string_equal(m.head.data.name, "language_model.lm_head.weight");
    assert_int_equal(m.rope.R, 8);
    const struct layer *dense = &m.layers[0], *moe = &m.layers[1];
    assert_false(dense->moe);
    assert_int_equal(dense->gate.out, 80);
    assert_false(tensor_exists(&dense->router.data) || tensor_exists(&dense->bias));
    assert_true(moe->moe && m.layers[2].moe);
    assert_int_equal(moe->gate.out, 32);
    assert_int_equal(moe->router.out, 4);
    assert_int_equal(moe->bias.dtype, DT_F32);
    assert_int_equal(moe->q_a.out, 24);
    assert_int_equal(moe->q_b.out, 2 * 24);
    assert_int_equal(moe->q_b.in, 24);
    assert_int_equal(moe->kv_a.out, 24);
    assert_int_equal(moe->kv_b.out, 2 * 28);
    assert_int_equal(moe->o.out, 64);
    assert_int_equal(moe->o.in, 24);
    assert_string_equal(m.layers[2].kv_norm.name,
                        "language_model.model.layers.2.self_attn.kv_a_layernorm.weight");
    struct expert e;
    (void)!model_expert(&m, 2, 3, &e, &err);
    assert_ok(&err);
    assert_int_equal(e.gate.format, MATRIX_PACKED);
    assert_int_equal(e.down.out, 64);
    assert_int_equal(e.down.in, 32);
    assert_string_equal(e.up.data.name,
                        "language_model.model.layers.2.mlp.experts.3.up_proj.weight_packed");
    model_release(&m);
    model_release(&m);
    weights_close(&w);
}

static void bind__uses_q_proj__when_there_is_no_q_lora(void **state)
{
    struct err err = ERR_INIT;
    struct weights w;
    struct model m;
    open_synth(state, &w, CONFIG_PLAIN);
    (void)!model_bind(&m, &w, &err);
    assert_ok(&err);
    assert_string_equal(m.layers[0].q_b.data.name, "model.layers.0.self_attn.q_proj.weight");
    assert_int_equal(m.layers[0].q_b.in, 64);
    assert_false(tensor_exists(&m.layers[0].q_a.data) || tensor_exists(&m.layers[0].q_norm));
    model_release(&m);
    weights_close(&w);
}

static void bind__needs_no_bias_no_shared_no_head__when_the_config_has_none(void **state)
{
    struct err err = ERR_INIT;
    struct weights w;
    struct model m;
    char *greedy = replaced(CONFIG_PLAIN, "\"n_shared_experts\": 1",
                            "\"topk_method\": \"greedy\", \"tie_word_embeddings\": true");
    open_synth(state, &w, greedy);
    (void)!model_bind(&m, &w, &err);
    assert_ok(&err);
    assert_false(tensor_exists(&m.layers[1].bias) || tensor_exists(&m.layers[1].gate.data));
    assert_string_equal(m.head.data.name, "model.embed_tokens.weight");
    assert_int_equal(m.head.out, 48);
    model_release(&m);
    weights_close(&w);
    free(greedy);
    char *zero = replaced(CONFIG_PLAIN, "\"n_shared_experts\": 1", "\"n_shared_experts\": 0");
    open_synth(state, &w, zero);
    (void)!model_bind(&m, &w, &err);
    assert_ok(&err);
    assert_false(tensor_exists(&m.layers[1].gate.data));
    model_release(&m);
    weights_close(&w);
    free(zero);
}

static void bind__finds_the_same_bytes__in_a_folder_written_from_the_rules(void **state)
{
    struct list l = synth_list(state, CONFIG_K25);
    struct err err = ERR_INIT;
    struct weights w;
    struct model m;
    write_safetensors(folder_path(state, "model.safetensors"), l.parts, l.count, NULL, 0);
    (void)!weights_open(&w, *state, &err);
    assert_ok(&err);
    (void)!model_bind(&m, &w, &err);
    assert_ok(&err);
    struct list back = list_of(&m);
    assert_int_equal(back.count, l.count);
    for (int64_t i = 0; i < l.count; i++) {
        const struct st_part *a = &l.parts[i], *b = &back.parts[i];
        assert_string_equal(a->name, b->name);
        assert_int_equal(a->dtype, b->dtype);
        int64_t n = 1;
        for (int d = 0; d < a->dims; d++) n *= a->shape[d];
        assert_memory_equal(a->data, b->data, (size_t)(n * dtype_size(a->dtype)));
    }
    drop(&back);
    model_release(&m);
    weights_close(&w);
    drop(&l);
}

static void bind__names_every_tensor__when_it_alone_is_missing(void **state)
{
    struct list l = synth_list(state, CONFIG_K25);
    for (int64_t i = 0; i < l.count; i++) {
        struct list one = l;
        char note[32];
        const char *at = strstr(l.parts[i].name, "layers.");
        snprintf(note, sizeof note, "layer %c", at ? at[7] : '-');
        one.parts[i] = (struct st_part){"language_model.model.unused", DT_U8, 1, {1}, NULL};
        bind_folder(state, &one, "find tensor", l.parts[i].name, "nothing", "a tensor of that name",
                    at ? note : NULL);
    }
    drop(&l);
}

static void bind__names_every_tensor__when_its_shape_is_wrong(void **state)
{
    struct list l = synth_list(state, CONFIG_K25);
    for (int64_t i = 0; i < l.count; i++) {
        struct list one = l;
        char shape[96];
        one.parts[i].shape[0] += 1;
        one.parts[i].data = NULL;
        st_shape_text(one.parts[i].dims, one.parts[i].shape, shape, sizeof shape);
        struct err err = ERR_INIT;
        struct weights w;
        struct model m;
        write_safetensors(folder_path(state, "model.safetensors"), one.parts, one.count, NULL, 0);
        (void)!weights_open(&w, *state, &err);
        assert_ok(&err);
        assert_int_equal(model_bind(&m, &w, &err), ERR_INPUT);
        assert_err(&err, ERR_INPUT, "tensor shape", l.parts[i].name, shape, "as config.json says");
        model_release(&m);
        weights_close(&w);
    }
    drop(&l);
}

static void bind__is_refused__when_the_prefix_is_another(void **state)
{
    struct list l = synth_list(state, CONFIG_K25), bare = l;
    for (int64_t i = 0; i < bare.count; i++) bare.parts[i].name += strlen("language_model.");
    bind_folder(state, &bare, "find tensor", "language_model.model.embed_tokens.weight", "nothing",
                NULL, NULL);
    drop(&l);
}

static void bind__ignores_vision_mtp_and_inv_freq(void **state)
{
    struct list l = synth_list(state, CONFIG_K25), more = l;
    static const char *const extra[] = {
        "vision_tower.patch_embed.weight", "mm_projector.linear.weight",
        "language_model.model.layers.0.self_attn.rotary_emb.inv_freq",
        "language_model.model.layers.3.self_attn.q_a_proj.weight"};
    for (int i = 0; i < 4; i++)
        more.parts[more.count++] = (struct st_part){extra[i], DT_F32, 1, {3}, NULL};
    bind_folder(state, &more, NULL, NULL, NULL, NULL, NULL);
    drop(&l);
}

static void ask_dense_layer(void *ctx)
{
    struct err err = ERR_INIT;
    struct expert e;
    (void)!model_expert(ctx, 0, 0, &e, &err);
}

static void expert__aborts__when_the_layer_has_none(void **state)
{
    struct err err = ERR_INIT;
    struct weights w;
    struct model m;
    open_synth(state, &w, CONFIG_K25);
    (void)!model_bind(&m, &w, &err);
    assert_ok(&err);
    assert_int_equal(signal_of(ask_dense_layer, &m, NULL), SIGABRT);
    model_release(&m);
    weights_close(&w);
}

#define in_folder(test) cmocka_unit_test_setup_teardown(test, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_folder(bind__gives_every_role_its_shape__on_a_synthetic_source),
        in_folder(bind__uses_q_proj__when_there_is_no_q_lora),
        in_folder(bind__needs_no_bias_no_shared_no_head__when_the_config_has_none),
        in_folder(bind__finds_the_same_bytes__in_a_folder_written_from_the_rules),
        in_folder(bind__names_every_tensor__when_it_alone_is_missing),
        in_folder(bind__names_every_tensor__when_its_shape_is_wrong),
        in_folder(bind__is_refused__when_the_prefix_is_another),
        in_folder(bind__ignores_vision_mtp_and_inv_freq),
        in_folder(expert__aborts__when_the_layer_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
