/* inspect_hash.c: the hash of each tensor's bytes, on several threads, in the order in which they
 * lie in the files. Bytes are read, not mapped: a disk error or a file that shrinks is an error
 * with a name, not a signal. */
#include "harness/inspect.h"

#include "core/file.h"
#include "core/run.h"
#include "harness/verb.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ins_hasher {
    EVP_CIPHER_CTX *ctx;
};

struct ins_hasher *ins_hasher_new(void)
{
    /* Public and fixed, so that two contracts of the same weights are the same. */
    static const unsigned char key[17] = "assay contract 1";
    struct ins_hasher *h = calloc(1, sizeof *h);
    if (h) h->ctx = EVP_CIPHER_CTX_new();
    if (h && h->ctx && EVP_EncryptInit_ex(h->ctx, EVP_aes_128_gcm(), NULL, key, NULL)) return h;
    ins_hasher_free(h);
    return NULL;
}

void ins_hasher_free(struct ins_hasher *h)
{
    if (h) EVP_CIPHER_CTX_free(h->ctx);
    free(h);
}

bool ins_hasher_begin(struct ins_hasher *h)
{
    static const unsigned char iv[12] = {0};
    return EVP_EncryptInit_ex(h->ctx, NULL, NULL, NULL, iv) == 1;
}

bool ins_hasher_add(struct ins_hasher *h, const void *data, int64_t size)
{
    enum { PART = 1 << 30 }; /* libcrypto counts in int */
    const unsigned char *p = data;
    int n = 0;
    for (int64_t at = 0; at < size; at += PART) {
        int64_t left = size - at;
        if (EVP_EncryptUpdate(h->ctx, NULL, &n, p + at, (int)(left < PART ? left : PART)) != 1)
            return false;
    }
    return true;
}

bool ins_hasher_end(struct ins_hasher *h, char hex[INS_HASH])
{
    unsigned char tag[16], none[16];
    int n = 0;
    if (EVP_EncryptFinal_ex(h->ctx, none, &n) != 1 ||
        EVP_CIPHER_CTX_ctrl(h->ctx, EVP_CTRL_AEAD_GET_TAG, sizeof tag, tag) != 1)
        return false;
    for (size_t i = 0; i < sizeof tag; i++) snprintf(hex + 2 * i, 3, "%02x", tag[i]);
    return true;
}

/* ---- many tensors ---- */

enum { CHUNK = 1 << 19 }; /* lies in the second cache of a core */

struct worker {
    struct ins_hasher *hasher;
    unsigned char *buffer;
    int fd;
    int32_t file; /* that fd is open on; -1: none */
};

struct crew {
    struct ins_hash_job *job;
    int64_t *order; /* tensors to hash, by place */
    int64_t count;
    struct worker *workers;
    int64_t total; /* bytes to hash */
    _Atomic int64_t bytes;
    _Atomic bool stopped;
    int64_t *left; /* tensors of each file that are still to do; under the lock */
    int64_t shards_done;
    pthread_mutex_t lock;
    struct err *err; /* under the lock */
};

static void stop(struct crew *c, const struct err *e)
{
    pthread_mutex_lock(&c->lock);
    if (c->err->code == ERR_OK) *c->err = *e;
    pthread_mutex_unlock(&c->lock);
    atomic_store(&c->stopped, true);
}

/* One thread shows, so that lines do not mix. The text may change without the rate starting
 * anew: progress_show() knows a stage by its address. */
static void show(struct crew *c, int worker)
{
    static char stage[64];
    if (worker != 0) return;
    pthread_mutex_lock(&c->lock);
    snprintf(stage, sizeof stage, "hash: %lld of %lld shards, MB", (long long)c->shards_done,
             (long long)c->job->s->file_count);
    pthread_mutex_unlock(&c->lock);
    progress_show(NULL, stage, atomic_load(&c->bytes) / 1000000, c->total / 1000000 + 1);
}

