// SPDX-License-Identifier: Apache-2.0
// worker/data/data_inflate.h -- zlib, with bounds.
//
// The output is limited three ways: by the caller's exact expectation, and,
// where the caller first asks inflate_bounds about that, by ARRAY_INFLATE_RATIO
// times the input and by ARRAY_INFLATE_BYTES. So a few bytes on disk cannot
// become all of the memory.
//
// The input is read from a file piece by piece: of a long file no more than a
// piece is in memory.
//
// Threads  one at a time per inflater.
// Memory   inflater_free; the file is borrowed.
// Errors   SL_ECORRUPT for bad data, SL_ERANGE over a bound, SL_ECANCELED as
//          pulse_piece says. SL_EIO, SL_ENOMEM. `err` may be NULL.
#ifndef WORKER_DATA_DATA_INFLATE_H
#define WORKER_DATA_DATA_INFLATE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/fs.h"
#include "common/base/status.h"
#include "worker/data/data_array.h"
#include "trainer/base/pulse.h"

enum inflate_form {
    INFLATE_RAW,  // deflate, as in zip
    INFLATE_GZIP, // with header and CRC; several members in a row are one
};

// Checks that `bytes` bytes may come out of `compressed` bytes: at most
// ARRAY_INFLATE_BYTES, and ARRAY_INFLATE_RATIO times as many (`bytes` by the
// ratio is rounded down). Else SL_ERANGE. Pure.
enum sl_err inflate_bounds(uint64_t bytes, uint64_t compressed,
                           struct sl_error *err);

// The place of the compressed bytes.
struct inflate_source {
    struct fs_file *file; // borrowed
    uint64_t offset, bytes;
    enum inflate_form form;
    struct pulse *pulse; // may be NULL
};

struct inflater;

// Makes an inflater of `from`, which is copied; it has read nothing yet.
// SL_ENOMEM leaves *out as it was.
enum sl_err inflater_new(struct inflater **out,
                         const struct inflate_source *from,
                         struct sl_error *err);
void inflater_free(struct inflater *s); // NULL is allowed

// Writes the next `bytes` bytes of output to `to`, and sets *got to how many
// they are: fewer only at the end, or on failure, after which the inflater can
// only be freed. SL_EINTERNAL: zlib cannot begin the next member.
enum sl_err inflater_read(struct inflater *s, void *to, size_t bytes,
                          size_t *got, struct sl_error *err);

// Makes a->memory, of a->bytes bytes (array_measure): copies its first `n`
// bytes from `begin`, and inflates the others. SL_ECORRUPT if more or fewer
// bytes come out, or `n` is more than a->bytes. a->memory is for array_release,
// also on failure.
enum sl_err inflater_rows(struct inflater *s, struct array *a,
                          const uint8_t *begin, size_t n, struct sl_error *err);

// Returns the CRC-32 of all output that was read.
uint32_t inflater_crc(const struct inflater *s);

// Returns the pulse of its source; may be NULL.
struct pulse *inflater_pulse(const struct inflater *s);

#endif
