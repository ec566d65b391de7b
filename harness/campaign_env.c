/* campaign_env.c: call faults: the program under the failure of its n-th malloc, write, fsync ...,
 * over several of its verbs; see campaign_parts.h. */
#include "core/synth.h"
#include "harness/campaign_folder.h"
#include "harness/campaign_parts.h"
#include "harness/fault_env.h"

#include <stdio.h>
#include <string.h>

enum { LIMIT_S = 60, WORDS = 20 };

/* Words of a command line; "@NAME" stands for a path of this campaign: @model the checkpoint,
 * @config its config.json, @dump a dump of it, @data a JSONL file, @out a new folder. */
static const char *const commands[][WORDS] = {
    {"forward", "@model", "--tokens", "1,2,3", "--threads", "1", "--out", "@out/dump.safetensors"},
    {"diff", "@dump", "--model", "@model", "--profile", "math", "--threads", "1", "--out", "@out"},
    {"extract", "@model", "--data", "@data", "--layers", "1,3", "--numbering", "entry", "--format",
     "vllm", "--threads", "1", "--out", "@out/samples"},
    {"inspect", "@model", "--record", "@out/contract.json", "--threads", "1"},
    {"synth", "@config", "--seed", "3", "--shrink", "layers=1,experts=4", "--out", "@out/model"},
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

int campaign_commands(void)
{
    return COMMANDS;
}

struct line {
    const char *word[WORDS];
    char text[WORDS][FILE_PATH];
};

static void resolve(const struct campaign *c, const char *word, const char *out, char *text)
{
    static const struct {
        const char *name, *below;
    } places[] = {{"@model", "checkpoint"},
                  {"@config", "checkpoint/config.json"},
                  {"@dump", "dump.safetensors"},
                  {"@data", "data.jsonl"}};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (strcmp(places[i].name, word) == 0)
            snprintf(text, FILE_PATH, "%.900s/%s", c->folder, places[i].below);
    }
    if (strncmp(word, "@out", 4) == 0) snprintf(text, FILE_PATH, "%.900s%s", out, word + 4);
}

static void make_line(const struct campaign *c, const struct job *j, const char *out,
                      struct line *l)
{
    for (int i = 0; i < WORDS; i++) {
        const char *word = commands[j->command][i];
        l->word[i] = word;
        if (!word || word[0] != '@') continue;
        resolve(c, word, out, l->text[i]);
        l->word[i] = l->text[i];
    }
}

enum err_code campaign_env_prepare(struct campaign *c, struct err *err)
{
    static const char data[] = "{\"input_ids\": [1, 2, 3], \"loss_mask\": [0, 1, 1]}\n";
    char path[FILE_PATH];
    struct file_out f = FILE_OUT_INIT;
    const struct job j = {.command = 0};
    struct line l;
    struct fault_outcome o;
    const struct fault_env none = {.kind = "malloc", .limit_s = LIMIT_S};
    snprintf(path, sizeof path, "%.900s/data.jsonl", c->folder);
    if (file_out_open(&f, path, err) == ERR_OK &&
        file_out_write(&f, data, (int64_t)strlen(data), err) == ERR_OK)
        (void)!file_out_commit(&f, err);
    file_out_abandon(&f);
    make_line(c, &j, c->folder, &l);
    if (err->code == ERR_OK && fault_env_run(&none, l.word, NULL, &o, err) == ERR_OK &&
        (o.status != 0 || o.calls < 0))
        err_set(err, ERR_DEVICE, "inject env fault|a run without one|exit %d: %.100s|a pass",
                o.status, o.message);
    return err->code;
}

/* "env.short_write_n" is kind "short_write". */
static const char *kind_of(const struct job *j)
{
    for (int i = 0; fault_env_kind(i); i++) {
        const char *kind = fault_env_kind(i);
        size_t n = strlen(kind);
        if (strncmp(j->row->id + 4, kind, n) == 0 && strcmp(j->row->id + 4 + n, "_n") == 0)
            return kind;
    }
    return NULL;
}

static json_t *judge(const struct campaign *c, const struct job *j, const struct fault_env *f,
                     const struct fault_outcome *o, const char *out)
{
    struct err e = ERR_INIT;
    char line[ERR_LINE];
    int files;
    if (!o->injected)
        return campaign_record(j, c, "inert", "call %lld did not come", (long long)f->call);
    if (fault_env_judge(f, o, &e) != ERR_OK || campaign_folder_whole(out, &files, &e) != ERR_OK)
        return campaign_record(j, c, "missed", "%s: %s", commands[j->command][0],
                               err_line(&e, line, sizeof line));
    if (o->status == 0 && files == 0)
        return campaign_record(j, c, "missed", "%s: exit 0, and nothing written",
                               commands[j->command][0]);
    return campaign_record(j, c, "caught", "%s: call %lld: exit %d: %.*s", commands[j->command][0],
                           (long long)f->call, o->status, (int)strcspn(o->message, "\n"),
                           o->status ? o->message : "coped");
}

json_t *campaign_env(struct campaign *c, const struct job *j)
{
    char out[FILE_PATH], line[ERR_LINE];
    struct err e = ERR_INIT;
    struct fault_env f = {.kind = kind_of(j), .limit_s = LIMIT_S};
    struct fault_outcome o = {0};
    struct line l;
    json_t *record = NULL;
    campaign_path(c, "out", out);
    make_line(c, j, out, &l);
    if (!f.kind) return campaign_record(j, c, "error", "no such kind of call");
    /* Once to count, once to fail. */
    if (file_make_folder(out, &e) == ERR_OK && fault_env_run(&f, l.word, NULL, &o, &e) == ERR_OK &&
        o.calls > 0) {
        f.call = 1 + (int64_t)(synth_x(synth_base(j->seed, f.kind), 0) % (uint64_t)o.calls);
        campaign_folder_remove(out);
        if (file_make_folder(out, &e) == ERR_OK) (void)!fault_env_run(&f, l.word, NULL, &o, &e);
    }
    if (e.code != ERR_OK)
        record = campaign_record(j, c, "error", "%s", err_line(&e, line, sizeof line));
    else if (o.calls == 0)
        record = campaign_record(j, c, "inert", "%s makes no such call", commands[j->command][0]);
    else
        record = judge(c, j, &f, &o, out);
    campaign_folder_remove(out);
    return record;
}
