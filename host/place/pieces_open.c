// SPDX-License-Identifier: Apache-2.0
// host/place/pieces_open.c -- pieces that stay open between reads.
//
// A shuffled epoch reads a few KiB of some piece at a time. To open a piece,
// and to read and check its head, takes as long as several such reads; so those
// that were read last stay open, with the block that was read last: label and
// features of a sample are often in one.
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/crc.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "host/place/pieces_inner.h"

#define OPEN_MOST 512
#define NO_BLOCK UINT32_MAX

struct open_piece {
    struct list_node node; // of p->open, those used last first
    uint64_t key;
    uint32_t index;
    uint8_t id[PIECES_ID];
    int fd;         // owned
    unsigned users; // with p->open_lock
    bool listed;    // else it goes with its last user

    pthread_mutex_t lock; // guards what follows
    uint64_t noted_ms;    // time of the use that was noted last
    struct piece_head head;
    uint32_t block; // the one in `bytes`; NO_BLOCK: none
    uint8_t bytes[PIECE_BLOCK];
};

void piece_path(char out[PIECE_PATH], const struct piece_name *name,
                const char *mark)
{
    char id[2 * PIECES_ID + 1];

    hex_encode(id, name->id, PIECES_ID);
    snprintf(out, PIECE_PATH, "%02x/%s%s-%08x",
             (name->id[0] + name->index) & 0xff, mark, id, name->index);
}

static uint64_t open_key(const struct piece_name *name)
{
    uint64_t id;

    memcpy(&id, name->id, sizeof(id));
    return id ^ (name->index * UINT64_C(0x9e3779b97f4a7c15));
}

static bool open_is(const struct open_piece *e, const struct piece_name *name)
{
    return e->index == name->index && memcmp(e->id, name->id, PIECES_ID) == 0;
}

static void open_free(struct open_piece *e)
{
    close(e->fd);
    pthread_mutex_destroy(&e->lock);
    sl_free(e);
}

// Takes a piece off the list; it is freed with its last user.
static void open_unlist_locked(struct pieces *p, struct open_piece *e)
{
    list_remove(&e->node);
    map_remove(&p->opened, e->key);
    p->open_count--;
    e->listed = false;
    if (e->users == 0)
        open_free(e);
}

void open_init(struct pieces *p)
{
    pthread_mutex_init(&p->open_lock, NULL);
    map_init(&p->opened);
    list_init(&p->open);
}

void open_release(struct pieces *p)
{
    while (!list_empty(&p->open))
        open_unlist_locked(
            p, list_entry(list_first(&p->open), struct open_piece, node));
    map_release(&p->opened);
    pthread_mutex_destroy(&p->open_lock);
}

static struct open_piece *open_find_locked(struct pieces *p,
                                           const struct piece_name *name)
{
    struct open_piece *e = map_get(&p->opened, open_key(name));

    return e != NULL && open_is(e, name) ? e : NULL;
}

bool open_has(struct pieces *p, const struct piece_name *name)
{
    bool has;

    pthread_mutex_lock(&p->open_lock);
    has = open_find_locked(p, name) != NULL;
    pthread_mutex_unlock(&p->open_lock);
    return has;
}

static struct open_piece *open_find(struct pieces *p,
                                    const struct piece_name *name)
{
    struct open_piece *e;

    pthread_mutex_lock(&p->open_lock);
    e = open_find_locked(p, name);
    if (e != NULL) {
        e->users++;
        list_remove(&e->node);
        list_push_front(&p->open, &e->node);
    }
    pthread_mutex_unlock(&p->open_lock);
    return e;
}

// Lists a piece that its caller has opened, unless another is listed under its
// key.
static void open_list(struct pieces *p, struct open_piece *e)
{
    pthread_mutex_lock(&p->open_lock);
    if (map_get(&p->opened, e->key) == NULL &&
        map_put(&p->opened, e->key, e) == SL_OK) {
        list_push_front(&p->open, &e->node);
        p->open_count++;
        e->listed = true;
    }
    if (p->open_count > OPEN_MOST)
        open_unlist_locked(
            p, list_entry(list_last(&p->open), struct open_piece, node));
    pthread_mutex_unlock(&p->open_lock);
}

