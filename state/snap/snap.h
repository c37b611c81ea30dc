// SPDX-License-Identifier: Apache-2.0
// state/snap/snap.h -- snapshots of shards: written, found, read, collected.
//
// SNAPSHOT.md is their format. A snapshot is one instant of a shard (S1):
// values, slots and the counted set that they contain. Its name carries its
// tag, so names are never used twice and no writer overwrites a file (K1).
//
// snap_write: shard_freeze (the instant) -> temporary file, block by block,
// while pushes go on -> sync -> rename -> sync of the folder. At every moment
// the file is not there, or is there whole.
//
// Threads  a pool thread: what reads or writes files runs neither on the loop
//          nor on an I/O thread. The functions of names, snap_keep_read and
//          those of metadata: any.
// Memory   paths are borrowed for the call; what is returned is the caller's.
// Errors   SL_OK is success. SL_ECORRUPT for a file that does not hold; the
//          text says what of it, and does not always name the file. Those of
//          `fs` besides: SL_ENOENT, SL_EIO and so on. SL_ENOMEM may come
//          without a text. A call that fails leaves its outputs as they were,
//          unless it says otherwise. `err` may be NULL, but where it is said.
#ifndef STATE_SNAP_SNAP_H
#define STATE_SNAP_SNAP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/fs.h"
#include "common/base/roots.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/base/tensorfile.h"
#include "proto/table_chain.h"
#include "state/shard/plan.h"
#include "state/shard/shard.h"
#include "state/shard/tagged.h"

#define SNAP_HEADER_MAX ((size_t)64 << 20)
#define SNAP_FORMAT "1"
#define SNAP_FORMAT_DELTA "2" // with what changed of tables alone (T10)
#define SNAP_NAME_BYTES 96
#define SNAP_TABLE_TENSORS (2 * ROWSET_PARTS) // of a table in a delta

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
#define SNAP_KEY_ROWS "sluice.rows."     // followed by the variable's name
#define SNAP_KEY_PASSED "sluice.passed." // followed by the variable's name
#define SNAP_KEY_COUNTED "sluice.counted"
#define SNAP_KEY_COUNTS "sluice.counts"
// For moments (L9): updates that they have seen, and their contribution's first
// closure. Their vectors' names are SNAP_MOMENTS and a number.
#define SNAP_KEY_MOMENTS "sluice.moments"
#define SNAP_KEY_MOMENTS_OF "sluice.moments_of"
#define SNAP_MOMENTS "#moments."

// Records of a table that are written or read at once.
#define SNAP_RECORDS 1024

// ---- names (snap_name.c)

// Returns the bytes that hold SNAP_RECORDS records of whichever table of the
// shard has the largest; 0 without tables.
size_t snap_records_bytes(const struct shard *shard);

// Writes the name of a snapshot's file: "shard-3.i7.n2.safetensors".
void snap_file_name(char out[SNAP_NAME_BYTES], uint32_t shard,
                    struct wire_tag tag);

// Reads such a name, spelled just as snap_file_name does, and returns true;
// false for any other name, with the outputs untouched.
bool snap_file_parse(const char *name, uint32_t *shard, struct wire_tag *tag);

// Returns the path of the folder of a job's snapshots, to be freed (sl_free):
// "<store>/<job name>-j-<job>-<low 8 hex of its uid>". The name is cut to 64
// bytes, and what is not safe in a path is '_'. NULL: no memory.
char *snap_folder(const char *store, const struct plan *plan);

// Returns true if `name`, without a path, is the folder of the job of this
// number and uid (its low 32 bits), under any job name.
bool snap_folder_is(const char *name, uint64_t job, uint64_t uid);

// Returns the file system that has `path`, a path in a record: `fs`, that of
// our own store; or, if `store` is elsewhere ("s3://...") and `path` is
// absolute, this host's. It is not the caller's to free.
struct fs *snap_fs_of(struct fs *fs, const char *store, const char *path);

// ---- writing (snap_write.c)

struct snap_written {
    struct wire_tag tag;
    char file[SNAP_NAME_BYTES];
    uint64_t bytes;
    // of them, of tables (records, and in a delta ids that went) and of moments
    uint64_t table_bytes;
    uint8_t sha256[SHA256_BYTES]; // hash of the file
    struct once once;             // counted set in the file (E1)
    struct wire_tag
        below[SHARD_CHAIN_MOST]; // of files that it needs (T10), the
    unsigned below_count;        // nearest first
    uint64_t below_bytes;        // of all of them
    // First variable with a value that is not finite; "": none.
    char not_finite[WIRE_NAME_BYTES + 1];
};

