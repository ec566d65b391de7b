/* campaign_text.c: the result of a campaign in words; see campaign.h. */
#include "harness/campaign.h"

#include <stdio.h>
#include <string.h>

enum { SHOWN = 40 };

static long long whole(const json_t *result, const char *key)
{
    return json_integer_value(json_object_get(result, key));
}

static const char *text(const json_t *record, const char *key)
{
    const char *value = json_string_value(json_object_get(record, key));
    return value ? value : "";
}

/* "missed (2): FAULT + FAULT [CASE, PROFILE]: WHY (claims X)" */
static void show(const json_t *result, const char *name, const char *title)
{
    const json_t *list = json_object_get(result, name), *r;
    size_t i, n = json_array_size(list);
    if (n > 0) printf("%s (%zu):\n", title, n);
    json_array_foreach(list, i, r)
    {
        if (i == SHOWN) {
            printf("  ... and %zu more: see --json\n", n - i);
            return;
        }
        const json_t *ratio = json_object_get(r, "ratio");
        printf("  %s%s%s", text(r, "fault")[0] ? text(r, "fault") : text(r, "kind"),
               text(r, "with")[0] ? " + " : "", text(r, "with"));
        if (text(r, "case")[0]) printf(" [%s, %s]", text(r, "case"), text(r, "profile"));
        printf(": %s", text(r, "why"));
        if (json_is_real(ratio)) printf(", effect/bound %.2g", json_real_value(ratio));
        if (text(r, "claims")[0]) printf(", named %s", text(r, "claims"));
        printf("\n");
    }
}

void campaign_text(const json_t *result)
{
    const json_t *score = json_object_get(result, "score"),
                 *never = json_object_get(result, "never"), *id;
    size_t i;
    show(result, "errors", "no outcome");
    show(result, "missed", "missed");
    show(result, "alarms", "clean runs that were red");
    show(result, "misnamed", "wrong names");
    show(result, "equal", "named by another fault that gives the same bits");
    show(result, "unnamed", "caught and not named");
    show(result, "rank_unnamed", "caught, and the rank not named");
    show(result, "sub_threshold", "sub-threshold, not scored");
    show(result, "stopped", "stopped by their own run, not scored");
    if (json_array_size(never) > 0)
        printf("changed nothing anywhere (%zu):", json_array_size(never));
    json_array_foreach(never, i, id) printf(" %s", json_string_value(id));
    if (json_array_size(never) > 0) printf("\n");
    printf("%lld faults, %lld injected on %lld cases, %lld caught", whole(result, "faults"),
           whole(result, "injected"), whole(result, "cases"), whole(result, "caught"));
    if (json_is_real(score)) printf(": score %.4f", json_real_value(score));
    printf("\n%lld of %lld diagnosed faults named; %lld proofs, %lld wrong names\n",
           whole(result, "named"), whole(result, "diagnosed"), whole(result, "proofs"),
           whole(result, "wrong_names"));
    const json_t *ranks = json_object_get(result, "ranks");
    if (whole(ranks, "injected") > 0)
        printf("on real ranks: %lld injected, %lld caught, %lld stopped by the ranks, %lld named; "
               "the rank in %lld of %lld\n",
               whole(ranks, "injected"), whole(ranks, "caught"), whole(ranks, "stopped_by_ranks"),
               whole(ranks, "named"), whole(ranks, "rank_named"), whole(ranks, "with_rank"));
    printf("%zu inert, %zu sub-threshold; %lld clean runs, %lld red; %.1f s\n",
           json_array_size(json_object_get(result, "inert")),
           json_array_size(json_object_get(result, "sub_threshold")), whole(result, "clean_runs"),
           whole(result, "false_alarms"), json_real_value(json_object_get(result, "seconds")));
}
