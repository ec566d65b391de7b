/* test_synth_verb.c: `assay synth`: shards and their index, --shrink of a config, and that a folder
 * holds a whole checkpoint or none, whatever happens while it is written. */
#include "harness/staging.h"
#include "harness/synth.h"
#include "tests/cli.h"
#include "tests/config_texts.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* As a published config is: sizes at the end of a larger vocabulary's ids, numbers that a JSON
 * library would write in another way, and fields that nobody here knows. */
#define REAL_HEAD                                                                                  \
    "{\n  \"architectures\": [\"KimiK25ForConditionalGeneration\"],\n"                             \
    "  \"note\": \"a } \\\" , \\\\\", \"tiny\": 1e-05, \"\\u00e9\": [1.50, {\"hidden_size\": "     \
    "64}],\n"
#define REAL_TAIL                                                                                  \
    ",\n  \"vision_config\": {\"text_hidden_size\": 64, \"vocab_size\": 512, \"deep\": [[1], {}]}" \
    ",\n  \"pad_token_id\": 511, \"bos_token_id\" :  500, \"media_token_ids\": [499, 3, 510],\n"   \
    "  \"vocab_size\": 512, \"pad\": null }\n\n"

static const char *real_config(void)
{
    char *text = replaced(CONFIG_K25, "\"vocab_size\": 48", "\"vocab_size\": 512");
    char *inner = replaced(text, "\"eos_token_id\": 2", "\"eos_token_id\": 501");
    char *open = replaced(inner, "{\"model_type\"", REAL_HEAD "  \"model_type\"");
    char *whole = replaced(open, ", \"vision_config\": {}}", REAL_TAIL);
    const char *kept = textf("%s", whole);
    free(text);
    free(inner);
    free(open);
    free(whole);
    return kept;
}

/* `text` with FROM, TO, FROM, TO, ... NULL. */
static const char *edited(const char *text, const char *const *pairs)
{
    for (int i = 0; pairs[i]; i += 2) {
        char *next = replaced(text, pairs[i], pairs[i + 1]);
        text = textf("%s", next);
        free(next);
    }
    return text;
}
#define EDITED(text, ...) edited(text, (const char *const[]){__VA_ARGS__, NULL})

static const char *in(void **state, const char *name)
{
    return textf("%s/%s", (const char *)*state, name);
}

static const char *config_file(void **state, const char *text)
{
    write_text(in(state, "config.json"), text);
    return in(state, "config.json");
}

static json_t *read_index(const char *folder)
{
    json_t *v =
        json_load_file(textf("%s/model.safetensors.index.json", folder), JSON_REJECT_DUPLICATES, 0);
    assert_non_null(v);
    return v;
}

/* The shard, from 1, that the index gives for a tensor. */
static int shard_of(const json_t *index, const char *name)
{
    int shard = 0, of = 0, end = 0;
    const char *file = field_text(field(index, "weight_map"), name);
    assert_int_equal(sscanf(file, "model-%5d-of-%6d.safetensors%n", &shard, &of, &end), 2);
    assert_int_equal(strlen(file), strlen("model-00001-of-000064.safetensors"));
    return shard;
}

static void same_as_made(void **state, const char *folder, const char *config, const char *query)
{
    const char *a = in(state, "a.safetensors"), *b = in(state, "b.safetensors");
    json_decref(cli_passes("forward", folder, "--tokens", "1,5,9,30", "--out", a));
    json_decref(cli_passes("forward", textf("synth:%s?%s", config, query), "--tokens", "1,5,9,30",
                           "--out", b));
    assert_same_tensors(a, b, false);
    remove(a);
    remove(b);
}

/* ---- shards ---- */

/* The index names every tensor of every shard and nothing else; total_size is their bytes. */
static void check_index(const char *folder, const json_t *index, int shards)
{
    struct err err = ERR_INIT;
    int64_t bytes = 0;
    size_t tensors = 0;
    for (int i = 1; i <= shards; i++) {
        struct st_file f;
        const char *name = textf("model-%05d-of-%06d.safetensors", i, shards);
        (void)!st_open(&f, textf("%s/%s", folder, name), &err);
        assert_ok(&err);
        assert_true(f.count > 0);
        for (int64_t k = 0; k < f.count; k++) {
            assert_string_equal(field_text(field(index, "weight_map"), f.tensors[k].name), name);
            bytes += f.tensors[k].bytes;
        }
        tensors += (size_t)f.count;
        st_close(&f);
    }
    assert_int_equal(json_object_size(field(index, "weight_map")), tensors);
    assert_int_equal(field_int(field(index, "metadata"), "total_size"), bytes);
}

