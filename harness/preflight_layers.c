/* preflight_layers.c: the ids of the states that are stored, in both numberings.
 *
 * With n layers, r_i is the residual stream on entry to layer i; r_0 is the embedding, r_n the
 * output of the last layer before the final norm. Id i is r_i by `entry` (vLLM, SGLang's defaults,
 * SafeAILab, hidden_states[i] of transformers but for the last), and r_{i+1} by `output`
 * (speculators 0.3 and 0.4, TensorRT-LLM, ModelOpt, SpecForge). The last id is the target of the
 * training: r_n. Mixing the two gives states that train well and serve worse. */
#include "harness/preflight.h"

#include <inttypes.h>
#include <string.h>

enum { NUMBERINGS = 2, MEANS = 96 };

static const char *const names[NUMBERINGS] = {"entry", "output"};

/* r_i of an id; -1 where there is none. */
static int64_t state_of(const struct preflight *p, int numbering, int64_t id)
{
    int64_t state = id + numbering;
    return state <= p->config.layers ? state : -1;
}

static const char *means(const struct preflight *p, int numbering, int64_t id, char out[MEANS])
{
    const int64_t state = state_of(p, numbering, id), n = p->config.layers;
    if (state < 0)
        snprintf(out, MEANS, "nothing: the layers are 0 to %" PRId64, n - 1);
    else if (state == 0)
        snprintf(out, MEANS, "r_0, the embedding");
    else if (state == n)
        snprintf(out, MEANS, "r_%" PRId64 ", the last layer's output before the final norm", n);
    else
        snprintf(out, MEANS, "r_%" PRId64 ", between layers %" PRId64 " and %" PRId64, state,
                 state - 1, state);
    return out;
}

static json_t *in_numbering(const struct preflight *p, int numbering, int64_t id)
{
    char text[MEANS];
    const int64_t state = state_of(p, numbering, id);
    return json_pack("{s:o, s:s}", "state", state < 0 ? json_null() : json_integer(state), "means",
                     means(p, numbering, id, text));
}

static void record(struct preflight *p)
{
    for (int i = 0; i < p->keys->layers; i++) {
        const int64_t id = p->keys->layer[i];
        json_array_append_new(p->layers,
                              json_pack("{s:I, s:o, s:o}", "id", (json_int_t)id, "entry",
                                        in_numbering(p, 0, id), "output", in_numbering(p, 1, id)));
    }
}

/* The ids of a numbering as text; those out of range are marked. */
static const char *states_text(struct preflight *p, int numbering)
{
    const char *text = names[numbering];
    for (int i = 0; text && i < p->keys->layers; i++) {
        const int64_t id = p->keys->layer[i], state = state_of(p, numbering, id);
        text = state < 0
                   ? preflight_text(p, "%s%s %" PRId64 " is out of range", text, i ? "," : ":", id)
                   : preflight_text(p, "%s%s r_%" PRId64, text, i ? "," : ":", state);
    }
    return text;
}

static struct preflight_finding finding(const struct preflight *p, const char *rule)
{
    return (struct preflight_finding){.rule = rule,
                                      .file = preflight_plan(p),
                                      .line = p->keys->layers_line,
                                      .strikes = PREFLIGHT_AFTER_LOAD};
}

static void check_numbering(struct preflight *p)
{
    struct preflight_finding f = finding(p, "numbering");
    if (p->keys->numbering != NUMBERING_NONE) return;
    f.message = "layers without numbering: the ids mean other states in each";
    f.found = preflight_text(p, "%s; %s", states_text(p, 0), states_text(p, 1));
    f.wanted = "numbering: entry or output";
    f.remedy = "say what the consumer counts: entry (vLLM), output (speculators 0.3 and 0.4)";
    f.strikes = PREFLIGHT_UNSEEN;
    preflight_add(p, f);
}

/* What one id is out of range in: the numbering that the plan says, else each. */
static void check_range(struct preflight *p)
{
    const int64_t n = p->config.layers;
    for (int k = 0; k < NUMBERINGS; k++) {
        const bool said = p->keys->numbering == (k ? NUMBERING_OUTPUT : NUMBERING_ENTRY);
        for (int i = 0; said && i < p->keys->layers; i++) {
            const int64_t id = p->keys->layer[i];
            char other[MEANS];
            if (state_of(p, k, id) >= 0) continue;
            struct preflight_finding f = finding(p, "range");
            f.message = preflight_text(p, "layer id %" PRId64 " is out of range", id);
            f.found = preflight_text(p, "%" PRId64 " by %s; by %s it is %s", id, names[k],
                                     names[1 - k], means(p, 1 - k, id, other));
            f.wanted = preflight_text(p, "0 to %" PRId64 " by %s, of %" PRId64 " layers", n - k,
                                      names[k], n);
            f.remedy = preflight_text(p, "take other ids, or numbering: %s", names[1 - k]);
            preflight_add(p, f);
        }
    }
}

