// SPDX-License-Identifier: Apache-2.0
// state/rows/row_disk.c -- files without names, and reads that overlap.
//
// A file is mapped where its file system can: a slot is then copied from the
// system's page at the price of a look-up in memory, where a call takes ten
// times as long. What a disk does not give is a SIGBUS there; it ends the copy
// and no more (`slots_guarded`).
#include "state/rows/row_disk.h"

#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
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
#define MAP_BYTES ((size_t)256 << 20)  // of a map, at least; not memory
#define PAGE_SLOTS 4096 // slots of any size that end at a page boundary
#define RESERVE_LEAST ((uint64_t)64 << 10) // bytes that the disk gives at once
#define RESERVE_MOST ((uint64_t)4 << 20)
#define SLOTS_MOST (UINT64_C(1) << 31)
#define AHEAD 6 // slots of which lines are on their way
#define LINE_BYTES 64

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
    struct row_account *account; // borrowed
    size_t stride;
    uint64_t slots; // taken from the limits
    uint8_t *piece; // owned: slots that are written together
    // Maps of 2^shift slots each; owned. NULL: the file is not mapped.
    void **map;
    size_t maps;
    unsigned shift;
    uint64_t reserved; // bytes that the disk has given
    _Atomic bool slow; // the last reads waited: tell the system all of the next
};

// ---- copies that a disk may end

static _Thread_local sigjmp_buf *volatile guard;
static struct sigaction before;

static void on_bus_error(int signal_number)
{
    if (guard != NULL)
        siglongjmp(*guard, 1);
    // A fault of other code comes again, and ends the process.
    (void)sigaction(signal_number, &before, NULL);
}

static void guard_begin(void)
{
    static bool begun;
    struct sigaction act = {.sa_handler = on_bus_error, .sa_flags = SA_NODEFER};

    if (begun)
        return;
    begun = sigaction(SIGBUS, &act, &before) == 0;
}

// Calls `copy`; returns false if the disk has ended it.
static bool slots_guarded(void (*copy)(const struct row_file *f, size_t n,
                                       const struct row_io *io),
                          const struct row_file *f, size_t n,
                          const struct row_io *io)
{
    sigjmp_buf here;

    if (sigsetjmp(here, 0) != 0) {
        guard = NULL;
        return false;
    }
    guard = &here;
    atomic_signal_fence(memory_order_seq_cst);
    copy(f, n, io);
    atomic_signal_fence(memory_order_seq_cst);
    guard = NULL;
    return true;
}

static uint64_t *mapped_at(const struct row_file *f, uint32_t slot)
{
    size_t in = slot & ((UINT32_C(1) << f->shift) - 1);

    return (void *)((uint8_t *)f->map[slot >> f->shift] + in * f->stride);
}

static void prefetch_slot(const struct row_file *f, uint32_t slot)
{
    const char *at = (const char *)mapped_at(f, slot);

    for (size_t i = 0; i < f->stride; i += LINE_BYTES)
        __builtin_prefetch(at + i, 1);
}

// Word by word, since another thread may write the slot meanwhile: what is read
// then is some of both, and its checksum tells.
static void copy_from_map(const struct row_file *f, size_t n,
                          const struct row_io *io)
{
    for (size_t i = 0; i < n; i++) {
        const uint64_t *from = mapped_at(f, io[i].slot);
        uint8_t *to = io[i].at;
        uint64_t word;

        if (i + AHEAD < n)
            prefetch_slot(f, io[i + AHEAD].slot);
        for (size_t k = 0; k < f->stride; k += sizeof(word)) {
            word = __atomic_load_n(from++, __ATOMIC_RELAXED);
            memcpy(to + k, &word, sizeof(word));
        }
    }
}

static void copy_to_map(const struct row_file *f, size_t n,
                        const struct row_io *io)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t *to = mapped_at(f, io[i].slot), word;
        const uint8_t *from = io[i].at;

        if (i + AHEAD < n)
            prefetch_slot(f, io[i + AHEAD].slot);
        for (size_t k = 0; k < f->stride; k += sizeof(word)) {
            memcpy(&word, from + k, sizeof(word));
            __atomic_store_n(to++, word, __ATOMIC_RELAXED);
        }
    }
}

// ---- files