// Writes a snapshot of the shard's present state, as this incarnation. It is
// durable on SL_OK (K2). Makes the folder if it is missing. A failure leaves no
// file under the name, unless only the last sync, or reading the file back,
// failed. SL_ESTATE, SL_EBUSY, SL_ESTALE: as shard_freeze; SL_EEXIST: the tag
// was used before; SL_ERANGE: the counted set is too large (counts_fit);
// SL_ECORRUPT: a file of rows cannot be read (rowset_walked). The sequence
// number of an image is used up also then. On SL_OK *out is for
// snap_written_release, and the file is in the shard's chain
// (shard_image_kept). *out need not be zeroed.
enum sl_err snap_write(struct fs *fs, const char *folder, struct shard *shard,
                       uint64_t incarnation, struct snap_written *out,
                       struct sl_error *err);
// Frees the counted set in *w, which is all zeroes then. All zeroes is allowed.
void snap_written_release(struct snap_written *w);

// Writes a snapshot of an image that was taken before, under its tag, and adds
// the file to the shard's chain (shard_image_kept). Moves the image's counted
// set to *out on SL_OK; the caller still calls shard_image_release in either
// case. Makes the folder if it is missing. Errors as snap_write, but for those
// of shard_freeze.
enum sl_err snap_write_image(struct fs *fs, const char *folder,
                             struct shard_image *image,
                             struct snap_written *out, struct sl_error *err);

// Sets *out, for snap_written_release, to the snapshot that was written under
// this tag, and makes it durable (K2), whatever became of its writer: a rank
// may be asked again for a part that it has written. SL_ENOENT: the file does
// not exist; SL_ECORRUPT: it is not intact; SL_ENOTSUP: its format is not
// known; SL_EINVAL, SL_ERANGE: as snap_read. Does not check whether its values
// are finite, and leaves not_finite, table_bytes and all of `below` empty.
enum sl_err snap_written_find(struct fs *fs, const char *folder,
                              const struct plan *plan, struct wire_tag tag,
                              struct snap_written *out, struct sl_error *err);

// ---- reading (snap_read.c, snap_find.c)

// Fills a new shard from one file after all checks: checksums, shard, job, tag,
// tensors, counted set; sets shard->from to `tag`. A failure leaves the shard
// unchanged, except SL_ECANCELED (the file passed the checks, and then was cut
// short, or had a row or moments that do not hold) and SL_ENOMEM, also if rows
// may not take so much: then it may be half filled, to be dropped. It is new:
// not admitted, and no other thread has it. Returns SL_OK; SL_ENOENT: no such
// file, or one that it needs is missing (T10); SL_ECORRUPT: a check failed;
// SL_EINVAL, SL_ERANGE: its counted set cannot be; SL_ENOTSUP: its format is
// not known; SL_ESTALE: it is of another incarnation of the job, and its tag is
// not `at_least`, that of the newest cut.
enum sl_err snap_read(struct fs *fs, const char *folder, struct wire_tag tag,
                      struct wire_tag at_least, struct shard *shard,
                      struct sl_error *err);

// Receives `arg` and the name of each file that was passed over because its
// bytes are of no use (SL_ECORRUPT, SL_ENOTSUP, SL_ESTALE, SL_EINVAL,
// SL_ERANGE) or gone (SL_ENOENT), and the reason; both hold during the call.
typedef void (*snap_passed_fn)(void *arg, const char *file,
                               const struct sl_error *why);

// Fills a new shard with the highest intact snapshot (K7), sets shard->from to
// its tag, and returns SL_OK. SL_ECORRUPT if none is at or above `at_least`;
// but if that is (0, 0) no cut exists: the shard keeps its seed, shard->from
// stays (0, 0), and the result is SL_OK. `exact`: `at_least` itself alone will
// do. A file that cannot be read now (SL_ENOMEM, SL_EIO, SL_EUNAVAIL, ...) is
// not passed over: the call fails with that error (SL_EIO for SL_ECANCELED),
// may succeed later, and may leave the shard half filled, to be dropped. Files
// below `at_least` are not read; a missing folder is empty. Deletes temporary
// files of earlier writers of this shard; `passed` may not be NULL.
enum sl_err snap_load(struct fs *fs, const char *folder,
                      struct wire_tag at_least, bool exact, struct shard *shard,
                      snap_passed_fn passed, void *arg, struct sl_error *err);

