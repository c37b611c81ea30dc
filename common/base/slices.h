// SPDX-License-Identifier: Apache-2.0
// common/base/slices.h -- borrowed bytes, in one piece or in many.
//
// The payload of a message arrives as pieces of 8 to 64 KiB which are cut at
// arbitrary bytes: an element may straddle two pieces and need not be
// aligned. The pieces are never joined: `slices_runs` walks over whole
// elements, run by run, and returns a straddling element out of a small carry.
//
// Threads  a value; the owner of the bytes decides.
// Memory   all bytes are borrowed; these functions allocate and free none.
// Units    bytes, or elements of `element_bytes` where it says so.
// Errors   a call that fails leaves its outputs as they were.
#ifndef COMMON_BASE_SLICES_H
#define COMMON_BASE_SLICES_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

struct sl_slice {
    const uint8_t *data;
    size_t len;
};

// `bytes` bytes which start `offset_bytes` behind at[0].data, counted through
// the list. Slices of length 0 may occur.
struct sl_slices {
    const struct sl_slice *at;
    size_t count;
    size_t offset_bytes;
    size_t bytes;
};
#define SL_SLICES_NONE ((struct sl_slices){NULL, 0, 0, 0})

// Returns all bytes of the `count` slices at `at`, which must outlive the
// result.
struct sl_slices slices_all(const struct sl_slice *at, size_t count);

// Returns all bytes of one slice, which must outlive the result.
struct sl_slices slices_one(const struct sl_slice *one);

// Sets *out to `bytes` bytes of *s from `offset` on. SL_ERANGE unless offset +
// bytes <= s->bytes. `out` may be `s`.
enum sl_err slices_sub(struct sl_slices *out, const struct sl_slices *s,
                       size_t offset, size_t bytes);

// Copies all bytes to `to`, which has space for s->bytes and overlaps none.
void slices_copy(void *to, const struct sl_slices *s);

// Position in a list of slices.
struct slices_cursor {
    const struct sl_slice *at; // the current slice, if left > 0
    size_t offset;             // position in the current slice
    size_t left;               // bytes left in all slices
};

// Puts the cursor at the first byte of *s, of which it keeps no pointer; the
// list s->at must outlive it.
void slices_cursor_init(struct slices_cursor *c, const struct sl_slices *s);

// Copies n bytes to `to`, which overlaps none, and steps over them. SL_ERANGE
// if fewer are left; then the cursor stays, and nothing is copied.
enum sl_err slices_take(struct slices_cursor *c, void *to, size_t n);

// Returns the next n bytes, of which as many must be left (it asserts), and
// steps over them: where they lie, or in `space`, of n bytes, if they lie in
// several pieces.
const void *slices_view(struct slices_cursor *c, size_t n, void *space);

// Returns the *n bytes up to the end of the current piece, at most `max` (not
// 0), and steps over them. NULL and *n = 0 at the end.
const uint8_t *slices_next(struct slices_cursor *c, size_t max, size_t *n);

// Walk over whole elements, run by run.
#define SLICES_ELEMENT_MAX 16
struct slices_runs {
    struct slices_cursor cursor; // next element
    size_t element_bytes;        // size of an element, 1 to SLICES_ELEMENT_MAX
    uint8_t carry[SLICES_ELEMENT_MAX]; // an element that straddled pieces
};

// Begins a walk over *s, of which it keeps no pointer; the list s->at must
// outlive it. SL_EINVAL unless 1 <= element_bytes <= 16 divides s->bytes.
enum sl_err slices_runs_init(struct slices_runs *it, const struct sl_slices *s,
                             size_t element_bytes);

// Returns the next run of 1 to `max` (not 0) elements, and sets *elements; NULL
// and 0 at the end. A run may be unaligned: read it with memcpy or unaligned
// loads. It is valid until the next call, and may lie in *it.
const void *slices_runs_next(struct slices_runs *it, size_t max,
                             size_t *elements);

#endif