static void check_layers(const json_t *index, int layers, int shards)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)field(index, "weight_map"), key, value)
    {
        int layer, at = shard_of(index, key);
        if (sscanf(key, "language_model.model.layers.%d.", &layer) != 1) {
            if (shards > layers) assert_true(at > layers);
            continue;
        }
        char norm[96];
        snprintf(norm, sizeof norm, "language_model.model.layers.%d.input_layernorm.weight", layer);
        assert_int_equal(at, shard_of(index, norm));
        if (shards > layers) assert_int_equal(at, layer + 1);
    }
}

static void shards__hold_what_the_address_makes__however_many(void **state)
{
    enum { LAYERS = 3 };
    const char *config = config_file(state, CONFIG_K25);
    for (int n = 1; n <= LAYERS + 3; n++) {
        const char *folder = in(state, textf("m%d", n));
        json_t *j = cli_passes("synth", config, "--seed", "5", "--latent-gain", "2", "--out",
                               folder, "--shards", textf("%d", n));
        assert_int_equal(field_int(j, "shards"), n);
        assert_int_equal(json_array_size(field(j, "changed")), 0);
        json_decref(j);
        assert_int_equal(folder_count(folder), n == 1 ? 2 : n + 2);
        if (n > 1) {
            json_t *index = read_index(folder);
            check_index(folder, index, n);
            check_layers(index, LAYERS, n);
            json_decref(index);
        }
        char *text = read_whole(textf("%s/config.json", folder), NULL);
        assert_string_equal(text, CONFIG_K25);
        free(text);
        same_as_made(state, folder, config, "seed=5&latent_gain=2");
    }
}

/* Tensor by tensor; none is without one. */
static void shards__cut_through_layers__where_there_are_more_of_them(void **state)
{
    const char *config = config_file(state, CONFIG_K25), *folder = in(state, "m");
    json_t *j = cli_passes("synth", config, "--seed", "5", "--out", folder, "--shards", "64");
    struct refusal more = {2, "option", "--shards", "99999", NULL};
    more.wanted = textf("at most %lld: a tensor each", (long long)field_int(j, "tensors"));
    json_t *index = read_index(folder);
    check_index(folder, index, 64);
    same_as_made(state, folder, config, "seed=5");
    cli_refuses(state, more, "synth", config, "--seed", "5", "--out", in(state, "n"), "--shards",
                "99999");
    json_decref(index);
    json_decref(j);
}

static void shards__are_named_as_the_real_ones__with_61_layers(void **state)
{
    const char *folder = in(state, "m");
    const char *config = config_file(
        state, EDITED(CONFIG_K25, "\"num_hidden_layers\": 3", "\"num_hidden_layers\": 61"));
    json_decref(cli_passes("synth", config, "--seed", "5", "--out", folder, "--shards", "64"));
    json_t *index = read_index(folder);
    check_index(folder, index, 64);
    check_layers(index, 61, 64);
    assert_int_equal(shard_of(index, "language_model.model.embed_tokens.weight"), 62);
    assert_int_equal(shard_of(index, "language_model.lm_head.weight"), 64);
    assert_true(file_exists(textf("%s/model-00001-of-000064.safetensors", folder)));
    json_decref(index);
}

static void shards__are_one_fewer__when_the_embedding_is_the_head(void **state)
{
    const char *config = config_file(state, EDITED(CONFIG_K25, "\"tie_word_embeddings\": false",
                                                   "\"tie_word_embeddings\": true"));
    json_decref(
        cli_passes("synth", config, "--seed", "5", "--out", in(state, "m"), "--shards", "5"));
    json_t *index = read_index(in(state, "m"));
    check_layers(index, 3, 5);
    json_decref(index);
    same_as_made(state, in(state, "m"), config, "seed=5");
    static const char *const bad[] = {"0", "-1", "x", "", "100000", "1.5"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct refusal r = {2, "option", "--shards", bad[i], NULL};
        cli_refuses(state, r, "synth", config, "--seed", "5", "--out", in(state, "n"),
                    textf("--shards=%s", bad[i]));
    }
}

