// SPDX-License-Identifier: Apache-2.0
// coordinator/core/cuts/start_from.c -- the cut that a job starts from: which
// manifest is meant, and whether it fits.
#include "coordinator/core/cuts/start_from.h"

#include <string.h>

#include "common/base/list.h"
#include "common/base/mem.h"
#include "coordinator/core/job.h"
#include "coordinator/core/recovery/past_jobs.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/shards/place.h"
#include "coordinator/core/cuts/cut_fits.h"
#include "coordinator/core/tenants.h"
#include "coordinator/journal/journal_manifest.h"

// ---- which manifest

// Returns a path in the store (s3://bucket/.. of one in S3), whole or below it,
// that does not lead out of it.
static enum sl_err path_in_store(struct coord *c, const char *what, char **out,
                                 struct sl_error *err)
{
    size_t n = strlen(c->store);

    *out = what[0] == '/' || strstr(what, "://") != NULL
               ? sl_strdup(what)
               : fs_join(c->store, what);
    if (*out == NULL)
        return sl_fail(err, SL_ENOMEM, "a path");
    if (strncmp(*out, c->store, n) == 0 && (*out)[n] == '/' &&
        strstr(*out, "/../") == NULL)
        return SL_OK;
    sl_free(*out);
    *out = NULL;
    return sl_fail(err, SL_EDENIED,
                   "%s is not in this coordinator's store %s; 'sluice "
                   "checkpoints JOB' lists manifests",
                   what, c->store);
}

// Refuses a job that goes on: its psservers delete the files of old cuts.
static enum sl_err resumed_refuse_running(const struct job *job,
                                          struct sl_error *err)
{
    return sl_fail(err, SL_ESTATE,
                   "job %s is %s; stop it first: sluice stop %s", job->id_text,
                   job_state_name(job->state), job->id_text);
}

static enum sl_err find_manifest(struct coord *c, const char *what, char **out,
                                 struct sl_error *err)
{
    const struct job_cut *last;
    struct job *job = NULL;
    uint64_t number = 0;
    enum sl_err rc;

    if (strchr(what, '/') != NULL)
        return path_in_store(c, what, out, err);
    rc = jobs_find(c, what, &number, err);
    if (rc == SL_OK)
        rc = ended_open(c, number, LOAD_LINE, &job, err);
    if (rc != SL_OK)
        return rc;
    last = job_final_cut(job);
    *out = last == NULL || !job_ended(job) ? NULL : sl_strdup(last->path);
    if (last != NULL && !job_ended(job))
        rc = resumed_refuse_running(job, err);
    else if (last == NULL)
        rc = sl_fail(err, SL_ESTATE, "job %s has no checkpoint to resume from",
                     what);
    else if (*out == NULL)
        rc = sl_fail(err, SL_ENOMEM, "a path");
    ended_close(job);
    return rc;
}

// ---- the job of the cut

static bool resumed_is_from(const struct job *job,
                            const Sluice__V1__ResumeSource *from)
{
    return job->id == from->cut->job && job->uid == from->job_uid;
}

// Says whether the cut's job is one of this cluster: the number may be of a job
// of another cluster, if its store was copied here.
static bool is_known(const struct coord *c,
                     const Sluice__V1__ResumeSource *from)
{
    const struct job *job = jobs_get(c, from->cut->job);
    const struct ended_job *ended = jobs_ended(c, from->cut->job);

    return job != NULL ? resumed_is_from(job, from)
                       : ended != NULL && ended->uid == from->job_uid;
}

static bool cut_even(const struct job_cut *cut)
{
    Sluice__V1__ShardCounts *counts[WIRE_SHARDS_MAX];
    char apart[RESUME_APART_BYTES];

    for (size_t i = 0; i < cut->counts->n_shards; i++)
        counts[i] = cut->counts->shards[i]->counts;
    return resume_even(counts, cut->counts->n_shards, apart);
}

// Adds to a refusal which other cut would do.
static enum sl_err add_hint(struct coord *c,
                            const Sluice__V1__ResumeSource *from,
                            struct sl_error *err)
{
    struct sl_error why = *err, none = SL_ERROR_INIT;
    struct job *job = NULL;

    if (ended_open(c, from->cut->job, LOAD_WHOLE, &job, &none) != SL_OK)
        return err->code;
    for (size_t i = resumed_is_from(job, from) ? job->cuts.count : 0;
         i-- > 0;) {
        if (!cut_even(&job->cuts.list[i]))
            continue;
        sl_fail(err, why.code,
                "%s; or resume from cut-%llu.json, which is even", why.text,
                (ull)job->cuts.list[i].n);
        break;
    }
    ended_close(job);
    return err->code;
}

// ---- reading the manifest on a pool thread

