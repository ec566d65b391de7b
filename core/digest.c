/* digest.c: see digest.h. */
#include "core/digest.h"

#include "core/file.h"

#include <openssl/evp.h>
#include <stdio.h>

enum err_code digest_sha256(const void *data, int64_t size, const char *where,
                            char hex[DIGEST_TEXT], struct err *err)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    if (!EVP_Digest(data, (size_t)size, digest, &n, EVP_sha256(), NULL) || n != 32)
        return err_set(err, ERR_MEMORY, "hash|%s|no SHA-256|a working libcrypto", where);
    for (unsigned i = 0; i < n; i++) snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    return ERR_OK;
}

enum err_code digest_file(const char *path, char hex[DIGEST_TEXT], struct err *err)
{
    struct file_map m;
    if (file_map(path, &m, err) != ERR_OK) return err->code;
    (void)!digest_sha256(m.data ? (const void *)m.data : "", m.size, path, hex, err);
    file_unmap(&m);
    return err->code;
}
