// SPDX-License-Identifier: Apache-2.0
// Tar archives. Byte 0: groups or folders; what is read; and whether the
// checksum of each header is set right, so that what stands in it is read.
#include <stdio.h>
#include <stdlib.h>

#include "tests/fuzz/fuzz.h"
#include "tests/harness/roots.h"
#include "worker/data/data.h"

#define BLOCK 512
#define SAMPLES_MOST 16

// Sets the checksum of every block that could be a header.
static void set_sums(uint8_t *tar, size_t size)
{
    for (; size >= BLOCK; tar += BLOCK, size -= BLOCK) {
        unsigned sum = 8 * ' ';

        for (size_t i = 0; i < BLOCK; i++)
            sum += i >= 148 && i < 156 ? 0 : tar[i];
        if (sum > 8 * ' ')
            snprintf((char *)tar + 148, 8, "%06o", sum & 0777777);
    }
}

static void check_accepted(struct data *d, const struct data_want *want)
{
    struct sl_error err = SL_ERROR_INIT;
    float x[12], y[2];
    int32_t label;

    FUZZ_TRUE(data_samples(d) > 0);
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const labels[] = {"cls", "json", "y.npy", "txt"};
    struct data *const untouched = (struct data *)(uintptr_t)0xa5;
    struct data_source s = {.scale = 1, .roots = t_roots()};
    struct data_want want = {.rank = 3, .dim = {2, 2, 3}};
    struct sl_error err = SL_ERROR_INIT;
    struct data *d = untouched;
    uint8_t *tar;
    enum sl_err rc;

    if (size < 2)
        return 0;
    tar = malloc(size - 1);
    FUZZ_TRUE(tar != NULL);
    memcpy(tar, data + 1, size - 1);
    if (data[0] & 1)
        set_sums(tar, size - 1);
    s.x = fuzz_file("x.tar", tar, size - 1);
    free(tar);
    s.format = data[0] & 2 ? "tar" : "webdataset";
    s.label.key = labels[data[0] >> 2 & 3];
    s.number.key = data[0] & 16 ? "npy" : NULL;
    want.u8 = data[0] & 32;
    want.labels = data[0] & 64 ? DATA_VALUES : DATA_INDEX;
    want.outputs = want.labels == DATA_VALUES ? 1 : 2;
    // The chunk that looks the file through, names, and the index as it grows.
    fuzz_budget(((size_t)1 << 19) + 64 * size);
    rc = data_open(&d, &s, &want, &err);
    fuzz_budget(SIZE_MAX);
    if (rc == SL_OK) {
        check_accepted(d, &want);
    } else {
        fuzz_refused(rc, &err);
        FUZZ_TRUE(d == untouched);
    }
    return 0;
}
