// SPDX-License-Identifier: Apache-2.0
// common/base/tensorfile.h -- safetensors: named tensors in one file.
//
//     u64 N | N bytes of JSON, padded with blanks | tensor bytes
//
// The writer lays the header out first, streams the tensors, and puts the
// finished header in place afterwards: what is not known before the data (the
// checksums) has fixed width. Then sync, rename, sync of the folder; until
// then the file has the name path + ".tmp". The reader maps the file and
// checks everything that can be wrong before it answers anything: bounds,
// duplicates, and that the tensors leave no hole and no overlap.
//
// Threads  one at a time; what takes a const reader (queries, reads, checks):
//          any, also at once. Those that open, write, read or verify wait for
//          the disk.
// Memory   what a reader returns points into it and holds until it is closed.
//          Names, paths and bytes that are passed are copied, or read only
//          during the call (not so in tensorfile_parse); a struct fs is
//          borrowed to the end.
// Units    shapes and counts are elements, begin and end bytes in the data.
// Errors   SL_ECORRUPT names the tensor and the expected value; for a file of
//          another format, that format and how to convert it. SL_ENOMEM, and
//          errors of the file system, come unchanged. `err` may be NULL; a
//          failure leaves *out as it was.
#ifndef COMMON_BASE_TENSORFILE_H
#define COMMON_BASE_TENSORFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/fs.h"
#include "common/base/status.h"

#define TENSOR_RANK_MAX 8
#define TENSORFILE_TENSORS_MAX 1000000
#define TENSORFILE_HEADER_MAX 100000000    // by the format
#define TENSORFILE_HEADER_OURS (16u << 20) // a header_limit for our own files
#define TENSORFILE_BLOCK_BYTES (16u << 20) // one data checksum per block
#define TENSORFILE_KEY_DATA "sluice.data_crc32c"
#define TENSORFILE_KEY_HEADER "sluice.header_crc32c"

// X(name, bytes)
#define TENSOR_DTYPE_MAP(X)                                                    \
    X(BOOL, 1)                                                                 \
    X(U8, 1)                                                                   \
    X(I8, 1)                                                                   \
    X(I16, 2)                                                                  \
    X(U16, 2)                                                                  \
    X(F8_E4M3, 1)                                                              \
    X(F8_E5M2, 1)                                                              \
    X(F8_E8M0, 1)                                                              \
    X(F16, 2)                                                                  \
    X(BF16, 2)                                                                 \
    X(I32, 4)                                                                  \
    X(U32, 4)                                                                  \
    X(F32, 4)                                                                  \
    X(F64, 8)                                                                  \
    X(I64, 8)                                                                  \
    X(U64, 8)                                                                  \
    X(C64, 8)

enum tensor_dtype {
#define TENSOR_DTYPE_ENUM(name, bytes) TENSOR_##name,
    TENSOR_DTYPE_MAP(TENSOR_DTYPE_ENUM)
#undef TENSOR_DTYPE_ENUM
        TENSOR_DTYPE_COUNT
};

// Returns the name of a type in the format, as "F32", static text; `dtype` is
// below TENSOR_DTYPE_COUNT.
const char *tensor_dtype_name(enum tensor_dtype dtype);
// Returns the bytes of one element of a type; `dtype` is below
// TENSOR_DTYPE_COUNT.
size_t tensor_dtype_bytes(enum tensor_dtype dtype);

// Sets *out to the type that `word` names, as "F32". SL_ENOTSUP for other
// words; *out is then untouched.
enum sl_err tensor_dtype_parse(const char *word, enum tensor_dtype *out);

struct tensor_info {
    const char *name; // borrowed
    enum tensor_dtype dtype;
    unsigned rank; // axes in use of `shape`; 0: a scalar
    uint64_t shape[TENSOR_RANK_MAX];
    uint64_t begin, end; // range of the data, in bytes; set by
                         // tensorfile_layout or the reader
};