/* The smallest largest part, by trying every way to cut. */
static int64_t best_cut(const int64_t *bytes, int64_t items, int64_t shards)
{
    int64_t best = INT64_MAX, sum = 0;
    if (shards == 1) {
        for (int64_t i = 0; i < items; i++) sum += bytes[i];
        return sum;
    }
    for (int64_t first = 1; first <= items - shards + 1; first++) {
        sum += bytes[first - 1];
        int64_t rest = best_cut(bytes + first, items - first, shards - 1);
        int64_t most = sum > rest ? sum : rest;
        if (most < best) best = most;
    }
    return best;
}

static void balance__is_contiguous_and_the_best__for_every_count(void **state)
{
    static const int64_t rows[][8] = {{1, 1, 1, 1, 1, 1, 1, 1},      {9, 1, 1, 1, 1, 1, 1, 1},
                                      {1, 1, 1, 1, 1, 1, 1, 9},      {5, 3, 8, 1, 9, 2, 7, 4},
                                      {1, 2, 4, 8, 16, 32, 64, 128}, {0, 0, 0, 0, 0, 0, 0, 7}};
    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        for (int64_t shards = 1; shards <= 8; shards++) {
            int64_t at[8], sum[8] = {0}, most = 0;
            synth_balance(rows[r], 8, shards, at);
            assert_int_equal(at[0], 0);
            assert_int_equal(at[7], shards - 1);
            for (int i = 0; i < 8; i++) {
                if (i > 0) assert_true(at[i] == at[i - 1] || at[i] == at[i - 1] + 1);
                sum[at[i]] += rows[r][i];
            }
            for (int64_t i = 0; i < shards; i++) most = sum[i] > most ? sum[i] : most;
            assert_int_equal(most, best_cut(rows[r], 8, shards));
        }
    }
}

/* ---- shrink ---- */

static void shrunk(void **state, const char *spec, const char *wanted)
{
    struct cli r;
    const char *folder = in(state, "small"), *config = textf("%s/config.json", folder);
    cli(&r, "synth", in(state, "config.json"), "--seed", "3", "--out", folder, "--shrink", spec,
        "--shards", "2", "--json");
    if (r.status != 0) fail_msg("%s: %s", spec, r.err);
    char *text = read_whole(config, NULL);
    assert_string_equal(text, wanted);
    free(text);
    cli_free(&r);
    same_as_made(state, folder, config, "seed=3");
    remove(textf("%s/model-00001-of-000002.safetensors", folder));
    remove(textf("%s/model-00002-of-000002.safetensors", folder));
    remove(textf("%s/model.safetensors.index.json", folder));
}

/* Only the numbers that are meant change: every other byte stays. */
static void shrink__keeps_every_other_byte(void **state)
{
    const char *t = real_config();
    config_file(state, t);
    shrunk(state, "layers=3", t);
    shrunk(state, "layers=2", EDITED(t, "\"num_hidden_layers\": 3", "\"num_hidden_layers\": 2"));
    shrunk(state, "layers=1", EDITED(t, "\"num_hidden_layers\": 3", "\"num_hidden_layers\": 1"));
    shrunk(state, "experts=2", EDITED(t, "\"n_routed_experts\": 4", "\"n_routed_experts\": 2"));
    shrunk(state, "heads=1",
           EDITED(t, "\"num_attention_heads\": 2", "\"num_attention_heads\": 1",
                  "\"num_key_value_heads\": 2", "\"num_key_value_heads\": 1"));
    shrunk(state, "intermediate=17,q_lora=5,kv_lora=3",
           EDITED(t, "\"intermediate_size\": 80", "\"intermediate_size\": 17",
                  "\"q_lora_rank\": 24", "\"q_lora_rank\": 5", "\"kv_lora_rank\": 16",
                  "\"kv_lora_rank\": 3"));
    shrunk(state, "hidden=32,moe_intermediate=32",
           EDITED(t, "\"hidden_size\": 64, \"intermediate", "\"hidden_size\": 32, \"intermediate",
                  "\"text_hidden_size\": 64", "\"text_hidden_size\": 32"));
    shrunk(state, "vocab=48,experts=3,layers=2",
           EDITED(t, "\"vocab_size\": 512, \"hidden", "\"vocab_size\": 48, \"hidden",
                  "\"num_hidden_layers\": 3", "\"num_hidden_layers\": 2", "\"n_routed_experts\": 4",
                  "\"n_routed_experts\": 3", "\"eos_token_id\": 501", "\"eos_token_id\": 37",
                  "\"pad_token_id\": 511", "\"pad_token_id\": 47", "\"bos_token_id\" :  500",
                  "\"bos_token_id\" :  36", "[499, 3, 510]", "[35, 3, 46]",
                  "\"vocab_size\": 512, \"pad\"", "\"vocab_size\": 48, \"pad\""));
}

