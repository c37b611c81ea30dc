// SPDX-License-Identifier: Apache-2.0
#include "tests/harness/crash_disk.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#define TRUNCATION UINT64_MAX // as the offset of a write

struct disk_write {
    struct list_node node;
    uint64_t offset;
    struct disk_blob bytes;
};

// Removes `gone` (if set) and leads `path` (if set) to `to`, at once.
struct disk_change {
    struct list_node node;
    char *gone, *path;
    struct disk_node *to;
};

static void *must(void *p)
{
    if (p == NULL)
        abort();
    return p;
}

static char *copy_text(const char *text)
{
    return text != NULL ? must(strdup(text)) : NULL;
}

// --- bytes

static void blob_write(struct disk_blob *b, uint64_t offset, const void *bytes,
                       size_t len)
{
    size_t end = (size_t)offset + len;

    if (len == 0)
        return;
    if (end > b->len) {
        b->data = must(realloc(b->data, end));
        memset(b->data + b->len, 0, end - b->len);
        b->len = end;
    }
    memcpy(b->data + offset, bytes, len);
}

static void blob_release(struct disk_blob *b)
{
    free(b->data);
    *b = (struct disk_blob){NULL, 0};
}

static void blob_apply(struct disk_blob *b, const struct disk_write *w)
{
    if (w->offset == TRUNCATION)
        blob_release(b);
    else
        blob_write(b, w->offset, w->bytes.data, w->bytes.len);
}

// Some sectors of a write arrive, others do not.
static void blob_tear(struct disk_blob *b, const struct disk_write *w,
                      struct rng *rng)
{
    size_t at = 0;

    while (at < w->bytes.len) {
        size_t n = DISK_SECTOR - (w->offset + at) % DISK_SECTOR;

        if (n > w->bytes.len - at)
            n = w->bytes.len - at;
        if (rng_below(rng, 2) == 0)
            blob_write(b, w->offset + at, w->bytes.data + at, n);
        at += n;
    }
}

// --- nodes

static void write_free(struct disk_write *w)
{
    blob_release(&w->bytes);
    free(w);
}

static struct disk_write *next_write(struct disk_node *n)
{
    struct list_node *at = list_pop_front(&n->changes);

    return at == NULL ? NULL : list_entry(at, struct disk_write, node);
}

static void keep_write(struct disk_node *n, uint64_t offset, const void *bytes,
                       size_t len)
{
    struct disk_write *w = must(calloc(1, sizeof(*w)));

    w->offset = offset;
    blob_write(&w->bytes, 0, bytes, len);
    blob_apply(&n->now, w);
    list_push_back(&n->changes, &w->node);
}

void disk_write(struct disk_node *n, uint64_t offset, const void *bytes,
                size_t len)
{
    keep_write(n, offset, bytes, len);
}

void disk_truncate(struct disk_node *n)
{
    keep_write(n, TRUNCATION, NULL, 0);
}

void disk_sync(struct disk_node *n)
{
    struct disk_write *w;

    while ((w = next_write(n)) != NULL) {
        blob_apply(&n->durable, w);
        write_free(w);
    }
}

void disk_sync_failed(struct disk_node *n)
{
    struct disk_write *w;

    while ((w = next_write(n)) != NULL)
        write_free(w);
}

static void reboot_node(struct disk_node *n, struct rng *rng)
{
    struct disk_write *w;

    while ((w = next_write(n)) != NULL) {
        uint64_t fate = rng_below(rng, 3);

        if (fate == 0 || (fate == 1 && w->offset == TRUNCATION))
            blob_apply(&n->durable, w);
        else if (fate == 1)
            blob_tear(&n->durable, w, rng);
        write_free(w);
    }
    blob_release(&n->now);
    blob_write(&n->now, 0, n->durable.data, n->durable.len);
}

// --- names

static struct disk_name *find_name(struct list *names, const char *path)
{
    list_for(at, names)
    {
        struct disk_name *name = list_entry(at, struct disk_name, node);

        if (strcmp(name->path, path) == 0)
            return name;
    }
    return NULL;
}

