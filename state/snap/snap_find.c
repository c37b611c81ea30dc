// SPDX-License-Identifier: Apache-2.0
// state/snap/snap_find.c -- the search for snapshots in a folder, and the
// removal of those that may go.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fault.h"
#include "common/base/mem.h"
#include "state/snap/snap.h"

// The tags of one shard's files in a folder.
struct snap_found {
    struct fs *fs;
    const char *folder;
    uint32_t shard;
    bool sweep;            // delete what an earlier death left half written
    bool exact;            // the oldest tag that will do, alone
    struct wire_tag *tags; // owned
    size_t count, cap;
};

// "shard-3.i7.n2.safetensors.tmp", of this shard.
static bool is_leftover(const char *name, uint32_t shard)
{
    char whole[SNAP_NAME_BYTES];
    size_t n = strlen(name);
    struct wire_tag tag;
    uint32_t s;

    if (n < 4 || n - 4 >= sizeof(whole) || strcmp(name + n - 4, ".tmp") != 0)
        return false;
    memcpy(whole, name, n - 4);
    whole[n - 4] = '\0';
    return snap_file_parse(whole, &s, &tag) && s == shard;
}

static void unlink_in(struct fs *fs, const char *folder, const char *name)
{
    char *path = fs_join(folder, name);

    if (path != NULL)
        (void)fs_unlink(fs, path, NULL); // it only takes space
    sl_free(path);
}

static enum sl_err snap_find_on_name(void *arg, const char *name)
{
    struct snap_found *found = arg;
    struct wire_tag *grown, tag;
    uint32_t shard;
    size_t cap;

    if (found->sweep && is_leftover(name, found->shard))
        unlink_in(found->fs, found->folder, name);
    if (!snap_file_parse(name, &shard, &tag) || shard != found->shard)
        return SL_OK;
    if (found->count == found->cap) {
        cap = found->cap == 0 ? 16 : 2 * found->cap;
        grown = sl_realloc_array(found->tags, cap, sizeof(*grown));
        if (grown == NULL)
            return SL_ENOMEM;
        found->tags = grown;
        found->cap = cap;
    }
    found->tags[found->count++] = tag;
    return SL_OK;
}

static int newest_first(const void *a, const void *b)
{
    return wire_tag_cmp(*(const struct wire_tag *)b,
                        *(const struct wire_tag *)a);
}

// All tags, the newest first. A folder that is not there has none.
static enum sl_err snap_find_tags(struct snap_found *found,
                                  struct sl_error *err)
{
    struct sl_error why = SL_ERROR_INIT;
    enum sl_err rc =
        fs_list(found->fs, found->folder, snap_find_on_name, found, &why);

    if (rc == SL_ENOENT)
        return SL_OK;
    if (rc != SL_OK)
        return sl_fail(err, rc, "%s", why.text);
    if (found->count > 0)
        qsort(found->tags, found->count, sizeof(*found->tags), newest_first);
    return SL_OK;
}

static enum sl_err nothing_holds(const struct shard *shard, const char *folder,
                                 struct wire_tag at_least, size_t passed,
                                 const struct sl_error *why,
                                 struct sl_error *err)
{
    return sl_fail(err, SL_ECORRUPT,
                   "no snapshot of shard %u at or above (%" PRIu64 ",%" PRIu64
                   ") in %s%s%s; copy shard-%u.i%" PRIu64 ".n%" PRIu64
                   ".safetensors there from another host or a backup",
                   shard->plan.shard, at_least.incarnation, at_least.sequence,
                   folder, passed > 0 ? ": " : "", passed > 0 ? why->text : "",
                   shard->plan.shard, at_least.incarnation, at_least.sequence);
}

// Returns true for an error that the file's bytes will give at every try: an
// older file may do. What fails for another reason may be good, and passes.
static bool snap_is_of_no_use(enum sl_err rc)
{
    return rc == SL_ECORRUPT || rc == SL_ENOTSUP || rc == SL_ESTALE ||
           rc == SL_ENOENT || rc == SL_EINVAL || rc == SL_ERANGE;
}

static enum sl_err snap_find_load(struct snap_found *found,
                                  struct wire_tag at_least, struct shard *shard,
                                  snap_passed_fn passed, void *arg,
                                  struct sl_error *err)
{
    struct sl_error why = SL_ERROR_INIT;
    const char *folder = found->folder;
    char name[SNAP_NAME_BYTES];
    size_t tried = 0;
    enum sl_err rc = snap_find_tags(found, err), one = SL_ENOENT;

