// SPDX-License-Identifier: Apache-2.0
// coordinator/core/recovery/stored.c -- the questions of a recovery, and what
// the store answered (I7, K6).
#include "coordinator/core/recovery/stored.h"

#include <string.h>

#include "common/base/buf.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/base/storemark.h"
#include "host/store/store.h"
#include "coordinator/core/job.h"
#include "coordinator/journal/journal_manifest.h"

// A question about one path: a cut's manifest, or the folder of a job's
// manifests.
struct stored_question {
    char *path; // owned
    bool folder;
    uint64_t highest; // answer for a folder
    bool there;       // answer for a manifest
    enum sl_err rc;
    struct sl_error err;
};

struct stored {
    struct journal *journal; // used by stored_new alone
    struct fs *fs;
    char *store;    // owned
    uint64_t drawn; // drawn id, for a cluster without one

    struct journal_cluster had;
    struct stored_question
        *asked;         // owned; in the order in which they are asked
    size_t count, next; // `next`: where the search for an answer begins

    uint64_t id, highest_job;
    enum sl_err cluster_rc, job_rc;
    struct sl_error cluster_err, job_err;
};

// ---- collecting questions

static uint64_t stored_path_hash(const char *path)
{
    uint64_t hash = sl_mix64(strlen(path));

    for (; *path != '\0'; path++)
        hash = sl_mix64(hash + (unsigned char)*path);
    return hash;
}

static uint64_t stored_draw_cluster_id(uint64_t seed)
{
    uint64_t id = sl_mix64(seed ^ UINT64_C(0x636c7573746572));

    return id == 0 ? 1 : id;
}