struct tensor_meta {
    const char *key, *value; // UTF-8
};

// Sets *out to the bytes of a tensor, the product of its shape and of the size
// of an element. SL_ERANGE if that overflows. The caller has checked that
// t->rank is at most TENSOR_RANK_MAX.
enum sl_err tensor_bytes(uint64_t *out, const struct tensor_info *t);

// Sorts as the format's reference writer does (element size descending, then
// name) and sets begin and end. Tensors are then appended in this order.
// SL_EINVAL for too high a rank, SL_ERANGE for too many bytes: the array is
// then sorted, begin and end undefined.
enum sl_err tensorfile_layout(struct tensor_info *tensors, size_t count,
                              struct sl_error *err);

// --- writing

struct tensorfile_writer;

// Begins path + ".tmp", replacing one that an earlier death left behind; a
// failure removes what the call began, and no other file. SL_EINVAL if
// `tensors` are not laid out (any order without hole will do), SL_ERANGE for
// too many or too long a header. With `checks` the two checksum keys are added
// to the metadata and filled in by tensorfile_finish. Names must differ, and
// keys, and no tensor be named "__metadata__": it is not checked, and no reader
// takes such a file. Nothing that is passed in but `fs` is kept.
enum sl_err tensorfile_create(struct tensorfile_writer **out, struct fs *fs,
                              const char *path,
                              const struct tensor_info *tensors, size_t count,
                              const struct tensor_meta *meta, size_t meta_count,
                              bool checks, struct sl_error *err);

// Appends the next n bytes of data, cut anywhere. SL_ERANGE beyond the last
// tensor changes nothing; after another failure w can only be aborted.
enum sl_err tensorfile_append(struct tensorfile_writer *w, const void *bytes,
                              size_t n, struct sl_error *err);

// Lays the tensors of a file out anew, in place of those that tensorfile_create
// was given: for a writer that only knows after the data how many elements
// there are. The same tensors and metadata, none of which is longer than
// before, lie one behind the other and fill the bytes that were appended (else
// tensorfile_finish is SL_ESTATE, and no more may be appended); values of
// tensorfile_patch are given again in `meta`, or after it. SL_EINVAL as
// tensorfile_create; SL_ERANGE if the header becomes longer. After a failure w
// can only be aborted.
enum sl_err tensorfile_shrink(struct tensorfile_writer *w,
                              const struct tensor_info *tensors, size_t count,
                              const struct tensor_meta *meta, size_t meta_count,
                              struct sl_error *err);

// Replaces the value of a metadata key by one of the same length; before
// tensorfile_finish, as often as one likes, and not the keys of `checks`.
// SL_ENOENT without such a key; SL_EINVAL if the length differs, or if it has a
// quote, a backslash or what is not printable ASCII. The value is then the old
// one.
enum sl_err tensorfile_patch(struct tensorfile_writer *w, const char *key,
                             const char *value, struct sl_error *err);

// Makes the file durable under its name and frees w, also when it fails: then
// path + ".tmp" is removed, and whether `path` is old or new is open only if
// the last sync was what failed. SL_ESTATE if bytes are missing. *bytes (may be
// NULL) is the file's size, and set on SL_OK only. Not after a failed
// tensorfile_append.
enum sl_err tensorfile_finish(struct tensorfile_writer *w, uint64_t *bytes,
                              struct sl_error *err);

// Removes the temporary file and frees w. NULL is allowed.
void tensorfile_abort(struct tensorfile_writer *w);

// --- reading

struct tensorfile;

// Opens and maps a file. SL_ECORRUPT if its header is malformed or longer than
// `header_limit` bytes (0, or more than that: TENSORFILE_HEADER_MAX), or has a
// tensor of another dtype, of a higher rank, or that the file does not hold.
enum sl_err tensorfile_open(struct tensorfile **out, struct fs *fs,
                            const char *path, size_t header_limit,
                            struct sl_error *err);

