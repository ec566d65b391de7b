/* judge_remedy.c: what would mend a break, where the library itself says it. */
#include "compat/api_now.h"
#include "compat/judge_parts.h"

#include <string.h>

/* Parameters of one function are named after one subject: a word in common says little. */
static const double KEYWORD_ALIKE = 0.65;

const char *judge_remedy_moved(struct judge_run *r, const char *const *now, int nows,
                               const char *name)
{
    if (nows == 0) return NULL;
    const char *first = judge_path_dotted(r, now[0]), *last = judge_last_part(first);
    if (strcmp(last, judge_last_part(name)) == 0) return judge_run_format(r, "moved to %s", first);
    if (nows == 1) return judge_run_format(r, "renamed %s", last);
    return judge_run_format(r, "perhaps renamed %s or %s", last, judge_last_part(now[1]));
}

static bool is_given(const struct args *a, const char *name)
{
    for (int i = 0; i < a->names; i++) {
        if (strcmp(a->name[i], name) == 0) return true;
    }
    return false;
}

const char *judge_remedy_keyword(struct judge_run *r, const struct api_params *p,
                                 const struct args *a, const char *name)
{
    const char *best = NULL;
    double score = KEYWORD_ALIKE;
    for (int i = a->count; i < p->count; i++) {
        const struct api_param *q = &p->param[i];
        if ((q->kind != API_ANY && q->kind != API_KW) || is_given(a, q->name)) continue;
        double alike = api_alike(q->name, name);
        if (!(alike > score)) continue;
        score = alike;
        best = q->name;
    }
    return best ? judge_run_format(r, "perhaps renamed %s", best)
                : judge_run_format(r, "drop %s", name);
}
