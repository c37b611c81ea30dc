// SPDX-License-Identifier: Apache-2.0
// tests/harness/crash_disk.h -- within crash_fs only: what is on the platter,
// what is in the cache, and what a power cut makes of both.
//
// A node is a file or a folder; a name leads to a node. Both exist twice: as
// everybody sees them now, and as they are durable. What lies between is a
// list of changes in order. A sync applies its changes to the durable side; a
// power cut applies some of them.
//
// Memory   never fails: it aborts. Nodes live until disk_release.
#ifndef TESTS_HARNESS_CRASH_DISK_H
#define TESTS_HARNESS_CRASH_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/list.h"
#include "common/base/rng.h"

#define DISK_SECTOR 512

struct disk_blob {
    uint8_t *data;
    size_t len;
};

struct disk_node {
    struct list_node node;
    bool is_dir;
    struct disk_blob now, durable;
    struct list changes; // of struct disk_write, oldest first
};

struct disk_name {
    struct list_node node;
    char *path; // without "/" at either end; the root has no name
    struct disk_node *to;
};

struct disk {
    struct list nodes;        // of struct disk_node: all there ever were
    struct list now, durable; // of struct disk_name
    struct list changes;      // of struct disk_change: to names
};

void disk_init(struct disk *d);
void disk_release(struct disk *d);

// "./a//b/" -> "a/b"; the root is "". Freed with free.
char *disk_path(const char *path);

// NULL: no such name. The root exists (as a folder) but has no node.
struct disk_node *disk_find(struct disk *d, const char *path);
bool disk_is_dir(struct disk *d, const char *path);
bool disk_parent_exists(struct disk *d, const char *path);

// Changes, of which all see the effect at once. Paths are those of disk_path.
struct disk_node *disk_link(struct disk *d, const char *path, bool is_dir);
void disk_unlink(struct disk *d, const char *path);
void disk_rename(struct disk *d, const char *from, const char *to);
void disk_write(struct disk_node *n, uint64_t offset, const void *bytes,
                size_t len);
void disk_truncate(struct disk_node *n);

// What these syncs promise.
void disk_sync(struct disk_node *n);
void disk_sync_dir(struct disk *d, const char *dir);

// A sync that failed: the cache forgets that it was dirty, so that later
// syncs succeed and do nothing.
void disk_sync_failed(struct disk_node *n);

// Nothing of this file, nor of its name and folders, would be lost.
bool disk_durable(struct disk *d, const char *path);

// Of the heap: it keeps whatever there ever was.
size_t disk_bytes(const struct disk *d);

// Power fails and returns.
void disk_reboot(struct disk *d, struct rng *rng);

#endif
