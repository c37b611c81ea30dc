// SPDX-License-Identifier: Apache-2.0
// common/base/fs.h -- files, sync and rename behind a vtable.
//
// Everything durable goes through here, so that tests can hand in a disk that
// dies (tests/harness/crash_fs). What is promised is what POSIX promises:
// bytes are durable after fs_sync of the file, names after fs_sync_dir of the
// folder. A failed sync is final: the kernel has thrown the dirty pages away
// and a second sync would lie, so the file then refuses everything but close.
//
// Threads  a struct fs: any. A file: one at a time, except fs_pread (any).
// Memory   a file is freed by fs_close; a map by fs_unmap.
// Errors   *err names the path, the call and the reason.
#ifndef COMMON_BASE_FS_H
#define COMMON_BASE_FS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

struct buf;
struct fs;

enum fs_mode {
    FS_READ,   // must exist
    FS_CREATE, // for writing, must not exist
    FS_WRITE,  // for writing, created or emptied
    FS_APPEND, // for writing at the end, created if missing
};

// First member of an implementation's file.
struct fs_file {
    struct fs *fs;
    char *path;    // owned; for errors
    bool poisoned; // a write or sync failed; set by the wrappers below
};

struct fs_stat {
    uint64_t bytes;
    uint64_t mtime_ns;
    bool is_dir;
};

// What is mapped, or copied where the implementation cannot map.
struct fs_map {
    const uint8_t *data;
    size_t bytes;
    void *impl;
};

// Called once per name, without "." and "..", in byte order. Returning
// anything but SL_OK ends the walk with that.
typedef enum sl_err (*fs_name_fn)(void *arg, const char *name);

// Implementations fill *err themselves. Nobody calls these but fs.c.
struct fs_ops {
    enum sl_err (*open)(struct fs *fs, struct fs_file **out, const char *path,
                        enum fs_mode mode, struct sl_error *err);
    void (*close)(struct fs_file *f);
    // All n bytes or an error; at the end of the file, or at `offset`.
    enum sl_err (*write)(struct fs_file *f, const void *bytes, size_t n,
                         struct sl_error *err);
    enum sl_err (*pwrite)(struct fs_file *f, uint64_t offset, const void *bytes,
                          size_t n, struct sl_error *err);
    // Up to n bytes; *got < n only at the end of the file.
    enum sl_err (*pread)(struct fs_file *f, uint64_t offset, void *to, size_t n,
                         size_t *got, struct sl_error *err);
    // Optional, as is what it does.
    void (*expect)(struct fs_file *f, uint64_t offset, size_t n);
    enum sl_err (*sync)(struct fs_file *f, struct sl_error *err);
    enum sl_err (*size)(struct fs_file *f, uint64_t *out, struct sl_error *err);
    enum sl_err (*map)(struct fs_file *f, struct fs_map *out,
                       struct sl_error *err);
    void (*unmap)(struct fs *fs, struct fs_map *m);
    enum sl_err (*rename)(struct fs *fs, const char *from, const char *to,
                          struct sl_error *err);
    enum sl_err (*sync_dir)(struct fs *fs, const char *dir,
                            struct sl_error *err);
    // Optional: gives a file that was opened for writing the name `path` in one
    // step, whole and durable, and closes it (also when it fails). Until then
    // it had none, nor did it need a temporary one. `fresh`: SL_EEXIST if the
    // name is taken.
    enum sl_err (*commit)(struct fs_file *f, const char *path, bool fresh,
                          struct sl_error *err);
    enum sl_err (*unlink)(struct fs *fs, const char *path,
                          struct sl_error *err);
    // NULL: there are no folders but as parts of names.
    enum sl_err (*mkdir)(struct fs *fs, const char *path, // SL_EEXIST
                         struct sl_error *err);
    enum sl_err (*stat)(struct fs *fs, const char *path, struct fs_stat *out,
                        struct sl_error *err); // SL_ENOENT
    enum sl_err (*list)(struct fs *fs, const char *dir, fs_name_fn fn,
                        void *arg, struct sl_error *err);
};

struct fs {
    const struct fs_ops *ops;
};

// The real one; never freed. What it makes is for others to read as far as the
// umask lets them: a store may be shared.
struct fs *fs_posix(void);

// The same for what is its user's alone (the state of a daemon holds keys,
// specs and the audit log): it makes folders of mode 0700 and files of mode
// 0600, and a file that it opens for writing and that others could read no
// longer is.
struct fs *fs_private(void);

