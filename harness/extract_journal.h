/* extract_journal.h: what an extract has settled, so that a run which was killed at any point can
 * be taken up again, and the manifest that is made of it at the end.
 *
 * DIR/extract.journal: a line of JSON with the request, then one a sample, in order:
 *
 *     {"sample": 0, "file": "data_0.pt", "tokens": 48, "bytes": 101577, "sha256": "..."}
 *     {"sample": 1, "why": "read sample: sample 1 (line 2): found no tokens, wanted at least one"}
 *
 * A sample's line is added after its file has its name and lies on disk; so a file without a line
 * is written again, with the same bytes, and a line that is not whole is cut off. At the end
 * DIR/manifest.json gets the same lines, and the journal goes. The file is locked while a run is at
 * work. Test: tests/test_extract_journal.c */
#ifndef ASSAY_HARNESS_EXTRACT_JOURNAL_H
#define ASSAY_HARNESS_EXTRACT_JOURNAL_H

#include "core/digest.h"
#include "core/file.h"

#include <jansson.h>

enum { EXTRACT_NAME = 64 };

/* A sample that is settled. */
struct extract_entry {
    int64_t sample;
    char file[EXTRACT_NAME]; /* below the folder; "": skipped */
    int64_t tokens, bytes;
    char sha256[DIGEST_TEXT];
    char why[ERR_LINE]; /* it was skipped */
};

struct extract_journal {
    char folder[FILE_PATH], path[FILE_PATH], manifest[FILE_PATH];
    bool made;     /* the folder was not there before */
    int fd;        /* the journal, locked; what is written is appended */
    bool ours;     /* opened, and this run may write */
    int64_t count; /* samples that are settled: 0 .. count-1 */
    int64_t first; /* of them, those that an earlier run settled */
    struct file_map map;
    int64_t at; /* of the next entry of an earlier run */
};

#define EXTRACT_JOURNAL_INIT                                                                       \
    {                                                                                              \
        .fd = -1                                                                                   \
    }

/* Refuses a folder that holds something, unless `resume`. Changes nothing. */
enum err_code extract_folder_check(const char *folder, bool resume, struct err *err) ERR_USED;
/* Makes folder and journal, or goes on with what is there: `request` must be the earlier run's, or
 * the key that differs is named. Then temporary files of the killed run are removed, and entries
 * from the first one on whose file is gone or has another size are dropped. A folder that was
 * finished (it has a manifest) is opened the same way. */
enum err_code extract_journal_open(struct extract_journal *j, const char *folder,
                                   const json_t *request, bool resume, struct err *err) ERR_USED;
/* The next entry of the earlier run; j->first of them, in order. */
enum err_code extract_journal_next(struct extract_journal *j, struct extract_entry *out,
                                   struct err *err) ERR_USED;
enum err_code extract_journal_add(struct extract_journal *j, const struct extract_entry *e,
                                  struct err *err) ERR_USED;
/* All samples are settled: the manifest is `head` and the entries; the journal goes. */
enum err_code extract_journal_finish(struct extract_journal *j, const json_t *head,
                                     struct err *err) ERR_USED;
/* What was settled stays; an unused journal, and the folder made for it, go. */
void extract_journal_close(struct extract_journal *j);

/* For extract_resume.c and extract_manifest.c. */

/* One entry as an object, and back (`where` is used in messages). */
json_t *extract_entry_json(const struct extract_entry *e);
enum err_code extract_entry_read(const json_t *v, const char *where, struct extract_entry *out,
                                 struct err *err) ERR_USED;
/* A journal of the request and these lines, all or nothing. */
enum err_code extract_journal_write(const char *path, const json_t *request, const char *lines,
                                    int64_t bytes, struct err *err) ERR_USED;
/* The line at *at; false at the end, or where no newline ends it. */
bool extract_journal_line(const struct file_map *m, int64_t *at, const char **line, int64_t *size);
/* The request of a journal or of a manifest is this one; else the key that differs is named. */
enum err_code extract_request_check(const json_t *now, const json_t *before, const char *folder,
                                    struct err *err) ERR_USED;
/* Turns a finished folder's manifest into the journal it was made of. */
enum err_code extract_manifest_reopen(struct extract_journal *j, const json_t *request,
                                      struct err *err) ERR_USED;
enum err_code extract_manifest_write(const struct extract_journal *j, const json_t *head,
                                     struct err *err) ERR_USED;
/* Removes what killed runs left under temporary names. */
void extract_temporaries_remove(const char *folder);
/* Name of an entry of the folder other than `but` (NULL: any); with `settled`, temporary names are
 * passed over. False: there is none. */
bool extract_folder_other(const char *folder, const char *but, bool settled,
                          char name[EXTRACT_NAME]);

#endif
