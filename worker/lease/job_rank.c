// SPDX-License-Identifier: Apache-2.0
// worker/lease/job_rank.c -- a rank's vectors, here or on its device, and the
// parameters of a cut that it is to evaluate.
#include "worker/lease/job_rank.h"
#include "worker/lease/rank_away.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/run/log.h"
#include "state/snap/snap.h"

void job_rank_free(struct worker_job *j)
{
    if (j->ring == NULL)
        return;
    rank_release(&j->ring->rank); // first: the state may be in `resident`
    resident_free(j->ring->resident);
    job_ring_free(j->ring);
    j->ring = NULL;
}

enum sl_err job_rank_vectors(struct worker_job *j, struct sl_error *err)
{
    struct job_ring *r = j->ring;
    size_t n = (size_t)j->model->elements;

    if (r->sum.whole != NULL)
        return SL_OK;
    if (j->device == NULL && r->own == NULL) {
        r->own = sl_aligned(64, n * sizeof(float));
        if (r->own == NULL)
            return sl_fail(err, SL_ENOMEM, "no memory for the gradient");
        // Elements that no op writes stay 0.
        memset(r->own, 0, n * sizeof(float));
    }
    r->fresh = j->device == NULL ? NULL : device_params(j->device);
    r->grads = j->device == NULL ? r->own : device_grads(j->device);
    return job_ring_sum(r, n, err);
}

// Makes the device's own parameters and slots, where it can hold them. Without
// these the host applies updates, as on a worker without a device.
static enum sl_err make_resident(struct worker_job *j, struct sl_error *err)
{
    struct sl_error why = SL_ERROR_INIT;
    struct job_ring *r = j->ring;
    uint32_t runs = 0;
    enum sl_err rc;

    // A team's sum is in host memory, and each of its devices wants the
    // parameters.
    if (r->resident != NULL || r->stays_here || j->device == NULL ||
        j->team != NULL)
        return SL_OK;
    for (uint32_t i = 0; i < r->rank.count; i++)
        runs += (uint32_t)r->rank.parts[i]->plan.run_count;
    rc = resident_new(&r->resident, j->device, &r->rank.parts[0]->plan.optim,
                      runs, &why);
    if (rc == SL_ELOST)
        return sl_fail(err, rc, "%s", why.text);
    r->stays_here = rc != SL_OK;
    if (r->stays_here)
        LOG(INFO, "the optimizer runs on the host", "job=%" PRIu64 " why=%s",
            j->record->open->job, why.text);
    else
        LOG(INFO, "the optimizer runs on the device", "job=%" PRIu64,
            j->record->open->job);
    return SL_OK;
}

enum sl_err job_rank_params(struct worker_job *j, struct step *step,
                            struct sl_error *err)
{
    struct job_ring *r = j->ring;
    enum sl_err rc = make_resident(j, err);

    if (rc != SL_OK)
        return rc;
    step->resident = r->resident;
    step->params = r->fresh == NULL ? rank_flat(&r->rank) : r->fresh;
    if (r->resident != NULL)
        return rank_lend(&r->rank, r->resident, err);
    return r->fresh == NULL ? SL_OK : rank_values(&r->rank, r->fresh, err);
}

// Brings the state home. If its device is lost, so is the state, and this rank
// goes on as one without a state.
static void bring_home(struct worker_job *j)
{
    struct sl_error err = SL_ERROR_INIT;

    if (rank_take_back(&j->ring->rank, &err) != SL_OK)
        LOG(WARN, "parameters of a rank are lost with its device",
            "job=%" PRIu64 " error=%s", j->record->open->job, err.text);
}

void job_rank_pass(struct worker_job *from, struct worker_job *to)
{
    const Sluice__V1__JobOpen *open = to->record->open;

    if (from->ring == NULL || to->ring == NULL ||
        from->ring->rank.job != open->job ||
        from->ring->rank.job_incarnation != open->job_incarnation)
        return;
    bring_home(from);
    job_ring_hand(from->ring, to->ring, open);
}

// ---- evaluation

static enum sl_err job_rank_read_part(struct worker_job *j, uint32_t part,
                                      struct wire_tag tag, struct sl_error *err)
{
    const struct ring_env *env = j->ring->env;
    const struct plan *plan = &j->ring->rank.parts[part]->plan;
    struct tagged_file *file = NULL;
    enum sl_err rc = SL_ENOMEM;
    char *folder;

    if (env == NULL || env->store == NULL)
        return sl_fail(err, SL_ENOENT,
                       "this worker has no --store to read a cut from");
    folder = snap_folder(env->store, plan);
    if (folder != NULL)
        rc = snap_values(env->fs, folder, plan, tag, &file, err);
    if (rc == SL_OK)
        memcpy(j->cut + j->record->shards[part].first, file->values,
               file->bytes);
    tagged_file_unref(file);
    sl_free(folder);
    return rc;
}

enum sl_err job_rank_cut(struct worker_job *j, const struct wire_tag *tags,
                         uint32_t count, struct sl_error *err)
{
    struct job_ring *r = j->ring;
    enum sl_err rc = SL_OK;

    if (count > 0 && wire_tag_cmp(tags[0], r->cut) == 0)
        return SL_OK;
    r->cut = (struct wire_tag){0, 0};
    if (count < r->rank.count)
        return sl_fail(err, SL_ESTATE,
                       "the cut has %" PRIu32
                       " parts, the job's state has %" PRIu32,
                       count, r->rank.count);
    for (uint32_t i = 0; rc == SL_OK && i < r->rank.count; i++)
        rc = job_rank_read_part(j, i, tags[i], err);
    if (rc == SL_OK)
        r->cut = tags[0];
    return rc;
}
