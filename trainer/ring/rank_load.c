// SPDX-License-Identifier: Apache-2.0
// trainer/ring/rank_load.c -- a state that comes from files: of the last cut,
// or of the job that this one was resumed from.
#include <inttypes.h>

#include "common/base/mem.h"
#include "state/snap/snap.h"
#include "trainer/ring/rank_inner.h"

// Loads a part from the folder where the cut says that it was written; else
// from our own files of the job.
static enum sl_err load_part(struct shard *s, const struct rank_job *j,
                             const char *folder, struct wire_tag tag,
                             struct sl_error *err)
{
    struct sl_error why = SL_ERROR_INIT;
    struct fs *fs =
        j->store == NULL ? j->fs : snap_fs_of(j->fs, j->store, folder);
    enum sl_err rc = snap_read(fs, folder, tag, tag, s, err);
    char *ours;

    if (rc != SL_ENOENT || j->store == NULL)
        return rc;
    ours = snap_folder(j->store, &s->plan);
    if (ours == NULL)
        return sl_no_memory(err);
    if (snap_read(j->fs, ours, tag, tag, s, &why) == SL_OK)
        rc = SL_OK;
    sl_free(ours);
    return rc;
}

// Checks that all parts have counted the same steps.
static enum sl_err check_even(struct shard **parts, uint32_t count,
                              struct sl_error *err)
{
    for (uint32_t i = 1; i < count; i++) {
        const struct once *a = &parts[0]->once, *b = &parts[i]->once;

        if (!counted_equal(&a->counted, &b->counted) ||
            a->counts.version != b->counts.version)
            return sl_fail(err, SL_ESTATE,
                           "parts 0 and %" PRIu32 " of the cut have counted "
                           "%" PRIu64 " and %" PRIu64 " steps, or others: all "
                           "of a ring's state is at one step; resume it in "
                           "async mode",
                           i, counted_steps(&a->counted),
                           counted_steps(&b->counted));
    }
    return SL_OK;
}

enum sl_err rank_load(struct rank *r, const struct rank_job *j,
                      const Sluice__V1__RingBegin *begin, struct sl_error *err)
{
    struct wire_tag base = wire_tag_of(begin->base_tag);
    const struct snap_from from = {.fs = j->fs,
                                   .store = j->store == NULL ? "" : j->store,
                                   .weights = j->weights,
                                   .stopped = j->stopped,
                                   .arg = j->arg};
    bool cut = base.incarnation != 0;
    struct shard **parts = NULL;
    uint32_t count = 0;
    enum sl_err rc = rank_set_new(&parts, &count, j, cut ? NULL : begin, err);

    if (rc == SL_OK && cut && begin->n_sources != count)
        rc = sl_fail(err, SL_EINVAL,
                     "the cut has %zu files, the job %" PRIu32 " parts",
                     begin->n_sources, count);
    for (uint32_t i = 0; rc == SL_OK && i < count; i++) {
        if (cut)
            rc = load_part(parts[i], j, begin->sources[i]->folder, base, err);
        else if (begin->n_sources > 0)
            rc = snap_sources(&from, parts[i], err);
    }
    if (rc == SL_OK)
        rc = check_even(parts, count, err);
    if (rc != SL_OK) {
        rank_set_free(parts, count);
        return rc;
    }
    rank_set_take(r, parts, count, j,
                  (struct wire_tag){begin->generation, base.sequence});
    return SL_OK;
}