struct resumed_reading {
    struct coord *coord;       // NULL: the coord is gone
    struct list_node on_coord; // in coord.readings
    struct fs *fs;
    char *path; // owned
    void (*ready)(void *arg);
    void *arg;
    struct manifest_found found; // may be taken out
    enum sl_err rc;
    struct sl_error err;
};

static void reading_free(struct resumed_reading *r)
{
    list_remove(&r->on_coord);
    manifest_found_release(&r->found);
    sl_free(r->path);
    sl_free(r);
}

static void read_work(void *task)
{
    struct resumed_reading *r = task;

    r->rc = manifest_load(&r->found, r->fs, r->path, &r->err);
}

static void read_done(void *task)
{
    struct resumed_reading *r = task;
    struct coord *c = r->coord;

    if (c != NULL)
        c->read = r;
    r->ready(r->arg);
    if (c != NULL)
        c->read = NULL;
    reading_free(r);
}

bool coord_submit_reads(struct coord *c,
                        const Sluice__V1__SubmitRequest *request,
                        void (*ready)(void *arg), void *arg)
{
    struct sl_error err = SL_ERROR_INIT;
    struct resumed_reading *r;
    char *path = NULL;

    // Any other error is found and returned by coord_submit.
    if (c->dead || request->resume[0] == '\0' ||
        find_manifest(c, request->resume, &path, &err) != SL_OK)
        return false;
    r = sl_calloc(1, sizeof(*r));
    if (r == NULL) {
        sl_free(path);
        return false;
    }
    r->coord = c;
    list_push_back(&c->readings, &r->on_coord);
    r->fs = c->options.fs;
    r->path = path;
    r->ready = ready;
    r->arg = arg;
    if (c->io.work(c->io.arg, read_work, read_done, r) == SL_OK)
        return true;
    reading_free(r);
    return false;
}

void resumed_release(struct coord *c)
{
    list_for_safe(n, &c->readings)
    {
        list_entry(n, struct resumed_reading, on_coord)->coord = NULL;
        list_remove(n);
    }
}

// Returns the result of reading the store, for a client. A client takes
// SL_EUNAVAIL for a coordinator that is away, and waits for one.
static enum sl_err answer_of_store(enum sl_err rc, const struct sl_error *said,
                                   struct sl_error *err)
{
    if (rc == SL_OK)
        return SL_OK;
    if (rc == SL_EUNAVAIL || rc == SL_ETIMEDOUT)
        rc = SL_EIO;
    return sl_fail(err, rc, "%s", said->text);
}

// Takes the manifest that was read for this call, or reads it now, where no
// loop waits for that.
static enum sl_err resumed_load_manifest(struct coord *c, const char *path,
                                         struct manifest_found *out,
                                         struct sl_error *err)
{
    struct resumed_reading *r = c->read;
    struct sl_error said = SL_ERROR_INIT;

    if (r == NULL)
        return answer_of_store(manifest_load(out, c->options.fs, path, &said),
                               &said, err);
    if (strcmp(r->path, path) != 0)
        return sl_fail(err, SL_EUNAVAIL,
                       "%s was read, and meanwhile the job's last checkpoint "
                       "is %s: submit it again",
                       r->path, path);
    if (r->rc != SL_OK)
        return answer_of_store(r->rc, &r->err, err);
    *out = r->found;
    r->found = (struct manifest_found){0};
    return SL_OK;
}

// ---- submit

static enum sl_err resumed_check_source(struct coord *c,
                                        struct manifest_found *found,
                                        const Sluice__V1__JobSpec *spec,
                                        struct sl_error *err)
{
    Sluice__V1__ResumeSource *from = found->source;
    const struct job *job = jobs_get(c, from->cut->job);
    char apart[RESUME_APART_BYTES];
    enum sl_err rc;

    // A path is believed no more than a name.
    if (tenants_hide(c, from->cut->job) ||
        (c->asker.only && !is_known(c, from)))
        return sl_fail(err, SL_ENOENT, "there is no job j-%llu",
                       (ull)from->cut->job);
    if (job != NULL && resumed_is_from(job, from) && !job_ended(job))
        return resumed_refuse_running(job, err);
    rc = resume_check_spec(found, spec, err);
    if (rc != SL_OK)
        return rc;
    from->even = resume_even(found->counts, found->shards, apart);
    sl_free(from->apart == protobuf_c_empty_string ? NULL : from->apart);
    from->apart = sl_strdup(apart);
    if (from->apart == NULL)
        return sl_fail(err, SL_ENOMEM, "a cut");
    rc = place_check(c, spec, from, err);
    return rc == SL_ESTATE ? add_hint(c, from, err) : rc;
}

