// SPDX-License-Identifier: Apache-2.0
// proto/table_chain.h -- the records of tables in a snapshot and in the files
// below it (state/SNAPSHOT.md, rule T10).
//
// A snapshot of a shard with tables is whole, or a delta: then its metadata
// names the files below it with their hashes, down to a whole one. A record is
// *live* if no file above it has a record of its id, or names the id as gone.
// The live records are those of one whole snapshot.
//
//     table_chain_open -> table_live_init of a table's part -> table_live_next
//
// Threads  any. Opening waits for the disk, and reads all of the files below;
//          table_live_init reads the ids of an unmapped chain. The rest waits
//          for nothing but pages of mapped files.
// Memory   the snapshot itself is borrowed; table_chain_close closes the files
//          below it. Live records point into the files. A bit for each record,
//          and while they are being found 16 to 32 bytes for each id that a
//          delta names.
// Units    records and ids unless it says bytes.
// Errors   SL_ECORRUPT names the file and what does not hold, SL_ENOENT one
//          that is missing; those of `fs`, and SL_ENOMEM. `err` may be NULL.
#ifndef PROTO_TABLE_CHAIN_H
#define PROTO_TABLE_CHAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/fs.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/base/tensorfile.h"

#define TABLE_PARTS 2 // rows, and ids that wait
#define TABLE_CHAIN_FILES 64
#define TABLE_CHAIN_NAME 96
#define TABLE_CHAIN_KEY "sluice.chain" // "<file>:<SHA-256>,...": nearest first

// What stands before a table's name in the names of its tensors: of all
// records, of those that changed, and of the ids that went; by part.
extern const char *const table_whole_prefix[TABLE_PARTS];
extern const char *const table_changed_prefix[TABLE_PARTS];
extern const char *const table_gone_prefix[TABLE_PARTS];

// A file below a snapshot.
struct table_chain_link {
    char file[TABLE_CHAIN_NAME]; // in the snapshot's folder
    uint8_t sha256[SHA256_BYTES];
};

// Reads which files are below a snapshot, at most TABLE_CHAIN_FILES of them,
// the nearest first, to out[TABLE_CHAIN_FILES]; *count is 0 for a whole one.
// Nothing else is read. SL_ECORRUPT leaves *count alone, and `out` undefined.
enum sl_err table_chain_links(struct table_chain_link *out, size_t *count,
                              const struct tensorfile *f, struct sl_error *err);

struct table_chain {
    const struct tensorfile *top;                // borrowed
    struct tensorfile *below[TABLE_CHAIN_FILES]; // owned, the nearest first
    size_t count;                                // of them
    bool mapped;                                 // all, the top also
};

// Opens the files below a snapshot that lies in `folder`, and checks that each
// is the one that it names (its hash; else SL_ECORRUPT); mapped, as `top` then
// is, or as tensorfile_open_unmapped does. A failure leaves *out as it was, and
// nothing of it is to be closed; here and in table_chain_beside. `top` stays
// open until table_chain_close.
enum sl_err table_chain_open(struct table_chain *out,
                             const struct tensorfile *top, struct fs *fs,
                             const char *folder, bool mapped,
                             struct sl_error *err);
// Opens them for a snapshot whose own file is `path`, which has a '/': they lie
// in the same folder.
enum sl_err table_chain_beside(struct table_chain *out,
                               const struct tensorfile *top, struct fs *fs,
                               const char *path, bool mapped,
                               struct sl_error *err);
// Closes the files below the snapshot, not the snapshot. All zeroes is allowed.
void table_chain_close(struct table_chain *c);

// Records of one file, and which of them are live.
struct table_segment {
    const struct tensorfile *file;
    const struct tensor_info *tensor;
    uint64_t *live; // owned, a bit for each; NULL: all are
};

// The live records of a table's part.
struct table_live {
    struct table_segment segment[TABLE_CHAIN_FILES + 1]; // newest file first
    size_t count;
    uint64_t records;
    uint32_t record_bytes;
};

// Finds the live records of a table's part, 0 for rows, 1 for ids that wait;
// *out, for table_live_release, points into the chain's files: it is of no use
// once these are closed. SL_ENOENT: the snapshot has no such table;
// SL_ECORRUPT: a file below it has none. On failure *out is as it was, and
// nothing is to be released.
enum sl_err table_live_init(struct table_live *out, const struct table_chain *c,
                            unsigned part, const char *table,
                            struct sl_error *err);
// Frees the bits, not the files. All zeroes is allowed.
void table_live_release(struct table_live *l);

// A place among live records; all zeroes at the first one.
struct table_live_at {
    size_t segment;
    uint64_t record;
};

// Live records that lie together in a file.
struct table_run {
    const struct table_segment *segment;
    uint64_t first, n;
};

// Sets *out to the next run, of at most `most` records (not 0), steps over it,
// and returns true. False behind the last one, with *out as it was.
bool table_live_next(const struct table_live *l, struct table_live_at *at,
                     uint64_t most, struct table_run *out);

// Returns the place of live record `first`, from 0 in the order of
// table_live_next; the end, if there are no more than `first`.
struct table_live_at table_live_seek(const struct table_live *l,
                                     uint64_t first);

// Returns the bytes of a run's records. The chain is mapped.
const uint8_t *table_run_data(const struct table_run *run);

#endif
