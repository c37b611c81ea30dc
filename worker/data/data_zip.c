// SPDX-License-Identifier: Apache-2.0
// worker/data/data_zip.c -- the directory of a zip file, and the bounds of its
// members. libzip says neither where the bytes of a stored member lie, which
// data_npz.c reads in place, nor that members overlap, as those of a bomb do.
#include "worker/data/data_zip.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"

#define END_BYTES 22
#define END_SEARCH (END_BYTES + 65535)
#define END64_BYTES 56
#define LOCATOR_BYTES 20
#define ENTRY_BYTES 46
#define LOCAL_BYTES 30

struct directory {
    uint64_t entries, offset, bytes;
};

struct extent {
    uint64_t first, end;
};

struct zip_walk {
    const uint8_t *at, *end; // central directory
    struct extent *extent;   // where each member so far lies
    size_t count;
    const char *wanted;
    bool found;
    struct zip_member member;
    uint64_t local; // offset of the found member's local header
};

static uint16_t u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static uint32_t u32(const uint8_t *p)
{
    return u16(p) | (uint32_t)u16(p + 2) << 16;
}

static uint64_t u64(const uint8_t *p)
{
    return u32(p) | (uint64_t)u32(p + 4) << 32;
}

static enum sl_err read_at(struct fs_file *f, uint64_t offset, void *to,
                           size_t n, struct sl_error *err)
{
    size_t got = 0;
    enum sl_err rc = fs_pread(f, offset, to, n, &got, err);

    if (rc == SL_OK && got < n)
        rc = sl_fail(err, SL_ECORRUPT, "ends at byte %llu, too early",
                     (unsigned long long)(offset + got));
    return rc;
}

// Reads the zip64 end record, if a locator lies before the end record.
static enum sl_err end64(struct directory *d, struct fs_file *f, uint64_t end,
                         struct sl_error *err)
{
    uint8_t p[END64_BYTES];
    uint64_t at;
    enum sl_err rc;

    if (end < LOCATOR_BYTES)
        return SL_OK;
    rc = read_at(f, end - LOCATOR_BYTES, p, LOCATOR_BYTES, err);
    if (rc != SL_OK || memcmp(p, "PK\6\7", 4) != 0)
        return rc;
    at = u64(p + 8);
    if (at > end - LOCATOR_BYTES || end - LOCATOR_BYTES - at < END64_BYTES)
        return sl_fail(err, SL_ECORRUPT,
                       "its zip64 end record is not where its locator says");
    rc = read_at(f, at, p, END64_BYTES, err);
    if (rc != SL_OK)
        return rc;
    if (memcmp(p, "PK\6\6", 4) != 0)
        return sl_fail(err, SL_ECORRUPT,
                       "its zip64 end record is not where its locator says");
    d->entries = u64(p + 32);
    d->bytes = u64(p + 40);
    d->offset = u64(p + 48);
    return SL_OK;
}

static enum sl_err find_end(struct directory *d, struct fs_file *f,
                            uint64_t size, struct sl_error *err)
{
    size_t n = size < END_SEARCH ? (size_t)size : END_SEARCH, at;
    uint8_t *tail;
    enum sl_err rc;

    if (size < END_BYTES)
        return sl_fail(err, SL_ECORRUPT, "%llu bytes are no zip file",
                       (unsigned long long)size);
    tail = sl_malloc(n);
    if (tail == NULL)
        return sl_no_memory(err);
    rc = read_at(f, size - n, tail, n, err);
    for (at = n - END_BYTES + 1; rc == SL_OK && at-- > 0;) {
        if (memcmp(tail + at, "PK\5\6", 4) == 0 &&
            u16(tail + at + 20) == n - at - END_BYTES)
            break;
    }
    if (rc == SL_OK && at == SIZE_MAX)
        rc = sl_fail(err, SL_ECORRUPT,
                     "no zip file: there is no end record in its last %zu "
                     "bytes",
                     n);
    if (rc == SL_OK) {
        d->entries = u16(tail + at + 10);
        d->bytes = u32(tail + at + 12);
        d->offset = u32(tail + at + 16);
        rc = end64(d, f, size - n + at, err);
    }
    sl_free(tail);
    if (rc == SL_OK && (d->offset > size || d->bytes > size - d->offset))
        rc = sl_fail(err, SL_ECORRUPT,
                     "its directory lies outside the file, its end record "
                     "says");
    if (rc == SL_OK &&
        (d->entries > ZIP_MEMBERS || d->bytes > ZIP_DIRECTORY_BYTES))
        rc = sl_fail(err, SL_ERANGE,
                     "the archive has more members than the limit of %d",
                     ZIP_MEMBERS);
    return rc;
}

