/* replay_main.c: runs a fuzz target over files and folders of files, without a fuzzer: in every
 * build the corpus is a regression test. Replaying nothing is a failure. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* 1 for a file that was replayed. The copy has the exact size, so that a sanitizer sees reads past
 * its end. */
static int replay_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    struct stat st;
    if (!f || fstat(fileno(f), &st) != 0) {
        fprintf(stderr, "replay: cannot read %s\n", path);
        exit(1);
    }
    size_t size = (size_t)st.st_size;
    uint8_t *data = malloc(size ? size : 1);
    if (!data || fread(data, 1, size, f) != size) {
        fprintf(stderr, "replay: cannot read %s\n", path);
        exit(1);
    }
    fclose(f);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    return 1;
}

static int replay_folder(const char *path, DIR *folder)
{
    int n = 0;
    for (struct dirent *e = readdir(folder); e; e = readdir(folder)) {
        char name[4096];
        if (e->d_name[0] == '.') continue;
        snprintf(name, sizeof name, "%s/%s", path, e->d_name);
        n += replay_file(name);
    }
    closedir(folder);
    return n;
}

int main(int argc, char **argv)
{
    int n = 0;
    for (int i = 1; i < argc; i++) {
        DIR *folder = opendir(argv[i]);
        n += folder ? replay_folder(argv[i], folder) : replay_file(argv[i]);
    }
    printf("%d inputs replayed\n", n);
    return n ? 0 : 1;
}
