// SPDX-License-Identifier: Apache-2.0
// client/up/updir.c -- the files of a local cluster's folder, and the end of
// daemons that an earlier run left.
#include "client/up/updir.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/cli.h"
#include "client/cli/command.h"
#include "common/base/buf.h"
#include "common/base/fs.h"
#include "common/base/mem.h"

#define ENVIRON_BYTES ((size_t)4 << 20)
#define KILLED_WAIT_MS 10000

char *updir_path(const struct updir *d, const char *fmt, ...)
{
    struct buf text = BUF_INIT;
    va_list ap;
    enum sl_err rc = buf_appendf(&text, "%s/", d->path);

    va_start(ap, fmt);
    if (rc == SL_OK)
        rc = buf_vappendf(&text, fmt, ap);
    va_end(ap);
    if (rc == SL_OK)
        return (char *)buf_detach(&text, NULL);
    buf_release(&text);
    return NULL;
}

enum sl_err updir_write(const struct updir *d, const char *name,
                        const char *text, struct sl_error *err)
{
    char *path = updir_path(d, "%s", name);
    struct fs_file *file = NULL;
    enum sl_err rc;

    if (path == NULL)
        return sl_no_memory(err);
    rc = fs_open(fs_private(), &file, path, FS_WRITE, err);
    if (rc == SL_OK)
        rc = fs_write(file, text, strlen(text), err);
    fs_close(file);
    sl_free(path);
    return rc;
}

static void remove_file(const struct updir *d, const char *name)
{
    char *path = updir_path(d, "%s", name);

    if (path != NULL)
        unlink(path);
    sl_free(path);
}

// ---- the lock

// The one before us removes the file when it leaves: what we have locked must
// still be what the name stands for.
static bool lock_is_current(const struct updir *d)
{
    char *path = updir_path(d, "lock");
    struct stat ours, named;
    bool same = path != NULL && fstat(d->lock.fd, &ours) == 0 &&
                stat(path, &named) == 0 && ours.st_ino == named.st_ino &&
                ours.st_dev == named.st_dev;

    sl_free(path);
    return same;
}

static enum sl_err take_lock(struct updir *d, struct sl_error *err)
{
    char *path = updir_path(d, "up.pid");
    pid_t other;
    enum sl_err rc = statelock_take(&d->lock, d->path, err);

    while (rc == SL_OK && !lock_is_current(d)) {
        statelock_release(&d->lock);
        rc = statelock_take(&d->lock, d->path, err);
    }
    other = rc == SL_EBUSY && path != NULL ? updir_read_pid(path) : 0;
    if (other > 0)
        sl_fail(err, SL_EBUSY,
                "another 'sluice up' (pid %d) runs in %s; stop it with "
                "'sluice down --dir %s', or choose another --dir",
                (int)other, d->path, d->path);
    sl_free(path);
    return rc;
}

// A cluster writes all the time: said in words before anything is.
static enum sl_err can_write(const char *path, struct sl_error *err)
{
    if (access(path, W_OK | X_OK) == 0)
        return SL_OK;
    return sl_fail(err, sl_err_from_errno(errno),
                   "%s: %s: the cluster keeps its state there; name a folder "
                   "that can be written with --dir",
                   path, strerror(errno));
}

enum sl_err updir_open(struct updir *d, const char *path, struct sl_error *err)
{
    char real[PATH_MAX], pid[24];
    bool others = false;
    enum sl_err rc = fs_private_folder(path, &others, err);

