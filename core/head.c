/* head.c: opening a draft head: see head.h. */
#include "core/head.h"

#include "core/head_parts.h"
#include "core/json.h"
#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A folder that holds torch's pickled weights and nothing else is said to be one. */
static enum err_code refuse_pickle(const struct weights *w, const struct err *first,
                                   struct err *err)
{
    char path[FILE_PATH];
    struct err ignored = ERR_INIT;
    if (w->file_count == 0 && file_is_folder(w->path) &&
        file_join(w->path, "pytorch_model.bin", path, &ignored) == ERR_OK && file_exists(path))
        return err_set(err, ERR_INPUT,
                       "open head|%s|pytorch_model.bin and no *.safetensors|safetensors: load the "
                       "file with torch and write it with save_file()",
                       w->path);
    if (err->code == ERR_OK) *err = *first;
    return err->code;
}

static enum err_code open_files(struct head *h, const char *spec, char *config_path,
                                struct err *err)
{
    struct err first = ERR_INIT;
    if (weights_open_bare(&h->weights, spec, config_path, &first) != ERR_OK)
        return refuse_pickle(&h->weights, &first, err);
    if (h->weights.latent_gain != 1)
        return err_set(err, ERR_INPUT, "open head|%s|latent_gain %g|none: heads use 1", spec,
                       h->weights.latent_gain);
    return ERR_OK;
}

static enum err_code read_config(struct head *h, const char *path, struct err *err)
{
    struct file_map m;
    if (file_map(path, &m, err) != ERR_OK) return err->code;
    (void)!head_config_parse(m.data ? (const char *)m.data : "", m.size, path, &h->config, err);
    file_unmap(&m);
    return err->code;
}

/* target_hidden_size where the config does not say: SafeAILab's narrow heads show it by the width
 * of fc and by an embedding of their own. */
static void settle_target_hidden(struct head *h)
{
    struct head_config *c = &h->config;
    const char *prefix = c->naming == HEAD_VLLM ? "model." : "";
    char name[64];
    if (c->target_hidden) return;
    c->target_hidden = c->base.hidden;
    snprintf(name, sizeof name, "%sembed_tokens.weight", prefix);
    if (!weights_stored(&h->weights, name)) return;
    snprintf(name, sizeof name, "%sfc.weight", prefix);
    const struct st_tensor *fc = weights_stored(&h->weights, name);
    if (fc && fc->dims == 2 && fc->shape[1] > 0 && fc->shape[1] % c->aux_count == 0)
        c->target_hidden = fc->shape[1] / c->aux_count;
}

/* A synthetic head has no embedding of its own, and a narrow one cannot take its target's. */
static enum err_code check_synthetic(const struct head *h, struct err *err)
{
    const struct head_config *c = &h->config;
    if (!h->weights.synthetic || c->target_hidden == c->base.hidden) return ERR_OK;
    return err_set(
        err, ERR_INPUT,
        "open head|%s|target_hidden_size %lld|hidden_size %lld: a synthetic head has the "
        "target's embedding",
        h->weights.path, (long long)c->target_hidden, (long long)c->base.hidden);
}

/* Aux ids that nobody gave: what engines take by default. */
static enum err_code settle_aux(struct head *h, int64_t layers, struct err *err)
{
    struct head_config *c = &h->config;
    const int64_t ids[3] = {2, layers / 2, layers - 3};
    if (c->aux_given) {
        if (c->aux[c->aux_count - 1] <= layers) return ERR_OK;
        return err_set(err, ERR_INPUT,
                       "aux ids|%s|%lld|0 to %lld, as the target has that many layers",
                       h->weights.path, (long long)c->aux[c->aux_count - 1], (long long)layers);
    }
    if (!(ids[0] < ids[1] && ids[1] < ids[2]))
        return err_set(err, ERR_INPUT,
                       "aux ids|%s|none given, and (%lld, %lld, %lld) by default for %lld "
                       "layers|eagle_aux_hidden_state_layer_ids in config.json",
                       h->weights.path, (long long)ids[0], (long long)ids[1], (long long)ids[2],
                       (long long)layers);
    memcpy(c->aux, ids, sizeof ids);
    snprintf(c->aux_assumed, sizeof c->aux_assumed,
             "no aux ids: %lld, %lld, %lld, which engines take by default for %lld layers",
             (long long)ids[0], (long long)ids[1], (long long)ids[2], (long long)layers);
    return ERR_OK;
}

