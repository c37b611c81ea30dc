// SPDX-License-Identifier: Apache-2.0
// common/base/bytes.c -- see bytes.h.
#include "common/base/bytes.h"

#include <inttypes.h>
#include <stdio.h>

const char *bytes_text(char out[BYTES_TEXT], uint64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes / 1024;
    unsigned unit = 0;

    if (bytes < 1024) {
        snprintf(out, BYTES_TEXT, "%" PRIu64 " B", bytes);
        return out;
    }
    for (; value >= 1024 && unit < 3; unit++)
        value /= 1024;
    snprintf(out, BYTES_TEXT, "%.4g %s", value, units[unit]);
    return out;
}