// Does the same as snap_load for a shard that another process serves and may be
// writing a snapshot of: deletes nothing.
enum sl_err snap_load_beside(struct fs *fs, const char *folder,
                             struct wire_tag at_least, bool exact,
                             struct shard *shard, snap_passed_fn passed,
                             void *arg, struct sl_error *err);

// Sets *out to the number `key` of the metadata, which is written in `base` (10
// or 16). Returns SL_OK; SL_ECORRUPT, with *out untouched, if the key is
// missing or is no number.
enum sl_err snap_meta_u64(const struct tensorfile *f, const char *key, int base,
                          uint64_t *out, struct sl_error *err);
// Checks that number `key` of the metadata is `want`. Returns SL_OK;
// SL_ECORRUPT if not, or if there is none.
enum sl_err snap_meta_is(const struct tensorfile *f, const char *key, int base,
                         uint64_t want, struct sl_error *err);

// Returns the type of a shard's moments in a file.
static inline enum tensor_dtype snap_moments_dtype(const struct plan *p)
{
    return p->moments_wire == WIRE_F32    ? TENSOR_F32
           : p->moments_wire == WIRE_BF16 ? TENSOR_BF16
                                          : TENSOR_F16;
}

// Verifies the checksums of an opened file, which snapshots always have, and
// its format. Reads the whole file. Returns SL_OK; SL_ECORRUPT; SL_ENOTSUP: the
// format is not known; or an error of the read.
enum sl_err snap_verify(const struct tensorfile *f, struct sl_error *err);

// Reads the counted set and the numbers of a file, and the passed updates of
// those pieces of the plan that it names. Returns SL_OK, and *out is for
// once_release; SL_ECORRUPT unless they are there, and fit each other and the
// plan's schedule; SL_EINVAL, SL_ERANGE, SL_ENOTSUP: no message is like that;
// SL_ENOMEM. On failure *out, which was zeroes before, owns nothing.
enum sl_err snap_read_once(const struct tensorfile *f, const struct plan *p,
                           struct once *out, struct sl_error *err);

// Adds the rows and waiting ids of a file, and of those below it, to a new
// shard's tables: all are of this shard and its job, or, with `others`, those
// of this shard among those of another job. Does nothing, and returns SL_OK,
// for a shard without tables, and, with `others`, for a file without them. No
// record may be newer than `version`. SL_ECORRUPT names what does not fit the
// shard. SL_ENOMEM, also if rows may not take so much. After a failure the
// tables may be half filled.
enum sl_err snap_read_tables(const struct table_chain *chain,
                             struct shard *shard, uint64_t version, bool others,
                             struct sl_error *err);

// ---- sources of another job (snap_source.c)

// Places to look for sources, and the end of the search.
struct snap_from {
    struct fs *fs; // file system of `store`
    const char *store;
    // Roots below which weights are read, as the spec names them, besides the
    // top of the store. NULL: any path of `fs`.
    const struct roots *weights;
    bool (*stopped)(void *arg); // true: give up; NULL: never
    void *arg;
    // Receives the reason why weights could not be read, which is hidden from
    // the user who submitted the job: it could tell of any file of this host.
    // NULL: the error itself has the reason.
    struct sl_error *secret;
};

// Fills a new shard with its rows of the plan's sources: values, slots, and the
// counted set and numbers, which must be the same in all of them: rows that
// counted different steps are never merged under one set. Looks for a source in
// its folder, and then in the folder of that name in our own `store`. The plan
// has a source at least; all are snapshots, or all are weights (snap_weights,
// snap_rows: then counted set and numbers stay those of the seed). Sources are
// not changed. Errors but that of memory name the file or the variable; after
// one the shard may be half filled and must be dropped. SL_ECORRUPT: a file has
// another hash or does not fit the shard, or rows are in none of them, or in
// two; SL_ENOENT: a file is missing. SL_ESTATE: the files have counted
// different steps. SL_ECANCELED: from->stopped ended it; it is asked for
// weights alone. Leaves shard->from as it is. SL_EDENIED: weights may not be
// read; with from->secret, for which `err` must not be NULL, also if they
// cannot be opened or checked for any other reason but from->stopped and
// memory; *from->secret gets the reason.
enum sl_err snap_sources(const struct snap_from *from, struct shard *shard,
                         struct sl_error *err);