static void shrink__says_what_it_moved__when_ids_leave_the_vocabulary(void **state)
{
    struct cli r;
    const char *config = config_file(state, real_config());
    cli(&r, "synth", config, "--seed", "3", "--out", in(state, "m"), "--shrink",
        "vocab=100,layers=2", "--json");
    assert_int_equal(r.status, 0);
    assert_string_equal(r.err,
                        "assay: warning: token ids moved into the smaller vocabulary: "
                        "text_config.eos_token_id 501 -> 89, pad_token_id 511 -> 99, bos_token_id "
                        "500 -> 88, media_token_ids [499, 3, 510] -> [87, 3, 98]\n");
    const json_t *changed = field(r.json, "changed");
    assert_int_equal(json_array_size(changed), 7);
    assert_string_equal(field_text(json_array_get(changed, 0), "key"),
                        "text_config.num_hidden_layers");
    assert_string_equal(field_text(json_array_get(changed, 0), "from"), "3");
    assert_string_equal(field_text(json_array_get(changed, 0), "to"), "2");
    cli_free(&r);
}

static void shrink__works_at_the_root__without_a_text_config(void **state)
{
    const char *config = config_file(state, CONFIG_PLAIN);
    json_t *j = cli_passes("synth", config, "--seed", "3", "--out", in(state, "m"), "--shrink",
                           "experts=3,heads=1");
    assert_int_equal(json_array_size(field(j, "changed")), 2);
    json_decref(j);
    same_as_made(state, in(state, "m"), in(state, "m/config.json"), "seed=3");
}

static void shrink__is_refused__when_it_cannot_hold(void **state)
{
    static const struct {
        const char *spec;
        struct refusal r;
    } rows[] = {
        {"", {2, "option", "--shrink", "\"\"", "KEY=N"}},
        {"layers", {2, "option", "--shrink", "\"layers\"", "KEY=N"}},
        {"layers=", {2, "option", "--shrink", "layers=", "a whole number"}},
        {"layers=0", {2, "option", "--shrink", "layers=0", "1 or more"}},
        {"layers=-1", {2, "option", "--shrink", "layers=-1", "1 or more"}},
        {"layers=2x", {2, "option", "--shrink", "layers=2x", "a whole number"}},
        {"layers=2,", {2, "option", "--shrink", "\"\"", "KEY=N"}},
        {"layers=2,,experts=2", {2, "option", "--shrink", "\"\"", "KEY=N"}},
        {"layers=2,layers=2", {2, "option", "--shrink", "layers twice", "once"}},
        {"layer=2", {2, "option", "--shrink", "layer=2", "layers, experts, vocab"}},
        {"Layers=2", {2, "option", "--shrink", "Layers=2", "layers, experts, vocab"}},
        {"rope=4", {2, "option", "--shrink", "rope=4", "kv_lora"}},
        {"layers=4", {2, "option", "--shrink: layers", "4", "at most the 3"}},
        {"experts=1", {2, "experts a token", "--shrink experts=1", "num_experts_per_tok 2", NULL}},
        {"vocab=12", {2, "option", "--shrink: vocab", "media_token_ids 499", "at least 13"}},
        {"vocab=5", {2, "option", "--shrink: vocab", "eos_token_id 501", "at least 11"}},
        {"hidden=48", {2, "packed weight", "experts.0", "48 columns in groups of 32", NULL}},
        {"moe_intermediate=16", {2, "packed weight", "down_proj", "16 columns", NULL}},
    };
    const char *config = config_file(state, real_config());
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        cli_refuses(state, rows[i].r, "synth", config, "--seed", "1", "--out", in(state, "m"),
                    textf("--shrink=%s", rows[i].spec));
    struct refusal own = {2, "option", "--out", "the config to shrink", "another folder"};
    cli_refuses(state, own, "synth", config, "--seed", "1", "--out", *state, "--shrink",
                "layers=2");
}

