// SPDX-License-Identifier: Apache-2.0
// tests/harness/t_run.h -- within the harness only: the test that runs now.
#ifndef TESTS_HARNESS_T_RUN_H
#define TESTS_HARNESS_T_RUN_H

#include <setjmp.h>

#include "tests/harness/t.h"

enum t_result { T_PASSED, T_FAILED, T_SKIPPED };

struct t_run {
    const struct t_test *test;
    struct sl_error err;
    uint64_t drawn;  // of t_rand
    char again[256]; // t_again
    jmp_buf out;
};

extern struct t_run t_now;

// Returns true if this process, or a library in it, has made a thread. Always
// false under a sanitizer.
bool t_threads_made(void);

// Removes the folder of the test, if t_tmpdir made one, and frees the paths of
// t_path.
void t_dir_remove(void);

#endif
