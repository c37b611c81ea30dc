// SPDX-License-Identifier: Apache-2.0
// host/store/store.h -- where snapshots and manifests lie: a folder, or S3.
//
// A store is named by the operator, never by a job: a folder, or
// "s3://bucket/prefix" of Amazon S3 or of a service with its protocol. Behind
// both is a struct fs, to which whole paths are given
// ("s3://bucket/prefix/cluster.id"), so that fs_join and fs_dirname work as
// with folders. A store in S3 has these rules:
//
// - A name appears whole, by fs_commit, fs_write_durable or fs_write_new, and
//   is durable then; also by fs_sync, under the name with which it was opened,
//   and then it takes no more bytes (SL_ESTATE). A file that is neither
//   committed nor synced leaves nothing (its parts are aborted; after a crash
//   the bucket's lifecycle rule clears them).
// - fs_write_new is a conditional PUT: of several that try, one wins.
// - A file that was opened is read from one version: if it is replaced
//   meanwhile, reading fails.
// - Folders are parts of names: fs_mkdirs does nothing, fs_list of one that is
//   not there finds no name, a file may be named like a folder.
// - fs_unlink of what is not there is SL_OK. fs_pwrite reaches the first 8 MiB
//   of a file and its last part; there are no FS_APPEND and no fs_rename.
// - Every call may take some 40 s while S3 does not answer: never call it on a
//   loop's thread.
//
// Keys are those of the environment, a file, or the machine's role:
// docs/store.md.
//
// Threads  any. A file: one at a time, except fs_pread (any).
// Memory   file systems are never freed; strings of the setup are copied. A
//          call that fails leaves *out as it was; `err` may be NULL.
// Errors   SL_EINVAL: no store has such a name, or its bucket is not there;
//          SL_ENOTSUP: built without libcurl; SL_EAUTH, SL_EDENIED: the keys,
//          or their rights; SL_EUNAVAIL: S3 did not answer for patience_ms;
//          SL_EIO, SL_ECORRUPT: what answers there is not as S3 is; SL_ENOMEM;
//          beside those of fs.h. store_fs, which asks no store, says the first
//          two alone, and SL_ENOMEM.
#ifndef HOST_STORE_STORE_H
#define HOST_STORE_STORE_H

#include <stdbool.h>

#include "common/base/fs.h"

// Settings of S3. An empty string means the same as NULL.
struct store_setup {
    const char *endpoint;    // "https://host:port"; NULL: AWS_ENDPOINT_URL_S3,
                             // AWS_ENDPOINT_URL, or Amazon's of the region
    const char *region;      // NULL: AWS_REGION, AWS_DEFAULT_REGION, us-east-1
    const char *credentials; // file; NULL: environment, ~/.aws, then the role
    bool path_style;         // the bucket in the path, not in the host's name;
                             // always so at an endpoint that was given
    unsigned patience_ms;    // how long a request is tried; 0: 30 s
};

// Returns true if `store` begins with "s3://".
bool store_is_s3(const char *store);

// Sets *out to the file system of the store named `store` (a folder's is
// fs_posix), without a request to it, and without a look at the folder. *out is
// never freed, and the same one for the same setup. `setup` may be NULL: all is
// at its default.
enum sl_err store_fs(struct fs **out, const char *store,
                     const struct store_setup *setup, struct sl_error *err);

#endif
