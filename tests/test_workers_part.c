/* test_workers_part.c: pieces that a rank hands over ahead of its reply: in order, one at a time,
 * refused by a parent that has had enough, and out of place. */
#include "tests/cli.h"
#include "tests/ranks.h"

#include <string.h>

static struct worker_replies replies;

/* What the parent has taken. */
struct taken {
    int64_t pieces, segments;
    int64_t refuse_at; /* this piece is not taken; -1: all are */
    bool ordered;
};

static enum err_code take(void *ctx, const struct worker_reply *part, struct err *err)
{
    struct taken *t = ctx;
    int64_t number;
    assert_int_equal(part->rank, 1);
    assert_int_equal(part->bytes, sizeof number);
    memcpy(&number, part->data, sizeof number);
    if (number == t->refuse_at)
        return err_set(err, ERR_IO, "write dump|out|no room|%lld bytes", (long long)number);
    t->ordered = t->ordered && number == t->pieces;
    t->pieces++;
    if (part->segments == 0) return ERR_OK;
    const double *x = (const double *)(const void *)part->segment[0].data;
    assert_int_equal(part->segment[0].bytes, 64 * sizeof *x);
    for (int i = 0; i < 64; i++) assert_true(x[i] == (double)number);
    t->segments++;
    return ERR_OK;
}

static enum err_code ask(struct workers *w, const char *words, struct taken *t, struct err *err)
{
    struct worker_request q = ranks_request("pieces", words);
    q.part = t ? take : NULL;
    q.part_ctx = t;
    return workers_call_all(w, &q, &replies, err);
}

static void pieces__come_in_order_and_before_the_reply(void **state)
{
    (void)state;
    const struct workers_options o = ranks_options(3);
    struct workers *w = ranks_open(&o);
    struct err err = ERR_INIT;
    for (int n = 0; n <= 200; n += 100) {
        struct taken t = {.refuse_at = -1, .ordered = true};
        (void)!ask(w, textf("1 %d", n), &t, &err);
        assert_ok(&err);
        assert_int_equal(t.pieces, n);
        assert_int_equal(t.segments, n / 2);
        assert_true(t.ordered);
        for (int r = 0; r < 3; r++) assert_memory_equal(replies.of[r].data, "all", 3);
    }
    ranks_finish(w);
}

static void refused_piece__ends_the_call_with_the_parents_own_error(void **state)
{
    (void)state;
    const struct workers_options o = ranks_options(3);
    struct workers *w = ranks_open(&o);
    struct err err = ERR_INIT;
    struct taken t = {.refuse_at = 7, .ordered = true};
    assert_int_equal(ask(w, "1 50", &t, &err), ERR_IO);
    assert_err(&err, ERR_IO, "write dump", "out", "no room", "7 bytes");
    assert_int_equal(t.pieces, 7);
    assert_int_equal(workers_failures(w)->count, 0); /* no rank has done anything wrong */
    /* The ranks are as good as before. */
    assert_true(workers_usable(w));
    err_clear(&err);
    t = (struct taken){.refuse_at = -1, .ordered = true};
    (void)!ask(w, "1 5", &t, &err);
    assert_ok(&err);
    assert_int_equal(t.pieces, 5);
    ranks_finish(w);
}

static void piece_that_nobody_asked_for__is_a_broken_message(void **state)
{
    (void)state;
    const struct workers_options o = ranks_options(2);
    struct workers *w = ranks_open(&o);
    struct err err = ERR_INIT;
    assert_int_equal(ask(w, "1 1", NULL, &err), ERR_PROCESS);
    assert_err(&err, ERR_PROCESS, "worker", "rank 1 sent what cannot be read",
               "a piece that nobody asked for", NULL);
    assert_false(workers_usable(w));
    ranks_close(w);
}

int main(int argc, char **argv)
{
    int status;
    if (ranks_main(argc, argv, &status)) return status;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(pieces__come_in_order_and_before_the_reply, ranks_setup,
                                        ranks_teardown),
        cmocka_unit_test_setup_teardown(refused_piece__ends_the_call_with_the_parents_own_error,
                                        ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(piece_that_nobody_asked_for__is_a_broken_message,
                                        ranks_setup, ranks_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
