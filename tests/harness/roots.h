// SPDX-License-Identifier: Apache-2.0
// tests/harness/roots.h -- all files of this host, as a worker's data roots;
// relative paths mean the folder where this process runs.
//
// Threads  one. Memory: kept until the process ends.
#ifndef TESTS_HARNESS_ROOTS_H
#define TESTS_HARNESS_ROOTS_H

#include <stdlib.h>

#include "common/base/roots.h"

// Returns roots that allow every file of this host; always the same ones.
static inline const struct roots *t_roots(void)
{
    static struct roots *all;

    if (all == NULL &&
        (roots_new(&all, "worker", "--data-root", NULL) != SL_OK ||
         roots_add(all, "/", NULL) != SL_OK ||
         roots_add(all, ".", NULL) != SL_OK))
        abort();
    return all;
}

#endif
