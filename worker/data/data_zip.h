// SPDX-License-Identifier: Apache-2.0
// worker/data/data_zip.h -- finds one member of a zip file.
//
// Everything is read through the central directory at the file's end. Refused:
// encryption, methods other than stored and deflate, names that could leave a
// folder (/ \ .. or a 0 byte) or are empty, files of torch.save, members that
// overlap, and too many of them: in whichever member that is, the file is
// refused.
//
// Threads  one at a time.
// Memory   values; the file stays the caller's.
// Units    bytes.
// Errors   SL_ECORRUPT with the place in the file or the member's number,
//          SL_ERANGE over a limit, SL_ENOTSUP, SL_ENOENT if there is no such
//          member, SL_ENOMEM; else those of fs_pread. The caller names the
//          file. `err` may be NULL.
#ifndef WORKER_DATA_DATA_ZIP_H
#define WORKER_DATA_DATA_ZIP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/fs.h"
#include "common/base/status.h"

#define ZIP_MEMBERS 100000
#define ZIP_DIRECTORY_BYTES ((uint64_t)64 << 20)

struct zip_member {
    bool deflated;
    uint32_t crc;
    uint64_t offset; // offset of its data in the file
    uint64_t packed_bytes, bytes;
};

// Finds member `name` and checks all members, but for their contents and CRC.
// On failure *out is untouched. SL_EDENIED: the name of a member, which need
// not be this one, could leave a folder. SL_ECORRUPT also: two have this name.
// Sets *none to whether the file was read and has no such member: fs_pread says
// SL_ENOENT of a file that has gone.
enum sl_err zip_find(struct zip_member *out, struct fs_file *file,
                     const char *name, bool *none, struct sl_error *err);

#endif