void row_disk_set(struct fs *fs, const char *folder, uint64_t most)
{
    if (folder != NULL)
        guard_begin();
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

static uint64_t map_bytes(const struct row_file *f)
{
    return (uint64_t)f->stride << f->shift;
}

// Lets the file be mapped if its file system can. Else it is read and written
// by calls, with the same result.
static enum sl_err file_begin_maps(struct row_file *f)
{
    if (fs_reserve(f->file, 0, RESERVE_LEAST, NULL) != SL_OK)
        return SL_OK;
    f->reserved = RESERVE_LEAST;
    while ((UINT64_C(1) << f->shift) < PAGE_SLOTS || map_bytes(f) < MAP_BYTES)
        f->shift++;
    f->map = sl_calloc(SLOTS_MOST >> f->shift, sizeof(*f->map));
    if (f->map == NULL)
        return SL_ENOMEM;
    if (fs_share(f->file, 0, (size_t)map_bytes(f), &f->map[0], NULL) == SL_OK) {
        f->maps = 1;
        return SL_OK;
    }
    sl_free(f->map); // it takes space, and maps nothing
    f->map = NULL;
    return SL_OK;
}

// Makes the slots below `slots` ready to be copied to.
static enum sl_err file_map(struct row_file *f, uint64_t slots,
                            struct sl_error *err)
{
    uint64_t end = slots * f->stride, more = end / 8;
    enum sl_err rc = SL_OK;

    more = more < RESERVE_LEAST  ? RESERVE_LEAST
           : more > RESERVE_MOST ? RESERVE_MOST
                                 : more;
    if (end > f->reserved) {
        rc = fs_reserve(f->file, f->reserved, end + more - f->reserved, err);
        if (rc == SL_OK)
            f->reserved = end + more;
    }
    while (rc == SL_OK && (uint64_t)f->maps << f->shift < slots) {
        rc = fs_share(f->file, f->maps * map_bytes(f), (size_t)map_bytes(f),
                      &f->map[f->maps], err);
        f->maps += rc == SL_OK;
    }
    return rc;
}

enum sl_err row_file_new(struct row_file **out, size_t stride,
                         struct row_account *account, struct sl_error *err)
{
    struct row_file *f = sl_calloc(1, sizeof(*f));
    enum sl_err rc = SL_OK;

    if (f == NULL)
        return sl_no_memory(err);
    f->stride = stride;
    f->account = account;
    f->piece = sl_malloc(PIECE_BYTES + stride);
    if (f->piece == NULL)
        rc = sl_no_memory(err);
    if (rc == SL_OK && (rc = open_nameless(&f->file, err)) != SL_OK)
        rc = sl_prefix(err, rc == SL_ENOMEM ? rc : SL_ERANGE,
                       "a file for rows (--rows-dir)");
    if (rc == SL_OK && file_begin_maps(f) != SL_OK)
        rc = sl_no_memory(err);
    if (rc == SL_OK)
        *out = f;
    else
        row_file_free(f);
    return rc;
}

// Gives bytes of the file's slots back to both limits.
static void file_give(const struct row_file *f, uint64_t bytes)
{
    atomic_fetch_sub(&disk._shared.used, bytes);
    row_account_give_disk(f->account, bytes);
}

void row_file_free(struct row_file *f)
{
    if (f == NULL)
        return;
    file_give(f, f->slots * f->stride);
    while (f->maps > 0)
        fs_unshare(disk.fs, f->map[--f->maps], (size_t)map_bytes(f));
    sl_free(f->map);
    fs_close(f->file);
    sl_free(f->piece);
    sl_free(f);
}

static enum sl_err disk_take(uint64_t more, struct sl_error *err)
{
    uint64_t used = atomic_load(&disk._shared.used);
    char has[BYTES_TEXT], most[BYTES_TEXT];

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
    return SL_OK;
}

// Takes bytes for slots of the file from both limits, or from neither.
static enum sl_err file_take(const struct row_file *f, uint64_t bytes,
                             struct sl_error *err)
{
    enum sl_err rc = row_account_take_disk(f->account, bytes, err);

    if (rc == SL_OK && (rc = disk_take(bytes, err)) != SL_OK)
        row_account_give_disk(f->account, bytes);
    return rc;
}

static enum sl_err no_place(enum sl_err rc, struct sl_error *err)
{
    return rc == SL_OK ? rc
                       : sl_prefix(err, SL_ERANGE,
                                   "a row that has no place in memory "
                                   "(--rows-dir)");
}

enum sl_err row_file_grow(struct row_file *f, uint64_t slots,
                          struct sl_error *err)
{
    uint64_t more = slots > f->slots ? (slots - f->slots) * f->stride : 0;
    enum sl_err rc = SL_OK;

    if (more == 0)
        return SL_OK;
    rc = file_take(f, more, err);
    if (rc != SL_OK)
        return rc;
    if (f->map != NULL)
        rc = no_place(file_map(f, slots, err), err);
    if (rc == SL_OK)
        f->slots = slots;
    else
        file_give(f, more);
    return rc;
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

// By calls, which say why a disk does not give a slot.
static enum sl_err slots_read(struct row_file *f, size_t n,
                              const struct row_io *io, struct sl_error *err)
{
    enum sl_err rc = SL_OK;
    size_t got;

    for (size_t i = 0; rc == SL_OK && i < n; i++) {
        rc = slot_read(f, io[i].slot, f->stride, io[i].at, &got, err);
        if (rc == SL_OK && got < f->stride)
            rc = sl_fail(err, SL_ECORRUPT,
                         "%s: it ends at byte %zu of the row in slot %" PRIu32,
                         f->file->path, got, io[i].slot);
    }
    return rc;
}

// One by one, each read waits for the disk by itself. So if the last ones were
// not in memory, the system is told all of them first.
enum sl_err row_file_read(struct row_file *f, size_t n, const struct row_io *io,
                          struct sl_error *err)
{
    uint64_t began = sl_real_us();
    bool slow = atomic_load(&f->slow);
    enum sl_err rc = SL_OK;

    for (size_t i = 0; slow && i < n; i++)
        fs_expect(f->file, io[i].slot * (uint64_t)f->stride, f->stride);
    if (f->map == NULL || !slots_guarded(copy_from_map, f, n, io))
        rc = slots_read(f, n, io, err);
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

    if (f->map != NULL && slots_guarded(copy_to_map, f, n, io))
        return SL_OK;
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
    return no_place(rc, err);
}
