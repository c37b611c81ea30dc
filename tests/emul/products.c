// SPDX-License-Identifier: Apache-2.0
// tests/emul/products.c -- see products.h.
#include "tests/emul/products.h"

#include <stdio.h>

bool emul_products_fail;
uint64_t emul_products_bad, emul_products_unrecordable;
enum emul_refusal emul_products_refusal;

size_t emul_dnn_version, emul_blas_version;

static char said[200];

bool emul_products_refuses(uint64_t which)
{
    return emul_products_bad == which || emul_products_bad == EMUL_PRODUCTS_ALL;
}

const char *emul_products_why(void)
{
    return said;
}

void emul_products_say(const char *why)
{
    snprintf(said, sizeof(said), "%s", why);
}

bool emul_products_records(const char *what)
{
    char text[100];

    if (!emul_recording())
        return false;
    snprintf(text, sizeof(text), "%s while a stream records", what);
    emul_products_say(text);
    emul_spoil();
    return true;
}