/* What the config, and not the spec, makes impossible. */
static void shrink__is_refused__when_the_config_does_not_allow_it(void **state)
{
    static const struct {
        const char *from, *to, *spec;
        struct refusal r;
    } rows[] = {
        {"\"first_k_dense_replace\": 1",
         "\"first_k_dense_replace\": 2",
         "layers=1",
         {2, "option", "--shrink: layers", "1", "at least the 2 of first_k_dense_replace"}},
        {"\"n_group\": 1",
         "\"n_group\": 2",
         "experts=3",
         {2, "expert groups", "--shrink experts=3", "3 experts in 2 groups", "divide"}},
        {"\"q_lora_rank\": 24",
         "\"q_lora_rank\": null",
         "q_lora=4",
         {2, "option", "--shrink: q_lora", "null", "a model that has it"}},
        {"\"use\": 0",
         "\"layer_types\": [1, 2, 3]",
         "layers=2",
         {2, "option", "--shrink: layers", "layer_types", "without such a list"}},
        {"\"eos_token_id\": 2",
         "\"eos_token_id\": 48",
         "vocab=40",
         {2, "option", "--shrink: vocab", "eos_token_id 48", "below its 48"}},
        {"\"vocab_size\"",
         "\"vocab_siz\\u0065\"",
         "vocab=40",
         {2, "shrink config", "config.json", "0 of 1 keys", "all of them"}},
    };
    const char *base = EDITED(CONFIG_K25, "\"attention_bias\"", "\"use\": 0, \"attention_bias\"");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *config = config_file(state, EDITED(base, rows[i].from, rows[i].to));
        cli_refuses(state, rows[i].r, "synth", config, "--seed", "1", "--out", in(state, "m"),
                    textf("--shrink=%s", rows[i].spec));
    }
}

/* ---- whole or not at all ---- */

static int temporaries(const char *folder)
{
    int n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
        n += strstr(e->d_name, ".tmp-") != NULL;
    if (d) closedir(d);
    return n;
}

/* Hits a run that writes 115 MB, `after_ms` after it began to write. */
static int hit(void **state, const char *folder, int number, long after_ms)
{
    const char *argv[] = {
        "synth", FIXTURE("mid-k25/config.json"), "--seed", "1", "--out", folder, "--shards", "5",
        NULL};
    (void)state;
    pid_t child = cli_start(argv);
    for (int i = 0; i < 3000 && temporaries(folder) == 0; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    nanosleep(&(struct timespec){.tv_nsec = after_ms * 1000000}, NULL);
    assert_int_equal(kill(child, number), 0);
    return cli_wait(child);
}

static void killed_run__leaves_no_checkpoint(void **state)
{
    static const long after_ms[] = {0, 30, 90, 150};
    int killed = 0;
    for (size_t i = 0; i < sizeof after_ms / sizeof after_ms[0]; i++) {
        const char *folder = in(state, textf("m%zu", i));
        bool dead = hit(state, folder, SIGKILL, after_ms[i]) == SIGKILL;
        killed += dead;
        if (!dead) continue;
        if (file_exists(textf("%s/config.json", folder))) fail_msg("killed, but a config.json");
        struct refusal r = {2, "open", "config.json", NULL, NULL};
        cli_refuses(state, r, "forward", folder, "--tokens", "1", "--out", in(state, "out"));
    }
    assert_true(killed > 0);
}

static void interrupted_run__leaves_nothing(void **state)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        const char *folder = in(state, textf("m%zu", i));
        assert_int_equal(hit(state, folder, numbers[i], 10), numbers[i]);
        assert_int_equal(folder_count(folder), 0);
    }
}