static void check_order(struct preflight *p)
{
    for (int i = 1; i < p->keys->layers; i++) {
        const int64_t id = p->keys->layer[i], before = p->keys->layer[i - 1];
        if (id > before) continue;
        struct preflight_finding f = finding(p, "order");
        f.message = id == before ? "a layer id twice: consumers keep a set, and store one state "
                                   "fewer"
                                 : "layer ids out of order: states are stored ascending, whatever "
                                   "the order that is asked for";
        f.found = preflight_text(p, "%" PRId64 " behind %" PRId64, id, before);
        f.wanted = "ids that ascend";
        f.remedy = "sort them, each once";
        f.strikes = PREFLIGHT_UNSEEN;
        preflight_add(p, f);
    }
}

/* The last state is what the draft is trained to tell: it must be the last layer's output. */
static void check_target(struct preflight *p)
{
    const int numbering = p->keys->numbering == NUMBERING_OUTPUT;
    const int64_t n = p->config.layers, last = p->keys->layer[p->keys->layers - 1];
    const int64_t state = state_of(p, numbering, last);
    char text[MEANS];
    if (p->keys->numbering == NUMBERING_NONE || state < 0 || state == n) return;
    struct preflight_finding f = finding(p, "target");
    f.severity = PREFLIGHT_WARNING;
    f.message = "the last id is not the last layer's output: samples would hold another target";
    f.found = preflight_text(p, "%" PRId64 " by %s: %s", last, names[numbering],
                             means(p, numbering, last, text));
    f.wanted = preflight_text(p, "%" PRId64, n - numbering);
    f.remedy = state + 1 == n && !numbering
                   ? "the ids are perhaps outputs: numbering: output"
                   : preflight_text(p, "end the list with %" PRId64, n - numbering);
    f.strikes = PREFLIGHT_UNSEEN;
    preflight_add(p, f);
}

/* An engine that serves by entry ids needs others than those that the samples were made by. */
static void note_serving(struct preflight *p)
{
    const char *ids = "";
    if (p->keys->numbering != NUMBERING_OUTPUT || p->keys->layers < 2) return;
    for (int i = 0; ids && i + 1 < p->keys->layers; i++)
        ids = preflight_text(p, "%s%s%" PRId64, ids, i ? ", " : "", p->keys->layer[i] + 1);
    struct preflight_finding f = finding(p, "serving");
    f.severity = PREFLIGHT_NOTE;
    f.message = preflight_text(p,
                               "a head of these samples is served by entry ids (vLLM) %s; the "
                               "samples do not say so",
                               ids ? ids : "");
    f.remedy = "write them into the head's eagle_aux_hidden_state_layer_ids";
    f.strikes = PREFLIGHT_UNSEEN;
    preflight_add(p, f);
}

/* vLLM's models of the DeepSeek family took no states but those on entry to a layer, until its
 * change 46973 of 2026-06-28. */
static void note_dropped(struct preflight *p)
{
    const char *library = p->keys->library ? p->keys->library : "";
    if (p->keys->numbering != NUMBERING_ENTRY || !strstr(library, "vllm")) return;
    for (int i = 0; i < p->keys->layers; i++) {
        const int64_t id = p->keys->layer[i];
        if (id != 0 && id != p->config.layers) continue;
        struct preflight_finding f = finding(p, "dropped");
        f.severity = PREFLIGHT_NOTE;
        f.message = preflight_text(p, "vLLM before 2026-06-28 %s for a model of this family",
                                   id ? "silently gives no state of the last id, n,"
                                      : "fails at layer id 0");
        f.found = preflight_text(p, "%" PRId64, id);
        f.remedy = "count the states of the first sample, or take a vLLM with its change 46973";
        f.strikes = id ? PREFLIGHT_UNSEEN : PREFLIGHT_AFTER_LOAD;
        preflight_add(p, f);
    }
}

void preflight_layers(struct preflight *p)
{
    if (p->keys->layers == 0) {
        preflight_not_asked(p, "the plan names no layers");
        return;
    }
    if (!p->configured) {
        preflight_not_checked(p, "the number of layers is not known without the model's config",
                              "model: DIR");
        return;
    }
    record(p);
    check_numbering(p);
    check_range(p);
    check_order(p);
    check_target(p);
    note_serving(p);
    note_dropped(p);
    preflight_about(p, "%s; %s; of %" PRId64 " layers", states_text(p, 0), states_text(p, 1),
                    p->config.layers);
}
