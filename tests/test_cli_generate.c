/* test_cli_generate.c: verb generate with a draft head: what its JSON says, greedy and sampling,
 * chain and tree; eos inside the drafts; what is refused. Without a head: tests/test_cli_forward.c.
 */
#include "tests/cli.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define K25 FIXTURE("tiny-k25")
#define HEAD FIXTURE("eagle-trained")

/* Trace 0 of the trained head: prompt, and the first tokens that follow. */
#define PROMPT "1,420,348,395,133,210,378,472"
static const int64_t greedy[] = {209, 474, 227, 369, 419, 249, 429, 79,
                                 12,  369, 83,  139, 63,  468, 189, 0};

static double field_real(const json_t *o, const char *key)
{
    return json_number_value(field(o, key));
}

static int64_t sum_of(const json_t *array)
{
    int64_t sum = 0;
    for (size_t i = 0; i < json_array_size(array); i++)
        sum += json_integer_value(json_array_get(array, i));
    return sum;
}

/* What holds between the numbers of any run with a head. */
static void assert_counts(const json_t *j, size_t places)
{
    const json_t *accepted = field(j, "accepted"), *rates = field(j, "position_acceptance");
    int64_t rounds = field_int(j, "rounds"), confirmed = sum_of(accepted);
    double rate = 0, before = 1;
    assert_int_equal(json_array_size(accepted), rounds);
    assert_int_equal(json_array_size(field(j, "tokens")), 1 + confirmed + rounds);
    assert_true(fabs(field_real(j, "mean_acceptance_length") -
                     (1 + (double)confirmed / (double)rounds)) <= 1e-12);
    assert_int_equal(json_array_size(rates), places);
    for (size_t i = 0; i < places; i++) {
        double here = json_number_value(json_array_get(rates, i));
        assert_true(here >= 0 && here <= before);
        rate += before = here;
    }
    assert_true(fabs(rate * (double)rounds - (double)confirmed) <= 1e-9);
    assert_int_equal(json_array_size(field(j, "token_seconds")), rounds);
}