static void disk_full__leaves_nothing(void **state)
{
    const char *config =
        config_file(state, EDITED(CONFIG_K25, "\"vocab_size\": 48", "\"vocab_size\": 960"));
    struct rlimit old;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    const struct rlimit small = {100000, old.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    struct refusal r = {3, "write", "model.safetensors", "File too large", NULL};
    cli_refuses(state, r, "synth", config, "--seed", "1", "--out", in(state, "m"));
    r.where = "model-00004-of-000004.safetensors";
    cli_refuses(state, r, "synth", config, "--seed", "1", "--out", in(state, "m"), "--shards", "4");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_DFL);
}

static void folder__is_made__or_refused(void **state)
{
    const char *config = config_file(state, CONFIG_K25);
    write_text(in(state, "file"), "kept");
    struct refusal full = {2, "make folder", "/dev/full", "a file of that name", "a folder"},
                   below = {2, "make folder", "file", NULL, NULL},
                   held = {2, "write checkpoint", "/m", "model.safetensors there already",
                           "without a checkpoint"},
                   proc = {2, NULL, "/proc/self", NULL, NULL};
    cli_refuses(state, full, "synth", config, "--seed", "1", "--out", "/dev/full");
    cli_refuses(state, below, "synth", config, "--seed", "1", "--out", in(state, "file/m"));
    cli_refuses(state, proc, "synth", config, "--seed", "1", "--out", "/proc/self");
    json_decref(cli_passes("synth", config, "--seed", "1", "--out", in(state, "a/b/m")));
    assert_int_equal(folder_count(in(state, "a/b/m")), 2);
    cli_refuses(state, held, "synth", config, "--seed", "1", "--out", in(state, "a/b/m"));
    if (geteuid() == 0) return; /* root may write everywhere */
    assert_int_equal(file_make_folder(in(state, "ro"), &(struct err)ERR_INIT), 0);
    assert_int_equal(chmod(in(state, "ro"), 0555), 0);
    struct refusal only = {2, "write checkpoint", "ro", "Permission denied", NULL};
    cli_refuses(state, only, "synth", config, "--seed", "1", "--out", in(state, "ro"));
    assert_int_equal(chmod(in(state, "ro"), 0755), 0);
}

/* The last step fails half way: what had its name by then loses it again. */
static void commit__is_undone__when_a_file_cannot_be_renamed(void **state)
{
    static const char names[3][STAGING_NAME] = {"a", "b", "config.json"};
    struct staging s;
    struct err err = ERR_INIT;
    (void)!staging_open(&s, in(state, "m"), 3, names, &err);
    assert_ok(&err);
    write_text(s.path[0], "x");
    write_text(s.path[1], "x");
    assert_int_equal(staging_commit(&s, &err), ERR_INPUT);
    assert_err(&err, ERR_INPUT, "rename to", "/m/config.json", "No such file", NULL);
    assert_false(file_exists(in(state, "m")));
    err_clear(&err);
    (void)!staging_open(&s, in(state, "m"), 1, names, &err);
    write_text(s.path[0], "x");
    assert_int_equal(staging_commit(&s, &err), ERR_OK);
    assert_int_equal(folder_count(in(state, "m")), 1);
    staging_abandon(&s);
    assert_true(file_exists(in(state, "m/a")));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)
    const struct CMUnitTest tests[] = {
        TEST(shards__hold_what_the_address_makes__however_many),
        TEST(shards__cut_through_layers__where_there_are_more_of_them),
        TEST(shards__are_named_as_the_real_ones__with_61_layers),
        TEST(shards__are_one_fewer__when_the_embedding_is_the_head),
        TEST(balance__is_contiguous_and_the_best__for_every_count),
        TEST(shrink__keeps_every_other_byte),
        TEST(shrink__says_what_it_moved__when_ids_leave_the_vocabulary),
        TEST(shrink__works_at_the_root__without_a_text_config),
        TEST(shrink__is_refused__when_it_cannot_hold),
        TEST(shrink__is_refused__when_the_config_does_not_allow_it),
        TEST(killed_run__leaves_no_checkpoint),
        TEST(interrupted_run__leaves_nothing),
        TEST(disk_full__leaves_nothing),
        TEST(folder__is_made__or_refused),
        TEST(commit__is_undone__when_a_file_cannot_be_renamed),
    };
    return cmocka_run_group_tests_name("synth_verb", tests, NULL, NULL);
}
