// SPDX-License-Identifier: Apache-2.0
// common/base/fs.h -- files, sync and rename behind a vtable.
//
// Everything durable goes through here, so that tests can hand in a disk that
// dies (tests/harness/crash_fs). The promises are those of POSIX: bytes are
// durable after fs_sync of the file, names after fs_sync_dir of the folder. A
// failed sync is final: the kernel has thrown the dirty pages away and a second
// sync would lie, so the file then refuses every write and sync. A store in S3
// has rules of its own (host/store/store.h): a file appears, whole, with
// fs_sync or fs_commit, and takes no bytes after that.
//
// Threads  a struct fs: any. A file: one at a time, except fs_pread (any).
//          All but fs_dirname, fs_join and the two struct fs do I/O and may
//          wait for the disk, or the network of a store in S3.
// Memory   a file is freed by fs_close; a map by fs_unmap. Paths and bytes are
//          read only during the call; a struct fs outlives its files and maps.
//          No pointer is NULL but where it is said; bytes may be if n is 0.
// Errors   *err (may be NULL) names the path, the call and the reason. Codes
//          that are not told are those of the errno (sl_err_from_errno), or
//          SL_ENOMEM. A call that fails leaves *out as it was, but bytes that
//          it read are undefined.
#ifndef COMMON_BASE_FS_H
#define COMMON_BASE_FS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

struct buf;
struct fs;

enum fs_mode {
    FS_READ,   // opens an existing file for reading
    FS_CREATE, // makes a new file for writing; SL_EEXIST if it exists
    FS_WRITE,  // opens for writing; creates or empties the file
    FS_APPEND, // opens for writing at the end; creates a missing file
};

// First member of an implementation's file.
struct fs_file {
    struct fs *fs;
    char *path;    // owned; for errors
    bool poisoned; // a write or sync failed; set by the wrappers below
};

struct fs_stat {
    uint64_t bytes;
    uint64_t mtime_ns; // time of the last change, since 1970
    bool is_dir;
};

// Bytes of a file, mapped, or copied where the implementation cannot map.
struct fs_map {
    const uint8_t *data;
    size_t bytes;
    void *impl; // implementation's own, for its unmap
};

// Called once per name, without "." and "..", in byte order. Returning
// anything but SL_OK ends the walk with that. `name` is borrowed for the call.
typedef enum sl_err (*fs_name_fn)(void *arg, const char *name);

// Implementations fill *err themselves. Only fs.c calls these.
struct fs_ops {
    enum sl_err (*open)(struct fs *fs, struct fs_file **out, const char *path,
                        enum fs_mode mode, struct sl_error *err);
    void (*close)(struct fs_file *f); // frees the file; does not sync
    // Write all n bytes or fail; at the end of the file, or at `offset`.
    enum sl_err (*write)(struct fs_file *f, const void *bytes, size_t n,
                         struct sl_error *err);
    enum sl_err (*pwrite)(struct fs_file *f, uint64_t offset, const void *bytes,
                          size_t n, struct sl_error *err);
    // Reads up to n bytes; *got < n only at the end of the file.
    enum sl_err (*pread)(struct fs_file *f, uint64_t offset, void *to, size_t n,
                         size_t *got, struct sl_error *err);
    // Hints that these bytes will be read soon; may be NULL or do nothing.
    void (*expect)(struct fs_file *f, uint64_t offset, size_t n);
    // Makes the file's bytes durable.
    enum sl_err (*sync)(struct fs_file *f, struct sl_error *err);
    enum sl_err (*size)(struct fs_file *f, uint64_t *out, struct sl_error *err);
    // Optional: returns a number that other contents do not have.
    uint64_t (*version)(const struct fs_file *f);
    // Maps the whole file, or copies it; unmap frees that.
    enum sl_err (*map)(struct fs_file *f, struct fs_map *out,
                       struct sl_error *err);
    void (*unmap)(struct fs *fs, struct fs_map *m);
    // Optional, all three or none: takes space on the disk; maps a part for
    // reading and writing; ends such a map, also after close.
    enum sl_err (*reserve)(struct fs_file *f, uint64_t offset, uint64_t n,
                           struct sl_error *err);
    enum sl_err (*share)(struct fs_file *f, uint64_t offset, size_t n,
                         void **out, struct sl_error *err);
    void (*unshare)(struct fs *fs, void *at, size_t n);
    // Replaces `to` atomically; sync_dir makes that durable.
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
    // Makes a folder. NULL: folders are only parts of names.
    enum sl_err (*mkdir)(struct fs *fs, const char *path, // SL_EEXIST
                         struct sl_error *err);
    enum sl_err (*stat)(struct fs *fs, const char *path, struct fs_stat *out,
                        struct sl_error *err); // SL_ENOENT
    // Calls fn per name, in byte order; ends with what fn returns.
    enum sl_err (*list)(struct fs *fs, const char *dir, fs_name_fn fn,
                        void *arg, struct sl_error *err);
};

