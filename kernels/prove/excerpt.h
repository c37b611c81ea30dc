// SPDX-License-Identifier: Apache-2.0
// kernels/prove/excerpt.h -- a part of an op that is an op by itself.
//
// A product of some rows and columns, a pool of some images, the statistics of
// some channels: what they compute is a part of what the whole op computes, so
// a large op can be compared with ref on parts of it.
//
// Threads  any.
// Memory   values; nothing is kept.
// Units    elements along the two axes of a cut.
// Errors   none: descriptors were checked.
#ifndef KERNELS_PROVE_EXCERPT_H
#define KERNELS_PROVE_EXCERPT_H

#include "kernels/prove/trial.h"

// The axes along which an op can be cut: rows (or images), and columns (or
// channels, or groups of them).
enum { CUT_ROWS, CUT_COLUMNS, CUT_AXES };

struct excerpt {
    int64_t length[CUT_AXES]; // of the whole op; 1: it cannot be cut there
    int64_t from[CUT_AXES];   // first element of the part
    int64_t count[CUT_AXES];  // elements of the part
    int8_t axis[CUT_AXES][KERN_IO]; // of each tensor; -1: the part has it whole
    int64_t unit[CUT_AXES][KERN_IO]; // channels that an element stands for
    uint32_t outs; // outputs (bits of io[]) that are comparable in a part
};

// Sets *c to the whole of op *d: all rows and columns, from 0 on, along the
// axes by which it can be cut.
void excerpt_whole(struct excerpt *c, const struct kern_desc *d);

// Returns about how many multiplications ref does for *d, as a measure of its
// time.
double excerpt_work(const struct kern_desc *d);

// Lowers c->count so that ref does about `most` multiplications for the part,
// which keeps at least one row and one column. *c is as excerpt_whole set it
// for *d; where the part begins (c->from) is the caller's to set. A part that
// is all of the op has all outputs comparable (c->outs).
void excerpt_shrink(struct excerpt *c, const struct kern_desc *d, double most);

// Writes the descriptor of the part *c of op *d to *part.
void excerpt_desc(struct kern_desc *part, const struct kern_desc *d,
                  const struct excerpt *c);

// Copies the part's elements of tensor `i` out of the whole op's tensor at
// `from` to the part's tensor at `to`. Row numbers of a table (the ids of a
// GATHER_BWD) are made to count from the part's first row.
void excerpt_take(void *to, const struct kern_desc *part, const void *from,
                  const struct kern_desc *d, const struct excerpt *c,
                  unsigned i);

// Returns the index, in row-major order, that element `k` of the part's tensor
// `i` has in the whole tensor.
int64_t excerpt_place(const struct kern_desc *part, const struct kern_desc *d,
                      const struct excerpt *c, unsigned i, int64_t k);

#endif