// Reads sizes of 2^32 and more from extra field 1, which holds those that need
// it, in order.
static bool wide(const uint8_t *extra, size_t n, uint64_t *bytes,
                 uint64_t *packed, uint64_t *local)
{
    uint64_t *field[3] = {bytes, packed, local};

    while (n >= 4) {
        size_t length = u16(extra + 2), at = 4;

        if (length > n - 4)
            return false;
        if (u16(extra) == 1) {
            for (unsigned i = 0; i < 3; i++) {
                if (*field[i] != UINT32_MAX)
                    continue;
                if (at + 8 > length + 4)
                    return false;
                *field[i] = u64(extra + at);
                at += 8;
            }
            return true;
        }
        extra += 4 + length;
        n -= 4 + length;
    }
    return true;
}

static bool name_is_plain(const uint8_t *name, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (name[i] == '\0' || name[i] == '/' || name[i] == '\\')
            return false;
        if (i + 1 < n && name[i] == '.' && name[i + 1] == '.')
            return false;
    }
    return n > 0;
}

static enum sl_err check_entry(const struct zip_walk *w, const uint8_t *p,
                               const uint8_t *name, size_t n,
                               struct sl_error *err)
{
    if (n >= 8 && memcmp(name + n - 8, "data.pkl", 8) == 0)
        return sl_fail(err, SL_ENOTSUP,
                       "is a torch.save file, which may run code when it is "
                       "read; save arrays with numpy.savez");
    if (!name_is_plain(name, n))
        return sl_fail(err, SL_EDENIED,
                       "member %zu has a name with '/', '\\' or '..'",
                       w->count);
    if (u16(p + 8) & 1)
        return sl_fail(err, SL_ENOTSUP, "member %zu is encrypted", w->count);
    if (u16(p + 10) != 0 && u16(p + 10) != 8)
        return sl_fail(err, SL_ENOTSUP,
                       "member %zu uses a compression method that is not "
                       "read; use numpy.savez or savez_compressed",
                       w->count);
    return SL_OK;
}

static enum sl_err zip_read_entry(struct zip_walk *w, struct sl_error *err)
{
    const uint8_t *p = w->at, *name = p + ENTRY_BYTES;
    struct zip_member m;
    uint64_t local, end;
    size_t left = (size_t)(w->end - p), names, extras, rest;
    enum sl_err rc;

    if (left < ENTRY_BYTES || memcmp(p, "PK\1\2", 4) != 0)
        return sl_fail(err, SL_ECORRUPT,
                       "member %zu of its directory is damaged", w->count);
    names = u16(p + 28);
    extras = u16(p + 30);
    rest = ENTRY_BYTES + names + extras + u16(p + 32);
    if (rest > left)
        return sl_fail(err, SL_ECORRUPT,
                       "member %zu of its directory is cut short", w->count);
    m.deflated = u16(p + 10) == 8;
    m.crc = u32(p + 16);
    m.packed_bytes = u32(p + 20);
    m.bytes = u32(p + 24);
    m.offset = 0;
    local = u32(p + 42);
    if (!wide(name + names, extras, &m.bytes, &m.packed_bytes, &local))
        return sl_fail(err, SL_ECORRUPT, "member %zu: bad zip64 field",
                       w->count);
    rc = check_entry(w, p, name, names, err);
    if (rc != SL_OK)
        return rc;
    w->extent[w->count].first = local;
    if (__builtin_add_overflow(local, LOCAL_BYTES + names, &end) ||
        __builtin_add_overflow(end, m.packed_bytes, &w->extent[w->count].end))
        return sl_fail(err, SL_ECORRUPT, "member %zu: bad size", w->count);
    w->count++;
    if (strlen(w->wanted) == names && memcmp(w->wanted, name, names) == 0) {
        if (w->found)
            return sl_fail(err, SL_ECORRUPT, "two members are named %s",
                           w->wanted);
        w->found = true;
        w->member = m;
        w->local = local;
    }
    w->at += rest;
    return SL_OK;
}

