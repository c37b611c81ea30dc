// SPDX-License-Identifier: Apache-2.0
// tests/mutants/mutant.h -- which deliberate mistake this process makes.
//
// A build with SLUICE_TESTING compiles copies of the product's files in which
// apply.py has put the mistakes of this folder, each behind MUTANT(name). The
// environment chooses: SLUICE_BREAK=skip_dedupe makes that one everywhere.
// SLUICE_BREAK=list writes all names, one per line, and ends the process.
//
// Threads  any.
// Errors   an unknown name in SLUICE_BREAK ends the process with status 2.
#ifndef TESTS_MUTANTS_MUTANT_H
#define TESTS_MUTANTS_MUTANT_H

#include <stdbool.h>
#include <stdlib.h>

#ifdef SLUICE_FAULTS

#include "mutants/list.h" // of the build folder: MUTANT_LIST

enum mutant {
#define MUTANT_NAME(name) MUTANT_##name,
    MUTANT_LIST(MUTANT_NAME)
#undef MUTANT_NAME
};

bool mutant_made(enum mutant which);
#define MUTANT(name) mutant_made(MUTANT_##name)

// Only the n-th time, from 1: for what would stop everything.
bool mutant_made_nth(enum mutant which, unsigned n);
#define MUTANT_NTH(name, n) mutant_made_nth(MUTANT_##name, n)

#else

#define MUTANT(name) false
#define MUTANT_NTH(name, n) false

#endif
#endif
