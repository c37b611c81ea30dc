// SPDX-License-Identifier: Apache-2.0
// common/base/suggest.h -- "did you mean".
//
// Threads  any.
// Memory   no allocation; words are not NULL.
#ifndef COMMON_BASE_SUGGEST_H
#define COMMON_BASE_SUGGEST_H

#include <stddef.h>

// Returns the number of insertions, deletions, replacements and swaps of
// neighbours between two words; longer words compare by their first 63 bytes.
unsigned sl_edit_distance(const char *a, const char *b);

// Returns the nearest of the `n` words `from` to `word`, the first of several,
// if at most a third of its letters differ (one may in any case); else NULL.
// The result is borrowed from `from`.
const char *sl_suggest(const char *word, const char *const *from, size_t n);

#endif
