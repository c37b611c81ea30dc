// SPDX-License-Identifier: Apache-2.0
// client/files/backup.c -- backup and restore: the journal first, so that what
// it names is in the store, and then the store.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/files/backup_db.h"
#include "client/cli/cli.h"
#include "client/cli/verbs.h"
#include "common/base/fs.h"
#include "common/base/mem.h"
#include "common/base/utf8.h"
#include "host/store/store.h"

#define DEPTH 8
#define COPY_BYTES ((size_t)1 << 20)

static const char *const databases[] = {"journal.sqlite", "tasks.sqlite",
                                        "events.sqlite"};

struct backup_known_cut {
    uint64_t job, cut;
};

struct backup {
    const char *dir, *state, *store; // store NULL: none
    struct backup_known_cut
        *known; // owned: of each job; restore alone leaves out more
    size_t known_count;
    bool restoring;
    char missing[300]; // a manifest that the journal names and the copy lacks
    uint64_t files, bytes, gone, newer;
    void *space;
};

static enum sl_err backup_file_error(const char *path, struct sl_error *err)
{
    return sl_fail(err, sl_err_from_errno(errno), "%s: %s", path,
                   strerror(errno));
}

// ---- files

static enum sl_err copy_bytes(struct backup *b, int in, int out,
                              const char *path, struct sl_error *err)
{
    ssize_t n;

    while ((n = read(in, b->space, COPY_BYTES)) > 0) {
        for (ssize_t done = 0, w; done < n; done += w) {
            w = write(out, (char *)b->space + done, (size_t)(n - done));
            if (w < 0)
                return backup_file_error(path, err);
        }
        b->bytes += (uint64_t)n;
    }
    return n == 0 && fsync(out) == 0 ? SL_OK : backup_file_error(path, err);
}

// Owner and time go with it, where we may set them.
static enum sl_err copy_file(struct backup *b, const char *from, const char *to,
                             const struct stat *st, struct sl_error *err)
{
    const struct timespec times[] = {st->st_atim, st->st_mtim};
    int in = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), out;
    enum sl_err rc;

    if (in < 0 && errno == ENOENT) {
        b->gone++; // a checkpoint that is not kept any longer
        return SL_OK;
    }
    if (in < 0)
        return backup_file_error(from, err);
    out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    rc =
        out >= 0 ? copy_bytes(b, in, out, to, err) : backup_file_error(to, err);
    if (rc == SL_OK) {
        if (fchown(out, st->st_uid, st->st_gid) == 0)
            (void)fchmod(out, st->st_mode & 0777);
        (void)futimens(out, times);
        b->files++;
    }
    if (out >= 0)
        close(out);
    if (rc != SL_OK && out >= 0)
        unlink(to); // half of it
    close(in);
    return rc;
}

// Of ".../NAME-j-7-UID/cut-12.json": 7 and 12.
static bool is_manifest(const char *path, uint64_t *job, uint64_t *cut)
{
    const char *name = strrchr(path, '/'), *at = NULL;
    int end = 0;

    if (name == NULL ||
        sscanf(name, "/cut-%" SCNu64 ".json%n", cut, &end) != 1 ||
        name[end] != '\0' || end == 0)
        return false;
    for (const char *next = path;
         (next = strstr(next, "-j-")) != NULL && next < name; next += 3)
        at = next; // a job's name may hold it too
    return at != NULL && sscanf(at, "-j-%" SCNu64 "-", job) == 1;
}

// A checkpoint that was made after the journal was copied: it would pause its
// job (I7).
static bool is_newer(const struct backup *b, const char *path)
{
    uint64_t job, cut;

    if (!b->restoring || !is_manifest(path, &job, &cut))
        return false;
    for (size_t i = 0; i < b->known_count; i++)
        if (b->known[i].job == job)
            return cut > b->known[i].cut;
    return false;
}

struct backup_folder_copy {
    struct backup *b;
    const char *from, *to;
    unsigned depth;
    struct sl_error *err;
};

static enum sl_err copy_folder(struct backup *b, const char *from,
                               const char *to, unsigned depth,
                               struct sl_error *err);

static enum sl_err copy_entry(void *arg, const char *name)
{
    struct backup_folder_copy *f = arg;
    char *from = fs_join(f->from, name), *to = fs_join(f->to, name);
    enum sl_err rc = from != NULL && to != NULL ? SL_OK : sl_no_memory(f->err);
    struct stat st;

