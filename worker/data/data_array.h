// SPDX-License-Identifier: Apache-2.0
// worker/data/data_array.h -- an array of numbers that a file holds, row by
// row.
//
// Row i is a sample (or its label). Elements stay as the file has them (u8
// images stay a quarter of their size as f32) and are converted when a row is
// read. Arrays up to ARRAY_MEMORY_BYTES lie in memory; larger ones are read
// from the file row by row, so that a worker's memory does not depend on the
// size of the data.
//
// Threads  array_soon, _expect, _row, _rows, and what only converts or asks:
//          any, also at the same time. The rest: one at a time per array.
// Memory   array_release frees. Rows that array_row(s) hand out lie in the
//          array or in the caller's scratch.
// Units    row_bytes are bytes; all else rows and elements.
// Errors   name the file, but for array_measure, array_take_file and
//          array_npy_inflated, whose callers do. `err` may be NULL. Opening:
//          those of roots.h; SL_ECORRUPT: it is no such file, or not as long as
//          its header promises; SL_ENOTSUP: a type or version that is not read;
//          SL_ERANGE: too large; SL_EINVAL: too many dimensions, or none;
//          SL_EIO, SL_ENOMEM, SL_ECANCELED of a pulse. A file that has shrunk
//          since it was opened is SL_ECORRUPT when the row is read, never a
//          signal.
#ifndef WORKER_DATA_DATA_ARRAY_H
#define WORKER_DATA_DATA_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/fs.h"
#include "common/base/status.h"
#include "common/base/roots.h"
#include "trainer/base/pulse.h"

struct inflater;

#define ARRAY_DIMS 8
#define ARRAY_MEMORY_BYTES ((uint64_t)1 << 29)
#define ARRAY_INFLATE_BYTES ((uint64_t)4 << 30) // most that is ever inflated
#define ARRAY_INFLATE_RATIO 100

enum array_type {
    ARRAY_U8 = 1,
    ARRAY_I8,
    ARRAY_U16,
    ARRAY_I16,
    ARRAY_U32,
    ARRAY_I32,
    ARRAY_U64,
    ARRAY_I64,
    ARRAY_F16,
    ARRAY_F32,
    ARRAY_F64,
    ARRAY_BF16,
};

struct array {
    enum array_type type;
    bool swap; // the file's byte order is not ours
    // Set before it is opened: rows stay in the file, however few they are.
    bool stay;
    unsigned nd;
    uint64_t dim[ARRAY_DIMS];
    uint64_t rows;         // dim[0]
    uint64_t row_elements; // product of the others
    size_t row_bytes;
    uint64_t bytes;       // bytes of all rows
    uint64_t file_bytes;  // bytes of the whole file, or of an npy that was
                          // inflated, for the data's hash
    uint64_t version;     // file's version (fs_version), for the same
    uint8_t *memory;      // owned; NULL: the rows are read from `file`
    struct fs_file *file; // owned
    uint64_t offset;      // offset of row 0 in the file
    char *path;           // owned; for errors and the hash
};

// Returns the bytes of an element.
size_t array_type_bytes(enum array_type type);

// Computes rows, row_elements, row_bytes and bytes from type, nd and dim.
// SL_ERANGE: over 2^46 bytes, or 2^40 in a row; SL_EINVAL for an array without
// dimensions or with more than ARRAY_DIMS.
enum sl_err array_measure(struct array *a, struct sl_error *err);

// Returns `bytes` bytes of memory for rows that are read in a random order, in
// huge pages if it is large; for sl_free. NULL: no memory.
void *array_memory(uint64_t bytes);

// Takes over `file`, with rows from byte `offset` on, of the array *a, which
// was measured (array_measure): keeps it open if they have over
// ARRAY_MEMORY_BYTES or a->stay is set, else reads them into memory and closes
// the file, on failure too; *a is for array_release. `pulse` may be NULL.
enum sl_err array_take_file(struct array *a, struct fs_file *file,
                            uint64_t offset, struct pulse *pulse,
                            struct sl_error *err);

// Fetches row `row`, which is to be read soon, to the caches of the processor
// if it is in memory. This and array_expect ignore a row past the end.
void array_soon(const struct array *a, uint64_t row);

// Sets *out to row `row`, as the file has it. It lies in the array, or in
// `scratch`, which has space for row_bytes, until that is used again. Waits for
// the disk if the rows are in the file. SL_ERANGE: no such row; SL_ECORRUPT:
// the file has shrunk; else what fs_pread says. *out is then untouched.
enum sl_err array_row(const struct array *a, uint64_t row, void *scratch,
                      const uint8_t **out, struct sl_error *err);