static void drop_name(struct disk_name *name)
{
    if (name == NULL)
        return;
    list_remove(&name->node);
    free(name->path);
    free(name);
}

static void set_name(struct list *names, const char *path, struct disk_node *to)
{
    struct disk_name *name = find_name(names, path);

    if (name == NULL) {
        name = must(calloc(1, sizeof(*name)));
        name->path = copy_text(path);
        list_push_back(names, &name->node);
    }
    name->to = to;
}

static void apply_change(struct list *names, const struct disk_change *c)
{
    if (c->gone != NULL)
        drop_name(find_name(names, c->gone));
    if (c->path != NULL)
        set_name(names, c->path, c->to);
}

static void change_free(struct disk_change *c)
{
    list_remove(&c->node);
    free(c->gone);
    free(c->path);
    free(c);
}

static void keep_change(struct disk *d, const char *gone, const char *path,
                        struct disk_node *to)
{
    struct disk_change *c = must(calloc(1, sizeof(*c)));

    c->gone = copy_text(gone);
    c->path = copy_text(path);
    c->to = to;
    apply_change(&d->now, c);
    list_push_back(&d->changes, &c->node);
}

// The length of the folder's part of a path; 0 is the root.
static size_t dir_len(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? 0 : (size_t)(slash - path);
}

static size_t dir_len_of(const char *path, size_t len)
{
    while (len > 0 && path[len - 1] != '/')
        len--;
    return len == 0 ? 0 : len - 1;
}

static bool lies_in(const char *path, const char *dir)
{
    size_t n = dir_len(path);

    return n == strlen(dir) && strncmp(path, dir, n) == 0;
}

char *disk_path(const char *path)
{
    char *out = must(calloc(1, strlen(path) + 1)), *to = out;

    while (*path != '\0') {
        size_t n = strcspn(path, "/");

        if (n > 0 && !(n == 1 && *path == '.')) {
            if (to != out)
                *to++ = '/';
            memcpy(to, path, n);
            to += n;
        }
        path += n + (path[n] == '/');
    }
    return out;
}

struct disk_node *disk_find(struct disk *d, const char *path)
{
    struct disk_name *name = find_name(&d->now, path);

    return name == NULL ? NULL : name->to;
}

static bool dir_in(struct list *names, const char *path, size_t len)
{
    char *dir = must(strndup(path, len));
    struct disk_name *name = find_name(names, dir);

    free(dir);
    return len == 0 || (name != NULL && name->to->is_dir);
}

bool disk_is_dir(struct disk *d, const char *path)
{
    return dir_in(&d->now, path, strlen(path));
}

bool disk_parent_exists(struct disk *d, const char *path)
{
    return dir_in(&d->now, path, dir_len(path));
}

struct disk_node *disk_link(struct disk *d, const char *path, bool is_dir)
{
    struct disk_node *n = must(calloc(1, sizeof(*n)));

    n->is_dir = is_dir;
    list_init(&n->changes);
    list_push_back(&d->nodes, &n->node);
    keep_change(d, NULL, path, n);
    return n;
}

void disk_unlink(struct disk *d, const char *path)
{
    keep_change(d, path, NULL, NULL);
}

void disk_rename(struct disk *d, const char *from, const char *to)
{
    struct disk_node *n = disk_find(d, from);

    if (n != NULL && strcmp(from, to) != 0)
        keep_change(d, from, to, n);
}

void disk_sync_dir(struct disk *d, const char *dir)
{
    list_for_safe(at, &d->changes)
    {
        struct disk_change *c = list_entry(at, struct disk_change, node);

        if (!lies_in(c->path != NULL ? c->path : c->gone, dir))
            continue;
        apply_change(&d->durable, c);
        change_free(c);
    }
}

// A name whose folder did not survive is lost with it.
static void drop_orphans(struct list *names)
{
    bool again = true;

    while (again) {
        again = false;
        list_for_safe(at, names)
        {
            struct disk_name *name = list_entry(at, struct disk_name, node);

            if (dir_in(names, name->path, dir_len(name->path)))
                continue;
            drop_name(name);
            again = true;
        }
    }
}