static enum err_code open_file(struct crew *c, struct worker *w, int32_t file, struct err *err)
{
    char path[FILE_PATH];
    if (w->file == file) return ERR_OK;
    if (w->fd >= 0) close(w->fd);
    w->fd = -1;
    w->file = -1;
    if (ins_path(c->job->s, file, path, err) != ERR_OK) return err->code;
    w->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (w->fd < 0) return err_sys(err, errno, "hash|%s", path);
    (void)!posix_fadvise(w->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    w->file = file;
    return ERR_OK;
}

static enum err_code hash_tensor(struct crew *c, int number, const struct ins_tensor *t,
                                 char hex[INS_HASH], struct err *err)
{
    struct worker *w = &c->workers[number];
    const char *file = c->job->s->files[t->file].name;
    if (open_file(c, w, t->file, err) != ERR_OK) return err->code;
    bool good = ins_hasher_begin(w->hasher);
    for (int64_t at = 0; at < t->bytes && good && !atomic_load(&c->stopped);) {
        int64_t left = t->bytes - at;
        ssize_t n = pread(w->fd, w->buffer, (size_t)(left < CHUNK ? left : CHUNK), t->offset + at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return err_sys(err, errno, "hash|%s: %s", file, t->raw);
        if (n == 0)
            return err_set(err, ERR_IO, "hash|%s: %s|the file's end|the %lld bytes of the tensor",
                           file, t->raw, (long long)t->bytes);
        good = ins_hasher_add(w->hasher, w->buffer, n);
        at += n;
        atomic_fetch_add(&c->bytes, n);
        show(c, number);
    }
    if (!good || !ins_hasher_end(w->hasher, hex))
        return err_set(err, ERR_MEMORY, "hash|%s: %s|libcrypto failed", file, t->raw);
    return ERR_OK;
}

static void body(void *ctx, int64_t i, int number)
{
    struct crew *c = ctx;
    struct ins_hash_job *job = c->job;
    struct err err = ERR_INIT;
    char hex[INS_HASH] = "";
    const int64_t at = c->order[i];
    const struct ins_tensor *t = &job->s->tensors[at];
    if (atomic_load(&c->stopped)) return;
    if (hash_tensor(c, number, t, hex, &err) != ERR_OK) {
        stop(c, &err);
        return;
    }
    if (atomic_load(&c->stopped)) return; /* the hash of a part is none */
    memcpy(job->hash[at], hex, INS_HASH);
    pthread_mutex_lock(&c->lock);
    c->shards_done += --c->left[t->file] == 0;
    if (job->done && job->done(job->ctx, at, &err) != ERR_OK && c->err->code == ERR_OK)
        *c->err = err;
    bool failed = c->err->code != ERR_OK;
    pthread_mutex_unlock(&c->lock);
    if (failed) atomic_store(&c->stopped, true);
}

/* ---- order ---- */

static int by_place(const void *a, const void *b, void *tensors)
{
    const struct ins_tensor *s = (const struct ins_tensor *)tensors + *(const int64_t *)a,
                            *t = (const struct ins_tensor *)tensors + *(const int64_t *)b;
    if (s->file != t->file) return s->file < t->file ? -1 : 1;
    return (s->offset > t->offset) - (s->offset < t->offset);
}

static void plan(struct crew *c)
{
    struct inspection *s = c->job->s;
    for (int64_t i = 0; i < s->tensor_count; i++) {
        const struct ins_tensor *t = &s->tensors[i];
        if (!t->placed || c->job->hash[i][0]) continue;
        c->order[c->count++] = i;
        c->left[t->file]++;
        c->total += t->bytes;
    }
    for (int64_t f = 0; f < s->file_count; f++) c->shards_done += c->left[f] == 0;
    if (c->count) qsort_r(c->order, (size_t)c->count, sizeof *c->order, by_place, s->tensors);
}

static bool equip(struct crew *c)
{
    bool good = true;
    for (int i = 0; i < c->job->threads; i++) {
        struct worker *w = &c->workers[i];
        *w = (struct worker){
            .hasher = ins_hasher_new(), .buffer = malloc(CHUNK), .fd = -1, .file = -1};
        good &= w->hasher && w->buffer;
    }
    return good;
}

enum err_code ins_hash_all(struct ins_hash_job *job, struct err *err)
{
    struct inspection *s = job->s;
    struct run run = {.threads = job->threads};
    struct crew c = {.job = job, .err = err};
    pthread_mutex_init(&c.lock, NULL);
    c.order = calloc((size_t)s->tensor_count + 1, sizeof *c.order);
    c.left = calloc((size_t)s->file_count + 1, sizeof *c.left);
    c.workers = calloc((size_t)job->threads, sizeof *c.workers);
    if (c.order && c.left && c.workers && equip(&c)) {
        plan(&c);
        run_parallel(&run, c.count, body, &c);
    } else {
        err_set(err, ERR_MEMORY, "hash|%s|no memory, or no AES-GCM in libcrypto", s->path);
    }
    for (int i = 0; i < job->threads && c.workers; i++) {
        if (c.workers[i].fd > 0) close(c.workers[i].fd); /* 0: not equipped */
        ins_hasher_free(c.workers[i].hasher);
        free(c.workers[i].buffer);
    }
    free(c.order);
    free(c.left);
    free(c.workers);
    pthread_mutex_destroy(&c.lock);
    return err->code;
}
