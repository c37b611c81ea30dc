// SPDX-License-Identifier: Apache-2.0
// CSV. Byte 0: with a header or without, the delimiter, the form of labels;
// byte 1: how many features the model reads, and in which columns ids are.
#include <math.h>

#include "tests/fuzz/fuzz.h"
#include "tests/harness/roots.h"
#include "worker/data/data.h"

#define SAMPLES_MOST 64

// What the second byte chooses.
static const struct id_column id_columns[][2] = {
    {{.name = "1"}, {.name = "2"}},
    {{.name = "1"}, {.name = "0"}},
    {{.name = "1", .hashed = true, .seed = 7}, {.name = "0"}},
    {{.name = "tags"}, {.name = "user", .hashed = true}},
};
static const size_t id_counts[] = {2, 1, 1, 2};

// Checks the bags of a sample that was read: no more ids than a line has bytes.
static void check_ids(struct data *d, size_t size)
{
    struct ids ids = {0};
    const struct id_bag *bags;

    FUZZ_TRUE(ids_begin(&ids, data_id_columns(d), NULL) == SL_OK);
    FUZZ_TRUE(data_gather_ids(d, &ids, NULL) == SL_OK);
    bags = ids_bags(&ids);
    for (size_t i = 0; i < data_id_columns(d); i++) {
        FUZZ_TRUE(bags[i].samples == 1 && bags[i].offsets[0] == 0);
        FUZZ_TRUE(bags[i].offsets[1] <= size);
    }
    ids_release(&ids);
}

static void check_sample(struct data *d, const struct data_want *want,
                         uint64_t i, size_t size)
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
    check_ids(d, size);
}

static void check_accepted(struct data *d, const struct data_want *want,
                           size_t size)
{
    uint64_t n = data_samples(d);

    FUZZ_TRUE(n > 0);
    FUZZ_TRUE(data_sample_bytes(d) == want->dim[0] * sizeof(float));
    FUZZ_TRUE(data_label_bytes(d) <= 16 * sizeof(float));
    for (uint64_t i = 0; i < n && i < SAMPLES_MOST; i++)
        check_sample(d, want, i % 2 == 0 ? i / 2 : n - 1 - i / 2, size);
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
    if (data[1] >= 63) {
        source.ids = id_columns[data[1] / 63 - 1];
        source.ids_count = id_counts[data[1] / 63 - 1];
    }
    source.x = fuzz_file("x.csv", data + 2, size - 2);
    // One line, one chunk; where each line begins, with a growing table.
    fuzz_budget(((size_t)3 << 20) + 64 * size); // a cell, where ids are read
    rc = data_open(&d, &source, &want, &err);
    fuzz_budget(SIZE_MAX);
    if (rc == SL_OK) {
        check_accepted(d, &want, size);
    } else {
        fuzz_refused(rc, &err);
        FUZZ_TRUE(d == untouched);
    }
    return 0;
}
