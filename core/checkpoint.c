/* checkpoint.c: see checkpoint.h. */
#include "core/checkpoint.h"

#include "core/bytes.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGEST = 32 };

static bool hash_bytes(EVP_MD_CTX *md, const void *data, int64_t size)
{
    return EVP_DigestUpdate(md, data, (size_t)size) == 1;
}

/* Size, header with its eight length bytes, and pieces of the data from first to last byte. */
static bool hash_file(EVP_MD_CTX *md, const struct st_file *f, unsigned char out[DIGEST])
{
    unsigned char size[8];
    const int64_t total = f->map.size;
    const int64_t begin = 8 + (int64_t)bytes_get(f->map.data, 8), left = total - begin;
    bytes_put(size, (uint64_t)total, 8);
    const int64_t piece = left < CHECKPOINT_PIECE ? left : CHECKPOINT_PIECE;
    bool good = EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1 && hash_bytes(md, size, 8) &&
                hash_bytes(md, f->map.data, begin);
    for (int i = 0; good && i < CHECKPOINT_SAMPLES; i++) {
        int64_t at = begin + (int64_t)((double)(left - piece) * i / (CHECKPOINT_SAMPLES - 1));
        good = hash_bytes(md, f->map.data + at, piece);
    }
    return good && EVP_DigestFinal_ex(md, out, NULL) == 1;
}

static int by_bytes(const void *a, const void *b)
{
    return memcmp(a, b, DIGEST);
}

enum err_code checkpoint_name(const struct weights *w, char out[CHECKPOINT_TEXT], struct err *err)
{
    unsigned char whole[DIGEST];
    if (w->synthetic) {
        snprintf(out, CHECKPOINT_TEXT, "synth:seed=%llu,latent_gain=%.17g",
                 (unsigned long long)w->seed, w->latent_gain);
        return ERR_OK;
    }
    unsigned char *each = malloc((size_t)(w->file_count + 1) * DIGEST);
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    bool good = each && md;
    for (int64_t i = 0; good && i < w->file_count; i++)
        good = hash_file(md, &w->files[i], each + i * DIGEST);
    if (good) {
        qsort(each, (size_t)w->file_count, DIGEST, by_bytes);
        good = EVP_Digest(each, (size_t)w->file_count * DIGEST, whole, NULL, EVP_sha256(), NULL);
    }
    EVP_MD_CTX_free(md);
    free(each);
    if (!good)
        return err_set(err, ERR_MEMORY, "hash checkpoint|%s|SHA-256 is not to be had", w->path);
    size_t n = (size_t)snprintf(out, CHECKPOINT_TEXT, "sha256:");
    for (int i = 0; i < DIGEST; i++, n += 2) snprintf(out + n, 3, "%02x", whole[i]);
    return ERR_OK;
}

bool checkpoint_contradicts(const char *a, const char *b)
{
    size_t kind = strcspn(a, ":");
    return strncmp(a, b, kind + 1) == 0 && strcmp(a, b) != 0;
}
