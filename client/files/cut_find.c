// SPDX-License-Identifier: Apache-2.0
// client/files/cut_find.c -- the cut in the reply, its files on this host.
#include "client/files/cut_find.h"

#include "common/base/hash.h"
#include "common/base/mem.h"

static const Sluice__V1__Checkpoint *
cut_marked(const Sluice__V1__CheckpointsReply *reply, bool best)
{
    for (size_t i = 0; i < reply->n_checkpoints; i++) {
        const Sluice__V1__Checkpoint *c = reply->checkpoints[i];

        if (best ? c->best : c->restored)
            return c;
    }
    return NULL;
}

enum sl_err cut_find(const Sluice__V1__Checkpoint **out,
                     const Sluice__V1__CheckpointsReply *reply, const char *id,
                     uint64_t wanted, bool best, struct sl_error *err)
{
    size_t n = reply->n_checkpoints;

    if (n == 0)
        return sl_fail(err, SL_ENOENT, "job %s has no checkpoint yet", id);
    // At the end of a job the best one is restored, if its spec says so.
    *out = wanted == 0 ? cut_marked(reply, best) : NULL;
    if (*out != NULL)
        return SL_OK;
    if (best)
        return sl_fail(err, SL_ENOENT,
                       "job %s has no best checkpoint: its spec says no "
                       "callbacks.best_checkpoint, or nothing was evaluated "
                       "yet; see 'sluice checkpoints %s'",
                       id, id);
    for (size_t i = n; i > 0; i--) {
        *out = reply->checkpoints[i - 1];
        if (wanted == 0 || (*out)->cut == wanted)
            return SL_OK;
    }
    return sl_fail(err, SL_ENOENT,
                   "job %s has no cut %llu; see 'sluice checkpoints %s'", id,
                   (unsigned long long)wanted, id);
}

enum sl_err cut_fs(struct fs **out, const char *path,
                   const struct store_setup *setup, struct sl_error *err)
{
    if (store_is_s3(path))
        return store_fs(out, path, setup, err);
    *out = fs_posix();
    return SL_OK;
}

enum sl_err cut_file(char **path, struct fs **fs, const uint8_t **sha256,
                     const Sluice__V1__CheckpointShard *shard,
                     const struct store_setup *setup, struct sl_error *err)
{
    char *found = fs_join(shard->folder, shard->file);

    if (found == NULL)
        return sl_no_memory(err);
    if (cut_fs(fs, found, setup, NULL) == SL_OK && fs_exists(*fs, found)) {
        *path = found;
        *sha256 = shard->sha256.len == SHA256_BYTES ? shard->sha256.data : NULL;
        return SL_OK;
    }
    sl_fail(err, SL_ENOENT, "%s cannot be read from this host", found);
    sl_free(found);
    return SL_ENOENT;
}