    if (rc == SL_OK && lstat(from, &st) != 0)
        f->b->gone++;
    else if (rc == SL_OK && S_ISDIR(st.st_mode))
        rc = copy_folder(f->b, from, to, f->depth + 1, f->err);
    else if (rc == SL_OK && is_newer(f->b, from))
        f->b->newer++;
    else if (rc == SL_OK && S_ISREG(st.st_mode) &&
             !utf8_ends_with(name, ".tmp"))
        rc = copy_file(f->b, from, to, &st, f->err);
    sl_free(from);
    sl_free(to);
    return rc;
}

static enum sl_err copy_folder(struct backup *b, const char *from,
                               const char *to, unsigned depth,
                               struct sl_error *err)
{
    struct backup_folder_copy f = {b, from, to, depth, err};
    struct stat st;

    if (depth > DEPTH)
        return sl_fail(err, SL_ERANGE, "%s: too deep for a store", from);
    if (mkdir(to, 0700) != 0 && errno != EEXIST)
        return backup_file_error(to, err);
    if (stat(from, &st) == 0 && chown(to, st.st_uid, st.st_gid) == 0)
        (void)chmod(to, st.st_mode & 0777);
    return fs_list(fs_posix(), from, copy_entry, &f, err);
}

// ---- what the journal knows

static enum sl_err backup_add_known_cut(void *arg, uint64_t job, uint64_t cut,
                                        const char *manifest,
                                        struct sl_error *err)
{
    struct backup *b = arg;
    struct backup_known_cut *more =
        sl_realloc_array(b->known, b->known_count + 1, sizeof(*more));

    (void)manifest;
    if (more == NULL)
        return sl_no_memory(err);
    b->known = more;
    b->known[b->known_count++] = (struct backup_known_cut){job, cut};
    return SL_OK;
}

// Its newest checkpoint has to be in the copy: ".../FOLDER/cut-12.json".
static enum sl_err check_job(void *arg, uint64_t job, uint64_t cut,
                             const char *manifest, struct sl_error *err)
{
    struct backup *b = arg;
    const char *name = strrchr(manifest, '/'), *folder = name;
    char *path;

    (void)cut;
    if (name == NULL || store_is_s3(manifest))
        return SL_OK;
    while (folder > manifest && folder[-1] != '/')
        folder--;
    path = fs_join(b->dir, "store");
    if (path != NULL) {
        char *whole = fs_join(path, folder);

        sl_free(path);
        path = whole;
    }
    if (path == NULL)
        return sl_no_memory(err);
    if (!fs_exists(fs_posix(), path) && b->missing[0] == '\0')
        snprintf(b->missing, sizeof(b->missing), "j-%" PRIu64 ": %.240s", job,
                 folder);
    sl_free(path);
    return SL_OK;
}

// ---- the verbs

// Removes the copies of the first `count` databases: a journal whose
// checkpoints are not all there must not become a coordinator's.
static void remove_databases(const char *to, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char *path = fs_join(to, databases[i]);

        if (path != NULL)
            unlink(path);
        sl_free(path);
    }
}

// `from` and `to` are the folder of state and the backup, in either order.
// After a failure none of the copies is left.
static enum sl_err copy_databases(const char *from, const char *to,
                                  struct sl_error *err)
{
    enum sl_err rc = SL_OK;
    size_t i;

    for (i = 0; rc == SL_OK && i < SL_COUNT(databases); i++) {
        char *in = fs_join(from, databases[i]),
             *out = fs_join(to, databases[i]);

        if (in == NULL || out == NULL)
            rc = sl_no_memory(err);
        else if (fs_exists(fs_posix(), out))
            rc = sl_fail(err, SL_EEXIST,
                         "%s exists already, and the backup overwrites "
                         "nothing; name an empty folder",
                         out);
        else if (fs_exists(fs_posix(), in))
            rc = backup_db_copy(in, out, err);
        else if (i == 0)
            rc = sl_fail(err, SL_ENOENT,
                         "%s: there is no journal; name the coordinator's "
                         "state folder, or the backup",
                         in);
        sl_free(in);
        sl_free(out);
    }
    if (rc != SL_OK)
        remove_databases(to, i - 1);
    return rc;
}

static enum sl_err read_known(struct backup *b, backup_job_fn fn,
                              struct sl_error *err)
{
    char *journal = fs_join(b->dir, databases[0]);
    enum sl_err rc = journal != NULL ? backup_db_jobs(journal, fn, b, err)
                                     : sl_no_memory(err);

    sl_free(journal);
    return rc;
}

