/* report.c: see report.h. */
#include "harness/report.h"

#include "core/file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/* "junit=a.xml" -> format and path. */
static enum err_code parse(const char *text, const struct report_format **format, const char **path,
                           struct err *err)
{
    const size_t n = strcspn(text, "=");
    *format = report_format_find(text, n);
    *path = text[n] ? text + n + 1 : "";
    if (!*format)
        return err_set(err, ERR_USAGE, "option|--report|\"%.*s\"|%s", (int)(n < 64 ? n : 64), text,
                       report_format_names());
    if (!(*path)[0])
        return err_set(err, ERR_USAGE, "option|--report|\"%.80s\"|%s=FILE", text, (*format)->name);
    return ERR_OK;
}

/* The i-th, of a verb whose option is this one: `guard --report FILE` is another. */
static const char *asked(const struct args *a, int i)
{
    static const struct option_row row = REPORT_OPTION_ROW;
    for (const struct option_row *o = a->verb->options; o && o->name; o++) {
        if (strcmp(o->name, row.name) == 0 && strcmp(o->metavar, row.metavar) == 0)
            return args_value_at(a, row.name, i);
    }
    return NULL;
}

enum err_code report_check(const struct args *a, struct err *err)
{
    const struct report_format *format;
    const char *path, *other;
    for (int i = 0; asked(a, i); i++) {
        if (parse(asked(a, i), &format, &path, err) != ERR_OK) return err->code;
        for (int k = 0; k < i; k++) {
            if (parse(asked(a, k), &format, &other, err) != ERR_OK) return err->code;
            if (strcmp(path, other) == 0)
                return err_set(err, ERR_USAGE, "option|--report|%s twice|each file once", path);
        }
    }
    return ERR_OK;
}

enum err_code report_render(const struct report_format *format, const json_t *result,
                            const char *path, struct err *err)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (f) {
        format->render(result, f);
        if (fclose(f) != 0) size = 0;
    }
    if (!f || !text || size == 0)
        err_set(err, ERR_MEMORY, "render report|%s|no memory", format->name);
    if (err->code == ERR_OK && !path)
        fwrite(text, 1, size, stdout); /* assay_main() flushes, and says so where it cannot */
    if (err->code == ERR_OK && path) {
        struct file_out out = FILE_OUT_INIT;
        if (file_out_open(&out, path, err) == ERR_OK &&
            file_out_write(&out, text, (int64_t)size, err) == ERR_OK)
            (void)!file_out_commit(&out, err);
        file_out_abandon(&out);
    }
    free(text);
    return err->code;
}

enum err_code report_write(const struct args *a, const json_t *result, struct err *err)
{
    const struct report_format *format;
    const char *path;
    for (int i = 0; asked(a, i); i++) {
        if (parse(asked(a, i), &format, &path, err) != ERR_OK ||
            report_render(format, result, path, err) != ERR_OK)
            return err->code;
    }
    return ERR_OK;
}

void report_origin(const struct verb *v, int argc, char *const *argv, json_t *result)
{
    struct utsname u;
    json_t *command = json_pack("[s, s]", "assay", v->name);
    /* A command of somebody else's may hold what nobody should keep. */
    for (int i = 0; i < argc && !(v->takes_command && strcmp(argv[i], "--") == 0); i++)
        json_array_append_new(command, json_string(argv[i]));
    json_object_set_new(result, "command", command);
    if (uname(&u) == 0)
        json_object_set_new(result, "machine",
                            json_pack("{s:s, s:s, s:s, s:I}", "system", u.sysname, "release",
                                      u.release, "arch", u.machine, "processors",
                                      (json_int_t)sysconf(_SC_NPROCESSORS_ONLN)));
}
