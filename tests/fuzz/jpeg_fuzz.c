// SPDX-License-Identifier: Apache-2.0
// JPEG files, through the functions of ours that call libjpeg.
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/image_kit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    image_check(data, size, "\xff\xd8\xff", 3);
    return 0;
}
