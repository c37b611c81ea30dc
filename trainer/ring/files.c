// SPDX-License-Identifier: Apache-2.0
// trainer/ring/files.c -- what a rank deletes of its own files, on a pool
// thread.
#include "trainer/ring/files.h"

#include "common/base/mem.h"
#include "common/run/log.h"
#include "state/snap/snap.h"

struct files_removal {
    struct fs *fs;
    char *folder; // of a part; the whole store for a job; owned
    uint64_t job, uid;
    uint32_t part;
    struct snap_keep keep; // owned
    bool all;              // all files of the job
    unsigned removed;
    enum sl_err rc;
    struct sl_error err;
};

static void files_remove(void *arg)
{
    struct files_removal *r = arg;

    r->rc = r->all ? snap_delete_job(r->fs, r->folder, r->job, r->uid, &r->err)
                   : snap_collect(r->fs, r->folder, r->part, &r->keep, NULL,
                                  &r->removed, &r->err);
}

static void free_removal(struct files_removal *r)
{
    sl_free(r->folder);
    sl_free(r->keep.tags);
    sl_free(r);
}

static void files_removal_done(void *arg)
{
    struct files_removal *r = arg;

    // Ranks that share a store are all told, and only the first finds the
    // files.
    if (r->rc != SL_OK && r->rc != SL_ENOENT)
        LOG(WARN, "files of a cut not removed", "job=%llu error=%s",
            (unsigned long long)r->job, r->err.text);
    free_removal(r);
}

static void files_start_removal(struct files_removal *r, struct loop *loop)
{
    if (r->folder == NULL ||
        loop_work(loop, files_remove, files_removal_done, r) != SL_OK)
        free_removal(r);
}

void files_keep(const struct ring_env *env, struct files_job j,
                const Sluice__V1__Keep *m)
{
    struct plan named = {
        .job = j.job, .job_uid = j.uid, .job_name = (char *)j.name};
    struct files_removal *r;

    if (env->store == NULL || m->n_tags == 0)
        return;
    r = sl_calloc(1, sizeof(*r));
    if (r == NULL)
        return;
    *r = (struct files_removal){
        .fs = env->fs, .job = j.job, .part = m->shard, .err = SL_ERROR_INIT};
    if (snap_keep_read(&r->keep, m) != SL_OK) {
        free_removal(r);
        return;
    }
    r->folder = snap_folder(env->store, &named);
    files_start_removal(r, env->loop);
}

void files_delete(const struct ring_env *env, uint64_t job, uint64_t uid)
{
    struct files_removal *r;

    if (env->store == NULL)
        return;
    r = sl_calloc(1, sizeof(*r));
    if (r == NULL)
        return;
    *r = (struct files_removal){.fs = env->fs,
                                .job = job,
                                .uid = uid,
                                .all = true,
                                .err = SL_ERROR_INIT};
    r->folder = sl_strdup(env->store);
    files_start_removal(r, env->loop);
}