struct fs {
    const struct fs_ops *ops;
};

// Returns the real file system; never freed. Other users may read its files as
// far as the umask allows: a store may be shared.
struct fs *fs_posix(void);

// Returns the real file system for files that are private to their user (the
// state of a daemon holds keys, specs and the audit log): it makes folders of
// mode 0700 and files of mode 0600, and takes other users' rights away from a
// file that it opens for writing, if this user may.
struct fs *fs_private(void);

// Opens a file; `mode` says whether it must exist. SL_ENOENT: the file that
// must exist, or its folder, is missing; SL_EEXIST; SL_EINVAL: it is a folder;
// SL_ENOTSUP: a store in S3 appends to nothing. The file is the caller's to
// close with fs_close.
enum sl_err fs_open(struct fs *fs, struct fs_file **out, const char *path,
                    enum fs_mode mode, struct sl_error *err);

// Closes a file in any state and frees it; does not sync, so what was written
// since the last fs_sync may be lost. NULL is allowed.
void fs_close(struct fs_file *f);

// Writes all n bytes behind those that fs_write wrote before, or with FS_APPEND
// at the end of the file, or fails. Where fs_pwrite has made the file longer,
// the next fs_write of a real file overwrites that, and one in S3 appends.
// After a failure the file refuses every later write and sync with SL_EIO; a
// part may be in it, and it may be read and closed.
enum sl_err fs_write(struct fs_file *f, const void *bytes, size_t n,
                     struct sl_error *err);

// Writes all n bytes at `offset`, in bytes, or fails, after which the file
// refuses writes and syncs as after a failed fs_write. Not with FS_APPEND,
// where Linux writes at the end. A store in S3 refuses some offsets
// (host/store/store.h).
enum sl_err fs_pwrite(struct fs_file *f, uint64_t offset, const void *bytes,
                      size_t n, struct sl_error *err);

// Reads up to n bytes from `offset` and sets *got to their number; *got < n
// only at the end of the file, 0 beyond it. A file that is open for writing can
// be read and mapped too, but not in a store in S3 (SL_ENOTSUP).
enum sl_err fs_pread(struct fs_file *f, uint64_t offset, void *to, size_t n,
                     size_t *got, struct sl_error *err);

// Hints that these bytes will be read soon, so that the system may fetch them.
// They may lie beyond the end.
void fs_expect(struct fs_file *f, uint64_t offset, size_t n);

// Makes all that was written to `f` durable; waits for the disk. After a
// failure the file refuses every later write and sync with SL_EIO.
enum sl_err fs_sync(struct fs_file *f, struct sl_error *err);

// Sets *out to the length of the file in bytes.
enum sl_err fs_size(struct fs_file *f, uint64_t *out, struct sl_error *err);

// Returns a number of the contents of a file that is read, which they have on
// every host; 0: the implementation has none, as those of disks and of stores
// (host/place/places.h has one).
uint64_t fs_version(const struct fs_file *f);

// Maps the whole file, read-only, until fs_unmap; the file may be closed
// before. An empty file gives bytes = 0 and maybe data = NULL. Reading what was
// cut off the file meanwhile is a SIGBUS.
enum sl_err fs_map_file(struct fs_file *f, struct fs_map *out,
                        struct sl_error *err);
// Frees a map of this `fs` and zeroes *m; all zeroes is allowed.
void fs_unmap(struct fs *fs, struct fs_map *m);

// Takes space on the disk for n (not 0) bytes from `offset` on of a file that
// is open for writing, which is at least so long then. SL_EIO: the disk is
// full, and maybe a part was taken; SL_ENOTSUP: the file system cannot, or does
// not fs_share.
enum sl_err fs_reserve(struct fs_file *f, uint64_t offset, uint64_t n,
                       struct sl_error *err);

// Maps n (not 0) bytes from `offset` on, a multiple of the size of a page, of a
// file that is open for writing, and sets *out to them; until fs_unshare, also
// after fs_close. They may be read and written. Some of them may lie beyond the
// end until fs_reserve has taken them. What is written there is what fs_pread
// reads. A touch of what was not reserved, or of what the disk does not give,
// is a SIGBUS. SL_ENOTSUP as fs_reserve.
enum sl_err fs_share(struct fs_file *f, uint64_t offset, size_t n, void **out,
                     struct sl_error *err);
// Ends a map of n bytes from fs_share; the file may be closed.
void fs_unshare(struct fs *fs, void *at, size_t n);

// Gives the file `from` the name `to`; replaces `to` atomically. Durable only
// after fs_sync_dir of the folder, or of both. A failure changes no name.
// SL_ENOENT: `from` is missing, or the folder of `to`; SL_ENOTSUP: a store in
// S3 renames nothing.
enum sl_err fs_rename(struct fs *fs, const char *from, const char *to,
                      struct sl_error *err);

