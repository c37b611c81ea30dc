// SPDX-License-Identifier: Apache-2.0
// worker/data/data_tar.h -- the members of a tar archive, one after another.
//
// ustar, GNU (long names) and pax (path, size). Nothing is ever unpacked: a
// member is a place in the archive, and its name chooses what it is read as.
// Folders are passed over; a link, a device or a sparse file is refused, since
// it has no bytes of its own.
//
// Threads  one at a time per tar.
// Memory   nothing is allocated; a member's name lies in the tar until the next
//          call.
// Units    bytes.
// Errors   SL_ECORRUPT: a wrong checksum or pax header, or a length that leads
//          out of the file; SL_ENOTSUP: a member that is refused, or a tar that
//          is compressed as a whole; SL_ERANGE: a name of over 4095 bytes, or a
//          pax header of over 32 KiB; else those of records_scan_bytes. They
//          name the byte, and never what is there; the caller names the file.
//          `err` may be NULL.
#ifndef WORKER_DATA_DATA_TAR_H
#define WORKER_DATA_DATA_TAR_H

#include "worker/data/data_records.h"

#define TAR_BLOCK 512
#define TAR_NAME_BYTES 4096

// All zeroes but for `scan` at the beginning.
struct tar {
    struct records_scan *scan; // of the archive; borrowed
    uint64_t at;               // offset of the next header
    char name[TAR_NAME_BYTES]; // of the member
    char next[TAR_NAME_BYTES]; // that the next member has; "": its header's
    uint64_t size;             // that the next member has, if has_size
    bool has_size;
};

struct tar_member {
    const char *name; // without "./" at its front
    uint64_t offset, bytes;
};

// Finds the next regular file. *more is false at the end of the archive: two
// blocks of zeroes, or the end of the file. *out is undefined then and on
// failure, after which no more of the archive can be read.
enum sl_err tar_next(struct tar *t, struct tar_member *out, bool *more,
                     struct sl_error *err);

#endif
