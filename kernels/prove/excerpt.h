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

// Describes the whole of *d as an excerpt of itself.
void excerpt_whole(struct excerpt *c, const struct kern_desc *d);

// Returns about how many multiplications or elements ref computes for *d.
double excerpt_work(const struct kern_desc *d);

// Makes the counts so small that ref computes about `most` for a part, which
// has at least one row and one column. *c is excerpt_whole's; where the part
// begins (`from`) is the caller's to set.
void excerpt_shrink(struct excerpt *c, const struct kern_desc *d, double most);

// Writes the descriptor of the part to *part.
void excerpt_desc(struct kern_desc *part, const struct kern_desc *d,
                  const struct excerpt *c);

// Copies the part's elements of tensor `i` of the whole op at `from` to the
// part's tensor at `to`. Numbers of a table's rows become those of the part's.
void excerpt_take(void *to, const struct kern_desc *part, const void *from,
                  const struct kern_desc *d, const struct excerpt *c,
                  unsigned i);

// Returns where element `k` of the part's tensor `i` stands among the elements
// of the whole one, in row-major order.
int64_t excerpt_place(const struct kern_desc *part, const struct kern_desc *d,
                      const struct excerpt *c, unsigned i, int64_t k);

#endif