// Makes the names in the folder `dir` durable: those made, renamed or removed.
// Does nothing in a store in S3, where they are durable at once.
enum sl_err fs_sync_dir(struct fs *fs, const char *dir, struct sl_error *err);

// Removes the name `path`; durable only after fs_sync_dir of the folder. A
// missing file is SL_ENOENT, but SL_OK in a store in S3; a folder of a disk is
// SL_EINVAL.
enum sl_err fs_unlink(struct fs *fs, const char *path, struct sl_error *err);

// Fills *out with what is known of the file or folder `path`, links followed;
// both numbers of a folder in S3 are 0. SL_ENOENT: it is missing.
enum sl_err fs_stat_path(struct fs *fs, const char *path, struct fs_stat *out,
                         struct sl_error *err);

// Returns true if fs_stat_path of `path` succeeds; false also if that fails
// for another reason than a missing file.
bool fs_exists(struct fs *fs, const char *path);

// Makes a folder and its parents; then all of their names are durable, also if
// an earlier call died, or failed, half way. SL_OK if it is there, even in a
// parent that may not be synced; SL_EEXIST if a file has its name or a
// parent's. Does nothing in a store in S3, which has no folders.
enum sl_err fs_mkdirs(struct fs *fs, const char *path, struct sl_error *err);

// Makes a folder of mode 0700 on the real file system, and its parents as
// fs_mkdirs of fs_posix does. *others: the folder existed and other users have
// rights to it; its mode stays, because they may need it. Set on SL_OK only.
enum sl_err fs_private_folder(const char *path, bool *others,
                              struct sl_error *err);

// Replaces *path (from sl_malloc), which exists on the real file system, by its
// absolute form without links; the old text is freed. On failure it is
// untouched; SL_EIO, whatever the reason.
enum sl_err fs_absolute(char **path, struct sl_error *err);

// Calls fn (not NULL) per name, in byte order; fn may unlink and rename.
// Returns what fn returned if that is not SL_OK; *err is then fn's own matter.
// SL_ENOENT: there is no such folder; a store in S3 lists it as empty.
enum sl_err fs_list(struct fs *fs, const char *dir, fs_name_fn fn, void *arg,
                    struct sl_error *err);

// Lists the open folder `fd` of the real file system in the same way; `fd`
// stays open. `dir` is for errors.
enum sl_err fs_list_open(int fd, const char *dir, fs_name_fn fn, void *arg,
                         struct sl_error *err);

// Makes a file of the real file system from a descriptor that is open for
// reading, and takes it: fs_close closes it, and so does a failure (SL_ENOMEM).
// `path` is copied, for errors.
enum sl_err fs_take(struct fs_file **out, int fd, const char *path,
                    struct sl_error *err);

// Replaces or creates `path` so that after any crash it is the old or the new
// content, whole, and the new one once this returned SL_OK: temporary file
// (path + ".tmp"), write, sync, rename, sync of the folder. If it fails, the
// temporary file is removed; whether `path` is old or new is then open only
// if the last sync was what failed. SL_EINVAL: `path` has more than 4091 bytes.
enum sl_err fs_write_durable(struct fs *fs, const char *path, const void *bytes,
                             size_t n, struct sl_error *err);

// Writes in the same way a file that must be new: SL_EEXIST if the name is
// taken. In a store of objects one of several writers wins; in a folder only a
// lock of the callers' keeps two writers apart.
enum sl_err fs_write_new(struct fs *fs, const char *path, const void *bytes,
                         size_t n, struct sl_error *err);

// Does the three last steps for a file that the caller wrote as path + ".tmp":
// sync and close `f` (also when it fails), rename to `path`, sync of the
// folder. A failure up to the rename leaves path + ".tmp" there, for the caller
// to remove; after that of the last sync `path` is the new file, though maybe
// not after a crash. In a store without renames path + ".tmp" never existed.
enum sl_err fs_commit(struct fs_file *f, const char *path,
                      struct sl_error *err);

// Appends a file's bytes to `out`, as many as fs_size says at first: none of a
// file in /proc. SL_ERANGE if it is longer than `limit` bytes, SL_ENOENT if it
// is missing. A failure leaves the bytes of `out` as they were.
enum sl_err fs_read_all(struct fs *fs, const char *path, size_t limit,
                        struct buf *out, struct sl_error *err);

// Returns the folder of a path: "a/b/c" -> "a/b"; "c" -> "."; "/c" -> "/". NULL
// when out of memory; the caller frees it (sl_free).
char *fs_dirname(const char *path);

// Returns dir + "/" + name, without a second "/" if `dir` ends in one, to be
// freed (sl_free); "/" + name if `dir` is "". NULL when out of memory.
char *fs_join(const char *dir, const char *name);

#endif
