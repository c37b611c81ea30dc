// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/records_kit.h"

#include <string.h>

#include "tests/fuzz/fuzz.h"

#define SAMPLES_MOST 16

static void check_accepted(struct data *d, const struct data_want *want)
{
    struct sl_error err = SL_ERROR_INIT;
    float x[12], y[10];
    int32_t label;

    FUZZ_TRUE(data_samples(d) > 0);
    FUZZ_TRUE(data_sample_bytes(d) <= sizeof(x));
    for (uint64_t i = 0; i < data_samples(d) && i < SAMPLES_MOST; i++) {
        enum sl_err rc = data_read(d, i, x, y, &err);

        if (rc != SL_OK) {
            fuzz_refused(rc, &err);
            continue;
        }
        memcpy(&label, y, sizeof(label));
        FUZZ_TRUE(want->labels != DATA_INDEX ||
                  (label >= 0 && (uint64_t)label < want->outputs));
    }
    for (uint32_t i = 0; i < data_classes(d); i++)
        FUZZ_TRUE(strlen(data_class(d, i)) < 256);
    data_free(d);
}

void records_check(const struct data_source *s, const struct data_want *want,
                   size_t budget)
{
    struct data *const untouched = (struct data *)(uintptr_t)0xa5;
    struct sl_error err = SL_ERROR_INIT;
    struct data *d = untouched;
    enum sl_err rc;

    fuzz_budget(budget);
    rc = data_open(&d, s, want, &err);
    fuzz_budget(SIZE_MAX);
    if (rc == SL_OK) {
        check_accepted(d, want);
    } else {
        fuzz_refused(rc, &err);
        FUZZ_TRUE(d == untouched);
    }
}
