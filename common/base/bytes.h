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

// Returns `bytes`, of 1 KiB or more, in the largest of KiB, MiB, GiB and TiB
// that leaves 1 at least, and which one that is in *unit.
double bytes_in_unit(uint64_t bytes, const char **unit);

// Writes "700 B", "1.5 MiB" or "2 GiB", with four digits at most, and returns
// `out`.
const char *bytes_text(char out[BYTES_TEXT], uint64_t bytes);

#endif
