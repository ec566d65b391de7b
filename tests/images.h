/* images.h: a small checkpoint in memory, in the layout of the reader, to be changed and written:
 * one file, or three shards with an index. Every byte is a function of the tensor's name. */
#ifndef ASSAY_TESTS_IMAGES_H
#define ASSAY_TESTS_IMAGES_H

#include "tests/support.h"

#include <jansson.h>

enum { IMAGE_FILES = 5, IMAGE_NAME = 256 };

struct image {
    char name[IMAGE_NAME];
    unsigned char *data;
    size_t size;
    bool gone;
};

/* A checkpoint in memory; files[0] is config.json, files[1] the index where there are shards. */
struct images {
    struct image files[IMAGE_FILES];
    int count, first; /* the first shard */
    char folder[FILE_PATH];
    char contract[FILE_PATH];
};

/* The config is CONFIG_K25; the folder is made, nothing is written. */
void images_make(struct images *m, bool sharded, void **state);
struct images images_copied(const struct images *m);
void images_free(struct images *m);
/* Writes all that is not gone; removes them again. */
void images_write(const struct images *m);
void images_remove(const struct images *m);

void image_set(struct image *f, const char *name, const void *data, size_t size);
uint64_t image_header_size(const struct image *f);
/* The header as JSON, the caller's. */
json_t *image_header(const struct image *f);
/* Takes the JSON; the data stays. */
void image_set_header(struct image *f, json_t *root);
void image_set_header_text(struct image *f, const char *text);

#endif
