/* contract_load.c: contract_load() of contract.h. */
#include "core/text.h"
#include "harness/contract.h"
#include "harness/facts.h"

enum err_code contract_load(const char *path, struct arena *a, struct api *out, struct err *err)
{
    json_t *facts;
    if (text_ends(path, ".yaml") || text_ends(path, ".yml")) return api_read(out, path, a, err);
    if (facts_read("surface", path, &facts, err) != ERR_OK) return err->code;
    enum err_code rc = api_from_json(out, facts, path, a, err);
    json_decref(facts);
    return rc;
}
