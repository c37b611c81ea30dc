// SPDX-License-Identifier: Apache-2.0
// tests/emul/planted_calls.h -- mistakes in what the module's host code asks of
// NVIDIA's libraries.
//
// The linker (--wrap) leads calls through planted_dnn.c and planted_blas.c,
// which change what one call says as a mistake in the module would; the
// module's own objects are those of the other tests.
#ifndef TESTS_EMUL_PLANTED_CALLS_H
#define TESTS_EMUL_PLANTED_CALLS_H

#include <stdbool.h>

enum planted_how { GRAPH, PLAN, RUN, RECORD, OTHER, SLOW };

enum planted_call {
    PLANTED_NOTHING,
#define PLANTED_CALL(name, how, words) PLANTED_##name,
#include "tests/emul/planted_calls.def"
    PLANTED_CALLS
};

// Which mistake calls make.
extern enum planted_call planted_call;
// From now on they make this one.
void planted_make(enum planted_call call);

// Is it this one?
#define PLANTED(name) (planted_call == PLANTED_##name)

// True once for each planted_make().
bool planted_first(void);

#endif
