// SPDX-License-Identifier: Apache-2.0
// common/base/bytes.c -- see bytes.h.
#include "common/base/bytes.h"

#include <inttypes.h>
#include <stdio.h>

double bytes_in_unit(uint64_t bytes, const char **unit)
{
    static const char *const units[] = {"KiB", "MiB", "GiB",
                                        "TiB", "PiB", "EiB"};
    double value = (double)bytes / 1024;
    unsigned i = 0;

    for (; value >= 1024; i++)
        value /= 1024;
    *unit = units[i];
    return value;
}

const char *bytes_text(char out[BYTES_TEXT], uint64_t bytes)
{
    const char *unit;
    double value = bytes_in_unit(bytes, &unit);

    if (bytes < 1024)
        snprintf(out, BYTES_TEXT, "%" PRIu64 " B", bytes);
    else
        snprintf(out, BYTES_TEXT, "%.4g %s", value, unit);
    return out;
}
