// SPDX-License-Identifier: Apache-2.0
// state/snap/snap.h -- snapshots of shards: written, found, read, collected.
//
// SNAPSHOT.md is their format. A snapshot is one instant of a shard (S1):
// values, slots and the counted set that they contain. Its name carries its
// tag, so names are never used twice and nobody overwrites a file (K1).
//
// snap_write: shard_freeze (the instant) -> temporary file, block by block,
// while pushes go on -> sync -> rename -> sync of the folder. At every moment
// the file is not there, or is there whole.
//
// Threads  none of these may run on the loop or on an I/O thread: a pool
//          thread. snap_file_name and snap_folder: any.
// Memory   paths are borrowed; what is returned is the caller's.
// Errors   SL_ECORRUPT for a file that does not hold; the text names it.
#ifndef STATE_SNAP_SNAP_H
#define STATE_SNAP_SNAP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/fs.h"
#include "common/base/roots.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "state/shard/plan.h"
#include "state/shard/shard.h"
#include "state/shard/tagged.h"

#define SNAP_HEADER_MAX ((size_t)64 << 20)
#define SNAP_FORMAT "1"
#define SNAP_NAME_BYTES 96

// Keys of the metadata; the others are in tensorfile.h.
#define SNAP_KEY_FORMAT "sluice.format"
#define SNAP_KEY_JOB "sluice.job"
#define SNAP_KEY_JOB_UID "sluice.job_uid"
#define SNAP_KEY_JOB_INCARNATION "sluice.job_incarnation"
#define SNAP_KEY_SHARD "sluice.shard"
#define SNAP_KEY_INCARNATION "sluice.incarnation"
#define SNAP_KEY_SEQUENCE "sluice.sequence"
#define SNAP_KEY_VERSION "sluice.version"
#define SNAP_KEY_OPTIMIZER "sluice.optimizer"
#define SNAP_KEY_ROWS "sluice.rows."     // and the variable's name
#define SNAP_KEY_PASSED "sluice.passed." // likewise
#define SNAP_KEY_COUNTED "sluice.counted"
#define SNAP_KEY_COUNTS "sluice.counts"

// ---- names (snap_name.c)

// "shard-3.i7.n2.safetensors"
void snap_file_name(char out[SNAP_NAME_BYTES], uint32_t shard,
                    struct wire_tag tag);

// And back; false for any other name.
bool snap_file_parse(const char *name, uint32_t *shard, struct wire_tag *tag);

// "<store>/<job name>-j-<job>-<8 hex of its uid>"; sl_free. NULL: no memory.
char *snap_folder(const char *store, const struct plan *plan);

// Is this the name of the folder of such a job, whatever the job is called?
bool snap_folder_is(const char *name, uint64_t job, uint64_t uid);

// The file system of a path that a record names, `fs` being that of our own
// store: another one only where we keep ours in S3 and this is a folder.
struct fs *snap_fs_of(struct fs *fs, const char *store, const char *path);

// ---- writing (snap_write.c)

struct snap_written {
    struct wire_tag tag;
    char file[SNAP_NAME_BYTES];
    uint64_t bytes;
    uint8_t sha256[SHA256_BYTES];         // of the file
    struct once once;                     // what the file holds (E1)
    char not_finite[WIRE_NAME_BYTES + 1]; // a variable that is not all numbers
};

// Takes a snapshot of the shard as it is now, as this incarnation. Durable
// when it returns SL_OK (K2). A failure leaves no file under the name, unless
// all was written and only the last sync, or reading it back, failed.
enum sl_err snap_write(struct fs *fs, const char *folder, struct shard *shard,
                       uint64_t incarnation, struct snap_written *out,
                       struct sl_error *err);
void snap_written_release(struct snap_written *w); // all zeroes is allowed

// The same of an instant that was taken before, under its tag. What the image
// has of the counted set moves to *out; shard_image_release is the caller's.
enum sl_err snap_write_image(struct fs *fs, const char *folder,
                             struct shard_image *image,
                             struct snap_written *out, struct sl_error *err);

// What was written under this tag, if the file is there and all of it holds.
// A rank is asked again for a part that it has written: its tag says which
// state that is.
enum sl_err snap_written_find(struct fs *fs, const char *folder,
                              const struct plan *plan, struct wire_tag tag,
                              struct snap_written *out, struct sl_error *err);

// ---- reading (snap_read.c, snap_find.c)

