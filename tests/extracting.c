/* extracting.c: see extracting.h. */
#include "tests/extracting.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

const char *extract_lines(void **state, const char *lines)
{
    const char *path = textf("%s/data.jsonl", (const char *)*state);
    write_text(path, lines);
    return path;
}

const char *extract_corpus(void **state, int count)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    assert_non_null(f);
    for (int n = 0; n < count; n++) {
        int length = 1 + (n * 7 + 4) % 13;
        fprintf(f, "{\"input_ids\": [");
        for (int i = 0; i < length; i++) fprintf(f, "%s%d", i ? ", " : "", (n * 31 + i * 17) % 48);
        fprintf(f, "], \"loss_mask\": [");
        for (int i = 0; i < length; i++) fprintf(f, "%s%d", i ? ", " : "", i * 2 > length);
        fprintf(f, "]}\n");
    }
    fclose(f);
    const char *path = extract_lines(state, text);
    free(text);
    return path;
}

struct extract_request extract_asked(void **state, const char *model, const char *data,
                                     const char *name)
{
    return (struct extract_request){.model = model,
                                    .data = data,
                                    .layers = "1,2,3",
                                    .numbering = "entry",
                                    .on = "ref",
                                    .out = textf("%s/%s", (const char *)*state, name),
                                    .format = SAMPLE_VLLM,
                                    .dtype = DT_COUNT,
                                    .batch_tokens = 4096,
                                    .options = session_defaults()};
}

enum err_code extract_of(const struct extract_request *r, struct extract_result *out,
                         struct err *err)
{
    *err = (struct err)ERR_INIT;
    return extract_run(r, out, err);
}

int64_t extract_all(const struct extract_request *r)
{
    struct extract_result out;
    struct err err;
    (void)!extract_of(r, &out, &err);
    assert_ok(&err);
    assert_int_equal(json_array_size(out.skipped), 0);
    assert_false(file_exists(textf("%s/extract.journal", r->out)));
    int64_t written = out.written + out.resumed;
    extract_result_free(&out);
    return written;
}

uint64_t extract_print(const char *folder)
{
    int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(here >= 0);
    assert_int_equal(chdir(folder), 0);
    uint64_t print = folder_print(".");
    assert_int_equal(fchdir(here), 0);
    close(here);
    return print;
}

json_t *extract_manifest(const char *folder)
{
    json_t *v = json_load_file(textf("%s/manifest.json", folder), JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(v);
    return v;
}