// Checks that an open file is the source's, by its hash: reads all of it.
// *bytes is its length, which may be set also on failure. Returns SL_OK, or
// what reading says; SL_ERANGE: it is longer than the source allows
// (most_bytes). SL_ECORRUPT: it has another hash. SL_ECANCELED: from->stopped
// ended it.
enum sl_err snap_weights_check(struct fs_file *file,
                               const struct plan_source *source,
                               const struct snap_from *from, uint64_t *bytes,
                               struct sl_error *err);

// Fills a new shard's values from a file of whole variables by name in Keras'
// layout (snap_weights.c), which is read and not mapped; it has `bytes` bytes
// (snap_weights_check), and stays the caller's to close; slots and counts stay
// those of the seed. SL_EINVAL: a variable is missing, of another shape, or has
// a value that is not finite (the text names its place). SL_ECANCELED. After a
// failure the shard may be half filled.
enum sl_err snap_weights(struct shard *shard, struct fs_file *file,
                         uint64_t bytes, const struct snap_from *from,
                         struct sl_error *err);

// Fills one table of a new shard with the rows of a file of ids and values that
// are of the shard (snap_rows.c); `file` and `bytes` as in snap_weights.
// SL_EINVAL: the job has no such table; the file or its rows do not fit it, or
// are more than max_rows allows. SL_ECORRUPT: an id stands there twice, or has
// a value that is not finite. SL_ENOMEM, also if rows may not take so much.
// SL_ECANCELED. After a failure the table may be half filled.
enum sl_err snap_rows(struct shard *shard, const char *table,
                      struct fs_file *file, uint64_t bytes,
                      const struct snap_from *from, struct sl_error *err);

// Maps the values of one file, verified as snap_read does (but of any
// incarnation of the job, and without its counted set), for answers to Pull
// with a tag. *out is a reference (tagged_file_unref). Returns SL_OK;
// SL_ENOENT: no such file, or one that it needs is missing; SL_ECORRUPT;
// SL_ENOTSUP.
enum sl_err snap_values(struct fs *fs, const char *folder,
                        const struct plan *plan, struct wire_tag tag,
                        struct tagged_file **out, struct sl_error *err);

// ---- collecting (snap_find.c)

// Tags of a Keep: snapshots that they name, or that are newer than all of them,
// are not deleted (K3). Without tags nothing is.
struct snap_keep {
    struct wire_tag *tags, newest; // tags: for sl_free
    size_t count;
    bool chains; // the job has tables: files may be below those that are kept
};

// Reads a Keep into *out; out->tags is for sl_free, out->newest is (0, 0)
// without tags, and out->chains is false: the caller sets it. Returns SL_OK;
// SL_ENOMEM: there is nothing to free, and *out must not be used.
enum sl_err snap_keep_read(struct snap_keep *out, const Sluice__V1__Keep *m);

// Deletes the shard's snapshots that `keep` does not protect; with keep->chains
// also those stay that are below one that stays (T10). *removed is set in any
// case: it counts them, also before a failure, which ends it. If it cannot be
// read what is below a file that stays, nothing
// is deleted. In any case lets go of all that are mapped in `mapped` (NULL:
// none are) and that `keep` does not protect, also of those with a file that
// stays or was deleted before. A missing folder is empty. Returns SL_OK, or
// what ended it.
enum sl_err snap_collect(struct fs *fs, const char *folder, uint32_t shard,
                         const struct snap_keep *keep, struct tagged *mapped,
                         unsigned *removed, struct sl_error *err);

// Deletes all snapshots of a job, in every folder that snap_folder_is its own;
// folders and other files in them, temporary ones too, stay. A missing store is
// not an error. Returns SL_OK, or the first failure, which ends it; some may be
// deleted then.
enum sl_err snap_delete_job(struct fs *fs, const char *store, uint64_t job,
                            uint64_t uid, struct sl_error *err);

#endif
