// SPDX-License-Identifier: Apache-2.0
// common/store/s3.h -- between the parts of the file system over S3.
//
//   s3_fs      the vtable           s3_upload  an object in parts
//   s3_read    a file to read       s3_object  an object in one request
//   s3_write   a file to write      s3_list    names
//              s3, s3_answer: one request, until it is answered
//
// Threads  any: a struct s3 has a lock for its connections, and else does not
//          change. A call lasts up to patience_ms and one request's time.
// Memory   an answer is released also where the call failed.
#ifndef COMMON_STORE_S3_H
#define COMMON_STORE_S3_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/fs.h"
#include "common/store/credentials.h"
#include "common/store/sigv4.h"
#include "common/web/web.h"

#define S3_KEY 1025 // bytes, with the 0
#define S3_ETAG 256
#define S3_MARK 17        // who wrote an object, in hex
#define S3_PAIRS 8        // of a request
#define S3_CONNECTIONS 16 // that are kept while nobody uses them

struct s3_setup {
    const char *endpoint; // "" in any: none is given
    const char *region;
    const char *credentials;
    const char *trust;
    bool path_style;
    uint32_t patience_ms; // how long a request is tried
    size_t part_bytes;    // of an upload; S3 wants 5 MiB at least
};

#define S3_PATIENCE_MS 30000
#define S3_PART_BYTES ((size_t)8 << 20)

struct s3 {
    struct fs fs;
    bool tls, by_path;
    char *host, *base; // owned; "host:port", "" or "/before/the/bucket"
    char *region;      // owned
    char *trust;       // owned; NULL: the system's
    uint32_t patience_ms;
    size_t part_bytes;
    struct credentials *keys;
    pthread_mutex_t lock; // below
    struct web *idle[S3_CONNECTIONS];
    size_t idle_count;
};

// Makes all but the file system; asks nobody.
enum sl_err s3_new(struct s3 **out, const struct s3_setup *setup,
                   struct sl_error *err);
void s3_free(struct s3 *s);

// The same with the file system. Only tests free it.
enum sl_err s3_fs_new(struct s3 **out, const struct s3_setup *setup,
                      struct sl_error *err);

// ---- names

// "s3://bucket/a/b", with slashes as they come. SL_EINVAL with words.
struct s3_name {
    char bucket[64];
    char key[S3_KEY]; // "": the bucket itself
};
enum sl_err s3_name_of(struct s3_name *out, const char *path,
                       struct sl_error *err);

// ---- one request

struct s3_ask {
    const char *method;
    const struct s3_name *name;
    bool of_bucket; // the key is no part of what is asked for
    struct sigv4_pair query[S3_PAIRS], header[S3_PAIRS]; // up to the first NULL
    const void *body;
    size_t body_bytes;
    void *into; // see web.h
    size_t into_bytes;
    uint32_t patience_ms, stall_ms; // 0: the usual
};

struct s3_answer {
    struct web_answer web;
    char code[64]; // "NoSuchKey"; "": it has none
    char message[256];
    char region[64]; // that of the bucket, if it says so
    unsigned tries;
};

// SL_OK: answered with a 2xx, after as many tries as it took. What else an
// answer means is in its words; *out has it in every case.
enum sl_err s3_call(struct s3 *s, const struct s3_ask *ask,
                    struct s3_answer *out, struct sl_error *err);
void s3_answer_release(struct s3_answer *a);

enum s3_verdict {
    S3_DONE,
    S3_FAILED, // and would again
    S3_AGAIN,  // it may be better after a while
    S3_KEYS,   // with newer keys
};
enum s3_verdict s3_judge(struct s3_answer *a, const char *method);
enum sl_err s3_failed(const struct s3 *s, const struct s3_ask *ask,
                      const struct s3_answer *a, struct sl_error *err);

// ---- objects

// Whoever writes marks what it writes, to know it again: a second try of a
// write that must be the first finds what the first left behind.
void s3_mark(char out[S3_MARK]);
bool s3_is_ours(struct s3 *s, const struct s3_name *name, const char *mark);