static enum err_code check_target(struct head *h, const struct model *target, struct err *err)
{
    const struct head_config *c = &h->config;
    if (!target) return ERR_OK;
    const struct config *t = target->config;
    if (t->vocab != c->base.vocab)
        return err_set(err, ERR_INPUT, "head for target|%s|vocab_size %lld|%lld, as in %s",
                       h->weights.path, (long long)c->base.vocab, (long long)t->vocab,
                       target->weights->path);
    if (t->hidden != c->target_hidden)
        return err_set(err, ERR_INPUT,
                       "head for target|%s|aux states %lld wide|%lld, the hidden size of %s",
                       h->weights.path, (long long)c->target_hidden, (long long)t->hidden,
                       target->weights->path);
    return settle_aux(h, t->layers, err);
}

static enum err_code open_head(struct head *h, const char *spec, const struct model *target,
                               bool loose, struct err *err)
{
    char path[FILE_PATH];
    struct err map = ERR_INIT;
    *h = (struct head){0};
    if (open_files(h, spec, path, err) != ERR_OK || read_config(h, path, err) != ERR_OK ||
        head_naming_find(h, err) != ERR_OK || head_map_find(h, err) != ERR_OK)
        return err->code;
    settle_target_hidden(h);
    if (check_synthetic(h, err) != ERR_OK || check_target(h, target, err) != ERR_OK ||
        rope_table_make(&h->config.base, &h->rope, err) != ERR_OK ||
        head_bind(h, target, err) != ERR_OK)
        return err->code;
    if (head_map_make(h, &map) != ERR_OK) {
        free(h->target_id);
        h->target_id = NULL;
        if (!loose || map.code != ERR_INPUT) {
            *err = map;
            return err->code;
        }
    }
    weights_advise(&h->weights);
    return ERR_OK;
}

enum err_code head_open(struct head *h, const char *spec, const struct model *target,
                        struct err *err)
{
    return open_head(h, spec, target, false, err);
}

enum err_code head_open_loose(struct head *h, const char *spec, const struct model *target,
                              struct err *err)
{
    return open_head(h, spec, target, true, err);
}

void head_close(struct head *h)
{
    weights_close(&h->weights);
    free(h->target_id);
    free(h->misfits);
    *h = (struct head){0};
}

static bool names_eagle(const json_t *architectures)
{
    for (size_t i = 0; i < json_array_size(architectures); i++) {
        const char *name = json_string_value(json_array_get(architectures, i));
        if (name && strcasestr(name, "eagle3")) return true;
    }
    return false;
}

bool head_is(const char *spec)
{
    static const char *const keys[] = {"speculators_model_type", "eagle_config",
                                       "draft_vocab_size"};
    char path[FILE_PATH];
    struct err ignored = ERR_INIT;
    json_t *root = NULL;
    if (text_starts(spec, "synth:")) {
        snprintf(path, sizeof path, "%s", spec + strlen("synth:"));
        char *query = strrchr(path, '?');
        if (query) *query = '\0';
    } else if (file_join(spec, "config.json", path, &ignored) != ERR_OK) {
        return false;
    }
    if (!file_exists(path) || json_read(path, &root, &ignored) != ERR_OK) return false;
    bool found = names_eagle(json_object_get(root, "architectures"));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        found = found || json_has(root, keys[i]);
    json_decref(root);
    return found;
}
