// SPDX-License-Identifier: Apache-2.0
// tests/emul/products.h -- how tests break the stand-ins for cuBLASLt and
// cuDNN.
#ifndef TESTS_EMUL_PRODUCTS_H
#define TESTS_EMUL_PRODUCTS_H

#include <stdbool.h>

#include "tests/emul/streams.h"

// From now on a product says that its kernel failed, or (false) works.
extern bool emul_products_fail;

// This algorithm of cuBLASLt, or engine of cuDNN, says so from now on, and the
// device is well; 0: none.
extern uint64_t emul_products_bad;

#endif
