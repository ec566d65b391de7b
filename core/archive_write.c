/* archive_write.c: the writer of archive.h. */
#include "core/archive.h"

#include "core/bytes.h"
#include "core/check.h"

#include <stdlib.h>
#include <string.h>

/* Sizes and offsets from here on stand in a zip64 field. */
#define WIDE 0xFFFFFFFFLL

/* Little-endian fields, collected in front of what is written. */
struct fields {
    unsigned char byte[128];
    int used;
};

static void put(struct fields *f, uint64_t value, int bytes)
{
    CHECK(f->used + bytes <= (int)sizeof f->byte);
    bytes_put(f->byte + f->used, value, bytes);
    f->used += bytes;
}

static uint64_t narrow(int64_t value, int64_t most)
{
    return (uint64_t)(value < most ? value : most);
}

/* The zip64 field: size, packed size, offset, those that are wide. In front of the data miniz does
 * not know the packed size yet and writes 0. */
static void put_wide(struct fields *f, const struct archive_member *m, int64_t packed)
{
    bool size = m->size >= WIDE, offset = m->offset >= WIDE;
    if (!size && !offset) return;
    put(f, 1, 2);
    put(f, (uint64_t)(size * 16 + offset * 8), 2);
    if (size) put(f, (uint64_t)m->size, 8);
    if (size) put(f, (uint64_t)packed, 8);
    if (offset) put(f, (uint64_t)m->offset, 8);
}

/* Flags: sizes follow the data (where there are any), the name is UTF-8. */
static uint64_t flags_of(const struct archive_member *m)
{
    return m->size ? 0x0808 : 0x0800;
}

enum err_code archive_out_open(struct archive_out *a, const char *path, struct err *err)
{
    *a = (struct archive_out){.file = FILE_OUT_INIT};
    crc32_init(&a->crc);
    return file_out_open(&a->file, path, err);
}

static enum err_code write_fields(struct archive_out *a, const struct fields *f, struct err *err)
{
    return file_out_write(&a->file, f->byte, f->used, err);
}

/* Local header, name, zip64 field, and 'Z' up to the next multiple of ARCHIVE_ALIGN. */
static enum err_code write_header(struct archive_out *a, const struct archive_member *m,
                                  struct err *err)
{
    struct fields head = {.used = 0}, wide = {.used = 0}, pad = {.used = 0};
    size_t length = strlen(m->name);
    put_wide(&wide, m, 0);
    int64_t start = m->offset + 30 + (int64_t)length + wide.used + 4;
    int padding = (int)((ARCHIVE_ALIGN - start % ARCHIVE_ALIGN) % ARCHIVE_ALIGN);
    put(&head, 0x04034b50, 4);
    put(&head, 0, 2);
    put(&head, flags_of(m), 2);
    for (int i = 0; i < 3; i++) put(&head, 0, 2);
    for (int i = 0; i < 3; i++) put(&head, 0, 4);
    put(&head, length, 2);
    put(&head, (uint64_t)(wide.used + 4 + padding), 2);
    put(&pad, 'F' | 'B' << 8, 2);
    put(&pad, (uint64_t)padding, 2);
    for (int i = 0; i < padding; i++) put(&pad, 'Z', 1);
    if (write_fields(a, &head, err) != ERR_OK ||
        file_out_write(&a->file, m->name, (int64_t)length, err) != ERR_OK ||
        write_fields(a, &wide, err) != ERR_OK)
        return err->code;
    return write_fields(a, &pad, err);
}

static enum err_code write_descriptor(struct archive_out *a, const struct archive_member *m,
                                      struct err *err)
{
    struct fields f = {.used = 0};
    int wide = m->size >= WIDE || m->offset >= WIDE ? 8 : 4;
    if (!m->size) return ERR_OK;
    put(&f, 0x08074b50, 4);
    put(&f, m->crc, 4);
    put(&f, (uint64_t)m->size, wide);
    put(&f, (uint64_t)m->size, wide);
    return write_fields(a, &f, err);
}

