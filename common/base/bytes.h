// SPDX-License-Identifier: Apache-2.0
// common/base/bytes.h -- a number of bytes, for messages.
//
// Threads  pure.
// Units    bytes.
// Errors   none.
#ifndef COMMON_BASE_BYTES_H
#define COMMON_BASE_BYTES_H

#include <stdint.h>

#define BYTES_TEXT 32

// Returns `bytes` as a number of *unit, and sets *unit to the largest of "KiB",
// "MiB", "GiB", "TiB", "PiB" and "EiB" in which the number is 1 or more; below
// 1 KiB to "KiB". *unit is static text.
double bytes_in_unit(uint64_t bytes, const char **unit);

// Writes `bytes` to `out` in the largest unit of which there is one, with four
// digits at most: "700 B", "1.5 MiB", "2 GiB". Returns `out`.
const char *bytes_text(char out[BYTES_TEXT], uint64_t bytes);

#endif
