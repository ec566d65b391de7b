/* foreign_passes.c: a folder of SGLang's --debug-tensor-dump-output-folder; see foreign_parts.h.
 *
 *   TP0_PP0_Rank0_pid4242/Pass00000.pt    a dict a forward pass: the name of a module -> what it
 *   TP1_PP0_Rank1_pid4243/Pass00000.pt    gave, a tensor or a list of them
 *
 * Nothing in it says how the ranks hold a tensor: the map does. Source:
 * sgl-project/sglang@19fed5f, python/sglang/srt/debug_utils/tensor_dump_forward_hook.py */
#include "harness/foreign_parts.h"

#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct place {
    int64_t tp, pp, rank;
};

/* One number of a folder's name, behind `head`. */
static bool take(const char **at, const char *head, int64_t *n)
{
    char digits[20];
    if (!text_starts(*at, head)) return false;
    *at += strlen(head);
    size_t length = strspn(*at, "0123456789");
    if (length == 0 || length >= sizeof digits) return false;
    snprintf(digits, sizeof digits, "%.*s", (int)length, *at);
    *at += length;
    return text_int(digits, n);
}

static bool parse(const char *name, struct place *p)
{
    int64_t pid;
    return take(&name, "TP", &p->tp) && take(&name, "_PP", &p->pp) &&
           take(&name, "_Rank", &p->rank) && take(&name, "_pid", &pid) && !name[0];
}

bool passes_is(const struct listing *l)
{
    struct place p;
    for (int64_t i = 0; i < l->count; i++) {
        if (parse(l->names[i], &p)) return true;
    }
    return false;
}

/* "Pass00012.pt": 12 */
static bool pass_of(const char *name, int64_t *n)
{
    return take(&name, "Pass", n) && strcmp(name, ".pt") == 0;
}

/* The passes of a rank are added to *steps, `count` and `room`. */
static enum err_code add_steps(const char *folder, int64_t **steps, int64_t *count, struct err *err)
{
    struct listing l;
    if (listing_read(folder, &l, err) == ERR_OK) {
        int64_t *more = realloc(*steps, (size_t)(*count + l.count + 1) * sizeof **steps), n;
        if (!more) err_set(err, ERR_MEMORY, "read dump|%s|no memory", folder);
        if (more) *steps = more;
        for (int64_t i = 0; more && i < l.count; i++) {
            if (pass_of(l.names[i], &n)) more[(*count)++] = n;
        }
    }
    listing_free(&l);
    return err->code;
}

static enum err_code read_rank(struct source *s, const char *folder, const struct place *p,
                               int64_t step, struct err *err)
{
    char name[32], path[FILE_PATH];
    struct pt_file f;
    snprintf(name, sizeof name, "Pass%05lld.pt", (long long)step);
    if (file_join(folder, name, path, err) != ERR_OK || pt_open(&f, path, err) != ERR_OK)
        return err->code;
    s->files = p->rank;
    s->rank = (int)p->tp;
    if (s->rank_count <= s->rank) s->rank_count = s->rank + 1;
    (void)!source_flatten(s, &f.root, "", err);
    pt_close(&f);
    return err->code;
}

enum err_code passes_read(struct source *s, const char *folder, const struct listing *l,
                          struct err *err)
{
    int64_t *steps = NULL, count = 0, step = 0;
    struct place p;
    char path[FILE_PATH];
    for (int64_t i = 0; i < l->count && err->code == ERR_OK; i++) {
        if (parse(l->names[i], &p) && file_join(folder, l->names[i], path, err) == ERR_OK)
            (void)!add_steps(path, &steps, &count, err);
    }
    if (err->code == ERR_OK) (void)!source_step(s, steps, count, &step, err);
    for (int64_t i = 0; i < l->count && err->code == ERR_OK; i++) {
        if (parse(l->names[i], &p) && file_join(folder, l->names[i], path, err) == ERR_OK)
            (void)!read_rank(s, path, &p, step, err);
    }
    free(steps);
    return err->code;
}
