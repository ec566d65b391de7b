/* plan_parse.h: what the parts of the plan's parser share; private to plan.c,
 * plan_step.c and plan_preflight.c. */
#ifndef ASSAY_HARNESS_PLAN_PARSE_H
#define ASSAY_HARNESS_PLAN_PARSE_H

#include "harness/plan.h"
#include "core/yaml.h"

struct plan_reader {
    struct plan *plan;
    struct arena *arena;
    struct err *err;
    struct plan_text model, tokens; /* the plan's own */
    int done;                       /* steps before the one that is read now */
};

/* ERR_INPUT at a value, or at its key. */
enum err_code plan_bad(struct plan_reader *r, const struct yaml_node *n, const char *found,
                       const char *wanted);
enum err_code plan_bad_key(struct plan_reader *r, const struct yaml_node *n, const char *wanted);

enum err_code plan_want(struct plan_reader *r, const struct yaml_node *n, enum yaml_kind kind);
/* A text that is not empty, or NULL with the error set. */
const char *plan_scalar(struct plan_reader *r, const struct yaml_node *n);
enum err_code plan_int(struct plan_reader *r, const struct yaml_node *n, int64_t min, int64_t max,
                       int64_t *out);
enum err_code plan_bool(struct plan_reader *r, const struct yaml_node *n, bool *out);
/* A text, or a list of texts joined by commas. */
enum err_code plan_joined(struct plan_reader *r, const struct yaml_node *n, const char **out);
struct plan_place plan_place_of(const struct yaml_node *n);

/* The body of a step: everything under its kind. */
enum err_code plan_body(struct plan_reader *r, struct plan_step *s, const struct yaml_node *n);
/* `expect` of a step. */
enum err_code plan_step_expect(struct plan_reader *r, struct plan_step *s,
                               const struct yaml_node *n);
/* What can only be said once all keys of a step are read. */
enum err_code plan_step_check(struct plan_reader *r, struct plan_step *s,
                              const struct yaml_node *n);

/* The key `preflight`, into plan->preflight (plan_preflight.h). */
enum err_code plan_preflight(struct plan_reader *r, const struct yaml_node *n);

#endif