static int by_offset(const void *a, const void *b)
{
    const struct extent *x = a, *y = b;

    return x->first < y->first ? -1 : x->first > y->first;
}

static enum sl_err apart(struct extent *e, size_t n, uint64_t limit,
                         struct sl_error *err)
{
    qsort(e, n, sizeof(*e), by_offset);
    for (size_t i = 0; i < n; i++) {
        if (e[i].end > (i + 1 < n ? e[i + 1].first : limit))
            return sl_fail(err, SL_ECORRUPT,
                           "the member at byte %llu runs into what follows",
                           (unsigned long long)e[i].first);
    }
    return SL_OK;
}

// Finds the place of a member's data, which only the lengths in its local
// header tell.
static enum sl_err locate(struct zip_member *m, struct fs_file *f,
                          uint64_t local, uint64_t limit, struct sl_error *err)
{
    uint8_t p[LOCAL_BYTES];
    enum sl_err rc = read_at(f, local, p, sizeof(p), err);

    if (rc != SL_OK)
        return rc;
    if (memcmp(p, "PK\3\4", 4) != 0)
        return sl_fail(err, SL_ECORRUPT, "byte %llu: expected a member",
                       (unsigned long long)local);
    m->offset = local + LOCAL_BYTES + u16(p + 26) + u16(p + 28);
    if (m->offset > limit || m->packed_bytes > limit - m->offset)
        return sl_fail(err, SL_ECORRUPT,
                       "the member at byte %llu runs into the directory",
                       (unsigned long long)local);
    if (!m->deflated && m->packed_bytes != m->bytes)
        return sl_fail(err, SL_ECORRUPT,
                       "the member at byte %llu has two sizes",
                       (unsigned long long)local);
    return SL_OK;
}

static enum sl_err walk_all(struct zip_walk *w, uint64_t entries,
                            struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    while (rc == SL_OK && w->count < entries)
        rc = zip_read_entry(w, err);
    if (rc == SL_OK && !w->found)
        rc = sl_fail(err, SL_ENOENT,
                     "none of its %zu members is called %s; name the one that "
                     "is meant (x_member, y_member)",
                     w->count, w->wanted);
    return rc;
}

enum sl_err zip_find(struct zip_member *out, struct fs_file *file,
                     const char *name, bool *none, struct sl_error *err)
{
    struct directory d = {0, 0, 0};
    struct zip_walk w = {.wanted = name};
    uint8_t *bytes = NULL;
    uint64_t size = 0;
    enum sl_err rc = fs_size(file, &size, err);

    *none = false;
    if (rc == SL_OK)
        rc = find_end(&d, file, size, err);
    if (rc != SL_OK)
        return rc;
    bytes = sl_malloc((size_t)d.bytes);
    w.extent = sl_malloc_array((size_t)d.entries, sizeof(*w.extent));
    if (bytes == NULL || w.extent == NULL)
        rc = sl_fail(err, SL_ENOMEM, "no memory for its directory");
    if (rc == SL_OK)
        rc = read_at(file, d.offset, bytes, (size_t)d.bytes, err);
    w.at = bytes;
    w.end = bytes + d.bytes;
    if (rc == SL_OK) {
        rc = walk_all(&w, d.entries, err);
        *none = rc == SL_ENOENT;
    }
    if (rc == SL_OK)
        rc = apart(w.extent, w.count, d.offset, err);
    if (rc == SL_OK)
        rc = locate(&w.member, file, w.local, d.offset, err);
    sl_free(w.extent);
    sl_free(bytes);
    if (rc == SL_OK)
        *out = w.member;
    return rc;
}