enum err_code archive_out_add(struct archive_out *a, const char *name, const void *data,
                              int64_t size, struct err *err)
{
    CHECK(size >= 0 && strlen(name) <= UINT16_MAX);
    if (a->count == a->room) {
        int64_t room = a->room ? 2 * a->room : 16;
        void *grown = realloc(a->members, (size_t)room * sizeof *a->members);
        if (!grown) return err_set(err, ERR_MEMORY, "write zip archive|%s|no memory", name);
        a->members = grown;
        a->room = room;
    }
    struct archive_member *m = &a->members[a->count];
    *m = (struct archive_member){.name = strdup(name),
                                 .crc = crc32_of(&a->crc, 0, data, size),
                                 .size = size,
                                 .offset = a->file.bytes};
    if (!m->name) return err_set(err, ERR_MEMORY, "write zip archive|%s|no memory", name);
    a->count++;
    if (write_header(a, m, err) != ERR_OK || file_out_write(&a->file, data, size, err) != ERR_OK)
        return err->code;
    return write_descriptor(a, m, err);
}

static enum err_code write_entry(struct archive_out *a, const struct archive_member *m,
                                 struct err *err)
{
    struct fields f = {.used = 0}, wide = {.used = 0};
    size_t length = strlen(m->name);
    put_wide(&wide, m, m->size);
    put(&f, 0x02014b50, 4);
    put(&f, 0, 4);
    put(&f, flags_of(m), 2);
    for (int i = 0; i < 3; i++) put(&f, 0, 2);
    put(&f, m->crc, 4);
    put(&f, narrow(m->size, WIDE), 4);
    put(&f, narrow(m->size, WIDE), 4);
    put(&f, length, 2);
    put(&f, (uint64_t)wide.used, 2);
    for (int i = 0; i < 5; i++) put(&f, 0, 2);
    put(&f, narrow(m->offset, WIDE), 4);
    if (write_fields(a, &f, err) != ERR_OK ||
        file_out_write(&a->file, m->name, (int64_t)length, err) != ERR_OK)
        return err->code;
    return write_fields(a, &wide, err);
}

/* zip64 end record, its locator, end record. */
static enum err_code write_end(struct archive_out *a, int64_t at, struct err *err)
{
    struct fields f = {.used = 0};
    int64_t end = a->file.bytes;
    put(&f, 0x06064b50, 4);
    put(&f, 44, 8);
    put(&f, 0x031e, 2);
    put(&f, 0x2d, 2);
    put(&f, 0, 8);
    put(&f, (uint64_t)a->count, 8);
    put(&f, (uint64_t)a->count, 8);
    put(&f, (uint64_t)(end - at), 8);
    put(&f, (uint64_t)at, 8);
    put(&f, 0x07064b50, 4);
    put(&f, 0, 4);
    put(&f, (uint64_t)end, 8);
    put(&f, 1, 4);
    put(&f, 0x06054b50, 4);
    put(&f, 0, 4);
    put(&f, narrow(a->count, UINT16_MAX), 2);
    put(&f, narrow(a->count, UINT16_MAX), 2);
    put(&f, narrow(end - at, WIDE), 4);
    put(&f, narrow(at, WIDE), 4);
    put(&f, 0, 2);
    return write_fields(a, &f, err);
}

enum err_code archive_out_commit(struct archive_out *a, struct err *err)
{
    int64_t at = a->file.bytes;
    for (int64_t i = 0; i < a->count; i++) {
        if (write_entry(a, &a->members[i], err) != ERR_OK) return err->code;
    }
    if (write_end(a, at, err) != ERR_OK) return err->code;
    return file_out_commit(&a->file, err);
}

void archive_out_close(struct archive_out *a)
{
    file_out_abandon(&a->file);
    for (int64_t i = 0; i < a->count; i++) free(a->members[i].name);
    free(a->members);
    a->members = NULL;
    a->count = a->room = 0;
}
