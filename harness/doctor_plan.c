/* doctor_plan.c: see doctor_plan.h. */
#include "harness/doctor_plan.h"

#include "core/text.h"
#include "harness/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LIST = 128, CELL = 48 };

enum err_code doctor_plan_options(const struct args *a, struct err *err)
{
    static const struct option_row rows[] = {DOCTOR_PLAN_ROWS};
    for (size_t i = 1; i < sizeof rows / sizeof rows[0]; i++) {
        if (!args_has(a, "--plan") && args_has(a, rows[i].name))
            return err_set(err, ERR_USAGE, "option|doctor|%s without --plan|--plan %s %s",
                           rows[i].name, rows[i].name, rows[i].metavar);
    }
    if (args_has(a, "--plan") && !args_has(a, "--model"))
        return err_set(err, ERR_USAGE, "option|doctor|--plan without a model|--plan --model MODEL");
    return ERR_OK;
}

/* "0:8" for what lies side by side, else "0,2,4,... (8)". */
static const char *experts_text(const json_t *list, char out[LIST])
{
    size_t n = json_array_size(list), used = 0;
    json_int_t first = json_integer_value(json_array_get(list, 0));
    json_int_t last = json_integer_value(json_array_get(list, n ? n - 1 : 0));
    if (n == 0) {
        snprintf(out, LIST, "none");
    } else if (last - first + 1 == (json_int_t)n) {
        snprintf(out, LIST, "%" JSON_INTEGER_FORMAT ":%" JSON_INTEGER_FORMAT, first, last + 1);
    } else {
        for (size_t i = 0; i < n && i < 4; i++)
            used += (size_t)snprintf(out + used, LIST - used, "%" JSON_INTEGER_FORMAT ",",
                                     json_integer_value(json_array_get(list, i)));
        snprintf(out + used, LIST - used, "... (%zu)", n);
    }
    return out;
}

static const char *range_text(const json_t *rank, const char *key, char out[CELL])
{
    const json_t *range = json_object_get(rank, key);
    json_int_t first = json_integer_value(json_array_get(range, 0));
    json_int_t end = json_integer_value(json_array_get(range, 1));
    if (end > first)
        snprintf(out, CELL, "%" JSON_INTEGER_FORMAT ":%" JSON_INTEGER_FORMAT, first, end);
    else
        snprintf(out, CELL, "none");
    return out;
}

static void print_rank(const json_t *rank)
{
    static const char *const keys[] = {"heads", "intermediate", "moe", "shared", "vocab"};
    char cell[CELL], list[LIST];
    printf("%4d %3d %3d", (int)json_integer_value(json_object_get(rank, "rank")),
           (int)json_integer_value(json_object_get(rank, "t")),
           (int)json_integer_value(json_object_get(rank, "e")));
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        printf("  %14s", range_text(rank, keys[i], cell));
    printf("  %16s", experts_text(json_object_get(rank, "experts"), list));
    printf("  %10s",
           text_bytes(json_number_value(json_object_get(rank, "bytes")), cell, sizeof cell));
    printf("  %10s\n", text_bytes(json_number_value(json_object_get(rank, "replicated_bytes")),
                                  cell, sizeof cell));
}

static int count_cut(const json_t *matrices, const char *cut)
{
    int n = 0;
    size_t i;
    json_t *m;
    json_array_foreach(matrices, i, m)
    {
        n += strcmp(json_string_value(json_object_get(m, "cut")), cut) == 0;
    }
    return n;
}

static void print_report(const json_t *report)
{
    const json_t *matrices = json_object_get(report, "matrices");
    const json_t *problems = json_object_get(report, "problems");
    char bytes[CELL];
    size_t i;
    json_t *item;
    printf("rank   t   e  %14s  %14s  %14s  %14s  %14s  %16s  %10s  %10s\n", "heads", "dense MLP",
           "expert", "shared", "vocabulary", "experts", "holds", "not alone");
    json_array_foreach(json_object_get(report, "ranks"), i, item) print_rank(item);
    printf("%d tensors cut by rows, %d by columns, %d of experts, %d on every rank; %s in all: ",
           count_cut(matrices, "rows"), count_cut(matrices, "columns"),
           count_cut(matrices, "experts"), count_cut(matrices, "replicated"),
           text_bytes(json_number_value(json_object_get(report, "bytes")), bytes, sizeof bytes));
    if (json_array_size(problems) == 0) printf("every element is where it should be\n");
    if (json_array_size(problems) != 0) printf("elements are misplaced\n");
    json_array_foreach(problems, i, item) printf("  %s\n", json_string_value(item));
}

enum err_code doctor_plan(const struct args *a, json_t *result, struct err *err)
{
    struct shard_plan plan;
    struct loaded l;
    json_t *report = NULL;
    if (shard_options_read(a, PRECISION_F32, &plan, err) != ERR_OK) return err->code;
    if (loaded_open(&l, args_value(a, "--model"), err) == ERR_OK)
        (void)!shard_plan_report(&plan, &l.model, &report, err);
    loaded_close(&l);
    if (!report) return err->code;
    if (!a->json) print_report(report);
    if (json_object_set_new(result, "plan", report) != 0)
        return err_set(err, ERR_MEMORY, "doctor|plan|no memory|a few megabytes");
    return err->code;
}
