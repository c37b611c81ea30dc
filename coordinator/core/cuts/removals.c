// SPDX-License-Identifier: Apache-2.0
// coordinator/core/cuts/removals.c -- the removal of manifests on a pool
// thread.
#include "coordinator/core/cuts/removals.h"
#include "coordinator/core/job.h"

#include "common/base/mem.h"
#include "common/run/log.h"
#include "coordinator/journal/journal_manifest.h"

struct manifest_removal {
    struct fs *fs;
    char *path; // owned
    enum sl_err rc;
    struct sl_error err;
};

static void removals_run(void *task)
{
    struct manifest_removal *r = task;

    r->rc = manifest_remove(r->fs, r->path, &r->err);
}

static void removals_finish(void *task)
{
    struct manifest_removal *r = task;

    if (r->rc != SL_OK)
        LOG(WARN, "manifest not removed", "path=%s why=%s", r->path,
            r->err.text);
    sl_free(r->path);
    sl_free(r);
}

void removals_add(struct coord *c, const char *path)
{
    struct manifest_removal *r = sl_calloc(1, sizeof(*r));

    if (r == NULL) {
        LOG(WARN, "manifest not removed", "path=%s why=%s", path, "no memory");
        return;
    }
    r->fs = c->options.fs;
    r->path = sl_strdup(path);
    // A store may take long to answer: on the loop all jobs would wait for it.
    if (r->path != NULL &&
        c->io.work(c->io.arg, removals_run, removals_finish, r) == SL_OK)
        return;
    LOG(WARN, "manifest not removed", "path=%s why=%s", path, "no memory");
    sl_free(r->path);
    sl_free(r);
}

static enum sl_err removals_add_row(void *arg, const struct journal_cut *row,
                                    struct sl_error *err)
{
    if (row->state != JOURNAL_CUT_DROPPED && row->state != JOURNAL_CUT_ABORTED)
        removals_add(arg, row->path);
    return SL_OK;
}

void removals_add_job(struct coord *c, const struct job *job)
{
    struct sl_error err = SL_ERROR_INIT;

    for (size_t i = 0; i < job->cuts.count; i++)
        removals_add(c, job->cuts.list[i].path);
    if (job->unreadable && journal_each_cut(c->journal, job->id,
                                            removals_add_row, c, &err) != SL_OK)
        LOG(WARN, "manifests not removed", "job=%s why=%s", job->id_text,
            err.text);
}
