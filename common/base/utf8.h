// SPDX-License-Identifier: Apache-2.0
// common/base/utf8.h -- is this text, and may it be shown?
//
// What others say (members, specs, files) may hold what a terminal or an eye
// takes for something else: control characters (below U+0020, and from U+007F
// to U+009F), marks that turn the direction of writing, separators of lines,
// bytes that are no text. None of these is shown as it is, in no log, terminal
// or page.
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

// Whether all of it may be shown as it is, on one line.
bool utf8_plain(const char *text, size_t len);

// What is shown for the character or byte that `text` begins with, of which
// *took are the bytes: "" where it may be shown as it is; else "\\u001b",
// "\\u202e", or for a byte that is no text "\\xff". Returns out; left > 0.
#define UTF8_SHOWN 8
const char *utf8_shown(char out[UTF8_SHOWN], const char *text, size_t left,
                       size_t *took);

// Copies what fits of any bytes as text of one line: '?' stands for what may
// not be shown. `out` may be `bytes`. Returns out.
const char *utf8_line(char *out, size_t size, const char *bytes);

#endif
