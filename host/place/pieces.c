// SPDX-License-Identifier: Apache-2.0
// host/place/pieces.c -- see pieces.h. Which pieces go: pieces_room.c.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/crc.h"
#include "common/base/fs.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/run/log.h"
#include "host/place/pieces_inner.h"

#define FRESH_MS 10000
#define ROOM_TRIES 8
#define PATIENCE_MS 10000 // longer than a piece takes on a slow link

// ---- the folder

static struct pieces *pieces_alloc(uint64_t most)
{
    struct pieces *p = sl_calloc(1, sizeof(*p));

    if (p == NULL)
        return NULL;
    p->dir = p->account = -1;
    pthread_mutex_init(&p->lock, NULL);
    open_init(p);
    p->most = most;
    p->fresh_ms = FRESH_MS;
    p->patience_ms = PATIENCE_MS;
    return p;
}

void pieces_free(struct pieces *p)
{
    if (p == NULL)
        return;
    open_release(p);
    if (p->dir >= 0)
        close(p->dir);
    if (p->account >= 0)
        close(p->account);
    pthread_mutex_destroy(&p->lock);
    sl_free(p);
}

enum sl_err pieces_new(struct pieces **out, const char *dir, uint64_t most,
                       struct sl_error *err)
{
    struct pieces *p;
    bool others = false;
    enum sl_err rc = fs_private_folder(dir, &others, err);

    if (rc != SL_OK)
        return rc;
    if (most < PIECES_LEAST)
        return sl_fail(err, SL_EINVAL, "%.200s: a cache has at least %d MiB",
                       dir, (int)(PIECES_LEAST >> 20));
    if (others)
        LOG(WARN, "other users may read the cache; chmod 700", "dir=%s", dir);
    p = pieces_alloc(most);
    if (p == NULL)
        return sl_no_memory(err);
    p->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (p->dir >= 0)
        p->account = openat(p->dir, "account",
                            O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (p->account < 0) {
        rc = sl_fail(err, sl_err_from_errno(errno), "%.200s: %s", dir,
                     strerror(errno));
        pieces_free(p);
        return rc;
    }
    room_count(p);
    *out = p;
    return SL_OK;
}

// ---- reading

bool pieces_has(struct pieces *p, const struct piece_name *name)
{
    char path[PIECE_PATH];

    if (open_has(p, name))
        return true;
    piece_path(path, name, "");
    return faccessat(p->dir, path, F_OK, 0) == 0;
}

bool pieces_read(struct pieces *p, const struct piece_name *name, size_t offset,
                 void *to, size_t n)
{
    char path[PIECE_PATH];
    bool damaged = false, good = false;
    struct open_piece *e = open_take(p, name, &damaged);

    if (e != NULL) {
        good = open_read(p, e, offset, to, n);
        damaged = !good;
        open_give(p, e, damaged);
    }
    if (damaged) {
        atomic_fetch_add(&p->damaged, 1);
        piece_path(path, name, "");
        LOG(WARN, "a piece of the cache is damaged and fetched again",
            "piece=%s", path);
        (void)unlinkat(p->dir, path, 0);
    }
    return good;
}

// ---- writing

static int open_unfinished(const struct pieces *p, const char *path)
{
    const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
    char folder[3] = {path[0], path[1], '\0'};
    int fd = openat(p->dir, path, flags, 0600);

    if (fd < 0 && errno == ENOENT &&
        (mkdirat(p->dir, folder, 0700) == 0 || errno == EEXIST))
        fd = openat(p->dir, path, flags, 0600);
    return fd;
}

// Returns true if the open file is the one of that name: another process may
// have finished it, under its other name, between our open and our lock.
static bool piece_is_named(const struct pieces *p, int fd, const char *path)
{
    struct stat here, there;

    return fstat(fd, &here) == 0 &&
           fstatat(p->dir, path, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
           here.st_ino == there.st_ino && here.st_dev == there.st_dev;
}

int pieces_claim(struct pieces *p, const struct piece_name *name,
                 bool (*leave)(void *arg), void *arg)
{
    char path[PIECE_PATH];
    int fd = -1;

    piece_path(path, name, ".");
    while (!pieces_off(p) && !leave(arg)) {
        fd = open_unfinished(p, path);
        if (fd < 0) {
            pieces_turn_off(p, strerror(errno));
            break;
        }
        if (!pieces_lock(p, fd, leave, arg))
            break;
        if (piece_is_named(p, fd, path)) {
            (void)futimens(fd, NULL); // not one that was never finished
            return fd;
        }
        close(fd);
        fd = -1;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

void pieces_drop(struct pieces *p, int claim, const struct piece_name *name)
{
    char path[PIECE_PATH];

    if (claim < 0)
        return;
    piece_path(path, name, ".");
    (void)unlinkat(p->dir, path, 0); // while the lock keeps other processes out
    close(claim);
}

static void make_head(struct piece_head *h, const struct piece_name *name,
                      const uint8_t *bytes, size_t n)
{
    memset(h, 0, sizeof(*h));
    memcpy(h->magic, PIECES_MAGIC, sizeof(h->magic));
    memcpy(h->id, name->id, PIECES_ID);
    h->index = name->index;
    h->bytes = (uint32_t)n;
    for (size_t at = 0; at < n; at += PIECE_BLOCK)
        h->sums[at / PIECE_BLOCK] =
            crc32c(0, bytes + at, n - at < PIECE_BLOCK ? n - at : PIECE_BLOCK);
    h->sum = crc32c(0, h, offsetof(struct piece_head, sum));
}

static bool write_exactly(int fd, const void *bytes, size_t n, uint64_t at)
{
    size_t done = 0;

    while (done < n) {
        ssize_t some = pwrite(fd, (const char *)bytes + done, n - done,
                              (off_t)(at + done));

        if (some <= 0 && errno != EINTR)
            return false;
        done += some > 0 ? (size_t)some : 0;
    }
    return true;
}

// Returns 0, or the errno of what failed.
static int fill_claim(int claim, const struct piece_head *h, const void *bytes,
                      size_t n)
{
    errno = 0;
    return ftruncate(claim, 0) == 0 &&
                   write_exactly(claim, bytes, n, PIECES_HEAD) &&
                   write_exactly(claim, h, sizeof(*h), 0)
               ? 0
           : errno != 0 ? errno
                        : EIO;
}

bool pieces_write(struct pieces *p, int claim, const struct piece_name *name,
                  const void *bytes, size_t n)
{
    char path[PIECE_PATH], last[PIECE_PATH];
    struct piece_head h;
    int errnum;

    if (claim < 0)
        return false;
    piece_path(path, name, ".");
    piece_path(last, name, "");
    make_head(&h, name, bytes, n);
    if (!room_take(p, PIECES_HEAD + n)) {
        pieces_drop(p, claim, name);
        return false;
    }
    errnum = fill_claim(claim, &h, bytes, n);
    // What others put on the disk counts in no account. What goes is taken by
    // those that write at the same time, too.
    for (int i = 0; i < ROOM_TRIES && (errnum == ENOSPC || errnum == EDQUOT) &&
                    room_make(p);
         i++)
        errnum = fill_claim(claim, &h, bytes, n);
    if (errnum == 0 && renameat(p->dir, path, p->dir, last) != 0)
        errnum = errno;
    if (errnum != 0) {
        room_give(p, PIECES_HEAD + n);
        pieces_turn_off(p, strerror(errnum));
        pieces_drop(p, claim, name);
        return false;
    }
    close(claim);
    return true;
}