    *d = (struct updir){.lock = STATELOCK_INIT, .others = others};
    if (rc == SL_OK)
        rc = can_write(path, err);
    else if (rc != SL_ENOMEM)
        sl_fail(err, rc, "%s cannot be made: %s; name another with --dir", path,
                strerror(errno));
    if (rc != SL_OK)
        return rc;
    if (realpath(path, real) == NULL)
        return sl_fail(err, sl_err_from_errno(errno), "%s: %s", path,
                       strerror(errno));
    d->path = sl_strdup(real);
    if (d->path == NULL)
        return sl_no_memory(err);
    snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
    rc = take_lock(d, err);
    if (rc != SL_OK) {
        sl_free(d->path);
        d->path = NULL;
        return rc;
    }
    rc = updir_write(d, "up.pid", pid, err);
    if (rc != SL_OK)
        updir_release(d);
    return rc;
}

void updir_release(struct updir *d)
{
    if (d->path == NULL)
        return;
    remove_file(d, "address");
    remove_file(d, "up.pid");
    remove_file(d, "lock");
    statelock_release(&d->lock);
    sl_free(d->path);
    d->path = NULL;
}

// ---- processes

pid_t updir_read_pid(const char *path)
{
    FILE *file = fopen(path, "re");
    int pid = 0;

    if (file == NULL)
        return 0;
    if (fscanf(file, "%d", &pid) != 1 || pid < 2)
        pid = 0;
    fclose(file);
    return pid;
}

// The files of /proc have no size: read until the end comes.
static enum sl_err read_proc(struct buf *out, pid_t pid, const char *name)
{
    char path[64];
    FILE *file;
    size_t n = 1;

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    file = fopen(path, "re");
    if (file == NULL)
        return SL_ENOENT;
    while (n > 0 && out->len < ENVIRON_BYTES) {
        uint8_t *to = buf_extend(out, 4096);

        if (to == NULL)
            break;
        n = fread(to, 1, 4096, file);
        out->len -= 4096 - n;
    }
    fclose(file);
    return buf_append_char(out, '\0');
}

bool updir_process_has(pid_t pid, const char *variable, const char *value)
{
    struct buf text = BUF_INIT;
    size_t n = strlen(variable);
    bool found = false;

    if (read_proc(&text, pid, "environ") == SL_OK)
        for (size_t at = 0; !found && at + 1 < text.len;) {
            const char *entry = (const char *)text.data + at;

            found = strncmp(entry, variable, n) == 0 && entry[n] == '=' &&
                    strcmp(entry + n + 1, value) == 0;
            at += strlen(entry) + 1;
        }
    buf_release(&text);
    return found;
}

// ---- strays

struct strays {
    const struct updir *d;
    int grace_ms;
};

static bool has_ending(const char *name, const char *ending)
{
    size_t n = strlen(name), m = strlen(ending);

    return n > m && strcmp(name + n - m, ending) == 0;
}

static void end_stray(const struct strays *s, const char *name, pid_t pid)
{
    if (!updir_process_has(pid, UPDIR_VARIABLE, s->d->path))
        return; // the pid belongs to another process by now
    cli_say("%.*s (pid %d) of an earlier 'sluice up' still runs; ending it",
            (int)(strlen(name) - 4), name, (int)pid);
    kill(pid, SIGTERM);
    if (command_await_end(pid, s->grace_ms))
        return;
    kill(pid, SIGKILL);
    command_await_end(pid, KILLED_WAIT_MS);
}

static enum sl_err updir_on_stray(void *arg, const char *name)
{
    const struct strays *s = arg;
    bool pid_file = has_ending(name, ".pid") && strcmp(name, "up.pid") != 0;
    char *path;
    pid_t pid;

    if (!pid_file && !has_ending(name, ".sock"))
        return SL_OK;
    path = updir_path(s->d, "%s", name);
    if (path == NULL)
        return SL_ENOMEM;
    pid = pid_file ? updir_read_pid(path) : 0;
    if (pid > 0)
        end_stray(s, name, pid);
    unlink(path);
    sl_free(path);
    return SL_OK;
}

enum sl_err updir_end_strays(const struct updir *d, int grace_ms,
                             struct sl_error *err)
{
    struct strays s = {d, grace_ms};

    return fs_list(fs_posix(), d->path, updir_on_stray, &s, err);
}