// Fills a new shard with one file, if everything about it holds: checksums,
// that it is this shard of this job, its tag, its tensors, its counted set.
// Nothing of the shard is changed otherwise, but by SL_ECANCELED: all of it
// held, and then the file was cut short; the shard is of no use any more.
enum sl_err snap_read(struct fs *fs, const char *folder, struct wire_tag tag,
                      struct wire_tag at_least, struct shard *shard,
                      struct sl_error *err);

// Told of each file that was passed over, and why.
typedef void (*snap_passed_fn)(void *arg, const char *file,
                               const struct sl_error *why);

// Fills a new shard with the highest snapshot that holds (K7). None at or
// above `at_least`: SL_ECORRUPT, with words; but when that is (0, 0), then no
// cut exists and the shard keeps its seed. shard->from says what it was.
enum sl_err snap_load(struct fs *fs, const char *folder,
                      struct wire_tag at_least, struct shard *shard,
                      snap_passed_fn passed, void *arg, struct sl_error *err);

// A number of the metadata; and one that must be what we expect. SL_ECORRUPT
// if it is not there, is no number, or is another.
enum sl_err snap_meta_u64(const struct tensorfile *f, const char *key, int base,
                          uint64_t *out, struct sl_error *err);
enum sl_err snap_meta_is(const struct tensorfile *f, const char *key, int base,
                         uint64_t want, struct sl_error *err);

// That all of an opened file holds, by the checksums that ours always have,
// and that its format is one that we read (else SL_ENOTSUP).
enum sl_err snap_verify(const struct tensorfile *f, struct sl_error *err);

// The counted set and the numbers of a file, if they fit each other and the
// schedule of a plan; of its pieces, those that the file says something of.
// *out is released after a failure.
enum sl_err snap_read_once(const struct tensorfile *f, const struct plan *p,
                           struct once *out, struct sl_error *err);

// ---- of another job (snap_source.c)

// Where sources are looked for, and for how long.
struct snap_from {
    struct fs *fs; // of `store`, and of what other psservers wrote
    const char *store;
    // Below these weights are read, which whoever submits a job names, and at
    // the top of the store. NULL: wherever `fs` finds them.
    const struct roots *weights;
    bool (*stopped)(void *arg); // by another thread; NULL: never
    void *arg;
    // Takes the reason why weights could not be read, which is no business of
    // who submitted them: it may be of any file of this host. Then the error
    // does not say more than that. NULL: the error says it.
    struct sl_error *secret;
};

// Fills a new shard with what the sources of its plan hold of its rows: values
// and slots, and their counted set and numbers, which must be the same in all
// of them: rows that counted different steps are never merged under one set.
// A source is looked for in its folder, and then in the folder of that name in
// our own `store`, which `fs` is of. Errors name the file.
enum sl_err snap_sources(const struct snap_from *from, struct shard *shard,
                         struct sl_error *err);

// Checks that a file is the one that a source means, all of it. *bytes are what
// was looked at. SL_ERANGE: it is larger than the source says. SL_ECORRUPT: it
// is another. SL_ECANCELED: the reading was stopped.
enum sl_err snap_weights_check(struct fs_file *file,
                               const struct plan_source *source,
                               const struct snap_from *from, uint64_t *bytes,
                               struct sl_error *err);

// Fills a new shard's values from a file of whole variables by name in Keras'
// layout (snap_weights.c), which is read and not mapped; slots and counts stay
// those of the seed. SL_EINVAL: a variable is missing there, of another shape,
// or has a value that is not finite, whose place is said. SL_ECANCELED.
enum sl_err snap_weights(struct shard *shard, struct fs_file *file,
                         uint64_t bytes, const struct snap_from *from,
                         struct sl_error *err);

// Maps the values of one file, verified, for answers to Pull with a tag.
enum sl_err snap_values(struct fs *fs, const char *folder,
                        const struct plan *plan, struct wire_tag tag,
                        struct tagged_file **out, struct sl_error *err);

// ---- collecting (snap_find.c)

// The tags of a Keep: nothing that they name goes, nor what is newer than all
// of them (K3). sl_free(keep->tags). SL_ENOMEM.
struct snap_keep {
    struct wire_tag *tags, newest;
    size_t count;
};
enum sl_err snap_keep_read(struct snap_keep *out, const Sluice__V1__Keep *m);

// Deletes the shard's other snapshots. *removed counts them.
enum sl_err snap_collect(struct fs *fs, const char *folder, uint32_t shard,
                         const struct snap_keep *keep, unsigned *removed,
                         struct sl_error *err);

// Deletes all snapshots of a job.
enum sl_err snap_delete_job(struct fs *fs, const char *store, uint64_t job,
                            uint64_t uid, struct sl_error *err);

#endif
