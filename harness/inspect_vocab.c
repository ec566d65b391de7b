/* inspect_vocab.c: see inspect_vocab.h. */
#include "harness/inspect_vocab.h"

#include <string.h>

/* Target id of draft id i, or -1 outside the vocabulary. */
static int64_t id_at(const struct vocab_view *m, bool absolute, int64_t i)
{
    int64_t x = m->d2t ? m->d2t[i] : 0, base = absolute ? 0 : i;
    return x < -base || x >= m->vocab - base ? -1 : base + x;
}

/* The first draft id whose target id is out of range or not above the one before; -1: none. */
static int64_t first_wrong(const struct vocab_view *m, bool absolute)
{
    int64_t before = -1;
    for (int64_t i = 0; i < m->draft_vocab; i++) {
        int64_t id = id_at(m, absolute, i);
        if (id <= before) return i;
        before = id;
    }
    return -1;
}

/* Ids in which map and t2d disagree; *first: the lowest of them. */
static int64_t disagreements(const struct vocab_view *m, bool absolute, int64_t *first)
{
    int64_t n = 0, k = 0;
    *first = -1;
    for (int64_t id = 0; id < m->vocab; id++) {
        while (k < m->draft_vocab && id_at(m, absolute, k) < id) k++;
        bool drafted = k < m->draft_vocab && id_at(m, absolute, k) == id;
        if (drafted == (m->t2d[id] != 0)) continue;
        if (n++ == 0) *first = id;
    }
    return n;
}

enum vocab_reading vocab_read(const struct vocab_view *m)
{
    int64_t first;
    bool offsets = first_wrong(m, false) < 0, absolute = m->d2t && first_wrong(m, true) < 0;
    if (offsets && absolute && m->t2d) {
        offsets = disagreements(m, false, &first) == 0;
        absolute = !offsets && disagreements(m, true, &first) == 0;
        return absolute ? VOCAB_ABSOLUTE : VOCAB_OFFSETS;
    }
    if (offsets && absolute) return VOCAB_BOTH;
    return offsets ? VOCAB_OFFSETS : absolute ? VOCAB_ABSOLUTE : VOCAB_NEITHER;
}

static void problem(struct inspection *s, const struct vocab_view *m, const char *what,
                    const char *found, const char *remedy)
{
    ins_problem(s, (struct ins_problem){.what = what,
                                        .where = m->where,
                                        .found = found,
                                        .wanted = "i + d2t[i] ascending, in the vocabulary, the "
                                                  "set bits of t2d",
                                        .remedy = remedy});
}

static void report_neither(struct inspection *s, const struct vocab_view *m)
{
    int64_t i = first_wrong(m, false), id = id_at(m, false, i);
    const char *found =
        id < 0 ? ins_text(s, "d2t[%lld] = %lld gives a target id outside 0..%lld", (long long)i,
                          (long long)(m->d2t ? m->d2t[i] : 0), (long long)m->vocab - 1)
               : ins_text(s, "d2t[%lld] gives target id %lld, which is not above the one before",
                          (long long)i, (long long)id);
    problem(s, m, id < 0 ? "d2t out of range" : "d2t not ascending", found,
            m->t2d ? "rebuild d2t from t2d: d2t[i] = (i-th marked id) - i"
                   : "store offsets d2t[i] = id - i of the ids in ascending order");
}

/* Bits of t2d against the map; nothing is said where d2t itself is no map. */
static void report_t2d(struct inspection *s, const struct vocab_view *m, bool absolute)
{
    int64_t first, marked = 0, n = disagreements(m, absolute, &first);
    if (n == 0) return;
    for (int64_t id = 0; id < m->vocab; id++) marked += m->t2d[id] != 0;
    problem(
        s, m, "t2d disagrees with d2t",
        ins_text(s, "%lld tokens, the first is %lld, which t2d %s; t2d marks %lld, d2t maps %lld",
                 (long long)n, (long long)first,
                 m->t2d[first] ? "marks and d2t does not reach" : "does not mark and d2t reaches",
                 (long long)marked, (long long)m->draft_vocab),
        "take both from one build of the vocabulary: trainers use t2d, engines d2t");
}

enum vocab_reading vocab_check(struct inspection *s, const struct vocab_view *m)
{
    enum vocab_reading reading = vocab_read(m);
    if (reading == VOCAB_NEITHER) {
        report_neither(s, m);
        return reading;
    }
    if (reading == VOCAB_ABSOLUTE)
        problem(s, m, "d2t holds target ids",
                ins_text(s, "d2t holds ascending target ids (%lld, %lld, ..), not offsets",
                         (long long)m->d2t[0],
                         (long long)(m->draft_vocab > 1 ? m->d2t[1] : m->d2t[0])),
                "store d2t[i] = id - i: engines add the index");
    if (m->t2d) report_t2d(s, m, reading == VOCAB_ABSOLUTE);
    return reading;
}

bool vocab_ids(const struct vocab_view *m, enum vocab_reading reading, int64_t *id)
{
    int64_t k = 0;
    if (reading != VOCAB_NEITHER) {
        for (int64_t i = 0; i < m->draft_vocab; i++) id[i] = id_at(m, reading == VOCAB_ABSOLUTE, i);
        return true;
    }
    for (int64_t v = 0; v < m->vocab && m->t2d; v++) {
        if (!m->t2d[v]) continue;
        if (k < m->draft_vocab) id[k] = v;
        k++;
    }
    return k == m->draft_vocab;
}
