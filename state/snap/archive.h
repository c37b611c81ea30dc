// SPDX-License-Identifier: Apache-2.0
// state/snap/archive.h -- snapshots of shards that this server no longer
// serves.
//
// When a job has ended its shards are closed, but its checkpoints stay, and
// users export them: a Pull that names a tag of a shard which is not served
// here is answered from the file. That is no exception to S5: the answer is
// from a file that never changes, not from a shard.
//
// An export of a table asks many times, for 64 MiB each. So a file that was
// verified stays mapped while it is asked for: at most ARCHIVE_FILES files, and
// ARCHIVE_BYTES of them if there are several (a store in S3 maps copies).
// archive_sweep, called now and then, closes those that were not asked for
// since: as long as a deleted file is mapped, its space on the disk is in use.
//
// Threads  any; archive_values reads and verifies the whole file, so not on an
//          I/O thread.
// Memory   *out is a reference of the caller's (tagged_file_unref).
// Errors   SL_ENOENT: no such file here, or one that it needs is missing, or no
//          store. SL_ESTATE: two jobs of that number (from different
//          coordinators) have one; the text names both. SL_ECORRUPT: the file
//          is damaged. *out is untouched then. Those of `fs` besides, and
//          SL_ENOMEM. A file that is open is answered without a look at the
//          store, also if it was deleted. `err` may be NULL.
#ifndef STATE_SNAP_ARCHIVE_H
#define STATE_SNAP_ARCHIVE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/fs.h"
#include "common/base/status.h"
#include "proto/wire.h"
#include "state/shard/tagged.h"

#define ARCHIVE_FILES 8
#define ARCHIVE_BYTES (UINT64_C(4) << 30)

struct archive_file {
    uint64_t job;
    uint32_t shard;
    struct tagged_file *file; // a reference; NULL: free
    uint64_t bytes;           // of the file
    bool asked;               // since the last sweep
    uint64_t age;             // number of its opening
};

struct archive {
    pthread_mutex_t lock; // guards the rest
    struct archive_file files[ARCHIVE_FILES];
    uint64_t ages; // last value of `age`
};

// Makes an archive without open files. *a must not move afterwards.
void archive_init(struct archive *a);
// Closes all files; what archive_values has returned stays mapped until its
// last reference is dropped. No other thread uses *a.
void archive_release(struct archive *a);

// Sets *out to snapshot `tag` of a shard of a job, from a folder below `store`;
// verifies and maps the file if it is not open yet, and keeps it open, in place
// of the files that were opened first where there is no room. Returns SL_OK or
// the errors above.
enum sl_err archive_values(struct archive *a, struct fs *fs, const char *store,
                           uint64_t job, uint32_t shard, struct wire_tag tag,
                           struct tagged_file **out, struct sl_error *err);

// Drops the archive's reference to each file that was not asked for since the
// last sweep: it is unmapped now, or with the last reference of a caller. May
// take as long as the unmapping.
void archive_sweep(struct archive *a);

#endif
