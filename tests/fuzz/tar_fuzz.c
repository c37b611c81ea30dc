// SPDX-License-Identifier: Apache-2.0
// Tar archives. Byte 0: groups or folders; what is read; and whether the
// checksum of each header is set right, so that what stands in it is read.
#include <stdio.h>
#include <stdlib.h>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/records_kit.h"
#include "tests/harness/roots.h"

#define BLOCK 512

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const labels[] = {"cls", "json", "y.npy", "txt"};
    struct data_source s = {.scale = 1, .roots = t_roots()};
    struct data_want want = {.rank = 3, .dim = {2, 2, 3}};
    uint8_t *tar;

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
    records_check(&s, &want, ((size_t)1 << 19) + 64 * size);
    return 0;
}
