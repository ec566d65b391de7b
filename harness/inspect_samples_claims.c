/* inspect_samples_claims.c: the layers that states are, against what the files beside them claim
 * and what readers of the format expect; see inspect_samples.h. */
#include "harness/inspect_samples.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- texts ---- */

/* "3, 31, 59", each less `minus`; the embedding has no layer before it. */
static const char *id_list(struct samples *w, const int64_t *id, int n, int64_t minus)
{
    char text[256] = "";
    size_t used = 0;
    for (int i = 0; i < n && used < sizeof text; i++) {
        if (id[i] < minus)
            used +=
                (size_t)snprintf(text + used, sizeof text - used, "%sthe embedding", i ? ", " : "");
        else
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%lld", i ? ", " : "",
                                     (long long)(id[i] - minus));
    }
    return ins_text(w->s, "%s", text);
}

const char *samples_norm_text(bool normed)
{
    return normed ? "after the final norm" : "before the final norm";
}

/* ---- claims ---- */

bool samples_claim(const struct samples *w, struct samples_claim *c)
{
    const struct sample_set *s = &w->set;
    bool said = s->numbering[0] != '\0';
    c->count = s->layer_ids ? s->layer_count : 0;
    c->output = said ? strcmp(s->numbering, "output") == 0 : s->format != SAMPLE_VLLM;
    c->from = said || s->format != SAMPLE_V03 ? "manifest.json" : "data_config.json";
    for (int i = 0; i < c->count; i++) c->entry[i] = s->layer_ids[i] + c->output;
    return c->count > 0;
}

/* ---- the order ---- */

static int by_id(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

void samples_check_order(struct samples *w, int64_t *entry, int n)
{
    int64_t sorted[SAMPLE_STATES];
    int moved = 0, first = -1, last = -1;
    memcpy(sorted, entry, (size_t)n * sizeof *entry);
    qsort(sorted, (size_t)n, sizeof *sorted, by_id);
    for (int i = 0; i < n; i++) {
        if (entry[i] == sorted[i]) continue;
        moved++;
        first = first < 0 ? i : first;
        last = i;
    }
    if (moved == 2)
        samples_problem(
            w, "states swapped", w->set.folder,
            ins_text(w->s, "states %d and %d are swapped: entries %s", first, last,
                     id_list(w, entry, n, 0)),
            "store them by ascending layer: readers take low, middle and high by place");
    else if (moved > 0)
        samples_problem(
            w, "states out of order", w->set.folder,
            ins_text(w->s, "states are entries %s", id_list(w, entry, n, 0)),
            "store them by ascending layer: readers take low, middle and high by place");
    for (int i = 1; i < n; i++) {
        if (sorted[i] == sorted[i - 1])
            samples_problem(w, "a state twice", w->set.folder,
                            ins_text(w->s, "entry %lld stands twice among entries %s",
                                     (long long)sorted[i], id_list(w, entry, n, 0)),
                            "ask for different layers: small models make default ids collide");
    }
    memcpy(entry, sorted, (size_t)n * sizeof *entry);
}

/* ---- the last state ---- */

void samples_check_last(struct samples *w, int64_t candidate, bool want_normed)
{
    int64_t n = w->truth.layers, e = truth_entry(&w->truth, candidate);
    bool normed = truth_normed(&w->truth, candidate);
    const char *format = sample_format_name((int)w->set.format);
    if (e != n)
        samples_problem(
            w, "last state", w->set.folder,
            ins_text(w->s,
                     "the last state is entry %lld (output of layer %lld)%s, not the last hidden "
                     "state, entry %lld",
                     (long long)e, (long long)e - 1, e == n - 1 ? ", one block early" : "",
                     (long long)n),
            ins_text(w->s,
                     "ask for entry id %lld (output id %lld) as the last: the trainer makes "
                     "its targets from it",
                     (long long)n, (long long)n - 1));
    if (normed != want_normed)
        samples_problem(
            w, "norm of the last state", w->set.folder,
            ins_text(w->s, "the last state is stored %s (post-norm%s)", samples_norm_text(normed),
                     normed ? "" : " is missing"),
            want_normed
                ? ins_text(w->s, "apply the target's final norm: %s holds it normed", format)
                : ins_text(w->s,
                           "store it before the norm: readers of %s apply the "
                           "final norm themselves, and would apply it twice",
                           format));
}

/* ---- against the claims ---- */

/* vLLM's default ids, where the model is deep enough for three of them. */
static bool default_ids(int64_t n, int64_t id[3])
{
    id[0] = 2;
    id[1] = n / 2;
    id[2] = n - 3;
    return id[0] < id[1] && id[1] < id[2];
}

/* By how much all entries are off the claim, the same for all; 0: they are not. */
static int64_t common_shift(const int64_t *entry, const int64_t *claim, int n)
{
    for (int i = 1; i < n; i++) {
        if (entry[i] - claim[i] != entry[0] - claim[0]) return 0;
    }
    return n > 0 ? entry[0] - claim[0] : 0;
}

static const char *shift_text(struct samples *w, int64_t by)
{
    if (by == 0) return "";
    if (by == 1 || by == -1) return by > 0 ? ", one later" : ", one earlier";
    return ins_text(w->s, ", %lld %s", (long long)llabs(by), by > 0 ? "later" : "earlier");
}

static const char *serve(struct samples *w, const int64_t *aux, int n)
{
    return ins_text(w->s, "serve with eagle_aux_hidden_state_layer_ids = [%s]",
                    id_list(w, aux, n, 0));
}

void samples_check_claim(struct samples *w, const int64_t *aux, int n)
{
    struct samples_claim c;
    int64_t usual[3];
    bool later = n == 3 && default_ids(w->truth.layers, usual) && common_shift(aux, usual, 3) == 1;
    const char *outputs = ins_text(
        w->s, "states are outputs of layers %s (%sentries %s)", id_list(w, aux, n, 1),
        w->set.format == SAMPLE_V03 ? "speculators 0.3 numbering; " : "", id_list(w, aux, n, 0));
    if (!samples_claim(w, &c)) {
        if (later)
            samples_problem(w, "aux layers", w->set.folder,
                            ins_text(w->s, "%s, one later than vLLM serves by default", outputs),
                            serve(w, aux, n));
        else
            samples_note(w, ins_text(w->s, "%s: %s", outputs, serve(w, aux, n)));
        return;
    }
    if (c.count != n && c.count != n + 1) {
        samples_problem(w, "aux layers", w->set.folder,
                        ins_text(w->s, "%s claims %d layers, the samples hold %d states", c.from,
                                 c.count, n + 1),
                        "keep each extraction and what it says of itself together");
        return;
    }
    qsort(c.entry, (size_t)n, sizeof *c.entry, by_id);
    if (memcmp(c.entry, aux, (size_t)n * sizeof *aux) != 0) {
        samples_problem(w, "aux layers", w->set.folder,
                        ins_text(w->s, "%s%s than %s says (entries %s)", outputs,
                                 common_shift(aux, c.entry, n)
                                     ? shift_text(w, common_shift(aux, c.entry, n))
                                     : ", others",
                                 c.from, id_list(w, c.entry, n, 0)),
                        ins_text(w->s, "%s, or extract again", serve(w, aux, n)));
        return;
    }
    samples_note(w, ins_text(w->s, "%s, as %s says%s: %s", outputs, c.from,
                             later ? ", one later than vLLM serves by default" : "",
                             serve(w, aux, n)));
}
