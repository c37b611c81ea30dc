// SPDX-License-Identifier: Apache-2.0
// common/base/suggest.h -- "did you mean".
//
// Threads  any.
#ifndef COMMON_BASE_SUGGEST_H
#define COMMON_BASE_SUGGEST_H

#include <stddef.h>

// Insertions, deletions, replacements and swaps of neighbours between two
// words; words longer than 63 bytes compare by their first 63.
unsigned sl_edit_distance(const char *a, const char *b);

// The word nearest to `word`, if it is near enough to be meant (at most a
// third of the letters differ, at least one may); else NULL.
const char *sl_suggest(const char *word, const char *const *from, size_t n);

#endif
