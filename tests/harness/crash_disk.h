// SPDX-License-Identifier: Apache-2.0
// tests/harness/crash_disk.h -- within crash_fs only: a disk in memory, with
// what is durable, what is only in the cache, and what a power cut leaves.
//
// A node is a file or a folder; a name leads to a node. Both exist twice: as
// they are seen now, and as they are durable. The difference is a list of
// changes in order. A sync applies its changes to the durable side; a power cut
// applies some of them.
//
// Threads  one at a time.
// Memory   without memory it aborts. Nodes live until disk_release. Paths are
//          as disk_path returns them, and are copied.
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

// Makes *d an empty disk, with the root folder alone.
void disk_init(struct disk *d);
// Frees all nodes, names and changes.
void disk_release(struct disk *d);

// Returns a path without "." and empty parts: "./a//b/" is "a/b", the root "".
// For free().
char *disk_path(const char *path);

// Returns the node that has this name now; NULL: there is none. The root has no
// node.
struct disk_node *disk_find(struct disk *d, const char *path);
// Returns true if `path` is a folder now.
bool disk_is_dir(struct disk *d, const char *path);
// Returns true if the folder that `path` lies in exists now.
bool disk_parent_exists(struct disk *d, const char *path);

// ---- changes: they are seen at once, and are not durable before a sync

// Makes a new node, a folder or an empty file, gives it the name `path`, and
// returns it. Checks nothing.
struct disk_node *disk_link(struct disk *d, const char *path, bool is_dir);
// Removes a name.
void disk_unlink(struct disk *d, const char *path);
// Gives the node of `from` the name `to` instead, in place of a node that has
// it. Does nothing if `from` has no node, or both are equal.
void disk_rename(struct disk *d, const char *from, const char *to);
// Writes bytes[len] at `offset` of a file; a hole before it has zeroes.
void disk_write(struct disk_node *n, uint64_t offset, const void *bytes,
                size_t len);
// Makes a file empty.
void disk_truncate(struct disk_node *n);

// ---- syncs

// Makes all writes to a file durable, but not its name.
void disk_sync(struct disk_node *n);
// Makes the names in the folder `dir` durable, as they are now.
void disk_sync_dir(struct disk *d, const char *dir);

// Forgets all writes to a file since its last sync, as if they were durable,
// though they are not: as a kernel does when a sync fails, so that later syncs
// succeed and do nothing.
void disk_sync_failed(struct disk_node *n);

// Returns true if nothing of this file, of its name and of its folders would be
// lost in a power cut. False for a folder, and if there is no such file.
bool disk_durable(struct disk *d, const char *path);

// Returns how many bytes of the heap the disk takes; it keeps all nodes that
// there ever were.
size_t disk_bytes(const struct disk *d);

// Cuts the power: of each change that is not durable, `rng` draws whether it is
// kept, dropped or torn (crash_fs.h). What is left is durable, and seen from
// then on.
void disk_reboot(struct disk *d, struct rng *rng);

#endif
