/* temporary.c: see temporary.h. */
#include "harness/temporary.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum err_code temporary_dump(char *out, struct err *err)
{
    static int serial;
    const char *folder = getenv("TMPDIR");
    int n = snprintf(out, FILE_PATH, "%s/assay-%ld-%d.safetensors",
                     folder && folder[0] ? folder : "/tmp", (long)getpid(), serial++);
    if (n >= 0 && n < FILE_PATH) return ERR_OK;
    return err_set(err, ERR_INPUT, "temporary dump|TMPDIR|%d bytes|a shorter path", n);
}