struct s3_object {
    uint64_t bytes, mtime_s;
    char etag[S3_ETAG];
};

// Up to n bytes from `offset`; *got < n only at the end. `etag`: of which
// version, NULL: any; *found may be NULL.
enum sl_err s3_get(struct s3 *s, const struct s3_name *name, const char *etag,
                   uint64_t offset, void *to, size_t n, size_t *got,
                   struct s3_object *found, struct sl_error *err);
enum sl_err s3_head(struct s3 *s, const struct s3_name *name,
                    struct s3_object *found, struct sl_error *err);
// `fresh`: SL_EEXIST if there is one.
enum sl_err s3_put(struct s3 *s, const struct s3_name *name, const void *bytes,
                   size_t n, bool fresh, struct sl_error *err);
enum sl_err s3_taken(const struct s3_name *name, struct sl_error *err);
enum sl_err s3_delete(struct s3 *s, const struct s3_name *name,
                      struct sl_error *err);

// Names below dir, in byte order, each once; at most `most` are asked for, 0:
// all. What holds no name (an empty one, "..") is left out.
struct s3_names {
    char **name; // owned
    size_t count, space;
    bool any; // also if the object "dir/" itself is all there is
};
enum sl_err s3_list(struct s3 *s, const struct s3_name *dir, unsigned most,
                    struct s3_names *out, struct sl_error *err);
void s3_names_release(struct s3_names *n);

// ---- an object in parts; nothing is there before s3_upload_finish

struct s3_upload {
    struct s3 *s;
    struct s3_name name;
    char mark[S3_MARK];
    char *id;    // owned; NULL: not begun
    char **etag; // owned, by part
    unsigned count;
};

enum sl_err s3_upload_begin(struct s3_upload *u, struct s3 *s,
                            const struct s3_name *name, struct sl_error *err);
// Parts have numbers from 1, in any order; each is sent once.
enum sl_err s3_upload_part(struct s3_upload *u, unsigned number,
                           const void *bytes, size_t n, struct sl_error *err);
enum sl_err s3_upload_finish(struct s3_upload *u, bool fresh,
                             struct sl_error *err);
// Also one that was not begun, or is finished: then it only frees.
void s3_upload_end(struct s3_upload *u);

// ---- files

struct s3_file {
    struct fs_file base;
    struct s3 *s;
    struct s3_name name; // of what is written: without ".tmp"
    bool writes;

    // To be read.
    struct s3_object object;
    pthread_mutex_t lock; // the window: bytes from `at`
    uint8_t *window;      // owned; NULL: none
    uint64_t at;
    size_t have, space;

    // To be written: the first part stays until the end, since whoever writes
    // may come back to it; of the others, the last.
    bool fresh, published;
    struct buf first, last;
    uint64_t bytes; // in all
    unsigned parts; // that are sent, but for the first
    struct s3_upload upload;
};

static inline struct s3 *s3_of(struct fs *fs)
{
    return sl_container_of(fs, struct s3, fs);
}

static inline struct s3_file *s3_file_of(struct fs_file *f)
{
    return sl_container_of(f, struct s3_file, base);
}

enum sl_err s3_read_open(struct s3_file *f, struct sl_error *err);
enum sl_err s3_pread(struct fs_file *base, uint64_t offset, void *to, size_t n,
                     size_t *got, struct sl_error *err);
enum sl_err s3_map(struct fs_file *base, struct fs_map *out,
                   struct sl_error *err);
void s3_unmap(struct fs *fs, struct fs_map *m);

enum sl_err s3_write(struct fs_file *base, const void *bytes, size_t n,
                     struct sl_error *err);
enum sl_err s3_pwrite(struct fs_file *base, uint64_t offset, const void *bytes,
                      size_t n, struct sl_error *err);
enum sl_err s3_sync(struct fs_file *base, struct sl_error *err);
enum sl_err s3_publish(struct s3_file *f, const struct s3_name *name,
                       bool fresh, struct sl_error *err);

#endif
