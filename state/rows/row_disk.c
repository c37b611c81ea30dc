// SPDX-License-Identifier: Apache-2.0
// state/rows/row_disk.c -- files without names, and reads that overlap.
#include "state/rows/row_disk.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/base/num.h"

#define PREFIX ".sluice-rows-"
#define PIECE_BYTES ((size_t)64 << 10) // written at once
#define SLOW_US 20                     // of a slot: many were not in memory

static struct {
    struct fs *fs;
    const char *folder;
    uint64_t most;
    struct {
        _Atomic uint64_t used, files;
    } _shared;
} disk;

struct row_file {
    struct fs_file *file;
    size_t stride;
    uint64_t slots;    // taken from the limit
    uint8_t *piece;    // owned: slots that are written together
    _Atomic bool slow; // the last reads waited: tell the system all of the next
};

void row_disk_set(struct fs *fs, const char *folder, uint64_t most)
{
    disk.fs = fs;
    disk.folder = folder;
    disk.most = most;
}

bool row_disk_is_on(void)
{
    return disk.folder != NULL;
}

uint64_t row_disk_used(void)
{
    return atomic_load(&disk._shared.used);
}

uint64_t row_disk_limit(void)
{
    return disk.most;
}

static enum sl_err tidy_file(void *arg, const char *name)
{
    enum sl_err rc = SL_OK;
    char *path;

    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0)
        return SL_OK;
    path = fs_join(disk.folder, name);
    if (path == NULL)
        return sl_no_memory(arg);
    rc = fs_unlink(disk.fs, path, arg);
    sl_free(path);
    return rc == SL_ENOENT ? SL_OK : rc;
}

enum sl_err row_disk_tidy(struct sl_error *err)
{
    return fs_list(disk.fs, disk.folder, tidy_file, err, err);
}

// A name that no other process has: two processes may be given one folder. One
// that begins may remove it first.
static enum sl_err open_nameless(struct fs_file **out, struct sl_error *err)
{
    struct fs_file *f = NULL;
    char name[80], *path;
    enum sl_err rc, unlinked;

    do {
        snprintf(name, sizeof(name), PREFIX "%ld-%" PRIu64, (long)getpid(),
                 (uint64_t)atomic_fetch_add(&disk._shared.files, 1));
        path = fs_join(disk.folder, name);
        if (path == NULL)
            return sl_no_memory(err);
        rc = fs_open(disk.fs, &f, path, FS_CREATE, err);
        if (rc == SL_OK) {
            unlinked = fs_unlink(disk.fs, path, err);
            rc = unlinked == SL_ENOENT ? SL_OK : unlinked;
        }
        sl_free(path);
    } while (rc == SL_EEXIST);
    if (rc == SL_OK)
        *out = f;
    else
        fs_close(f);
    return rc;
}

enum sl_err row_file_new(struct row_file **out, size_t stride,
                         struct sl_error *err)
{
    struct row_file *f = sl_calloc(1, sizeof(*f));
    enum sl_err rc = SL_OK;

    if (f == NULL)
        return sl_no_memory(err);
    f->stride = stride;
    f->piece = sl_malloc(PIECE_BYTES + stride);
    if (f->piece == NULL)
        rc = sl_no_memory(err);
    if (rc == SL_OK && (rc = open_nameless(&f->file, err)) != SL_OK)
        rc = sl_prefix(err, rc == SL_ENOMEM ? rc : SL_ERANGE,
                       "a file for rows (--rows-dir)");
    if (rc == SL_OK)
        *out = f;
    else
        row_file_free(f);
    return rc;
}

void row_file_free(struct row_file *f)
{
    if (f == NULL)
        return;
    atomic_fetch_sub(&disk._shared.used, f->slots * f->stride);
    fs_close(f->file);
    sl_free(f->piece);
    sl_free(f);
}

enum sl_err row_file_grow(struct row_file *f, uint64_t slots,
                          struct sl_error *err)
{
    uint64_t used = atomic_load(&disk._shared.used), more;
    char has[BYTES_TEXT], most[BYTES_TEXT];

