// SPDX-License-Identifier: Apache-2.0
// common/base/utf8.h -- is this text?
//
// Threads  any.
#ifndef COMMON_BASE_UTF8_H
#define COMMON_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

// Bytes of the well-formed sequence (RFC 3629: shortest form, no surrogates,
// at most U+10FFFF) that `text` begins with; 0 if it is none, or if `left`
// bytes do not hold it.
size_t utf8_sequence(const char *text, size_t left);

bool utf8_valid(const char *text, size_t len);

// Copies what fits of any bytes as text of one line: '?' stands for what is
// none. Returns out.
const char *utf8_line(char *out, size_t size, const char *bytes);

#endif
