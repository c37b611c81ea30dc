// SPDX-License-Identifier: Apache-2.0
// host/store/s3.h -- types and functions that the s3*.c files share.
//
//   s3_fs      the vtable           s3_upload  an object in parts
//   s3_read    a file to read       s3_object  an object in one request
//   s3_write   a file to write      s3_list    names
//              s3, s3_answer: one request, until it is answered
//
// Threads  any: a struct s3 has a lock for its connections; its other fields do
//          not change. A call lasts up to patience_ms and one request's time.
// Memory   an answer must be released also if the call failed. Names, bytes and
//          pairs are read only during the call.
// Errors   those of store.h. `err` may be NULL. What a failure leaves of
//          *found, of bytes that were read, and of an s3_name, is undefined;
//          *got and *out are then untouched, but for s3_call's.
#ifndef HOST_STORE_S3_H
#define HOST_STORE_S3_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/fs.h"
#include "host/store/credentials.h"
#include "host/store/sigv4.h"
#include "host/store/store.h"
#include "host/web/web.h"

#define S3_SCHEME "s3://"
#define S3_KEY 1025 // bytes, with the 0
#define S3_WEB_SCHEME "https://"
#define S3_BUCKET 256 // a bucket has 63 bytes, the name of a host 253
#define S3_ETAG 256
#define S3_MARK 17        // bytes of a writer's mark, in hex, with the 0
#define S3_PAIRS 8        // query or header pairs of a request
#define S3_CONNECTIONS 16 // idle connections that are kept

struct s3_setup {
    const char *endpoint; // "" means not given, as in the next three
    const char *region;
    const char *credentials;
    const char *trust;
    bool path_style;
    uint32_t patience_ms; // how long a request is tried
    size_t part_bytes;    // size of an upload's parts; S3 wants >= 5 MiB
};

#define S3_PATIENCE_MS 30000
#define S3_PART_BYTES ((size_t)8 << 20)

struct s3 {
    struct fs fs;
    bool tls, by_path; // https; the bucket stands in the path
    char *host, *base; // owned; "host:port", "" or "/before/the/bucket"
    char *region;      // owned
    char *trust;       // owned; NULL: the system's
    uint32_t patience_ms;
    size_t part_bytes;
    struct credentials *keys;         // owned
    pthread_mutex_t lock;             // guards `idle` and `idle_count`
    struct web *idle[S3_CONNECTIONS]; // connections that no call uses
    size_t idle_count;
    _Atomic uint64_t retries; // tries beyond the first of a request, ever
    _Atomic uint64_t told_ms; // when retries were logged last
    _Atomic bool leaving;     // calls end within a second or two: SL_ECANCELED
};

// Returns the settings `given`, not NULL. For a string that is NULL or "" it
// takes that of the environment (AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL;
// AWS_REGION or AWS_DEFAULT_REGION), else ""; for a patience of 0
// S3_PATIENCE_MS. `trust` is AWS_CA_BUNDLE, or "", and part_bytes
// S3_PART_BYTES. Strings of the result, none of them NULL, are borrowed from
// both.
struct s3_setup s3_setup_of(const struct store_setup *given);

// Makes the client, without its file system, for s3_free; sends no request.
// Strings of the setup, none of them NULL, are copied. SL_EINVAL: the endpoint
// or region is wrong; SL_ENOMEM.
enum sl_err s3_new(struct s3 **out, const struct s3_setup *setup,
                   struct sl_error *err);
// Frees it, after its last call has returned and its files are closed; not
// NULL.
void s3_free(struct s3 *s);

// Makes the client with its file system (s3_new). Only tests free it.
enum sl_err s3_fs_new(struct s3 **out, const struct s3_setup *setup,
                      struct sl_error *err);

// ---- names

// The parts of a name "s3://bucket/a/b"; or of "https://host/a/b", an object of
// any web server, which is asked without keys.
struct s3_name {
    char bucket[S3_BUCKET]; // or "host", "host:port"
    char key[S3_KEY];       // "": the bucket itself
    bool web;
};

