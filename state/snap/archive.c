// SPDX-License-Identifier: Apache-2.0
// state/snap/archive.c -- reads of snapshots whose shard this server has
// left.
#include "state/snap/archive.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/tensorfile.h"
#include "state/snap/snap.h"

// A look through the store for one file.
struct search {
    struct fs *fs;
    const char *store;
    uint64_t job;
    char file[SNAP_NAME_BYTES];
    char *folder;   // of the file that was found; owned
    char *path;     // found; owned
    char *twin;     // and once more; owned
    uint64_t bytes; // of the file that was found
    struct sl_error *err;
};

// "<anything>-j-<job>-<8 hex>"
static bool is_folder_of(const char *name, uint64_t job)
{
    char tail[32];
    size_t n = strlen(name), t;

    snprintf(tail, sizeof(tail), "-j-%" PRIu64 "-", job);
    t = strlen(tail);
    return n >= t + 8 && strncmp(name + n - 8 - t, tail, t) == 0;
}

static enum sl_err on_folder(void *arg, const char *name)
{
    struct search *s = arg;
    struct sl_error why = SL_ERROR_INIT;
    struct fs_stat st;
    char *folder, *path;
    enum sl_err rc;

    if (!is_folder_of(name, s->job))
        return SL_OK;
    folder = fs_join(s->store, name);
    path = folder == NULL ? NULL : fs_join(folder, s->file);
    if (path == NULL) {
        sl_free(folder);
        return SL_ENOMEM;
    }
    rc = fs_stat_path(s->fs, path, &st, &why);
    if (rc != SL_OK) {
        sl_free(folder);
        sl_free(path);
        return rc == SL_ENOENT ? SL_OK : sl_fail(s->err, rc, "%s", why.text);
    }
    if (s->path == NULL) {
        s->folder = folder;
        s->path = path;
        s->bytes = st.bytes;
    } else {
        sl_free(folder);
        sl_free(s->twin);
        s->twin = path;
    }
    return SL_OK;
}

static enum sl_err archive_find_file(struct search *s, struct sl_error *err)
{
    enum sl_err rc = fs_list(s->fs, s->store, on_folder, s, err);

    if (rc != SL_OK)
        return rc;
    if (s->path == NULL)
        return sl_fail(err, SL_ENOENT,
                       "job %" PRIu64 " has no %s in %s; `sluice checkpoints` "
                       "lists what there is",
                       s->job, s->file, s->store);
    if (s->twin != NULL)
        return sl_fail(err, SL_ESTATE,
                       "two jobs have the number %" PRIu64 ": %s and %s; "
                       "export by `sluice export --from MANIFEST`",
                       s->job, s->path, s->twin);
    return SL_OK;
}

// The values come first, a tensor for each key that tells its rows; what
// follows them are slots.
static enum sl_err values_bytes(const struct tensorfile *f, uint64_t *out,
                                struct sl_error *err)
{
    size_t prefix = strlen(SNAP_KEY_ROWS);
    uint64_t sum = 0, end = 0;

    for (size_t i = 0; i < tensorfile_meta_count(f); i++) {
        struct tensor_meta m = tensorfile_meta_at(f, i);
        const struct tensor_info *t;

        if (strncmp(m.key, SNAP_KEY_ROWS, prefix) != 0)
            continue;
        t = tensorfile_find(f, m.key + prefix);
        if (t == NULL)
            return sl_fail(err, SL_ECORRUPT, "%s has no tensor", m.key);
        sum += t->end - t->begin;
        end = t->end > end ? t->end : end;
    }
    // A shard of rows alone begins with the tensors of a table, of bytes.
    if (sum != end || (sum == 0 && (tensorfile_count(f) == 0 ||
                                    tensorfile_at(f, 0)->dtype == TENSOR_F32)))
        return sl_fail(err, SL_ECORRUPT, "the values do not come first");
    *out = end;
    return SL_OK;
}

static enum sl_err archive_check_file(struct tagged_file *made, uint64_t job,
                                      uint32_t shard, struct sl_error *err)
{
    const struct tensorfile *f = made->file;
    uint64_t bytes = 0;
    enum sl_err rc = tensorfile_verify(f, err);

    if (rc == SL_OK)
        rc = snap_meta_is(f, SNAP_KEY_JOB, 10, job, err);
    if (rc == SL_OK)
        rc = snap_meta_is(f, SNAP_KEY_SHARD, 10, shard, err);
    if (rc == SL_OK)
        rc = snap_meta_u64(f, SNAP_KEY_VERSION, 10, &made->version, err);
    if (rc == SL_OK)
        rc = values_bytes(f, &bytes, err);
    if (rc != SL_OK)
        return rc == SL_ENOENT ? SL_ECORRUPT : rc; // checksums must be there
    made->bytes = bytes;
    // Tensors are ordered by their place: the first one begins the data.
    made->values = tensorfile_data(f, tensorfile_at(f, 0));
    return SL_OK;
}

