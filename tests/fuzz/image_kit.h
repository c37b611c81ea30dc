// SPDX-License-Identifier: Apache-2.0
// tests/fuzz/image_kit.h -- what must hold of an image's file.
//
// Threads  one. Memory: nothing is kept. Errors: aborts.
#ifndef TESTS_FUZZ_IMAGE_KIT_H
#define TESTS_FUZZ_IMAGE_KIT_H

#include <stddef.h>
#include <stdint.h>

// Decodes a file that begins with the n bytes of `magic` whatever it says:
// refused with words, or pixels, the same when it is read again, which can be
// brought to any size.
void image_check(const uint8_t *data, size_t size, const char *magic, size_t n);

#endif