// Returns "s3://", or "https://" for an object of a web server.
static inline const char *s3_scheme(const struct s3_name *name)
{
    return name->web ? S3_WEB_SCHEME : S3_SCHEME;
}

// Splits `path`, "s3://" and then bucket and key, into *out; repeated slashes
// count once. SL_EINVAL if it is no such name: the bucket is none, or the key
// has a part "." or "..", control characters, or over 1024 bytes.
enum sl_err s3_name_of(struct s3_name *out, const char *path,
                       struct sl_error *err);

// Splits `path` as s3_name_of does, or "https://host/path" into host (in lower
// case, without a user; a port may follow) and path, which is not encoded: its
// blank is asked for as "%20". SL_EINVAL also for '?', '#' and '\\' there.
enum sl_err s3_place_name_of(struct s3_name *out, const char *path,
                             struct sl_error *err);

// Splits `path` as s3_name_of does; SL_EINVAL also if it names a bucket alone.
enum sl_err s3_file_name_of(struct s3_name *out, const char *path,
                            struct sl_error *err);

// ---- one request

struct s3_ask {
    const char *method;
    const struct s3_name *name;
    bool of_bucket; // the request is for the bucket; the key is left out
    struct sigv4_pair query[S3_PAIRS], header[S3_PAIRS]; // up to the first NULL
    const void *body;
    size_t body_bytes;
    void *into; // place of a 2xx answer's body; see web.h
    size_t into_bytes;
    uint32_t patience_ms, stall_ms; // 0: defaults
};

struct s3_answer {
    struct web_answer web;
    char code[64];     // S3's error code, as "NoSuchKey"; "": none
    char message[256]; // S3's words for it
    char region[64];   // bucket's region, if the answer names it
    unsigned tries;    // requests that were sent
};

// Sends a request, and again until it is answered or patience_ms is over;
// waits. Keys that are refused are renewed, once; a try that comes after a
// pause is counted in s->retries, and one in ten seconds is logged. SL_OK on a
// 2xx; SL_ECANCELED: s->leaving, or the thread may not wait on
// (common/base/file_wait.h); else the error that the answer, or its absence,
// means, with its words in *err. *out is filled, and must be released, in every
// case.
enum sl_err s3_call(struct s3 *s, const struct s3_ask *ask,
                    struct s3_answer *out, struct sl_error *err);
// Frees the body and the head of an answer. All zeroes is allowed.
void s3_answer_release(struct s3_answer *a);

enum s3_verdict {
    S3_DONE,
    S3_FAILED, // a further try would fail too
    S3_AGAIN,  // a further try after a pause may succeed
    S3_KEYS,   // a further try with newer keys may succeed
};

// Reads the code, message and region of the error in the answer *a, and returns
// what to do about the request of that method: nothing more (S3_DONE,
// S3_FAILED), or another try.
enum s3_verdict s3_judge(struct s3_answer *a, const char *method);

// Fills *err with what the answer to `ask` means (or that none came) and
// returns its code. The answer is no success.
enum sl_err s3_failed(const struct s3 *s, const struct s3_ask *ask,
                      const struct s3_answer *a, struct sl_error *err);

// ---- objects

// Draws a random mark, which a writer adds to its object. If the first try of a
// conditional write succeeds without an answer, the second finds its own mark.
void s3_mark(char out[S3_MARK]);

// Returns true if the object `name` exists and bears `mark`; false also if S3
// does not say so.
bool s3_is_ours(struct s3 *s, const struct s3_name *name, const char *mark);

struct s3_object {
    uint64_t bytes, mtime_s; // size; last change, in seconds since 1970
    char etag[S3_ETAG];      // version
};

