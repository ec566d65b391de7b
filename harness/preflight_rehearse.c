/* preflight_rehearse.c: the plan's own commands on a small checkpoint of the same config, under
 * guard: the handler, the worker and the files, in a minute instead of after a load.
 *
 * Everything lies in one temporary folder, which goes away in any case but a kill -9:
 *   model/   config.json, shards and index by `synth --shrink`, in as many shards as there are
 *            layers for; links to the other small files of the checkpoint (tokenizer, code)
 *   out/     where the commands write
 * In a command {model}, {out} and {layers} stand for these folders and for the plan's ids. It is
 * read by sh, in the plan's folder. */
#include "core/file.h"
#include "core/json.h"
#include "core/text.h"
#include "harness/preflight.h"
#include "harness/preflight_child.h"
#include "harness/preflight_shrink.h"
#include "harness/session.h"
#include "reports/fields.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TAIL = 300, LOCALS = 6, LOCAL = 24, SPEC = 256, ARGV = 2 * PLAN_WORDS + 16 };

static const double synth_seconds = 120;

struct rehearsal {
    struct preflight *p;
    struct preflight_children children;
    char folder[FILE_PATH], model[FILE_PATH], out[FILE_PATH], output[FILE_PATH], report[FILE_PATH];
    json_t *runs;
};

static struct preflight_finding finding(const struct rehearsal *r, const char *rule, int line)
{
    return (struct preflight_finding){
        .rule = rule, .file = preflight_plan(r->p), .line = line, .strikes = PREFLIGHT_AFTER_LOAD};
}

/* ---- the temporary folder ---- */

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st;
    (void)kind;
    (void)where;
    (void)!remove(path);
    return 0;
}

static void remove_folder(const char *path)
{
    enum { FILES = 16 };
    if (path[0]) nftw(path, remove_entry, FILES, FTW_DEPTH | FTW_PHYS);
}

/* TMPDIR where its name needs no quotes, else /tmp: the paths go into the user's own lines. */
static const char *above(void)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-";
    const char *tmp = getenv("TMPDIR");
    return tmp && tmp[0] == '/' && tmp[strspn(tmp, plain)] == '\0' ? tmp : "/tmp";
}

static enum err_code make_folder(struct rehearsal *r, struct err *err)
{
    snprintf(r->folder, sizeof r->folder, "%.*s/assay-rehearsal.XXXXXX", FILE_PATH - 64, above());
    if (!mkdtemp(r->folder)) {
        int num = errno;
        (void)!err_sys(err, num, "rehearse|%s", r->folder);
        r->folder[0] = '\0';
        return err->code;
    }
    if (file_join(r->folder, "model", r->model, err) != ERR_OK ||
        file_join(r->folder, "out", r->out, err) != ERR_OK ||
        file_join(r->folder, "output", r->output, err) != ERR_OK ||
        file_join(r->folder, "guard.json", r->report, err) != ERR_OK)
        return err->code;
    return file_make_folder(r->out, err);
}

/* ---- the small checkpoint ---- */

static bool is_replaced(const char *name)
{
    return name[0] == '.' || text_ends(name, ".safetensors") || strcmp(name, "config.json") == 0 ||
           strcmp(name, "model.safetensors.index.json") == 0;
}

/* Whether an entry of the checkpoint's folder is a file that the small one lacks. */
static bool is_beside(const char *folder, const char *name, char path[FILE_PATH])
{
    struct stat st;
    struct err none = ERR_INIT;
    return !is_replaced(name) && file_join(folder, name, path, &none) == ERR_OK &&
           stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* Links the tokenizer and code files into the small checkpoint; without `link`, only says whether a
 * tokenizer is among them. */
static bool beside(struct rehearsal *r, bool link)
{
    bool tokenizer = false;
    char path[FILE_PATH], to[FILE_PATH], real[PATH_MAX];
    struct err none = ERR_INIT;
    DIR *d = file_is_folder(r->p->model) ? opendir(r->p->model) : NULL;
    for (struct dirent *e; d && (e = readdir(d));) {
        if (!is_beside(r->p->model, e->d_name, path)) continue;
        tokenizer |= strstr(e->d_name, "token") != NULL;
        if (link && realpath(path, real) && file_join(r->model, e->d_name, to, &none) == ERR_OK)
            (void)!symlink(real, to);
    }
    if (d) closedir(d);
    return tokenizer;
}

/* The end of what the child wrote, on one line. */
static const char *output_tail(struct rehearsal *r)
{
    struct file_map map;
    struct err none = ERR_INIT;
    char text[TAIL + 1] = "";
    if (file_map(r->output, &map, &none) != ERR_OK) return "";
    size_t n = map.size < TAIL ? (size_t)map.size : TAIL;
    if (n) memcpy(text, map.data + map.size - n, n);
    file_unmap(&map);
    while (n > 0 && text[n - 1] == '\n') text[--n] = '\0';
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\n') text[i] = '|';
    }
    return preflight_text(r->p, "%s", n ? text : "not a word");
}