enum sl_err fs_open(struct fs *fs, struct fs_file **out, const char *path,
                    enum fs_mode mode, struct sl_error *err);
void fs_close(struct fs_file *f); // NULL is allowed; says nothing of durability
enum sl_err fs_write(struct fs_file *f, const void *bytes, size_t n,
                     struct sl_error *err);
enum sl_err fs_pwrite(struct fs_file *f, uint64_t offset, const void *bytes,
                      size_t n, struct sl_error *err);
enum sl_err fs_pread(struct fs_file *f, uint64_t offset, void *to, size_t n,
                     size_t *got, struct sl_error *err);
// These bytes are about to be read: the system may fetch them meanwhile.
void fs_expect(struct fs_file *f, uint64_t offset, size_t n);
enum sl_err fs_sync(struct fs_file *f, struct sl_error *err);
enum sl_err fs_size(struct fs_file *f, uint64_t *out, struct sl_error *err);

// The whole file, read-only, until fs_unmap; it may be closed meanwhile.
enum sl_err fs_map_file(struct fs_file *f, struct fs_map *out,
                        struct sl_error *err);
void fs_unmap(struct fs *fs, struct fs_map *m); // all zeroes is allowed

// Replaces `to` atomically. Durable only after fs_sync_dir of the folder.
enum sl_err fs_rename(struct fs *fs, const char *from, const char *to,
                      struct sl_error *err);
enum sl_err fs_sync_dir(struct fs *fs, const char *dir, struct sl_error *err);
enum sl_err fs_unlink(struct fs *fs, const char *path, struct sl_error *err);
enum sl_err fs_stat_path(struct fs *fs, const char *path, struct fs_stat *out,
                         struct sl_error *err);
bool fs_exists(struct fs *fs, const char *path);

// Makes a folder and those above it; all of their names are durable then, also
// if an earlier call died, or failed, half way.
enum sl_err fs_mkdirs(struct fs *fs, const char *path, struct sl_error *err);

// Makes a folder of fs_private on the real file system, and those above it as
// fs_mkdirs does. *others: it was there, and others may look into it; it stays
// so, because it may be one that others need.
enum sl_err fs_private_folder(const char *path, bool *others,
                              struct sl_error *err);

// Replaces *path (from sl_malloc), which exists on the real file system, by
// its absolute form without links. On failure it is untouched.
enum sl_err fs_absolute(char **path, struct sl_error *err);

// Calls fn per name, in byte order; fn may unlink and rename.
enum sl_err fs_list(struct fs *fs, const char *dir, fs_name_fn fn, void *arg,
                    struct sl_error *err);

// The same of a folder of the real file system that is open, and stays so.
// `dir` is for errors.
enum sl_err fs_list_open(int fd, const char *dir, fs_name_fn fn, void *arg,
                         struct sl_error *err);

// Makes a file of the real file system from a descriptor that is open for
// reading; closes it if that fails. `path` is for errors.
enum sl_err fs_take(struct fs_file **out, int fd, const char *path,
                    struct sl_error *err);

// Replaces or creates `path` so that after any crash it is the old or the new
// content, whole, and the new one once this returned SL_OK: temporary file
// (path + ".tmp"), write, sync, rename, sync of the folder. If it fails, the
// temporary file is removed; whether `path` is old or new is then open only
// if the last sync was what failed.
enum sl_err fs_write_durable(struct fs *fs, const char *path, const void *bytes,
                             size_t n, struct sl_error *err);

// The same for a name that must be new: SL_EEXIST if it is there. In a store of
// objects one of several that try at once wins; in a folder nothing keeps them
// apart but what the caller holds.
enum sl_err fs_write_new(struct fs *fs, const char *path, const void *bytes,
                         size_t n, struct sl_error *err);

// The three last steps for a file that was written under `temp` by others:
// sync and close f (also when it fails), rename, sync of the folder. `temp` is
// path + ".tmp": where there are no renames, it was never a name.
enum sl_err fs_commit(struct fs_file *f, const char *path,
                      struct sl_error *err);

// Appends a file's bytes to `out`; SL_ERANGE if it is longer than `limit`.
enum sl_err fs_read_all(struct fs *fs, const char *path, size_t limit,
                        struct buf *out, struct sl_error *err);

// "a/b/c" -> "a/b"; "c" -> "."; "/c" -> "/". NULL when out of memory.
char *fs_dirname(const char *path);

// dir + "/" + name; NULL when out of memory.
char *fs_join(const char *dir, const char *name);

#endif