static void assert_begins(const json_t *tokens, const int64_t *wanted, size_t n)
{
    assert_true(json_array_size(tokens) >= n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(json_integer_value(json_array_get(tokens, i)), wanted[i]);
}

static void chain__says_what_was_accepted(void **state)
{
    static const int64_t accepted[] = {3, 0, 0, 0, 0, 0, 0, 2, 0};
    (void)state;
    json_t *j = cli_passes("generate", K25, "--tokens", PROMPT, "-n", "16", "--draft", HEAD,
                           "--check-lossless");
    assert_counts(j, 4);
    assert_begins(field(j, "tokens"), greedy, 16);
    assert_begins(field(j, "accepted"), accepted, 9);
    assert_int_equal(field_int(j, "drafted"), 4 * field_int(j, "rounds"));
    assert_true(json_is_true(field(j, "lossless")));
    assert_int_equal(field_int(j, "checked"), json_array_size(field(j, "tokens")));
    assert_int_equal(field_int(j, "tie_differences"), 0);
    assert_int_equal(json_array_size(field(j, "margins")), json_array_size(field(j, "tokens")));
    assert_int_equal(json_array_size(field(j, "assumed")), 0);
    json_decref(j);
}

static void tree__gives_the_same_tokens_in_fewer_rounds(void **state)
{
    (void)state;
    json_t *chain = cli_passes("generate", K25, "--tokens", PROMPT, "-n", "16", "--draft", HEAD);
    json_t *j = cli_passes("generate", K25, "--tokens", PROMPT, "-n", "16", "--draft", HEAD,
                           "--mode", "tree", "--check-lossless", "--prefill-chunk", "3");
    assert_counts(j, 8);
    assert_begins(field(j, "tokens"), greedy, 16);
    assert_int_equal(field_int(j, "drafted"), 59 * field_int(j, "rounds"));
    assert_true(field_int(j, "rounds") < field_int(chain, "rounds"));
    assert_true(json_is_true(field(j, "lossless")));
    assert_true(json_is_null(field(chain, "lossless")));
    json_decref(chain);
    json_decref(j);
}

/* Any head, also one that knows nothing, of either type. */
static void random__heads_are_lossless(void **state)
{
    static const char *const heads[] = {"eagle-llama", "eagle-llama-nbr", "eagle-mla"};
    static const char *const modes[] = {"chain", "tree"};
    (void)state;
    for (size_t i = 0; i < 6; i++) {
        const char *head = textf("synth:" FIXTURE("%s/config.json?seed=77"), heads[i / 2]);
        json_t *j = cli_passes("generate", K25, "--tokens", PROMPT, "-n", "8", "--draft", head,
                               "--mode", modes[i % 2], "--draft-tokens", "6", "--check-lossless");
        assert_begins(field(j, "tokens"), greedy, 8);
        assert_true(json_is_true(field(j, "lossless")));
        json_decref(j);
    }
}

static void plain__text_is_the_tokens_of_the_json(void **state)
{
    struct cli r;
    char wanted[512] = "";
    (void)state;
    json_t *j = cli_passes("generate", K25, "--tokens", PROMPT, "-n", "3", "--draft", HEAD);
    size_t n = json_array_size(field(j, "tokens"));
    assert_true(n > 3);
    snprintf(wanted, sizeof wanted, "%s\n", joined(field(j, "tokens"), n));
    cli(&r, "generate", K25, "--tokens", PROMPT, "-n", "3", "--draft", HEAD);
    assert_int_equal(r.status, 0);
    assert_string_equal(r.out, wanted);
    cli_free(&r);
    json_decref(j);
}

/* ---- sampling ---- */

static json_t *sample(const char *seed, bool head)
{
    if (!head)
        return cli_passes("generate", K25, "--tokens", PROMPT, "-n", "12", "--temperature", "0.9",
                          "--seed", seed);
    return cli_passes("generate", K25, "--tokens", PROMPT, "-n", "12", "--temperature", "0.9",
                      "--seed", seed, "--draft", HEAD, "--draft-tokens", "2");
}

static void sampling__repeats_with_its_seed(void **state)
{
    (void)state;
    for (int head = 0; head < 2; head++) {
        json_t *a = sample("4", head), *b = sample("4", head), *c = sample("5", head);
        assert_true(json_equal(field(a, "tokens"), field(b, "tokens")));
        assert_false(json_equal(field(a, "tokens"), field(c, "tokens")));
        assert_int_equal(json_array_size(field(a, "margins")), 0);
        assert_int_equal(field_int(a, "near_ties"), 0);
        if (head)
            assert_counts(a, 2);
        else
            assert_int_equal(json_array_size(field(a, "tokens")), 12);
        json_decref(a);
        json_decref(b);
        json_decref(c);
    }
}

static void sampling__is_checked_by_its_law(void **state)
{
    static const char *const modes[] = {"chain", "tree"};
    (void)state;
    for (int tree = 0; tree < 2; tree++) {
        json_t *j = cli_passes("generate", K25, "--tokens", PROMPT, "-n", "4", "--draft", HEAD,
                               "--mode", modes[tree], "--draft-tokens", "3", "--temperature", "0.8",
                               "--seed", "3", "--check-lossless");
        const json_t *laws = field(j, "laws");
        assert_true(json_is_true(field(j, "lossless")));
        assert_int_equal(json_array_size(laws), 6);
        for (size_t i = 0; i < 6; i++) {
            const json_t *law = json_array_get(laws, i);
            assert_true(json_is_true(field(law, "holds")));
            assert_true(field_real(law, "alpha") == 1e-6);
            assert_true(field_int(law, "samples") >= 4096);
            assert_true(field_real(law, "statistic") <= field_real(law, "bound"));
            assert_true(json_array_size(field(law, "faults")) >= 4);
        }
        assert_non_null(strstr(field_text(json_array_get(laws, 5), "law"), "the model's laws"));
        json_decref(j);
    }
}

/* ---- eos ---- */

/* tiny-k25 with every `from` of its config replaced by `to`. Returns its folder. */
static const char *other_k25(void **state, const char *from, const char *to)
{
    size_t size;
    const char *folder = folder_path(state, "k25"), *config = textf("%s/config.json", folder);
    char *text = read_whole(K25 "/config.json", &size);
    assert_int_equal(mkdir(folder, 0755), 0);
    assert_non_null(strstr(text, from));
    while (strstr(text, from)) {
        char *next = replaced(text, from, to);
        free(text);
        text = next;
    }
    write_text(config, text);
    free(text);
    assert_int_equal(symlink(K25 "/model.safetensors", textf("%s/model.safetensors", folder)), 0);
    return folder;
}

/* 227 is the second draft of the first round. */
static void eos__inside_the_drafts_ends_the_text(void **state)
{
    const char *folder = other_k25(state, "\"eos_token_id\": 2", "\"eos_token_id\":227");
    static const char *const modes[] = {"chain", "tree"};
    for (int tree = 0; tree < 2; tree++) {
        json_t *j = cli_passes("generate", folder, "--tokens", PROMPT, "-n", "16", "--draft", HEAD,
                               "--mode", modes[tree], "--stop-eos", "--check-lossless");
        assert_int_equal(json_array_size(field(j, "tokens")), 3);
        assert_begins(field(j, "tokens"), greedy, 3);
        assert_int_equal(json_array_size(field(j, "accepted")), 1);
        assert_true(json_integer_value(json_array_get(field(j, "accepted"), 0)) >= 2);
        assert_int_equal(field_int(j, "checked"), 3);
        json_decref(j);
    }
    json_t *j = cli_passes("generate", folder, "--tokens", PROMPT, "-n", "16", "--draft", HEAD);
    assert_begins(field(j, "tokens"), greedy, 16);
    json_decref(j);
}

/* ---- refusals ---- */

static void options__without_what_they_need_are_refused(void **state)
{
    static const struct {
        const char *argv[12];
        struct refusal refusal;
    } rows[] = {
        {{"--draft-tokens", "3"},
         {2, "option", "generate", "--draft-tokens without --draft", "--draft"}},
        {{"--mode", "tree"}, {2, "option", "generate", "--mode without --draft", "--draft"}},
        {{"--check-lossless"},
         {2, "option", "generate", "--check-lossless without --draft", "--draft"}},
        {{"--draft", HEAD, "--tree-depth", "3"},
         {2, "option", "generate", "--tree-depth without --mode tree", "--mode tree"}},
        {{"--draft", HEAD, "--mode", "chain", "--tree-top-k", "3"},
         {2, "option", "generate", "--tree-top-k without --mode tree", "--mode tree"}},
        {{"--draft", HEAD, "--mode", "oval"}, {2, "option", "--mode", "oval", "chain"}},
        {{"--draft", HEAD, "--draft-tokens", "0"}, {2, "option", "--draft-tokens", "0", "1 to"}},
        {{"--temperature", "-1"}, {2, "option", "--temperature", "-1", "0"}},
        {{"--temperature", "nan"}, {2, "option", "--temperature", "nan", NULL}},
        {{"--seed", "-1"}, {2, "option", "--seed", "-1", "0 to"}},
        {{"--draft", K25}, {2, NULL, "tiny-k25", NULL, NULL}},
        {{"--draft", "nowhere"}, {2, NULL, "nowhere", NULL, NULL}},
        {{"--draft", HEAD, "--mode", "tree", "--tree-top-k", "257"},
         {2, "option", "--tree-top-k", "257", "1 to 256"}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *argv[20] = {"generate", K25, "--tokens", "1,2"};
        for (int k = 0; rows[i].argv[k]; k++) argv[4 + k] = rows[i].argv[k];
        cli_refused(state, rows[i].refusal, argv, __FILE__, __LINE__);
    }
}

static void head__for_another_target_is_refused(void **state)
{
    cli_refuses(state, ((struct refusal){2, "head for target", NULL, NULL, NULL}), "generate",
                fixture_synth("mid-k25"), "--tokens", "1,2", "--draft", HEAD);
}

/* The prompt has 8 tokens. */
static void positions__end_where_the_config_says(void **state)
{
    const char *k25 =
        other_k25(state, "\"max_position_embeddings\": 262144", "\"max_position_embeddings\": 12");
    json_t *j = cli_passes("generate", k25, "--tokens", PROMPT, "-n", "4");
    assert_begins(field(j, "tokens"), greedy, 4);
    json_decref(j);
    cli_refuses(state,
                ((struct refusal){2, "generate", "-n", "8 tokens of the prompt and 5 to come",
                                  "at most max_position_embeddings, 12, in all"}),
                "generate", k25, "--tokens", PROMPT, "-n", "5");
    static const char *const modes[] = {"chain", "tree"}; /* whose last round drafts beyond it */
    for (int tree = 0; tree < 2; tree++) {
        j = cli_passes("generate", k25, "--tokens", PROMPT, "-n", "4", "--draft", HEAD, "--mode",
                       modes[tree]);
        assert_begins(field(j, "tokens"), greedy, 4);
        json_decref(j);
        cli_refuses(state, ((struct refusal){2, "generate", "-n", "and 5 to come", "12"}),
                    "generate", k25, "--tokens", PROMPT, "-n", "5", "--draft", HEAD, "--mode",
                    modes[tree]);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_setup, folder_teardown)
    const struct CMUnitTest tests[] = {
        TEST(chain__says_what_was_accepted),
        TEST(tree__gives_the_same_tokens_in_fewer_rounds),
        TEST(random__heads_are_lossless),
        TEST(plain__text_is_the_tokens_of_the_json),
        TEST(sampling__repeats_with_its_seed),
        TEST(sampling__is_checked_by_its_law),
        TEST(eos__inside_the_drafts_ends_the_text),
        TEST(options__without_what_they_need_are_refused),
        TEST(head__for_another_target_is_refused),
        TEST(positions__end_where_the_config_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
