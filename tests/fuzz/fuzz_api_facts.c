/* fuzz_api_facts.c: any text is the surface of a library, or an error with a text. What is taken
 * can be asked, and written as a contract that is read back. */
#include "compat/api_lookup.h"
#include "core/check.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every question about every class. */
static void ask(const struct api *a, const struct api_names *names, struct pool *pool,
                struct err *err)
{
    struct api_signatures s;
    struct api_result r;
    const struct api_def *left[API_MRO];
    bool open;
    for (int i = 0; i < names->count; i++) {
        const struct api_def *d = names->name[i].def;
        api_find(a, d->path, &r);
        if (d->kind != API_CLASS) continue;
        api_constructor(a, d, pool, &s, err);
        api_instance_call(a, d, pool, &s, err);
        (void)api_abstract(a, d, left, &open);
        ask(a, &d->class_->members, pool, err);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = ERR_INIT;
    struct arena arena = ARENA_INIT;
    struct pool pool = {.arena = &arena};
    struct api a, again;
    char *text = NULL;
    int64_t n = 0;
    enum err_code rc = api_from_facts(&a, (const char *)data, (int64_t)size, "facts", &arena, &err);
    CHECK(rc == err.code);
    CHECK(rc == ERR_OK || err.what[0]);
    if (rc == ERR_OK) {
        for (int i = 0; i < a.modules; i++) ask(&a, &a.module[i].names, &pool, &err);
        CHECK(api_print(&a, &text, &n, &err) == ERR_OK);
        CHECK(api_parse(&again, text, n, "again.yaml", &arena, &err) == ERR_OK);
    }
    free(text);
    arena_release(&arena, NULL);
    return 0;
}