// Reads up to `n` bytes from `offset` of an object to `to`; *got < n only at
// the end. `etag` names the version, NULL or "": any; *found (NULL allowed)
// gets the object's size, time and version, which an empty object may lack.
// SL_ENOENT: there is no such object; SL_EIO: it was replaced, what came is not
// what was asked for, or `offset` is not 0 and no byte lies there; SL_EINVAL:
// `n` is 0, of which S3 has no range.
enum sl_err s3_get(struct s3 *s, const struct s3_name *name, const char *etag,
                   uint64_t offset, void *to, size_t n, size_t *got,
                   struct s3_object *found, struct sl_error *err);

// Sets *found to the size, time and version of an object. SL_ENOENT: there is
// none of that name.
enum sl_err s3_head(struct s3 *s, const struct s3_name *name,
                    struct s3_object *found, struct sl_error *err);

// Writes `n` bytes as an object, in place of an earlier one of that name;
// `fresh`: SL_EEXIST if the name is taken.
enum sl_err s3_put(struct s3 *s, const struct s3_name *name, const void *bytes,
                   size_t n, bool fresh, struct sl_error *err);

// Fills *err with the words for an object that is not the one that was opened
// any more, and returns SL_EIO.
enum sl_err s3_replaced(const struct s3_name *name, struct sl_error *err);

// Fills *err with the words for a name that is taken, and returns SL_EEXIST.
enum sl_err s3_taken(const struct s3_name *name, struct sl_error *err);

// Deletes an object; SL_OK also if there is none of that name.
enum sl_err s3_delete(struct s3 *s, const struct s3_name *name,
                      struct sl_error *err);

// Names below a folder, in byte order, each once.
struct s3_names {
    char **name; // owned
    size_t count, space;
    bool any; // true if anything begins with "dir/", even that object alone
};

// Lists the names below `dir`, each as far as its next slash and without it;
// release *out by s3_names_release. Leaves out what is no file's name (an empty
// one, ".."). `most` 0: all, of up to 100000 pages of S3's answers. Else looks
// at the first `most` keys alone, so it may list fewer, even none, where there
// are more; out->any is right all the same. SL_OK, without names, if nothing is
// below `dir`.
enum sl_err s3_list(struct s3 *s, const struct s3_name *dir, unsigned most,
                    struct s3_names *out, struct sl_error *err);
// Appends a copy of name[bytes]. SL_ENOMEM: *n has the names that it had.
enum sl_err s3_names_add(struct s3_names *n, const char *name, size_t bytes);
// Puts the names into byte order, each once.
void s3_names_sort(struct s3_names *n);
// Frees the names and leaves *n all zeroes, which is allowed.
void s3_names_release(struct s3_names *n);

// Called for each object of a folder, in S3's order; `name` is without the
// folder, borrowed for the call. SL_OK goes on.
typedef enum sl_err (*s3_object_fn)(void *arg, const char *name,
                                    const struct s3_object *object);

// Calls fn for each object right below `dir`, of up to 100000 pages of S3's
// answers, with its size (UINT64_MAX: the store did not say) and version; its
// time is 0. Returns the first error of fn; *err is then the folder, and what
// fn wrote there, or the code's sentence.
enum sl_err s3_list_objects(struct s3 *s, const struct s3_name *dir,
                            s3_object_fn fn, void *arg, struct sl_error *err);

// ---- an object in parts, which appears with s3_upload_finish

struct s3_upload {
    struct s3 *s;
    struct s3_name name;
    char mark[S3_MARK];
    char *id;       // owned; NULL: not begun
    char **etag;    // owned, by part
    unsigned count; // entries of `etag`
};

// Begins an upload under `name`, in memory not in use; end it with
// s3_upload_end in every case, also after an error, when no part may be sent.
enum sl_err s3_upload_begin(struct s3_upload *u, struct s3 *s,
                            const struct s3_name *name, struct sl_error *err);
// Sends part `number` (from 1, in any order) of `n` bytes, of an upload that
// was begun. SL_ERANGE if it is 0 or above 10000. It may be sent again, after
// an error or instead of what was sent before.
enum sl_err s3_upload_part(struct s3_upload *u, unsigned number,
                           const void *bytes, size_t n, struct sl_error *err);