// No change of it, or of a folder above it, is still to be made durable.
static bool name_durable(struct disk *d, const char *path, size_t len)
{
    char *part = must(strndup(path, len));
    struct disk_name *now = find_name(&d->now, part);
    struct disk_name *durable = find_name(&d->durable, part);
    bool same =
        len == 0 || (now != NULL && durable != NULL && now->to == durable->to);

    list_for(at, &d->changes)
    {
        struct disk_change *c = list_entry(at, struct disk_change, node);

        if ((c->path != NULL && strcmp(c->path, part) == 0) ||
            (c->gone != NULL && strcmp(c->gone, part) == 0))
            same = false;
    }
    free(part);
    return same && (len == 0 || name_durable(d, path, dir_len_of(path, len)));
}

bool disk_durable(struct disk *d, const char *path)
{
    struct disk_node *n = disk_find(d, path);

    return n != NULL && !n->is_dir && list_empty(&n->changes) &&
           n->now.len == n->durable.len &&
           (n->now.len == 0 ||
            memcmp(n->now.data, n->durable.data, n->now.len) == 0) &&
           name_durable(d, path, strlen(path));
}

static void drop_names(struct list *names)
{
    list_for_safe(at, names) drop_name(list_entry(at, struct disk_name, node));
}

void disk_reboot(struct disk *d, struct rng *rng)
{
    list_for(at, &d->nodes)
        reboot_node(list_entry(at, struct disk_node, node), rng);
    list_for_safe(at, &d->changes)
    {
        struct disk_change *c = list_entry(at, struct disk_change, node);

        if (rng_below(rng, 2) == 0)
            apply_change(&d->durable, c);
        change_free(c);
    }
    drop_orphans(&d->durable);
    drop_names(&d->now);
    list_for(at, &d->durable)
    {
        struct disk_name *name = list_entry(at, struct disk_name, node);

        set_name(&d->now, name->path, name->to);
    }
}

static size_t of_names(const struct list *names)
{
    size_t bytes = 0;

    list_for(at, names)
    {
        struct disk_name *name = list_entry(at, struct disk_name, node);

        bytes += malloc_usable_size(name) + malloc_usable_size(name->path);
    }
    return bytes;
}

static size_t of_writes(const struct disk_node *n)
{
    size_t bytes = 0;

    list_for(at, &n->changes)
    {
        struct disk_write *w = list_entry(at, struct disk_write, node);

        bytes += malloc_usable_size(w) + malloc_usable_size(w->bytes.data);
    }
    return bytes;
}

size_t disk_bytes(const struct disk *d)
{
    size_t bytes = of_names(&d->now) + of_names(&d->durable);

    list_for(at, &d->nodes)
    {
        struct disk_node *n = list_entry(at, struct disk_node, node);

        bytes += malloc_usable_size(n) + malloc_usable_size(n->now.data) +
                 malloc_usable_size(n->durable.data) + of_writes(n);
    }
    list_for(at, &d->changes)
    {
        struct disk_change *c = list_entry(at, struct disk_change, node);

        bytes += malloc_usable_size(c) + malloc_usable_size(c->gone) +
                 malloc_usable_size(c->path);
    }
    return bytes;
}

void disk_init(struct disk *d)
{
    list_init(&d->nodes);
    list_init(&d->now);
    list_init(&d->durable);
    list_init(&d->changes);
}

void disk_release(struct disk *d)
{
    struct list_node *at;

    list_for_safe(c, &d->changes)
        change_free(list_entry(c, struct disk_change, node));
    drop_names(&d->now);
    drop_names(&d->durable);
    while ((at = list_pop_front(&d->nodes)) != NULL) {
        struct disk_node *n = list_entry(at, struct disk_node, node);

        disk_sync_failed(n);
        blob_release(&n->now);
        blob_release(&n->durable);
        free(n);
    }
}