// Opens a file that another process may change or cut short, which would be a
// SIGBUS in a map: copies the header, and only tensorfile_read reads the rest.
// `file` is the caller's and must outlive the reader. Reads no byte behind the
// first `bytes`, which are taken for the whole file. SL_ECORRUPT as
// tensorfile_open, and if the file is shorter.
enum sl_err tensorfile_open_read(struct tensorfile **out, struct fs_file *file,
                                 uint64_t bytes, size_t header_limit,
                                 struct sl_error *err);

// Opens a path in a folder of our own, where an operator may replace the file:
// with fs_posix or fs_private it reads without a map. With any other `fs` it
// maps, as tensorfile_open does: maps of S3 and of tests are copies, and to
// read twice would fetch twice.
enum sl_err tensorfile_open_unmapped(struct tensorfile **out, struct fs *fs,
                                     const char *path, size_t header_limit,
                                     struct sl_error *err);

// Reads a file from memory, which must outlive the reader; for tests. `name` is
// for errors, and copied. SL_ECORRUPT and `header_limit` as in tensorfile_open.
enum sl_err tensorfile_parse(struct tensorfile **out, const char *name,
                             const void *bytes, size_t n, size_t header_limit,
                             struct sl_error *err);
// Frees a reader with its map, and closes its file, but not the `file` of
// tensorfile_open_read. NULL is allowed.
void tensorfile_close(struct tensorfile *f);

// Returns the number of tensors in the file.
size_t tensorfile_count(const struct tensorfile *f);

// Returns tensor i, which is below tensorfile_count, in the order of their
// bytes; borrowed from `f`.
const struct tensor_info *tensorfile_at(const struct tensorfile *f, size_t i);

// Returns the tensor `name`, borrowed from `f`; NULL if the file has none.
const struct tensor_info *tensorfile_find(const struct tensorfile *f,
                                          const char *name);

// Copies n bytes of a tensor `t` of this file, from byte `offset` on; asserts
// that they lie in it. SL_ECORRUPT if the file was cut short meanwhile, else as
// fs_pread; `into` is then undefined.
enum sl_err tensorfile_read(const struct tensorfile *f,
                            const struct tensor_info *t, uint64_t offset,
                            void *into, size_t n, struct sl_error *err);

// Returns a tensor's t->end - t->begin bytes, aligned as in the file. Only for
// a reader of tensorfile_open or tensorfile_parse (it asserts that the reader
// reads no file).
const uint8_t *tensorfile_data(const struct tensorfile *f,
                               const struct tensor_info *t);

#define TENSOR_PLACE_TEXT 320

// Returns true if one of the values `bytes` of the F32 tensor `t` is not
// finite; `out` then names the first, as "[2, 0] is nan", or " is nan" of a
// scalar. Else, and for tensors of other types, returns false, and `out` is
// untouched. `bytes` are t->end - t->begin of them.
bool tensor_not_finite(const struct tensor_info *t, const uint8_t *bytes,
                       char out[TENSOR_PLACE_TEXT]);

// Returns the number of pairs in the file's metadata.
size_t tensorfile_meta_count(const struct tensorfile *f);

// Returns pair i, which is below tensorfile_meta_count, in the order of the
// header; it walks over the pairs before. The texts are borrowed from `f`.
struct tensor_meta tensorfile_meta_at(const struct tensorfile *f, size_t i);

// Returns the value of `key` in the metadata, borrowed from `f`; NULL if it is
// absent.
const char *tensorfile_meta(const struct tensorfile *f, const char *key);

// Reads all data and compares it, and the header as it was read, with both
// checksums. SL_ENOENT: the file lacks one of the two; SL_ECORRUPT names the
// wrong block, or the header, or says that the file was cut short meanwhile.
enum sl_err tensorfile_verify(const struct tensorfile *f, struct sl_error *err);

#endif