    if (slots <= f->slots)
        return SL_OK;
    more = (slots - f->slots) * f->stride;
    do {
        if (disk.most == 0 || (more <= disk.most && used <= disk.most - more))
            continue;
        bytes_text(has, used);
        bytes_text(most, disk.most);
        return sl_fail(err, SL_ERANGE,
                       "no room for another row: rows of all jobs take %s of "
                       "%s in %s; submit the job with evict.max_rows or with "
                       "more psservers, or give this one more (--rows-disk, "
                       "--rows-memory)",
                       has, most, disk.folder);
    } while (
        !atomic_compare_exchange_weak(&disk._shared.used, &used, used + more));
    f->slots = slots;
    return SL_OK;
}

uint64_t row_file_bytes(const struct row_file *f)
{
    return f->slots * f->stride;
}

enum sl_err row_file_changed(const struct row_file *f, uint32_t slot,
                             uint64_t id, struct sl_error *err)
{
    return sl_fail(err, SL_ECORRUPT,
                   "%s: the row of id %" PRIu64 " in slot %" PRIu32
                   " is not as it was written; check the disk, and resume the "
                   "job from its last checkpoint",
                   f->file->path, id, slot);
}

// ---- reads

static enum sl_err slot_read(struct row_file *f, uint32_t slot, size_t n,
                             void *to, size_t *got, struct sl_error *err)
{
    enum sl_err rc =
        fs_pread(f->file, slot * (uint64_t)f->stride, to, n, got, err);

    return rc == SL_OK
               ? rc
               : sl_prefix(err, SL_ECORRUPT, "rows from slot %" PRIu32, slot);
}

// One by one, each read waits for the disk by itself. So if the last ones were
// not in memory, the system is told all of them first.
enum sl_err row_file_read(struct row_file *f, size_t n, const struct row_io *io,
                          struct sl_error *err)
{
    uint64_t began = sl_real_us();
    enum sl_err rc = SL_OK;
    size_t got;

    for (size_t i = 0; atomic_load(&f->slow) && i < n; i++)
        fs_expect(f->file, io[i].slot * (uint64_t)f->stride, f->stride);
    for (size_t i = 0; rc == SL_OK && i < n; i++) {
        rc = slot_read(f, io[i].slot, f->stride, io[i].at, &got, err);
        if (rc == SL_OK && got < f->stride)
            rc = sl_fail(err, SL_ECORRUPT,
                         "%s: it ends at byte %zu of the row in slot %" PRIu32,
                         f->file->path, got, io[i].slot);
    }
    atomic_store(&f->slow, sl_real_us() - began > n * SLOW_US);
    return rc;
}

enum sl_err row_file_read_run(struct row_file *f, uint32_t slot, size_t n,
                              void *to, struct sl_error *err)
{
    size_t bytes = n * f->stride, got = 0;
    enum sl_err rc = slot_read(f, slot, bytes, to, &got, err);

    if (rc != SL_OK)
        return rc;
    memset((uint8_t *)to + got, 0, bytes - got);
    fs_expect(f->file, (slot + (uint64_t)n) * f->stride, bytes);
    return SL_OK;
}

// ---- writes

// Returns how many of the slots follow each other, and fit into a piece.
static size_t run_of(const struct row_file *f, size_t n,
                     const struct row_io *io)
{
    size_t most = sl_min(n, PIECE_BYTES / f->stride + 1), run = 1;

    while (run < most && io[run].slot == io[run - 1].slot + 1)
        run++;
    return run;
}

enum sl_err row_file_write(struct row_file *f, size_t n,
                           const struct row_io *io, struct sl_error *err)
{
    enum sl_err rc = SL_OK;
    size_t run;

    for (size_t i = 0; rc == SL_OK && i < n; i += run) {
        const void *from = io[i].at;

        run = run_of(f, n - i, io + i);
        for (size_t k = 0; run > 1 && k < run; k++)
            memcpy(f->piece + k * f->stride, io[i + k].at, f->stride);
        if (run > 1)
            from = f->piece;
        rc = fs_pwrite(f->file, io[i].slot * (uint64_t)f->stride, from,
                       run * f->stride, err);
    }
    return rc == SL_OK ? rc
                       : sl_prefix(err, SL_ERANGE,
                                   "a row that has no place in memory "
                                   "(--rows-dir)");
}
