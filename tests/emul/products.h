// SPDX-License-Identifier: Apache-2.0
// tests/emul/products.h -- how tests break the stand-ins for cuBLASLt and
// cuDNN, and what those said.
#ifndef TESTS_EMUL_PRODUCTS_H
#define TESTS_EMUL_PRODUCTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/emul/streams.h"

// From now on a product says that its kernel failed, or (false) works.
extern bool emul_products_fail;

// Engine or algorithm (0: none; EMUL_PRODUCTS_ALL: every one) of which every
// run is refused, while nothing is wrong with the device, and in which words.
#define EMUL_PRODUCTS_ALL UINT64_MAX
extern uint64_t emul_products_bad;
extern enum emul_refusal {
    REFUSES_FAILING,     // EXECUTION_FAILED
    REFUSES_UNSUPPORTED, // NOT_SUPPORTED
    REFUSES_NO_MEMORY,   // ALLOC_FAILED, or cuDNN's word for it
    REFUSALS
} emul_products_refusal;

// Returns true if engine or algorithm `which` is to be refused.
bool emul_products_refuses(uint64_t which);

// ... which cannot be recorded: a run while a stream records fails and spoils
// the recording.
extern uint64_t emul_products_unrecordable;

// What they say they are; 0: as their headers, and 13.0. A cuDNN below 9.10
// fuses no ReLU: it stands for whatever an older one lacks.
extern size_t emul_dnn_version, emul_blas_version;

// Why one of them refused something last; "" before the first time.
const char *emul_products_why(void);
// Notes it.
void emul_products_say(const char *why);

// True, with the reason noted, if the caller records, so that what makes or
// ends a handle is refused. The recording is spoilt.
bool emul_products_records(const char *what);

#endif