static bool run_child(struct rehearsal *r, struct preflight_child *child)
{
    struct err e = ERR_INIT;
    (void)!truncate(r->output, 0);
    child->output = r->output;
    if (preflight_child_run(&r->children, child, &e) == ERR_OK) return !r->children.number;
    preflight_refused(r->p, finding(r, "child", r->p->keys->line), &e);
    return false;
}

/* What is left of the layers: "layers=4" of the spec. */
static int64_t layers_of(const struct preflight *p, const char *spec)
{
    static const char key[] = "layers=";
    int64_t layers;
    for (const char *at = spec; at; at = strchr(at, ','), at = at ? at + 1 : NULL) {
        char number[32];
        if (!text_starts(at, key)) continue;
        snprintf(number, sizeof number, "%.*s", (int)strcspn(at + strlen(key), ","),
                 at + strlen(key));
        if (text_int(number, &layers)) return layers;
    }
    return p->config.layers;
}

static bool make_model(struct rehearsal *r, const char *spec)
{
    const struct preflight *p = r->p;
    char shards[32];
    const int64_t most = layers_of(p, spec) + 1; /* a layer in each, then what is no layer */
    snprintf(shards, sizeof shards, "%lld",
             (long long)(p->shards > 0 && p->shards < most ? p->shards : most));
    const char *argv[] = {"assay",  "synth",    p->config_at, "--seed",   "1",  "--out",
                          r->model, "--shards", shards,       "--shrink", spec, NULL};
    if (!spec[0]) argv[9] = NULL; /* it is as small already */
    struct preflight_child child = {.argv = argv, .folder = ".", .seconds = synth_seconds};
    if (!run_child(r, &child)) return false;
    if (WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0) {
        beside(r, true);
        return true;
    }
    preflight_not_checked(r->p,
                          preflight_text(r->p, "no small checkpoint (--shrink %s)%s: %s", spec,
                                         child.late ? ", the time is over" : "", output_tail(r)),
                          "rehearse: {shrink: KEY=N,...}, as of assay synth");
    return false;
}

/* ---- the commands ---- */

static const char *layers_text(struct preflight *p)
{
    const char *text = "";
    for (int i = 0; text && i < p->keys->layers; i++)
        text = preflight_text(p, "%s%s%lld", text, i ? "," : "", (long long)p->keys->layer[i]);
    return text;
}

static const char *placed(struct rehearsal *r, const char *line, const char *name,
                          const char *value)
{
    for (const char *at; line && value && (at = strstr(line, name));)
        line = pool_format(&r->p->pool, r->p->err, "%.*s%s%s", (int)(at - line), line, value,
                           at + strlen(name));
    return line;
}

/* What the frames held that is short: "a = 0, b = 3". */
static const char *locals_text(struct rehearsal *r, const json_t *found)
{
    const char *where, *name, *text = "";
    json_t *names, *value;
    int n = 0;
    json_object_foreach((json_t *)(uintptr_t)json_object_get(found, "locals"), where, names)
    {
        json_object_foreach(names, name, value)
        {
            if (n == LOCALS || !text) return text;
            if (!json_is_string(value) || json_string_length(value) > LOCAL) continue;
            text = preflight_text(r->p, "%s%s%s = %s", text, n++ ? ", " : "", name,
                                  json_string_value(value));
        }
    }
    return text;
}

static void add_found(struct rehearsal *r, const json_t *one)
{
    struct preflight *p = r->p;
    const char *type = text_at(one, "type"), *said = text_at(one, "message");
    const json_t *handler = json_object_get(one, "handler");
    const char *at = text_at(handler, "file")[0]
                         ? preflight_text(p, ", caught at %s:%lld", text_at(handler, "file"),
                                          int_at(handler, "line"))
                         : "";
    struct preflight_finding f = finding(r, "lost", 0);
    if (text_at(one, "harmless")[0] || !at) return;
    f.rule = preflight_text(p, "%s", text_at(one, "rule"));
    f.file = preflight_text(p, "%s", text_at(one, "file"));
    f.function = preflight_text(p, "%s", text_at(one, "function"));
    f.line = (int)int_at(one, "line");
    f.message = preflight_text(p, "in the rehearsal: %s%s%.300s%s", type, type[0] ? ": " : "",
                               said[0] ? said : "(an empty text)", at);
    f.found = locals_text(r, one);
    f.remedy = "mend what raises; a handler says type(e).__name__ and repr(e), and the run ends "
               "with a status that says so";
    preflight_add(p, f);
}

/* The guard's object; its findings become ours. Its exit status of the command, or -1. */
static int take_report(struct rehearsal *r, json_t *run)
{
    struct err none = ERR_INIT;
    json_t *report = NULL, *one;
    size_t i;
    if (json_read(r->report, &report, &none) != ERR_OK) return -1;
    json_array_foreach(json_object_get(report, "findings"), i, one) add_found(r, one);
    json_object_set(run, "findings", json_object_get(report, "findings"));
    int status = (int)int_at(report, "command_exit");
    json_decref(report);
    (void)unlink(r->report);
    return status;
}

