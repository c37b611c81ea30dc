// SPDX-License-Identifier: Apache-2.0
// coordinator/journal/journal_manifest.h -- the file that makes a cut exist.
//
//   <store>/<job name>-j-<id>-<uid, 8 hex digits>/cut-<n>.json
//
// It holds all that is needed to read the parameters without Sluice: the spec,
// the geometry, variables, pieces, and for each shard its snapshot's tag,
// folder, file, length, SHA-256 and counts. It is written once, durably, and
// never changed.
//
// Threads  manifest_text: the loop. The rest: any; they may wait for a disk.
// Memory   buffers are the caller's; what is passed is borrowed for the call.
//          No pointer is NULL but `err`, which may be.
// Errors   those of the file system, SL_EIO and others, with the path;
//          SL_ENOMEM, after which a buffer may have a part of the text.
#ifndef COORDINATOR_JOURNAL_JOURNAL_MANIFEST_H
#define COORDINATOR_JOURNAL_JOURNAL_MANIFEST_H

#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/fs.h"
#include "plan/schedule.h"
#include "common/base/status.h"
#include "proto/wire.h"

// Appends the path of the folder of a job's manifests (above) to `out`, with
// the low 32 bits of uid; '_' stands for what is neither letter, digit nor '-'
// in the name. SL_ENOMEM.
enum sl_err manifest_folder(struct buf *out, const char *store,
                            const char *name, uint64_t id, uint64_t uid);

// Appends the path of the manifest of a job's cut number `cut` (above) to
// `out`. SL_ENOMEM.
enum sl_err manifest_path(struct buf *out, const char *store, const char *name,
                          uint64_t id, uint64_t uid, uint64_t cut);

// What a manifest is made from; all borrowed.
struct manifest {
    uint64_t job, job_uid, job_incarnation, term;
    const char *job_name;
    const Sluice__V1__JobSpec *spec;
    const struct schedule *schedule;
    const Sluice__V1__CheckpointsReply *layout; // variables, pieces
    // the cut; each of its shards has a SHA-256 of SHA256_BYTES, not checked
    const Sluice__V1__Checkpoint *checkpoint;
    // shards[s].counts, with epochs, for each shard of the checkpoint
    const Sluice__V1__JobStatus *counts;
};

// Appends the JSON of the manifest *m to `out`. Returns SL_OK or SL_ENOMEM,
// also if job_name is not UTF-8.
enum sl_err manifest_text(struct buf *out, const struct manifest *m);

// Makes the folder and writes the file; after SL_OK it survives any crash.
// SL_EEXIST: another journal's cut of this number is there, and stays.
// SL_ERANGE: the text is larger than manifest_load would read; nothing was
// written. After any other failure the file may be there or not (K6).
enum sl_err manifest_write(struct fs *fs, const char *path,
                           const struct buf *text, struct sl_error *err);

// Removes a manifest; a missing one, or a missing folder, is SL_OK. Durable
// after SL_OK. A failure may have removed the file, but not durably.
enum sl_err manifest_remove(struct fs *fs, const char *path,
                            struct sl_error *err);

// Sets *there to whether the manifest exists. If it does, syncs its folder
// first, so that it is there after a crash (K6). A failure leaves *there alone.
enum sl_err manifest_settle(struct fs *fs, const char *path, bool *there,
                            struct sl_error *err);

// ---- reading one back (journal_manifest_read.c)

// The contents of a manifest, as heap messages. It does not set source->even
// and apart.
struct manifest_found {
    Sluice__V1__ResumeSource *source; // owned; may be taken out (NULL)
    Sluice__V1__JobSpec *spec;        // owned; with its defaults (spec_check)
    Sluice__V1__ShardCounts **counts; // counts of each shard; owned
    size_t shards;
};

// Reads and checks a manifest into *out, for manifest_found_release. Returns
// SL_OK; SL_ENOENT: no such file; SL_ECORRUPT: it is not valid, or was edited
// wrongly; SL_ENOTSUP: of a newer version; SL_EINVAL and SL_ERANGE of
// manifest_parse: it is no JSON, or too large; all with the path; SL_ENOMEM; or
// an error of the file system. *out is untouched by a failure. The files of
// shards are not looked at.
enum sl_err manifest_load(struct manifest_found *out, struct fs *fs,
                          const char *path, struct sl_error *err);

// Frees what *m owns and leaves it all zeroes, which is allowed, too.
void manifest_found_release(struct manifest_found *m);

// Sets *cut to the highest cut number in a job's folder; 0: there is none, or
// no folder (I7). A failure leaves *cut alone.
enum sl_err manifest_highest(struct fs *fs, const char *folder, uint64_t *cut,
                             struct sl_error *err);

// Sets *job to the highest number of a job that has a folder in the store; 0:
// none has (I7). A failure leaves *job alone.
enum sl_err manifest_highest_job(struct fs *fs, const char *store,
                                 uint64_t *job, struct sl_error *err);

#endif
