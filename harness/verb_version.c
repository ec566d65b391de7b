/* verb_version.c: `assay --version`: how this program was built. */
#include "harness/build_facts.h"
#include "harness/verb.h"

static enum err_code run(const struct args *a, json_t *result, struct err *err)
{
    (void)err;
    json_object_set_new(result, "build", build_facts());
    if (!a->json) build_facts_text(stdout);
    return ERR_OK;
}

const struct verb verb_version = {
    .name = "--version",
    .usage = "[--json]",
    .about = "how this program was built",
    .run = run,
};
