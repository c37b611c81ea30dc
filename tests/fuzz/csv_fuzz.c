// SPDX-License-Identifier: Apache-2.0
// CSV. Byte 0: with a header or without, the delimiter, the form of labels;
// byte 1: how many features the model reads.
#include <math.h>

#include "tests/fuzz/fuzz.h"
#include "tests/harness/roots.h"
#include "worker/data/data.h"

#define SAMPLES_MOST 64

static void check_sample(struct data *d, const struct data_want *want,
                         uint64_t i)
{
    struct sl_error err = SL_ERROR_INIT;
    float x[64], y[16] = {0};
    enum sl_err rc = data_read(d, i, x, y, &err);

    if (rc != SL_OK) {
        fuzz_refused(rc, &err);
        return;
    }
    if (want->labels == DATA_INDEX) {
        int32_t label;

        memcpy(&label, y, sizeof(label));
        FUZZ_TRUE(label >= 0 && (uint64_t)label < want->outputs);
    }
}

static void check_accepted(struct data *d, const struct data_want *want)
{
    uint64_t n = data_samples(d);

    FUZZ_TRUE(n > 0);
    FUZZ_TRUE(data_sample_bytes(d) == want->dim[0] * sizeof(float));
    FUZZ_TRUE(data_label_bytes(d) <= 16 * sizeof(float));
    for (uint64_t i = 0; i < n && i < SAMPLES_MOST; i++)
        check_sample(d, want, i % 2 == 0 ? i / 2 : n - 1 - i / 2);
    (void)data_hash(d);
    data_free(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char *columns[] = {"a", "0"};
    struct data *const untouched = (struct data *)(uintptr_t)0xa5;
    struct data_source source = {
        .format = "csv", .scale = 1, .roots = t_roots()};
    struct data_want want = {.rank = 1};
    struct sl_error err = SL_ERROR_INIT;
    struct data *d = untouched;
    enum sl_err rc;

    if (size < 2)
        return 0;
    source.header = data[0] & 1;
    source.delimiter = data[0] & 2 ? ';' : ',';
    source.label_column = data[0] & 4 ? "b" : NULL;
    source.columns = columns;
    source.columns_count = data[0] & 8 ? (data[0] >> 4 & 1) + 1 : 0;
    want.labels = (enum data_labels)((data[0] >> 5) % 3);
    want.outputs = want.labels == DATA_VALUES ? 1 : 10;
    want.dim[0] = data[1] % 63 + 1;
    source.x = fuzz_file("x.csv", data + 2, size - 2);
    // One line, one chunk; where each line begins, with a growing table.
    fuzz_budget(((size_t)2 << 20) + 64 * size);
    rc = data_open(&d, &source, &want, &err);
    fuzz_budget(SIZE_MAX);
    if (rc == SL_OK) {
        check_accepted(d, &want);
    } else {
        fuzz_refused(rc, &err);
        FUZZ_TRUE(d == untouched);
    }
    return 0;
}
