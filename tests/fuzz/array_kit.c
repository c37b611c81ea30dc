// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/array_kit.h"

#include "common/base/mem.h"
#include "tests/fuzz/fuzz.h"

#define ROWS_MOST 64
#define ELEMENTS_MOST 4096

static void check_rows(const struct array *a)
{
    size_t some = a->row_elements < ELEMENTS_MOST ? (size_t)a->row_elements
                                                  : ELEMENTS_MOST;
    // Of no rows, a row may claim any size.
    uint8_t *scratch = sl_malloc(a->rows > 0 ? a->row_bytes : 0);
    float *floats = sl_malloc_array(some, sizeof(float));
    const uint8_t *row = NULL;

    FUZZ_TRUE(scratch != NULL && floats != NULL);
    for (uint64_t i = 0; i < a->rows && i < ROWS_MOST; i++) {
        // From both ends: the last row touches the last byte.
        uint64_t n = i % 2 == 0 ? i / 2 : a->rows - 1 - i / 2;

        FUZZ_TRUE(array_row(a, n, scratch, &row, NULL) == SL_OK);
        array_floats(a, row, some, 1, 0, floats);
        if (a->row_elements > 0)
            (void)array_double(a,
                               row + a->row_bytes - array_type_bytes(a->type));
    }
    FUZZ_TRUE(array_row(a, a->rows, scratch, &row, NULL) == SL_ERANGE);
    sl_free(floats);
    sl_free(scratch);
}

void array_check(enum sl_err rc, struct array *a, const struct sl_error *err)
{
    fuzz_budget(SIZE_MAX);
    if (rc != SL_OK) {
        fuzz_refused(rc, err);
        FUZZ_TRUE(fuzz_all(a, 0, sizeof(*a)));
        return;
    }
    FUZZ_TRUE(a->nd >= 1 && a->nd <= ARRAY_DIMS && a->rows == a->dim[0]);
    FUZZ_TRUE(a->row_bytes == a->row_elements * array_type_bytes(a->type));
    FUZZ_TRUE(a->bytes == a->rows * a->row_bytes);
    FUZZ_TRUE(a->memory != NULL || a->file != NULL);
    check_rows(a);
    array_release(a);
}