    for (size_t i = 0; rc == SL_OK && one != SL_OK && i < found->count; i++) {
        if (wire_tag_cmp(found->tags[i], at_least) < 0)
            break; // K7
        if (found->exact && wire_tag_cmp(found->tags[i], at_least) > 0)
            continue;
        why = (struct sl_error)SL_ERROR_INIT;
        one =
            snap_read(found->fs, folder, found->tags[i], at_least, shard, &why);
        snap_file_name(name, shard->plan.shard, found->tags[i]);
        if (snap_is_of_no_use(one)) {
            why.code = one;
            passed(arg, name, &why);
            tried++;
        } else if (one != SL_OK) {
            rc = sl_fail(err, one == SL_ECANCELED ? SL_EIO : one,
                         "%s/%s cannot be read now: %s%s", folder, name,
                         why.text[0] != '\0' ? why.text : sl_err_text(one),
                         one == SL_ENOMEM
                             ? ""
                             : "; if it stays so, move the file away, and an "
                               "older one may do");
        }
    }
    // K7: the seed is (0,0), and only while no cut exists.
    if (rc == SL_OK && one != SL_OK &&
        (at_least.incarnation != 0 || at_least.sequence != 0))
        rc = nothing_holds(shard, folder, at_least, tried, &why, err);
    sl_free(found->tags);
    return rc;
}

enum sl_err snap_load(struct fs *fs, const char *folder,
                      struct wire_tag at_least, bool exact, struct shard *shard,
                      snap_passed_fn passed, void *arg, struct sl_error *err)
{
    struct snap_found found = {.fs = fs,
                               .folder = folder,
                               .shard = shard->plan.shard,
                               .sweep = true,
                               .exact = exact};

    return snap_find_load(&found, at_least, shard, passed, arg, err);
}

enum sl_err snap_load_beside(struct fs *fs, const char *folder,
                             struct wire_tag at_least, bool exact,
                             struct shard *shard, snap_passed_fn passed,
                             void *arg, struct sl_error *err)
{
    struct snap_found found = {
        .fs = fs, .folder = folder, .shard = shard->plan.shard, .exact = exact};

    return snap_find_load(&found, at_least, shard, passed, arg, err);
}

enum sl_err snap_keep_read(struct snap_keep *out, const Sluice__V1__Keep *m)
{
    *out = (struct snap_keep){.count = m->n_tags};
    out->tags = sl_malloc_array(m->n_tags, sizeof(*out->tags));
    if (out->tags == NULL)
        return SL_ENOMEM;
    for (size_t i = 0; i < m->n_tags; i++) {
        out->tags[i] = wire_tag_of(m->tags[i]);
        if (wire_tag_cmp(out->tags[i], out->newest) > 0)
            out->newest = out->tags[i];
    }
    return SL_OK;
}

// Says whether the snapshot may go. What lies before the newest is never loaded
// (K7) nor named again (K4).
static bool snap_keep_lacks(const void *arg, struct wire_tag tag)
{
    const struct snap_keep *keep = arg;

    for (size_t i = 0; i < keep->count; i++)
        if (wire_tag_cmp(keep->tags[i], tag) == 0)
            return false;
    return wire_tag_cmp(tag, keep->newest) < 0;
}

// Adds a tag to those that are kept.
static enum sl_err snap_keep_add(struct snap_keep *keep, struct wire_tag tag)
{
    struct wire_tag *grown =
        sl_realloc_array(keep->tags, keep->count + 1, sizeof(*grown));

    if (grown == NULL)
        return SL_ENOMEM;
    keep->tags = grown;
    keep->tags[keep->count++] = tag;
    return SL_OK;
}

// Keeps what is below a file that stays, as its metadata names it.
static enum sl_err snap_keep_below(struct snap_keep *keep, struct fs *fs,
                                   const char *path, struct sl_error *err)
{
    struct table_chain_link link[TABLE_CHAIN_FILES];
    struct tensorfile *f = NULL;
    struct wire_tag tag;
    uint32_t shard;
    size_t count = 0;
    enum sl_err rc =
        tensorfile_open_unmapped(&f, fs, path, SNAP_HEADER_MAX, err);

    if (rc == SL_OK)
        rc = table_chain_links(link, &count, f, err);
    for (size_t i = 0; rc == SL_OK && i < count; i++)
        if (snap_file_parse(link[i].file, &shard, &tag))
            rc = snap_keep_add(keep, tag);
    tensorfile_close(f);
    return rc;
}

