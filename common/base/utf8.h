// SPDX-License-Identifier: Apache-2.0
// common/base/utf8.h -- checks that bytes are text, and that text is safe to
// show.
//
// Text from outside (members, specs, files) may deceive a terminal or a reader:
// control characters (below U+0020, and from U+007F to U+009F), marks that turn
// the direction of writing, separators of lines, bytes that are no text. No
// log, terminal or page shows these as they are.
//
// Threads  any.
// Memory   no allocation; texts are not NULL. Those with a length may hold 0.
// Units    lengths and sizes are bytes.
#ifndef COMMON_BASE_UTF8_H
#define COMMON_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

// Returns true if `text` ends with `end`, which may be all of it.
bool utf8_ends_with(const char *text, const char *end);

// Returns the length of the well-formed sequence (RFC 3629: shortest form, no
// surrogates, at most U+10FFFF) at the beginning of `text`; 0 if it is
// malformed, or longer than `left` bytes.
size_t utf8_sequence(const char *text, size_t left);

// Returns true if the `len` bytes are well-formed UTF-8; an empty text is.
bool utf8_valid(const char *text, size_t len);

// Returns true if the whole text may be shown as it is, on one line; an empty
// one may.
bool utf8_plain(const char *text, size_t len);

#define UTF8_SHOWN 8

// Writes to `out` how to show the first character or byte of `text`, which is
// *took bytes long: "" if it may be shown as it is; else "\\u001b", "\\u202e",
// or for a byte that is no text "\\xff". Returns out; `left`, the bytes of
// `text`, is at least 1.
const char *utf8_shown(char out[UTF8_SHOWN], const char *text, size_t left,
                       size_t *took);

// Copies `bytes`, which a 0 ends, as text of one line, cut to `size` (not 0)
// with its 0: '?' replaces characters and bytes that may not be shown. Cuts no
// character. `out` may be `bytes`. Returns out.
const char *utf8_line(char *out, size_t size, const char *bytes);

#endif
