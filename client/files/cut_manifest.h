// SPDX-License-Identifier: Apache-2.0
// client/files/cut_manifest.h -- a cut's manifest, read without a coordinator.
//
// Threads  any; manifest_read waits for the disk.
// Memory   manifest_release frees.
// Errors   those of manifest_parse, manifest_layout and layout_make;
//          SL_ECORRUPT: shards, cut or job; SL_ENOMEM. They name the file and
//          the key. `err` may be NULL.
#ifndef CLIENT_FILES_CUT_MANIFEST_H
#define CLIENT_FILES_CUT_MANIFEST_H

#include <stdint.h>

#include "common/base/fs.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "proto/layout.h"

struct manifest_shard {
    char *path;     // path of the snapshot; owned
    uint64_t steps; // steps that the shard had counted; 0: it does not say
    uint8_t sha256[SHA256_BYTES]; // hash of the file
};

struct checkpoint_manifest {
    struct layout layout;          // owned
    struct manifest_shard *shards; // owned: layout.shards_count, by number
    Sluice__V1__JobSpec *spec;     // owned; NULL: none, or none that this
                                   // version can read
    uint64_t job, cut;
};

// Reads the manifest `path`. Looks for each snapshot in the folder that the
// manifest names, and then beside the manifest, so that a copied folder can
// still be read; if it is in neither, its path is that in the first. Does not
// read snapshots. *out need not be zeroed, is for manifest_release, and is
// unchanged on failure.
enum sl_err manifest_read(struct checkpoint_manifest *out, struct fs *fs,
                          const char *path, struct sl_error *err);
void manifest_release(struct checkpoint_manifest *m); // all zeroes is allowed

#endif
