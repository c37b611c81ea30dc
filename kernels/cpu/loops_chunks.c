// SPDX-License-Identifier: Apache-2.0
// kernels/cpu/loops_chunks.c -- how ops are cut into chunks.
#include "kernels/cpu/loops.h"

// The first tensor as a flat run.
int64_t LOOPS(flat_chunks)(const struct kern_desc *d)
{
    return (kern_shape_count(&d->io[0]) + LOOPS_CHUNK - 1) / LOOPS_CHUNK;
}

// The first tensor as rows of its last axis.
int64_t LOOPS(row_chunks)(const struct kern_desc *d)
{
    int64_t rows = kern_rows(&d->io[0]);
    int64_t each = chunk_rows(rows, kern_cols(&d->io[0]));

    return (rows + each - 1) / each;
}