// Copies the tags of a Keep, and adds what is below the files that stay (T10).
static enum sl_err snap_keep_whole(struct snap_keep *out,
                                   const struct snap_keep *keep,
                                   const struct snap_found *found,
                                   struct sl_error *err)
{
    char name[SNAP_NAME_BYTES];
    enum sl_err rc = SL_OK;
    char *path;

    *out = (struct snap_keep){.newest = keep->newest};
    for (size_t i = 0; rc == SL_OK && i < keep->count; i++)
        rc = snap_keep_add(out, keep->tags[i]);
    for (size_t i = 0; rc == SL_OK && keep->chains && i < found->count; i++) {
        if (snap_keep_lacks(keep, found->tags[i]))
            continue;
        snap_file_name(name, found->shard, found->tags[i]);
        path = fs_join(found->folder, name);
        rc = path == NULL ? SL_ENOMEM
                          : snap_keep_below(out, found->fs, path, err);
        sl_free(path);
    }
    return rc;
}

enum sl_err snap_collect(struct fs *fs, const char *folder, uint32_t shard,
                         const struct snap_keep *keep, struct tagged *mapped,
                         unsigned *removed, struct sl_error *err)
{
    struct snap_found found = {.fs = fs, .folder = folder, .shard = shard};
    char name[SNAP_NAME_BYTES];
    struct snap_keep whole = {0};
    enum sl_err rc = snap_find_tags(&found, err);
    char *path;

    *removed = 0;
    if (rc == SL_OK)
        rc = snap_keep_whole(&whole, keep, &found, err);
    for (size_t i = 0; rc == SL_OK && i < found.count; i++) {
        if (!snap_keep_lacks(&whole, found.tags[i]))
            continue;
        FAULT("snap.gc");
        snap_file_name(name, shard, found.tags[i]);
        path = fs_join(folder, name);
        rc = path == NULL ? SL_ENOMEM : fs_unlink(fs, path, err);
        sl_free(path);
        FAULT("snap.unlinked");
        if (rc == SL_OK)
            ++*removed;
    }
    if (mapped != NULL)
        tagged_drop(mapped, snap_keep_lacks, keep);
    sl_free(whole.tags);
    sl_free(found.tags);
    return rc;
}

// ---- a whole job

struct doomed {
    struct fs *fs;
    const char *folder;
    uint64_t job, uid;
    struct sl_error *err;
};

static enum sl_err delete_file(void *arg, const char *name)
{
    struct doomed *d = arg;
    struct wire_tag tag;
    enum sl_err rc;
    uint32_t shard;
    char *path;

    if (!snap_file_parse(name, &shard, &tag))
        return SL_OK; // not ours: the coordinator's manifests, or anything
    path = fs_join(d->folder, name);
    if (path == NULL)
        return SL_ENOMEM;
    rc = fs_unlink(d->fs, path, d->err);
    sl_free(path);
    return rc;
}

static enum sl_err delete_folder(void *arg, const char *name)
{
    struct doomed *d = arg, inner = *d;
    enum sl_err rc;
    char *path;

    if (!snap_folder_is(name, d->job, d->uid))
        return SL_OK;
    path = fs_join(d->folder, name);
    if (path == NULL)
        return SL_ENOMEM;
    inner.folder = path;
    rc = fs_list(d->fs, path, delete_file, &inner, d->err);
    // Empty folders are for the administrator: another program may own files.
    sl_free(path);
    return rc;
}

enum sl_err snap_delete_job(struct fs *fs, const char *store, uint64_t job,
                            uint64_t uid, struct sl_error *err)
{
    struct doomed d = {
        .fs = fs, .folder = store, .job = job, .uid = uid, .err = err};
    struct sl_error why = SL_ERROR_INIT;
    struct fs_stat st;
    enum sl_err rc = fs_stat_path(fs, store, &st, &why);

    if (rc == SL_ENOENT)
        return SL_OK;
    if (rc != SL_OK)
        return sl_fail(err, rc, "%s", why.text);
    return fs_list(fs, store, delete_folder, &d, err);
}
