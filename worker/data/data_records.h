// SPDX-License-Identifier: Apache-2.0
// worker/data/data_records.h -- an index of records in several files, which are
// looked through once.
//
// Threads  records_load, _expect and _blame: any. The rest: one.
// Memory   16 bytes for each extent; records_release frees.
// Units    bytes.
// Errors   records_open and records_scan name the file; for records_load the
//          caller does (records_blame). SL_ECORRUPT: the file ends before what
//          is asked for; SL_ENOMEM. Else those of roots.h, paths.h and
//          fs_pread. `err` may be NULL.
#ifndef WORKER_DATA_DATA_RECORDS_H
#define WORKER_DATA_DATA_RECORDS_H

#include "common/base/paths.h"
#include "worker/data/data_source.h"

#define RECORD_BYTES ((uint64_t)256 << 20) // most of one extent
#define RECORDS_MAX ((uint64_t)1 << 32)    // most extents of a set
#define RECORD_MISSING UINT32_MAX          // `bytes` of an extent that is not

struct data_extent {
    uint64_t offset;
    uint32_t bytes;
    uint32_t file;
};

struct records {
    struct paths paths;
    struct fs_file **file; // as many as paths
    uint64_t *size;        // bytes of each
    struct data_extent *at;
    uint64_t count, capacity;
    const struct index_place *index; // borrowed; NULL: no index is kept
};

// Opens all files that s->x names. *r was all zeroes, and is for
// records_release on failure, too; *s is borrowed for the call, and s->index
// until records_release.
enum sl_err records_open(struct records *r, const struct data_source *s,
                         struct sl_error *err);
// Closes the files and frees the extents; *r is all zeroes then, which is
// allowed before, too.
void records_release(struct records *r);

// Adds an extent, of a file below r->paths.count. SL_ERANGE: over RECORDS_MAX;
// SL_ENOMEM; *r is then as it was.
enum sl_err records_add(struct records *r, struct data_extent one,
                        struct sl_error *err);

// Adds names, sizes and versions of the files to the hash of `d`.
void records_hash(const struct records *r, struct data *d);

// Reads the bytes of an extent, which is not RECORD_MISSING, and the `more`
// bytes behind it into `to`, whose contents are undefined on failure. Waits for
// the disk.
enum sl_err records_load(const struct records *r, const struct data_extent *one,
                         uint32_t more, void *to, struct sl_error *err);

// Has the system fetch an extent; does nothing for RECORD_MISSING.
void records_expect(const struct records *r, const struct data_extent *one);

// Puts the file and the byte where an extent begins before the text of *err.
// Returns `rc`.
enum sl_err records_blame(const struct records *r,
                          const struct data_extent *one, enum sl_err rc,
                          struct sl_error *err);

// ---- looking through a file

#define SCAN_BYTES ((size_t)64 << 10)

struct records_scan {
    struct fs_file *file; // borrowed
    uint64_t size;        // of the file
    uint64_t base;        // offset of the bytes in `chunk`
    size_t got;           // how many they are
    uint8_t *chunk;       // SCAN_BYTES
};

// Sets *out to n bytes, at most SCAN_BYTES, from `offset` on; valid until the
// next call, and undefined on failure. What lies close together is read at
// once.
enum sl_err records_scan_bytes(struct records_scan *s, uint64_t offset,
                               size_t n, const uint8_t **out,
                               struct sl_error *err);

// Calls `fn` for each file in turn, with a scan of it, until one fails; the
// error then names the file. `recipe` says what `fn` adds to *r, which has no
// extent yet: if an index of that is kept in the store (data_index.h), it is
// read and `fn` is not called; else it is kept. NULL: none is. After a failure
// *r has the extents that `fn` has added so far.
enum sl_err records_scan(struct records *r, const char *recipe,
                         enum sl_err (*fn)(void *arg, struct records_scan *s,
                                           uint32_t file, struct sl_error *err),
                         void *arg, struct sl_error *err);

#endif
