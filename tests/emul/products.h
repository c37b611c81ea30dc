// SPDX-License-Identifier: Apache-2.0
// tests/emul/products.h -- how tests break the stand-ins for cuBLASLt and
// cuDNN.
#ifndef TESTS_EMUL_PRODUCTS_H
#define TESTS_EMUL_PRODUCTS_H

#include <stdbool.h>

#include "tests/emul/streams.h"

// From now on a product says that its kernel failed, or (false) works.
extern bool emul_products_fail;

#endif
