// SPDX-License-Identifier: Apache-2.0
// state/shard/tagged.h -- snapshots of one shard that are mapped for
// reading.
//
// An evaluation reads the parameters of a cut, perhaps long after the shard
// has moved on: Pull with a tag. The first such pull has the file verified
// once, on a pool thread, while the others wait; then each answer is a slice
// of the mapping, kept alive until the transport lets go of it. At most
// TAGGED_MAX files stay mapped per shard; the one opened first is closed first.
// A file that is deleted is closed as well (tagged_drop): as long as it is
// mapped, its space on the disk is in use.
//
//   (none) --tagged_find--> OPENING --tagged_opened--> READY, or gone again
//
// Threads  any; a lock of its own, held for a few instructions. Waiters are
//          called outside it, by the thread that calls tagged_opened.
// Memory   a file: counted references. A waiter is borrowed until it is called,
//          and may be freed there.
// Errors   none of its own: waiters get those of the opening.
#ifndef STATE_SHARD_TAGGED_H
#define STATE_SHARD_TAGGED_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/list.h"
#include "common/base/status.h"
#include "common/base/tensorfile.h"
#include "proto/table_chain.h"
#include "proto/wire.h"

#define TAGGED_MAX 3
#define TAGGED_COPY_BYTES ((size_t)4 << 20)

struct tagged_file {
    struct tensorfile *file; // owned
    const void *values;      // the shard's whole payload, in the mapping
    size_t bytes;
    uint64_t version;
    struct wire_tag tag;
    struct table_chain chain;    // files below it
    struct tagged_table *tables; // owned
    size_t table_count;
    _Atomic unsigned refs;
};

struct tagged_waiter;
// Called once: with a reference to `file` on SL_OK, which is the callee's
// (tagged_file_unref), else with `file` NULL and a text in *err, which holds
// during the call.
typedef void (*tagged_fn)(struct tagged_waiter *w, enum sl_err rc,
                          const struct sl_error *err, struct tagged_file *file);
struct tagged_waiter {
    struct list_node node;
    tagged_fn done;
};

struct tagged_entry {
    struct wire_tag tag;      // (0, 0): free
    struct tagged_file *file; // NULL: being opened
    struct list waiters;
    uint64_t age; // number of its opening: the lowest was opened first
};

struct tagged {
    pthread_mutex_t lock;
    struct tagged_entry entries[TAGGED_MAX];
    uint64_t ages; // last value of `age`
};

// Makes an empty list of mapped snapshots. *t must not move afterwards.
void tagged_init(struct tagged *t);
// Drops the mapped snapshots; there are no waiters, and none are being opened.
// References of others keep their files.
void tagged_release(struct tagged *t);

enum tagged_answer {
    TAGGED_HERE, // *out is a reference
    TAGGED_WAIT, // w will be called
    TAGGED_OPEN, // w will be called, and the caller has to open the file
    TAGGED_BUSY, // TAGGED_MAX other files are being opened; w is not called
};

// Looks for the mapped snapshot `tag`, not (0, 0); the answer says what the
// caller does. *out is written, and `w` not called, for TAGGED_HERE only.
// TAGGED_OPEN, after which the caller must call tagged_opened, may drop the one
// that was opened first.
enum tagged_answer tagged_find(struct tagged *t, struct wire_tag tag,
                               struct tagged_waiter *w,
                               struct tagged_file **out);

// Ends the opening of `tag` that TAGGED_OPEN began (asserted), and calls the
// waiters, which get `rc`, `err` and each a reference of its own. On failure
// the next tagged_find begins anew. With SL_OK it takes the caller's reference
// of `file`; else `file` is not looked at.
void tagged_opened(struct tagged *t, struct wire_tag tag, enum sl_err rc,
                   const struct sl_error *err, struct tagged_file *file);

// Closes the mapped snapshots for which goes(arg, tag) returns true; answers
// that are being sent keep theirs, and one that is being opened stays. `goes`
// is called with the list's lock held, so it must call none of these functions.
void tagged_drop(struct tagged *t,
                 bool (*goes)(const void *arg, struct wire_tag tag),
                 const void *arg);

// Opens the files below a mapped snapshot, which lies in `folder`, and finds
// the live rows of all its tables; called once. Returns SL_OK, also without
// tables. SL_ECORRUPT: a file does not hold, or is not the one that is named;
// SL_ENOENT: one is missing; SL_ENOMEM; else what `fs` says. After a failure *f
// is only good for tagged_file_unref.
enum sl_err tagged_file_tables(struct tagged_file *f, struct fs *fs,
                               const char *folder, struct sl_error *err);

// Returns the live rows of a table, which are f's; NULL: the snapshot has no
// such table.
const struct table_live *tagged_file_rows(const struct tagged_file *f,
                                          const char *table);

// Records of a table in a snapshot.
struct tagged_records {
    const void *at;   // in the mapping, or `copy`
    void *copy;       // the caller's (sl_free); NULL: they lie in the mapping
    size_t bytes;     // whole records
    uint64_t records; // of the whole table, not of this part alone
    uint32_t record_bytes; // bytes of one record
};

// Finds the rows of the table `name` in a snapshot, from record `first` on, of
// which it gives no more bytes than `most`, nor than TAGGED_COPY_BYTES if they
// do not lie together; none behind the last one, or if `most` is less than a
// record (`at` may be NULL then). After tagged_file_tables. Returns SL_OK;
// SL_ENOENT: the snapshot has no such table; SL_ENOMEM; *out is untouched then.
// `err` may be NULL.
enum sl_err tagged_file_records(const struct tagged_file *f,
                                const struct sl_slices *name, uint64_t first,
                                size_t most, struct tagged_records *out,
                                struct sl_error *err);

// Takes one more reference and returns `f`.
struct tagged_file *tagged_file_ref(struct tagged_file *f);
// Drops a reference; the last one unmaps and closes the file. NULL is allowed.
void tagged_file_unref(struct tagged_file *f);

#endif
