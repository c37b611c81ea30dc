// SPDX-License-Identifier: Apache-2.0
// kernels/pack.h -- blocks of differences in few bits, for what travels.
//
//   INT8   256 elements: a row of quant.h.
//   E3M0   256 elements: the scale, an f32, and 4 bits for each element, the
//          first in the low half of a byte. Bit 3 is the sign. Bits 0 to 2 are
//          0 for zero, or c for scale * 2^(c - 7). The scale is the largest
//          magnitude.
//   TOPK2  4096 elements, of which the 64 with the largest magnitudes are sent
//          (of n: one for each 64 or part of them), the first of equals. Two
//          f32, `low` and `high`; then 12 bits for each place, in ascending
//          order, the first in the lowest bits; then 2 bits for each value:
//          bit 0 is the sign, bit 1 chooses `high`. All others are zero.
//
// The last block of a vector may be shorter. A bit behind the last element is
// 0. E3M0 is off by at most a third of an element, or a 128th of the scale.
// `low` and `high` are the means of the smaller and of the larger magnitudes
// that are sent, on both sides of the middle between the extremes.
//
// A scale below PACK_LEAST becomes 0, one above QUANT_MOST becomes that. A
// block with an element that is not finite has a scale of NaN, and is not
// valid. The bits of a result are the same on every host, but for those of a
// NaN.
//
// Threads  any; functions of their arguments.
// Memory   any address; in and out do not overlap.
// Units    n in elements of one block: 1 to pack_block.
#ifndef KERNELS_PACK_H
#define KERNELS_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum pack_code { PACK_INT8, PACK_E3M0, PACK_TOPK2 };
#define PACK_CODES 3

#define PACK_LEAST 0x1p-100f
#define PACK_BLOCK_MOST 4096 // elements of a block
#define PACK_BYTES_MOST 260  // bytes of a block
#define PACK_TOP 64          // elements of which topk2 sends one

// Returns the elements of a whole block.
size_t pack_block(enum pack_code code);
// Returns the bytes of a block of n elements.
size_t pack_bytes(enum pack_code code, size_t n);
// Writes a block of n elements at `in` as bytes at `out`.
void pack_narrow(enum pack_code code, size_t n, const float *in, void *out);
// Writes the n elements that a valid block (pack_valid) stands for to `out`.
void pack_widen(enum pack_code code, size_t n, const void *in, float *out);
// Returns a number that no magnitude of what a valid block (pack_valid) stands
// for exceeds; it need not be the least such.
float pack_most(enum pack_code code, const void *in);
// Returns true if the bytes are a block of n finite elements, whoever wrote
// them.
bool pack_valid(enum pack_code code, size_t n, const void *in);

// ---- the loops of each instruction set, for tests

struct pack_loops {
    // As pack_narrow and pack_widen for PACK_E3M0.
    void (*narrow_e3m0)(size_t n, const float *in, uint8_t *out);
    void (*widen_e3m0)(size_t n, const uint8_t *in, float *out);
    // Returns the k-th largest magnitude, from 1, as bits.
    uint32_t (*kth)(size_t n, const float *in, size_t k);
};

extern const struct pack_loops pack_loops_base;
#ifdef __x86_64__
extern const struct pack_loops pack_loops_avx2;
#endif

#endif
