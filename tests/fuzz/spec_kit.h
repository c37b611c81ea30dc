// SPDX-License-Identifier: Apache-2.0
// tests/fuzz/spec_kit.h -- the text of a job spec, through all that reads it.
//
// Threads  one. Memory: none is kept. Errors: what does not hold aborts.
#ifndef TESTS_FUZZ_SPEC_KIT_H
#define TESTS_FUZZ_SPEC_KIT_H

#include <stddef.h>
#include <stdint.h>

// `name` decides between YAML and JSON, as a file's name does.
void spec_text(const char *name, const uint8_t *data, size_t size);

#endif