// Sets *out to the rows `first` to first + n - 1, one behind another, as
// array_row does; `scratch` has space for all of them.
enum sl_err array_rows(const struct array *a, uint64_t first, uint64_t n,
                       void *scratch, const uint8_t **out,
                       struct sl_error *err);

// Tells the system that row `row` is about to be read from the file; does
// nothing for rows in memory.
void array_expect(const struct array *a, uint64_t row);

// Returns true if the elements are floats in our own byte order.
bool array_is_floats(const struct array *a);

// Converts n elements at `raw` to out[i] = element * scale + offset. Floats of
// our own (array_is_floats) may lie in `out` already.
void array_floats(const struct array *a, const uint8_t *raw, size_t n,
                  float scale, float offset, float *out);

// Returns one element as a double (exact, except for large 64-bit integers).
double array_double(const struct array *a, const uint8_t *raw);

// Returns true if the elements are integers of 32 or 64 bits.
bool array_is_words(const struct array *a);

// Converts n elements at `raw` of an array of integers (array_is_words) to
// words of 64 bits; negative ones are extended by their sign.
void array_words(const struct array *a, const uint8_t *raw, size_t n,
                 uint64_t *out);

void array_release(struct array *a); // all zeroes is allowed

// Opens an IDX file below one of the roots (NULL: none, SL_EDENIED) and fills
// *out, of which only `stay` is read and which is as it was after a failure. A
// gzipped one, whatever its name, lies in memory, up to ARRAY_INFLATE_BYTES,
// whatever out->stay says. `pulse` (or NULL) beats with each piece, and stops
// the reading with SL_ECANCELED when it is over. `path` is copied. Waits for
// the disk.
enum sl_err array_open_idx(struct array *out, const struct roots *roots,
                           const char *path, struct pulse *pulse,
                           struct sl_error *err);
// Opens an npy file as array_open_idx does, but no gzipped one. One in Fortran
// order is brought to row order in memory; SL_ENOTSUP if it is over
// ARRAY_MEMORY_BYTES.
enum sl_err array_open_npy(struct array *out, const struct roots *roots,
                           const char *path, struct pulse *pulse,
                           struct sl_error *err);
// Opens a member of an npz file as array_open_idx does: member "x" is the
// file's "x.npy". Reads all of it, also one that stays in the file, to compare
// its CRC (SL_ECORRUPT). A deflated one lies in memory, up to
// ARRAY_INFLATE_BYTES, whatever out->stay says. SL_ENOENT: there is none;
// SL_EINVAL: its name has more than 251 bytes; else also as zip_find.
enum sl_err array_open_npz(struct array *out, const struct roots *roots,
                           const char *path, const char *member,
                           struct pulse *pulse, struct sl_error *err);

// Does the same for a member that need not be there: SL_OK, with *out as it
// was, if the file has none of this name. SL_ENOENT: the file is missing.
enum sl_err array_open_npz_any(struct array *out, const struct roots *roots,
                               const char *path, const char *member,
                               struct pulse *pulse, struct sl_error *err);

// Opens the npy of `bytes` bytes that lies inside `file`, of an npz, from
// `offset` on. Takes over `file`, as array_take_file does; of *out only `stay`
// is read. On failure *out is as it was, here and in the next function.
enum sl_err array_npy_in_file(struct array *out, const char *path,
                              struct fs_file *file, uint64_t offset,
                              uint64_t bytes, struct pulse *pulse,
                              struct sl_error *err);
// Opens the npy of `bytes` bytes that `s`, of which nothing was read, inflates
// to. It lies in memory, in row order; its version is 0, for the caller to set.
// `s` stays the caller's; inflater_crc is then that of all bytes.
enum sl_err array_npy_inflated(struct array *out, const char *path,
                               struct inflater *s, uint64_t bytes,
                               struct sl_error *err);

// Reads the header of an npy of exactly n bytes in memory into *a, up to what
// array_measure computes; the elements begin at `bytes` + *head. SL_ENOTSUP
// also: several dimensions in Fortran order. On failure what it fills in is
// undefined. Errors do not name a file.
enum sl_err array_npy_bytes(struct array *a, const uint8_t *bytes, size_t n,
                            size_t *head, struct sl_error *err);

#endif