enum sl_err resumed_read(struct coord *c, const char *what,
                         const Sluice__V1__JobSpec *spec,
                         Sluice__V1__ResumeSource **out, struct sl_error *err)
{
    struct manifest_found found = {0};
    char *path = NULL;
    enum sl_err rc = find_manifest(c, what, &path, err);

    if (rc == SL_OK)
        rc = resumed_load_manifest(c, path, &found, err);
    if (rc == SL_OK)
        rc = resumed_check_source(c, &found, spec, err);
    if (rc == SL_OK) {
        *out = found.source;
        found.source = NULL;
    }
    manifest_found_release(&found);
    sl_free(path);
    return rc;
}

// ---- weights

static enum sl_err resumed_check_folder(const Sluice__V1__WeightsFile *file,
                                        struct sl_error *err)
{
    return file->folder[0] == '/'
               ? SL_OK
               : sl_fail(err, SL_EINVAL,
                         "the folder of the weights is '%.100s', and no path "
                         "from the root",
                         file->folder);
}

static bool has_table(const Sluice__V1__JobSpec *spec, const char *name)
{
    for (size_t i = 0; i < spec->model->n_tables; i++)
        if (strcmp(spec->model->tables[i]->name, name) == 0)
            return true;
    return false;
}

// Checks file i of the rows that tables begin with.
static enum sl_err resumed_check_table(const Sluice__V1__SubmitRequest *request,
                                       size_t i,
                                       const Sluice__V1__JobSpec *spec,
                                       struct sl_error *err)
{
    const Sluice__V1__TableFile *f = request->table_weights[i];

    if (!has_table(spec, f->table))
        return sl_fail(err, SL_EINVAL,
                       "there are rows for table '%.80s', but the model has no "
                       "table of this name; 'sluice validate FILE' lists them",
                       f->table);
    for (size_t k = 0; k < i; k++)
        if (strcmp(request->table_weights[k]->table, f->table) == 0)
            return sl_fail(err, SL_EINVAL,
                           "there are two files with rows for table '%.80s'",
                           f->table);
    if (f->file->bytes == 0) // the limit of what psservers read
        return sl_fail(err, SL_EINVAL,
                       "the file with rows for table '%.80s' has no size",
                       f->table);
    return resumed_check_folder(f->file, err);
}

enum sl_err resumed_weights(const Sluice__V1__SubmitRequest *request,
                            const Sluice__V1__JobSpec *spec,
                            Sluice__V1__ResumeSource **out,
                            struct sl_error *err)
{
    Sluice__V1__ResumeSource view = SLUICE__V1__RESUME_SOURCE__INIT;
    ProtobufCMessage *copy = NULL;
    enum sl_err rc = SL_OK;

    if (request->resume[0] != '\0')
        return sl_fail(err, SL_EINVAL,
                       "a job starts from a checkpoint or with weights, not "
                       "with both: the checkpoint has weights of its own");
    if (request->weights != NULL && spec_rows_only(spec))
        return sl_fail(err, SL_EINVAL,
                       "weights: they are of variables, and the model has "
                       "tables alone; give --table-weights");
    if (request->weights != NULL)
        rc = resumed_check_folder(request->weights, err);
    for (size_t i = 0; rc == SL_OK && i < request->n_table_weights; i++)
        rc = resumed_check_table(request, i, spec, err);
    if (rc != SL_OK)
        return rc;
    view.weights = request->weights;
    view.tables = request->table_weights;
    view.n_tables = request->n_table_weights;
    if (wire_dup(&copy, &view.base) != SL_OK)
        return sl_fail(err, SL_ENOMEM, "weights");
    *out = (Sluice__V1__ResumeSource *)copy;
    return SL_OK;
}

static bool same_file(const Sluice__V1__WeightsFile *a,
                      const Sluice__V1__WeightsFile *b)
{
    if (a == NULL || b == NULL)
        return a == b;
    return a->sha256.len == b->sha256.len &&
           memcmp(a->sha256.data, b->sha256.data, a->sha256.len) == 0;
}

bool resumed_same_weights(const struct job *job,
                          const Sluice__V1__SubmitRequest *request)
{
    static const Sluice__V1__ResumeSource none =
        SLUICE__V1__RESUME_SOURCE__INIT;
    const Sluice__V1__ResumeSource *then =
        job->weights == NULL ? &none : job->weights;

    if (!same_file(then->weights, request->weights) ||
        then->n_tables != request->n_table_weights)
        return false;
    for (size_t i = 0; i < then->n_tables; i++) {
        const Sluice__V1__TableFile *was = then->tables[i];
        const Sluice__V1__TableFile *now = request->table_weights[i];

        if (strcmp(was->table, now->table) != 0 ||
            !same_file(was->file, now->file))
            return false;
    }
    return true;
}

// ---- afterwards

const struct job *resumed_by(const struct coord *c, const struct job *job)
{
    list_for(n, &c->jobs.active)
    {
        const struct job *other = list_entry(n, struct job, on_active);

        if (other->resume != NULL && other->cuts.count == 0 &&
            resumed_is_from(job, other->resume))
            return other;
    }
    return NULL;
}
