/* tactic_options.c: see tactic_options.h. */
#include "harness/tactic_options.h"

#include "core/tactic.h"

#include <stddef.h>

enum err_code tactic_options_read(const struct args *a, struct err *err)
{
    const char *text;
    tactic_clear();
    for (int i = 0; (text = args_value_at(a, "--tactic", i)); i++) {
        if (tactic_force(text, err) != ERR_OK) return err->code;
    }
    return ERR_OK;
}
