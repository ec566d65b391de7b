/* contract_record.c: `contract record LIB --out C.yaml [--for CONSUMER]`. */
#include "harness/contract.h"
#include "harness/contract_reach.h"

#include <stdio.h>
#include <stdlib.h>

static int64_t count_symbols(const struct api_names *names)
{
    int64_t n = names->count;
    for (int i = 0; i < names->count; i++) {
        for (int k = 0; k < names->name[i].defs; k++) {
            const struct api_def *d = &names->name[i].def[k];
            if (d->kind == API_CLASS) n += count_symbols(&d->class_->members);
        }
    }
    return n;
}

static void fill_result(const struct api *a, const char *out, int64_t bytes, json_t *result)
{
    int64_t symbols = 0;
    for (int i = 0; i < a->modules; i++) symbols += count_symbols(&a->module[i].names);
    json_object_set_new(result, "out", json_string(out));
    json_object_set_new(result, "bytes", json_integer(bytes));
    json_object_set_new(
        result, "library",
        json_pack("{s:s?, s:s?}", "name", a->library.name, "version", a->library.version));
    json_object_set_new(result, "for",
                        a->consumer.name ? json_pack("{s:s, s:s?}", "name", a->consumer.name,
                                                     "version", a->consumer.version)
                                         : json_null());
    json_object_set_new(result, "modules", json_integer(a->modules));
    json_object_set_new(result, "symbols", json_integer(symbols));
    json_t *problems = json_array();
    for (int i = 0; i < a->problems; i++)
        json_array_append_new(problems,
                              json_pack("{s:s, s:i, s:s}", "file", a->problem[i].file, "line",
                                        a->problem[i].line, "what", a->problem[i].what));
    json_object_set_new(result, "problems", problems);
}

static void say(const struct api *a, const json_t *result)
{
    for (int i = 0; i < a->problems; i++)
        fprintf(stderr, "assay: warning: %s:%d: %s\n", a->problem[i].file, a->problem[i].line,
                a->problem[i].what);
    printf("%s %s", a->library.name ? a->library.name : a->library.source,
           a->library.version ? a->library.version : "(no version)");
    if (a->consumer.name)
        printf(" for %s %s", a->consumer.name, a->consumer.version ? a->consumer.version : "");
    printf(": %lld symbols of %d modules, %lld bytes -> %s\n",
           (long long)json_integer_value(json_object_get(result, "symbols")), a->modules,
           (long long)json_integer_value(json_object_get(result, "bytes")),
           json_string_value(json_object_get(result, "out")));
}

static enum err_code write_contract(const struct api *a, const struct args *args, json_t *result,
                                    struct err *err)
{
    const char *out = args_value(args, "--out");
    char *text;
    int64_t size;
    if (api_print(a, &text, &size, err) != ERR_OK) return err->code;
    free(text);
    if (api_write(a, out, err) != ERR_OK) return err->code;
    fill_result(a, out, size, result);
    if (!args->json) say(a, result);
    return ERR_OK;
}

static enum err_code record(const struct args *args, struct arena *arena, json_t *result,
                            struct err *err)
{
    const char *consumer = args_value(args, "--for");
    struct api library, kept;
    if (contract_load(args->word[1], arena, &library, err) != ERR_OK) return err->code;
    if (!consumer && !args_has(args, "--also")) return write_contract(&library, args, result, err);
    if (contract_reach(args, consumer, &library, arena, &kept, err) != ERR_OK) return err->code;
    return write_contract(&kept, args, result, err);
}

enum err_code contract_record(const struct args *a, json_t *result, struct err *err)
{
    struct arena arena = ARENA_INIT;
    if (!args_value(a, "--out"))
        return err_set(err, ERR_USAGE, "arguments|contract record|no --out|--out C.yaml");
    if (args_has(a, "--receiver") && !args_has(a, "--for"))
        return err_set(err, ERR_USAGE, "arguments|contract record|--receiver alone|--for CONSUMER");
    enum err_code rc = record(a, &arena, result, err);
    arena_release(&arena, NULL);
    return rc;
}
