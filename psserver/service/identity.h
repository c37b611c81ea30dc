// SPDX-License-Identifier: Apache-2.0
// psserver/service/identity.h -- the name under which shards are placed here.
//
// The coordinator knows a psserver by name, over restarts and addresses: the
// name is kept in the state folder, beside the snapshots that it stands for.
//
// Threads  one; reads and writes the folder.
// Memory   *out: sl_free; untouched on failure. `wanted` is copied.
#ifndef PSSERVER_SERVICE_IDENTITY_H
#define PSSERVER_SERVICE_IDENTITY_H

#include "common/base/fs.h"
#include "common/base/status.h"

// Sets *out to the psserver's name: `wanted` if that is not NULL, else the name
// kept in `folder`, else a new one ("ps-1f3a9c02"); the folder then keeps it.
// Returns SL_OK; SL_EINVAL: a name, the kept one as well, is empty, over 200
// bytes or not printable, or has a blank; SL_ERANGE: the file of the kept one
// is longer than that; SL_ENOMEM; SL_EIO and what else the file system says.
enum sl_err identity_name(char **out, struct fs *fs, const char *folder,
                          const char *wanted, struct sl_error *err);

#endif