// Finds, verifies and maps a file, of *bytes bytes.
static enum sl_err archive_open(struct fs *fs, const char *store, uint64_t job,
                                uint32_t shard, struct wire_tag tag,
                                struct tagged_file **out, uint64_t *bytes,
                                struct sl_error *err)
{
    struct search s = {.fs = fs, .store = store, .job = job, .err = err};
    struct tagged_file *made = NULL;
    enum sl_err rc;

    snap_file_name(s.file, shard, tag);
    rc = archive_find_file(&s, err);
    if (rc == SL_OK && (made = sl_calloc(1, sizeof(*made))) == NULL)
        rc = SL_ENOMEM;
    if (made != NULL) {
        atomic_init(&made->refs, 1);
        made->tag = tag;
    }
    if (rc == SL_OK)
        rc = tensorfile_open(&made->file, fs, s.path, SNAP_HEADER_MAX, err);
    if (rc == SL_OK) {
        rc = archive_check_file(made, job, shard, err);
        if (rc == SL_OK)
            rc = tagged_file_tables(made, fs, s.folder, err);
        if (rc != SL_OK)
            sl_prefix(err, rc, "%s", s.path);
    }
    *bytes = s.bytes;
    if (rc == SL_OK)
        *out = made;
    else
        tagged_file_unref(made);
    sl_free(s.folder);
    sl_free(s.path);
    sl_free(s.twin);
    return rc;
}

// ---- open files

void archive_init(struct archive *a)
{
    *a = (struct archive){0};
    pthread_mutex_init(&a->lock, NULL);
}

void archive_release(struct archive *a)
{
    for (size_t i = 0; i < ARCHIVE_FILES; i++)
        tagged_file_unref(a->files[i].file);
    pthread_mutex_destroy(&a->lock);
}

static struct tagged_file *archive_find(struct archive *a, uint64_t job,
                                        uint32_t shard, struct wire_tag tag)
{
    struct tagged_file *found = NULL;

    pthread_mutex_lock(&a->lock);
    for (size_t i = 0; i < ARCHIVE_FILES && found == NULL; i++) {
        struct archive_file *f = &a->files[i];

        if (f->file == NULL || f->job != job || f->shard != shard ||
            wire_tag_cmp(f->file->tag, tag) != 0)
            continue;
        f->asked = true;
        found = tagged_file_ref(f->file);
    }
    pthread_mutex_unlock(&a->lock);
    return found;
}

// Returns a free place for one more file of `bytes` bytes. NULL: another file
// has left its place for it, for the caller to close, and it is asked again.
static struct archive_file *archive_place(struct archive *a, uint64_t bytes,
                                          struct tagged_file **close)
{
    struct archive_file *oldest = NULL, *place = NULL;
    uint64_t sum = bytes;

    for (size_t i = 0; i < ARCHIVE_FILES; i++) {
        struct archive_file *f = &a->files[i];

        if (f->file == NULL) {
            place = f;
            continue;
        }
        sum += f->bytes;
        if (oldest == NULL || f->age < oldest->age)
            oldest = f;
    }
    if (oldest == NULL || (place != NULL && sum <= ARCHIVE_BYTES))
        return place;
    *close = oldest->file;
    oldest->file = NULL;
    return NULL;
}

// Keeps a file open; takes a reference of its own.
static void archive_keep(struct archive *a, const struct archive_file *what)
{
    struct tagged_file *close[ARCHIVE_FILES] = {NULL};
    struct archive_file *place;
    size_t n = 0;

    pthread_mutex_lock(&a->lock);
    while ((place = archive_place(a, what->bytes, &close[n])) == NULL)
        n++;
    *place = *what;
    place->asked = true;
    place->age = ++a->ages;
    (void)tagged_file_ref(what->file);
    pthread_mutex_unlock(&a->lock);
    for (size_t i = 0; i < n; i++) // unmapping is not quick: outside the lock
        tagged_file_unref(close[i]);
}

enum sl_err archive_values(struct archive *a, struct fs *fs, const char *store,
                           uint64_t job, uint32_t shard, struct wire_tag tag,
                           struct tagged_file **out, struct sl_error *err)
{
    struct archive_file made = {.job = job, .shard = shard};
    struct tagged_file *found = archive_find(a, job, shard, tag);
    enum sl_err rc;

    if (found != NULL) {
        *out = found;
        return SL_OK;
    }
    rc = archive_open(fs, store, job, shard, tag, &made.file, &made.bytes, err);
    if (rc != SL_OK)
        return rc;
    archive_keep(a, &made);
    *out = made.file;
    return SL_OK;
}

void archive_sweep(struct archive *a)
{
    struct tagged_file *close[ARCHIVE_FILES] = {NULL};

    pthread_mutex_lock(&a->lock);
    for (size_t i = 0; i < ARCHIVE_FILES; i++) {
        struct archive_file *f = &a->files[i];

        if (!f->asked) {
            close[i] = f->file;
            f->file = NULL;
        }
        f->asked = false;
    }
    pthread_mutex_unlock(&a->lock);
    for (size_t i = 0; i < ARCHIVE_FILES; i++)
        tagged_file_unref(close[i]);
}