static void judge_run(struct rehearsal *r, const struct plan_word *w,
                      const struct preflight_child *child, json_t *run)
{
    const int status = take_report(r, run);
    const char *tail = output_tail(r);
    struct preflight_finding f = finding(r, child->late ? "time" : "exit", w->line);
    json_object_set_new(run, "exit", status < 0 ? json_null() : json_integer(status));
    json_object_set_new(run, "output", json_any_text(tail));
    if (status < 0 && !child->late) {
        preflight_not_checked(r->p, preflight_text(r->p, "the guard gave no report: %s", tail),
                              "assay guard -- the command, by hand");
        return;
    }
    if (status == 0 && !child->late) return;
    f.message = child->late ? preflight_text(r->p, "the rehearsal did not end in %lld s",
                                             (long long)r->p->keys->seconds)
                            : preflight_text(r->p, "the rehearsal ended with status %d", status);
    f.found = tail;
    f.wanted = child->late ? "an end" : "0";
    f.remedy = child->late ? "rehearse: {seconds: more}, or less to do"
                           : "mend it; assay guard -- the command shows all of it";
    preflight_add(r->p, f);
}

static bool run_line(struct rehearsal *r, const struct plan_word *w)
{
    struct preflight *p = r->p;
    char stall[32];
    int n = 0;
    const char *argv[ARGV],
        *line = placed(r, placed(r, placed(r, w->text, "{model}", r->model), "{out}", r->out),
                       "{layers}", layers_text(p));
    if (!line) return false;
    snprintf(stall, sizeof stall, "%.1f", (double)p->keys->seconds / 3);
    const char *const head[] = {"assay", "guard", "--report", r->report, "--stall", stall};
    for (size_t i = 0; i < sizeof head / sizeof head[0]; i++) argv[n++] = head[i];
    for (int i = 0; i < p->keys->also.count; i++) {
        argv[n++] = "--also";
        argv[n++] = p->keys->also.word[i].text;
    }
    const char *const tail[] = {"--", "sh", "-c", line, NULL};
    for (size_t i = 0; i < sizeof tail / sizeof tail[0]; i++) argv[n++] = tail[i];
    struct preflight_child child = {
        .argv = argv, .folder = p->plan->folder, .seconds = (double)p->keys->seconds};
    const double began = clock_seconds();
    if (!run_child(r, &child)) return false;
    json_t *run =
        json_pack("{s:o, s:f}", "line", json_any_text(w->text), "seconds", clock_seconds() - began);
    judge_run(r, w, &child, run);
    json_array_append_new(r->runs, run);
    return true;
}

/* A run that should write and wrote nothing has not shown much. */
static void check_written(struct rehearsal *r)
{
    const struct plan_words *run = &r->p->keys->run;
    DIR *d = opendir(r->out);
    int entries = 0, line = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        entries += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
    if (d) closedir(d);
    for (int i = 0; i < run->count; i++) {
        if (strstr(run->word[i].text, "{out}")) line = run->word[i].line;
    }
    if (entries > 0 || line == 0) return;
    struct preflight_finding f = finding(r, "nothing", line);
    f.severity = PREFLIGHT_WARNING;
    f.message = "the rehearsal wrote nothing to {out}";
    f.found = "an empty folder";
    f.wanted = "files as the real run would write";
    f.remedy = "look whether the command writes there at all";
    preflight_add(r->p, f);
}

static void rehearse(struct rehearsal *r)
{
    struct preflight *p = r->p;
    char small[SPEC];
    const char *spec = p->keys->shrink;
    if (!spec)
        spec = preflight_shrink(&p->config, p->keys->layers > 0, beside(r, false), small,
                                sizeof small);
    if (!make_model(r, spec)) return;
    preflight_about(p, "%d of the plan's commands on a checkpoint with %s", p->keys->run.count,
                    spec[0] ? spec : "the config as it is");
    for (int i = 0; i < p->keys->run.count; i++) {
        if (!run_line(r, &p->keys->run.word[i])) return;
    }
    check_written(r);
    p->rehearsal = json_pack("{s:s, s:O}", "shrink", spec, "runs", r->runs);
}

void preflight_rehearse(struct preflight *p)
{
    struct err e = ERR_INIT;
    if (!p->configured) {
        preflight_not_checked(p, "there is no small checkpoint without the model's config",
                              "model: DIR");
        return;
    }
    struct rehearsal *r = calloc(1, sizeof *r);
    if (!r) {
        (void)!err_set(p->err, ERR_MEMORY, "rehearse|%s|no memory", p->plan->path);
        return;
    }
    r->p = p;
    r->runs = json_array();
    preflight_children_begin(&r->children);
    if (make_folder(r, &e) == ERR_OK) rehearse(r);
    remove_folder(r->folder);
    progress_end();
    preflight_children_end(&r->children);
    if (r->children.number) /* whoever handles it goes on */
        (void)!err_set(p->err, ERR_PROCESS, "rehearse|%s|ended by signal %d|an end of its own",
                       p->plan->path, r->children.number);
    preflight_refused(p, finding(r, "folder", p->keys->line), &e);
    json_decref(r->runs);
    free(r);
}