// What the journal in the copy names is in the store: it was copied before.
static enum sl_err back_up_store(struct backup *b, const char *to,
                                 struct sl_error *err)
{
    enum sl_err rc = read_known(b, backup_add_known_cut, err);

    if (rc == SL_OK && b->store != NULL)
        rc = copy_folder(b, b->store, to, 0, err);
    if (rc == SL_OK && b->store != NULL)
        rc = read_known(b, check_job, err);
    if (rc == SL_OK && b->missing[0] != '\0')
        rc = sl_fail(err, SL_ESTALE,
                     "%s went while the store was copied: raise "
                     "checkpoint.keep or pause the job, and back up again "
                     "into another folder",
                     b->missing);
    return rc;
}

static enum sl_err back_up(struct backup *b, struct sl_error *err)
{
    char *to = fs_join(b->dir, "store");
    enum sl_err rc =
        to != NULL ? fs_mkdirs(fs_posix(), b->dir, err) : sl_no_memory(err);

    if (rc == SL_OK)
        (void)chmod(b->dir, 0700); // the journal holds the cluster's key
    if (rc == SL_OK)
        rc = copy_databases(b->state, b->dir, err);
    if (rc == SL_OK) {
        rc = back_up_store(b, to, err);
        if (rc != SL_OK)
            remove_databases(b->dir, SL_COUNT(databases));
    }
    sl_free(to);
    return rc;
}

static enum sl_err restore_store(struct backup *b, const char *from,
                                 struct sl_error *err)
{
    enum sl_err rc = read_known(b, backup_add_known_cut, err);

    if (rc == SL_OK && b->store != NULL)
        rc = fs_mkdirs(fs_posix(), b->store, err);
    if (rc == SL_OK && b->store != NULL)
        rc = copy_folder(b, from, b->store, 0, err);
    return rc;
}

static enum sl_err restore(struct backup *b, struct sl_error *err)
{
    char *from = fs_join(b->dir, "store");
    enum sl_err rc = from != NULL ? SL_OK : sl_no_memory(err);

    b->restoring = true;
    if (rc == SL_OK && b->store == NULL && fs_exists(fs_posix(), from))
        rc =
            sl_fail(err, SL_EINVAL,
                    "%s holds a store: say where it goes with --store", b->dir);
    if (rc == SL_OK)
        rc = fs_mkdirs(fs_posix(), b->state, err);
    if (rc == SL_OK)
        rc = copy_databases(b->dir, b->state, err);
    if (rc == SL_OK) {
        rc = restore_store(b, from, err);
        if (rc != SL_OK)
            remove_databases(b->state, SL_COUNT(databases));
    }
    sl_free(from);
    return rc;
}

static int backup_run_verb(struct cli *cli,
                           enum sl_err (*what)(struct backup *b,
                                               struct sl_error *err))
{
    struct sl_error err = SL_ERROR_INIT;
    struct backup b = {
        .dir = cli_arg(cli, 0),
        .state = conf_str(cli->conf, "state"),
        .store = conf_str(cli->conf, "store"),
        .space = sl_malloc(COPY_BYTES),
    };
    mode_t mask = umask(077);
    char bytes[OUT_NUMBER];
    enum sl_err rc;

    if (b.state == NULL)
        rc = sl_fail(&err, SL_EINVAL,
                     "say which is the coordinator's state folder with "
                     "--state");
    else if (b.store != NULL && store_is_s3(b.store))
        rc = sl_fail(&err, SL_ENOTSUP,
                     "%s: a bucket is copied by its own tools; without --store "
                     "the journal alone is",
                     b.store);
    else
        rc = b.space != NULL ? what(&b, &err) : sl_no_memory(&err);
    umask(mask);
    if (rc == SL_OK) {
        cli_say("%zu job%s, %" PRIu64 " files of the store, %s", b.known_count,
                b.known_count == 1 ? "" : "s", b.files,
                out_bytes(bytes, b.bytes));
        if (b.gone > 0)
            cli_say("%" PRIu64 " files of older checkpoints went meanwhile",
                    b.gone);
        if (b.newer > 0)
            cli_say("%" PRIu64 " checkpoints that are newer than the journal "
                    "stay in %s alone",
                    b.newer, b.dir);
    }
    sl_free(b.known);
    sl_free(b.space);
    return rc == SL_OK ? CLI_EXIT_OK : cli_fail(&err);
}

int verb_backup(struct cli *cli)
{
    return backup_run_verb(cli, back_up);
}

int verb_restore(struct cli *cli)
{
    return backup_run_verb(cli, restore);
}