static bool head_fits(const struct piece_head *h, const struct piece_name *name)
{
    return memcmp(h->magic, PIECES_MAGIC, sizeof(h->magic)) == 0 &&
           memcmp(h->id, name->id, PIECES_ID) == 0 && h->index == name->index &&
           h->bytes <= PIECE_BYTES &&
           h->sum == crc32c(0, h, offsetof(struct piece_head, sum));
}

static bool read_exactly(int fd, void *to, size_t n, uint64_t at)
{
    return pread(fd, to, n, (off_t)at) == (ssize_t)n;
}

// Opens the file of a piece; NULL with *damaged if it does not fit.
static struct open_piece *
open_make(struct pieces *p, const struct piece_name *name, bool *damaged)
{
    char path[PIECE_PATH];
    struct open_piece *e;
    struct stat st;
    int fd;

    piece_path(path, name, "");
    fd = openat(p->dir, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return NULL;
    e = sl_calloc(1, sizeof(*e));
    if (e == NULL) {
        close(fd);
        return NULL;
    }
    e->fd = fd;
    e->key = open_key(name);
    e->index = name->index;
    e->users = 1;
    e->block = NO_BLOCK;
    memcpy(e->id, name->id, PIECES_ID);
    pthread_mutex_init(&e->lock, NULL);
    if (!read_exactly(fd, &e->head, sizeof(e->head), 0) ||
        !head_fits(&e->head, name) || fstat(fd, &st) != 0) {
        *damaged = true;
        open_free(e);
        return NULL;
    }
    e->noted_ms = (uint64_t)st.st_mtim.tv_sec * 1000 +
                  (uint64_t)st.st_mtim.tv_nsec / 1000000;
    open_list(p, e);
    return e;
}

struct open_piece *open_take(struct pieces *p, const struct piece_name *name,
                             bool *damaged)
{
    struct open_piece *e = open_find(p, name);

    *damaged = false;
    return e != NULL ? e : open_make(p, name, damaged);
}

void open_give(struct pieces *p, struct open_piece *e, bool damaged)
{
    pthread_mutex_lock(&p->open_lock);
    e->users--;
    if (damaged && e->listed)
        open_unlist_locked(p, e);
    else if (!e->listed && e->users == 0)
        open_free(e);
    pthread_mutex_unlock(&p->open_lock);
}

// Notes that a piece is used: its file's time says how long ago that was.
static void open_note_use_locked(struct pieces *p, struct open_piece *e)
{
    uint64_t now = sl_real_ms();

    if (now - e->noted_ms < p->fresh_ms)
        return;
    (void)futimens(e->fd, NULL);
    e->noted_ms = now;
}

// Reads and checks a block, which stays in e->bytes.
static bool open_block_locked(struct open_piece *e, uint32_t number)
{
    size_t at = (size_t)number * PIECE_BLOCK;
    size_t n =
        e->head.bytes - at < PIECE_BLOCK ? e->head.bytes - at : PIECE_BLOCK;

    if (e->block == number)
        return true;
    e->block = NO_BLOCK;
    if (!read_exactly(e->fd, e->bytes, n, PIECES_HEAD + at) ||
        crc32c(0, e->bytes, n) != e->head.sums[number])
        return false;
    e->block = number;
    return true;
}

bool open_read(struct pieces *p, struct open_piece *e, size_t offset,
               uint8_t *to, size_t n)
{
    bool good;

    pthread_mutex_lock(&e->lock);
    good = offset <= e->head.bytes && n <= e->head.bytes - offset;
    while (good && n > 0) {
        size_t skip = offset % PIECE_BLOCK;
        size_t part = PIECE_BLOCK - skip < n ? PIECE_BLOCK - skip : n;

        good = open_block_locked(e, (uint32_t)(offset / PIECE_BLOCK));
        if (good)
            memcpy(to, e->bytes + skip, part);
        offset += part;
        to += part;
        n -= part;
    }
    if (good)
        open_note_use_locked(p, e);
    pthread_mutex_unlock(&e->lock);
    return good;
}
