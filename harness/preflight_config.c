/* preflight_config.c: the model's config.json against what this program has code for: the
 * architecture, the types, the quantisation, sizes that contradict each other. */
#include "core/file.h"
#include "core/text.h"
#include "harness/preflight.h"

#include <string.h>

/* DIR/config.json, or the CONFIG of synth:CONFIG?seed=N. */
static const char *config_path(struct preflight *p)
{
    if (!text_starts(p->model, "synth:")) return preflight_text(p, "%s/config.json", p->model);
    const char *path = p->model + strlen("synth:");
    return preflight_text(p, "%.*s", (int)strcspn(path, "?"), path);
}

static void check_length(struct preflight *p)
{
    const int64_t tokens = p->keys->sample_tokens;
    if (tokens <= p->config.max_position) return;
    preflight_add(p, (struct preflight_finding){
                         .rule = "length",
                         .file = preflight_plan(p),
                         .line = p->keys->line,
                         .message = "a sample is longer than the model's positions",
                         .found = preflight_text(p, "sample_tokens: %lld", (long long)tokens),
                         .wanted = preflight_text(p, "at most max_position_embeddings, %lld",
                                                  (long long)p->config.max_position),
                         .remedy = "cut the samples, or give the tokens that they have",
                         .strikes = PREFLIGHT_AFTER_LOAD});
}

void preflight_config(struct preflight *p)
{
    struct err e = ERR_INIT;
    if (!p->model) {
        preflight_not_asked(p, "the plan names no model");
        return;
    }
    p->config_at = config_path(p);
    if (!p->config_at) return;
    p->configured = config_read(p->config_at, &p->config, &e) == ERR_OK;
    preflight_about(p, "%s", p->config_at);
    if (p->configured) {
        preflight_about(p, "%s, %lld layers, hidden %lld, %lld experts, %s", p->config.model_type,
                        (long long)p->config.layers, (long long)p->config.hidden,
                        (long long)p->config.experts, dtype_name(p->config.dtype));
        check_length(p);
        return;
    }
    preflight_refused(p,
                      (struct preflight_finding){
                          .rule = "refused",
                          .file = p->config_at,
                          .remedy = "take a checkpoint in a form that there is code for, or mend "
                                    "the config",
                          .strikes = PREFLIGHT_AT_START},
                      &e);
}