static enum sl_err stored_add_question(struct stored *s, const char *path,
                                       bool folder, struct sl_error *err)
{
    struct stored_question *more =
        sl_realloc_array(s->asked, s->count + 1, sizeof(*more));
    char *copy = more == NULL ? NULL : sl_strdup(path);

    if (more != NULL)
        s->asked = more;
    if (copy == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory for a question to the store");
    more[s->count++] = (struct stored_question){.path = copy, .folder = folder};
    return SL_OK;
}

static enum sl_err ask_cut(void *arg, const struct journal_cut *row,
                           struct sl_error *err)
{
    return row->state == JOURNAL_CUT_INTENT
               ? stored_add_question(arg, row->path, false, err)
               : SL_OK;
}

static enum sl_err ask_job(void *arg, const struct journal_job *row,
                           struct sl_error *err)
{
    struct stored *s = arg;
    struct buf folder = BUF_INIT;
    enum sl_err rc =
        journal_each_cut_path(s->journal, row->id, ask_cut, s, err);

    if (rc == SL_OK && row->state < JOB_FINISHED) {
        rc = manifest_folder(&folder, s->store, row->name, row->id, row->uid);
        rc = rc == SL_OK ? stored_add_question(s, buf_text(&folder), true, err)
                         : sl_fail(err, rc, "the folder of %s", row->name);
    }
    buf_release(&folder);
    return rc;
}

enum sl_err stored_new(struct stored **out, struct journal *journal,
                       struct fs *fs, const char *store, uint64_t seed,
                       struct sl_error *err)
{
    struct stored *s = sl_calloc(1, sizeof(*s));
    enum sl_err rc;

    if (s == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory for a question to the store");
    s->journal = journal;
    s->fs = fs;
    s->drawn = stored_draw_cluster_id(seed);
    s->store = sl_strdup(store);
    rc = s->store == NULL ? sl_fail(err, SL_ENOMEM, "a path")
                          : journal_cluster(journal, &s->had, err);
    if (rc == SL_OK)
        rc = journal_each_job(journal, ask_job, s, err);
    s->journal = NULL;
    if (rc == SL_OK)
        *out = s;
    else
        stored_free(s);
    return rc;
}

void stored_free(struct stored *s)
{
    if (s == NULL)
        return;
    for (size_t i = 0; i < s->count; i++)
        sl_free(s->asked[i].path);
    sl_free(s->asked);
    sl_free(s->store);
    sl_free(s);
}

// ---- asking

// Says whether an error of the store may pass with time. For a folder these
// errors come from its disk, or its permissions: they are reported at once.
static bool may_pass(const struct stored *s, enum sl_err rc)
{
    return store_is_s3(s->store) && (rc == SL_EUNAVAIL || rc == SL_ETIMEDOUT ||
                                     rc == SL_EAUTH || rc == SL_EDENIED);
}

static enum sl_err stored_check_mark(struct stored *s, struct sl_error *err)
{
    const struct journal_cluster *had = &s->had;
    bool known = had->store == stored_path_hash(s->store);
    uint64_t mark = 0;
    enum sl_err rc = storemark_read(&mark, s->fs, s->store, err);

    if (rc != SL_OK)
        return rc;
    // A journal without an id is new, or of a version without ids; the store
    // may have one.
    s->id = had->id != 0 ? had->id : mark != 0 ? mark : s->drawn;
    if (mark != 0 || known)
        rc = storemark_check(s->fs, s->store, s->id, err);
    // Written even over an existing mark: its writer may have died before the
    // mark was durable.
    if (rc == SL_OK && !known)
        rc = storemark_write(s->fs, s->store, s->id, err);
    return rc;
}

static void stored_ask_store(struct stored *s, struct stored_question *q)
{
    q->err = (struct sl_error)SL_ERROR_INIT;
    if (q->folder)
        q->rc = manifest_highest(s->fs, q->path, &q->highest, &q->err);
    else
        q->rc = manifest_settle(s->fs, q->path, &q->there, &q->err);
}

// Returns rc with the text of `why`; some failures have no text of their own.
static enum sl_err stored_return_error(enum sl_err rc,
                                       const struct sl_error *why,
                                       struct sl_error *err)
{
    return rc == SL_OK
               ? rc
               : sl_fail(err, rc, "%s",
                         why->text[0] != '\0' ? why->text : sl_err_text(rc));
}

enum sl_err stored_look(struct stored *s, struct sl_error *err)
{
    s->cluster_rc = stored_check_mark(s, &s->cluster_err);
    if (may_pass(s, s->cluster_rc))
        return stored_return_error(s->cluster_rc, &s->cluster_err, err);
    // else the store is not ours to look around in
    if (s->cluster_rc == SL_OK) {
        s->job_rc =
            manifest_highest_job(s->fs, s->store, &s->highest_job, &s->job_err);
        if (may_pass(s, s->job_rc))
            return stored_return_error(s->job_rc, &s->job_err, err);
        for (size_t i = 0; i < s->count; i++) {
            stored_ask_store(s, &s->asked[i]);
            if (may_pass(s, s->asked[i].rc))
                return stored_return_error(s->asked[i].rc, &s->asked[i].err,
                                           err);
        }
    }
    return SL_OK;
}

// ---- the answers

enum sl_err stored_cluster(const struct stored *s, uint64_t *id,
                           uint64_t *store, struct sl_error *err)
{
    *id = s->id;
    *store = stored_path_hash(s->store);
    return stored_return_error(s->cluster_rc, &s->cluster_err, err);
}

enum sl_err stored_highest_job(const struct stored *s, uint64_t *job,
                               struct sl_error *err)
{
    *job = s->highest_job;
    return stored_return_error(s->job_rc, &s->job_err, err);
}

static struct stored_question *
stored_find_question(struct stored *s, const char *path, bool folder)
{
    for (size_t n = 0; n < s->count; n++) {
        size_t i = (s->next + n) % s->count;

        if (s->asked[i].folder == folder &&
            strcmp(s->asked[i].path, path) == 0) {
            s->next = i + 1;
            return &s->asked[i];
        }
    }
    return NULL;
}

enum sl_err stored_highest(struct stored *s, const char *folder, uint64_t *cut,
                           struct sl_error *err)
{
    const struct stored_question *q = stored_find_question(s, folder, true);

    if (q == NULL)
        return sl_fail(err, SL_EINTERNAL, "the store was not asked for %s",
                       folder);
    *cut = q->highest;
    return stored_return_error(q->rc, &q->err, err);
}

enum sl_err stored_settle(struct stored *s, const char *path, bool *there,
                          struct sl_error *err)
{
    const struct stored_question *q = stored_find_question(s, path, false);

    if (q == NULL)
        return sl_fail(err, SL_EINTERNAL, "the store was not asked for %s",
                       path);
    *there = q->there;
    return stored_return_error(q->rc, &q->err, err);
}
