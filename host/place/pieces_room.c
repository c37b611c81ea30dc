// SPDX-License-Identifier: Apache-2.0
// host/place/pieces_room.c -- the bytes of all pieces, and which pieces go.
//
// The account may say too much (a process died before its piece had its name;
// two wrote one piece), never too little for long: when it says that the cache
// is full, the folder is looked through, and the account is right again. Then a
// sixteenth goes at once, so that this is rare.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/run/log.h"
#include "host/place/pieces_inner.h"

#define ROOM_PART 16
#define UNFINISHED_S 3600 // longer than a piece is written

#define OFF_MS 60000
#define LOCK_WAIT_MS 10

struct aged {
    char path[PIECE_PATH];
    int64_t used_ns;
    uint64_t bytes;
};

struct aged_list {
    struct aged *at; // owned
    size_t count, space;
    uint64_t bytes;
};

bool pieces_off(const struct pieces *p)
{
    return sl_real_ms() < atomic_load(&p->off_until_ms);
}

void pieces_turn_off(struct pieces *p, const char *why)
{
    atomic_store(&p->off_until_ms, sl_real_ms() + OFF_MS);
    LOG(WARN,
        "the cache takes no pieces for a minute; training goes on without",
        "why=%s", why);
}

bool pieces_lock(const struct pieces *p, int fd, bool (*leave)(void *arg),
                 void *arg)
{
    const struct timespec pause = {0, LOCK_WAIT_MS * 1000000};
    uint64_t waited = 0;

    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if ((errno != EWOULDBLOCK && errno != EINTR) || leave(arg) ||
            waited >= p->patience_ms)
            return false;
        nanosleep(&pause, NULL);
        waited += LOCK_WAIT_MS;
    }
    return true;
}

static bool leave_never(void *arg)
{
    return arg != NULL;
}

// Locks the account against other threads, then against other processes. One of
// these may stand still with it, or the system gives no lock: false then, and
// the cache is off.
static bool account_lock(struct pieces *p)
{
    int failed;
    bool off;

    pthread_mutex_lock(&p->lock);
    off = pieces_off(p); // another thread may have waited in vain
    if (!off && pieces_lock(p, p->account, leave_never, NULL))
        return true;
    failed = errno;
    pthread_mutex_unlock(&p->lock);
    if (!off && (failed == EWOULDBLOCK || failed == EINTR))
        pieces_turn_off(p,
                        "another process has the account of the cache locked");
    else if (!off)
        pieces_turn_off(p, strerror(failed));
    return false;
}

static void account_unlock(struct pieces *p)
{
    flock(p->account, LOCK_UN);
    pthread_mutex_unlock(&p->lock);
}

static uint64_t account_read(const struct pieces *p)
{
    uint64_t bytes = 0;

    return pread(p->account, &bytes, sizeof(bytes), 0) == sizeof(bytes) ? bytes
                                                                        : 0;
}

static bool account_write(const struct pieces *p, uint64_t bytes)
{
    return pwrite(p->account, &bytes, sizeof(bytes), 0) == sizeof(bytes);
}

uint64_t pieces_bytes(const struct pieces *p)
{
    return account_read(p);
}

static bool aged_add(struct aged_list *l, const char *path,
                     const struct stat *st)
{
    if (l->count == l->space) {
        size_t space = l->space == 0 ? 256 : 2 * l->space;
        struct aged *more = sl_realloc_array(l->at, space, sizeof(*more));

        if (more == NULL)
            return false;
        l->at = more;
        l->space = space;
    }
    l->at[l->count].used_ns =
        (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
    l->at[l->count].bytes = (uint64_t)st->st_size;
    snprintf(l->at[l->count].path, PIECE_PATH, "%s", path);
    l->count++;
    l->bytes += (uint64_t)st->st_size;
    return true;
}

// Adds a file of the folder, or removes one that was never finished.
static bool aged_look(struct aged_list *l, const struct pieces *p,
                      const char *folder, const char *name)
{
    char path[PIECE_PATH];
    struct stat st;
    int n = snprintf(path, sizeof(path), "%s/%s", folder, name);

    if (n < 0 || (size_t)n >= sizeof(path) ||
        fstatat(p->dir, path, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(st.st_mode))
        return true;
    if (name[0] != '.')
        return aged_add(l, path, &st);
    if (st.st_mtim.tv_sec + UNFINISHED_S < time(NULL))
        (void)unlinkat(p->dir, path, 0);
    return true;
}

static bool aged_walk(struct aged_list *l, const struct pieces *p,
                      const char *folder)
{
    int fd = openat(p->dir, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    bool good = true;

    if (dir == NULL) {
        if (fd >= 0)
            close(fd);
        return true; // no piece lies there yet
    }
    while (good && (entry = readdir(dir)) != NULL)
        good = aged_look(l, p, folder, entry->d_name);
    closedir(dir);
    return good;
}

static int by_use(const void *a, const void *b)
{
    const struct aged *x = a, *y = b;

    return (x->used_ns > y->used_ns) - (x->used_ns < y->used_ns);
}

// Removes pieces, those first that were used longest ago, until `most` bytes
// are left at most, and sets *bytes to what is left. False: no memory.
static bool make_room(const struct pieces *p, uint64_t most, uint64_t *bytes)
{
    struct aged_list l = {.at = NULL};
    char folder[3];
    bool good = true;

    for (unsigned i = 0; good && i < 256; i++) {
        snprintf(folder, sizeof(folder), "%02x", i);
        good = aged_walk(&l, p, folder);
    }
    if (good && l.count > 1)
        qsort(l.at, l.count, sizeof(*l.at), by_use);
    for (size_t i = 0; good && i < l.count && l.bytes > most; i++) {
        if (unlinkat(p->dir, l.at[i].path, 0) == 0)
            l.bytes -= l.at[i].bytes;
    }
    *bytes = l.bytes;
    sl_free(l.at);
    return good;
}

void room_count(struct pieces *p)
{
    struct stat st;
    uint64_t bytes;

    if (!account_lock(p))
        return;
    if (fstat(p->account, &st) != 0 || st.st_size < (off_t)sizeof(bytes))
        if (make_room(p, p->most, &bytes))
            (void)account_write(p, bytes);
    account_unlock(p);
}

bool room_take(struct pieces *p, uint64_t n)
{
    uint64_t bytes;
    bool fits;

    if (!account_lock(p))
        return false;
    bytes = account_read(p);
    fits = (n <= p->most && bytes <= p->most - n) ||
           (make_room(p, p->most - p->most / ROOM_PART - n, &bytes) &&
            bytes + n <= p->most);
    fits = fits && account_write(p, bytes + n);
    account_unlock(p);
    return fits;
}

bool room_make(struct pieces *p)
{
    uint64_t had = 0, left = 0, bytes;
    bool good;

    if (!account_lock(p))
        return false;
    bytes = account_read(p); // counts pieces that are being written, too
    good = make_room(p, UINT64_MAX, &had) &&
           make_room(p, had - had / ROOM_PART, &left) && left < had &&
           account_write(p, bytes > had - left ? bytes - (had - left) : 0);
    account_unlock(p);
    return good;
}

void room_give(struct pieces *p, uint64_t n)
{
    uint64_t bytes;

    if (!account_lock(p))
        return;
    bytes = account_read(p);
    (void)account_write(p, bytes > n ? bytes - n : 0);
    account_unlock(p);
}