// Makes the object of the parts that were sent, numbered from 1 without a gap,
// so that it appears. `fresh`: SL_EEXIST if the name is taken. SL_EIO: the
// upload is gone. Call s3_upload_end after it in every case.
enum sl_err s3_upload_finish(struct s3_upload *u, bool fresh,
                             struct sl_error *err);

// Aborts an upload that was begun and not finished, for which it asks S3 and
// waits, and frees the memory of *u. All zeroes is allowed.
void s3_upload_end(struct s3_upload *u);

// ---- files

struct s3_file {
    struct fs_file base;
    struct s3 *s;
    struct s3_name name; // object's name; without ".tmp" while it is written
    bool writes;

    // Fields of a file that is read.
    struct s3_object object;
    pthread_mutex_t lock; // guards the window, which begins at offset `at`
    uint8_t *window;      // owned; NULL: none
    uint64_t at;
    size_t have, space; // bytes in the window, and allocated

    // Fields of a file that is written. The first part stays in memory until
    // the end, since a writer may change it by fs_pwrite; so does the last.
    bool fresh, published; // it must be new; the object has appeared
    struct buf first, last;
    uint64_t bytes; // written so far, in all parts
    unsigned parts; // number of parts sent, without the first
    struct s3_upload upload;
};

// Returns the client whose file system is `fs`.
static inline struct s3 *s3_of(struct fs *fs)
{
    return sl_container_of(fs, struct s3, fs);
}

// Returns the file of this room that begins with `f`.
static inline struct s3_file *s3_file_of(struct fs_file *f)
{
    return sl_container_of(f, struct s3_file, base);
}

// Functions of the vtable (struct fs_ops) for a file that is read.

// Reads the first bytes, the size and the version of the object f->name; later
// reads are of that version. SL_ENOENT: there is no such object.
enum sl_err s3_read_open(struct s3_file *f, struct sl_error *err);

// Reads up to n bytes from `offset`; *got < n only at the end. SL_EIO: the
// object was replaced meanwhile; SL_ENOTSUP: the file is written.
enum sl_err s3_pread(struct fs_file *base, uint64_t offset, void *to, size_t n,
                     size_t *got, struct sl_error *err);

// Reads the whole object into memory, since S3 has no file to map. An empty one
// is NULL with 0 bytes. SL_ENOMEM; SL_EIO: the object was replaced meanwhile;
// SL_ENOTSUP: the file is written.
enum sl_err s3_map(struct fs_file *base, struct fs_map *out,
                   struct sl_error *err);
// Frees the memory of s3_map; *m stays as it is.
void s3_unmap(struct fs *fs, struct fs_map *m);

// Functions of the vtable for a file that is written.

// Appends n bytes; sends a part of the upload, and waits for it, when one is
// full. SL_ESTATE: the file is read, or published already. After another error
// some of the bytes may be in (f->bytes).
enum sl_err s3_write(struct fs_file *base, const void *bytes, size_t n,
                     struct sl_error *err);

// Writes n bytes at `offset`, beyond the end after a hole of zeroes. SL_ENOTSUP
// where the bytes were sent already: neither in the first nor in the last part;
// others of them may be replaced then. SL_ESTATE as for s3_write.
enum sl_err s3_pwrite(struct fs_file *base, uint64_t offset, const void *bytes,
                      size_t n, struct sl_error *err);

// Publishes the file (s3_publish) under the name with which it was opened, with
// f->fresh; SL_OK and nothing for a file that is read, or was published under
// that name. SL_ENOTSUP for NAME.tmp once parts of it were sent under NAME.
enum sl_err s3_sync(struct fs_file *base, struct sl_error *err);

// Makes what was written to `f` appear as the object `name`; SL_OK and nothing
// if it has. `fresh`, or f->fresh: SL_EEXIST if the name is taken. SL_ENOTSUP
// if it was published, or an upload begun, under another name; SL_ESTATE: `f`
// is read.
enum sl_err s3_publish(struct s3_file *f, const struct s3_name *name,
                       bool fresh, struct sl_error *err);

#endif
