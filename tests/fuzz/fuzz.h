// SPDX-License-Identifier: Apache-2.0
// tests/fuzz/fuzz.h -- what the fuzz targets share.
//
// A target is one file, <name>_fuzz.c, with one LLVMFuzzerTestOneInput. It
// gives the bytes to one reader and checks what must hold of every input: that
// what is refused left the output untouched and gave no more memory than its
// budget, and that what is accepted is written and read again as the same.
// replay.c runs it over its corpus and over mutations of it; libFuzzer, where
// clang built it.
//
// Threads  one.
// Memory   fuzz_file's paths live until the next call of that name; the folder
//          is removed when the program ends.
// Errors   what does not hold is printed and aborts.
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/base/slices.h"
#include "common/base/status.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_TRUE(cond)                                                        \
    ((cond) ? (void)0 : fuzz_broken(#cond, __FILE__, __LINE__))
void fuzz_broken(const char *what, const char *file, int line)
    __attribute__((noreturn));

// From here on sl_* may hand out this much in all (growth counts again each
// time). SIZE_MAX: no limit. An input begins without one.
void fuzz_budget(size_t bytes);

// Writes the bytes to a file of that name, in memory where the host has such
// a folder; its path.
const char *fuzz_file(const char *name, const uint8_t *data, size_t size);
const char *fuzz_folder(void);

// The bytes in up to FUZZ_CUTS pieces, cut at places that the bytes decide,
// empty pieces among them.
#define FUZZ_CUTS 8
struct fuzz_cut {
    struct sl_slice at[FUZZ_CUTS];
    struct sl_slices slices;
};
void fuzz_cut_init(struct fuzz_cut *c, const uint8_t *data, size_t size);

// True if all n bytes are `byte`: of an output that must be untouched.
bool fuzz_all(const void *p, uint8_t byte, size_t n);

// An error that says nothing tells nobody anything.
void fuzz_refused(enum sl_err rc, const struct sl_error *err);

// Takes the next number off the input; 0 at its end.
struct fuzz_bytes {
    const uint8_t *at;
    size_t left;
};
uint64_t fuzz_take(struct fuzz_bytes *b, unsigned bytes);

#endif
