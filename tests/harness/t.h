// SPDX-License-Identifier: Apache-2.0
// tests/harness/t.h -- what a test file needs.
//
//     #include "tests/harness/t.h"
//
//     TEST(closure, a_late_report_changes_nothing)
//     {
//         T_OK(closure_lease(&c, ALICE, 0, 1000));
//         T_FAILS(SL_ESTALE, closure_finish(&c, 1, SL_OK));
//         T_EQ(c.worker, BOB);
//     }
//
// Tests register themselves and run in the order of the file. The binary runs
// all of them, or those whose "suite.name" contains an argument; -l lists. A
// binary of several files has a name of two words (unit.common); under a third
// word (a link, unit.common.fs) it knows the tests of fs_test.c alone.
// The first check that fails ends its test (by longjmp: what it held leaks,
// and that is fine), prints what was compared, and the other tests still run.
// Every test starts with the same seed; T_SEED=number sets it, T_SEED=random
// draws one. A failure prints it.
//
// Threads  checks: only the thread that runs the test; other threads use
//          T_ASSERT, which aborts.
// Errors   exit code 0, 1 if a test failed, 77 if all were skipped. Also 1 if
//          T_THREADS=0 says that the program makes no thread, and it has.
#ifndef TESTS_HARNESS_T_H
#define TESTS_HARNESS_T_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/status.h"

typedef void (*t_fn)(void);

struct t_test {
    const char *suite, *name;
    const char *file; // path of the source that holds the test
    t_fn fn;
    struct t_test *next;
};

// Adds a test, which is borrowed for good, to those that the binary runs. For
// TEST.
void t_register(struct t_test *test);

#define TEST(suite_, name_)                                                    \
    static void t_run_##suite_##_##name_(void);                                \
    static struct t_test t_test_##suite_##_##name_ = {                         \
        #suite_, #name_, __FILE__, t_run_##suite_##_##name_, NULL};            \
    static void __attribute__((constructor)) t_add_##suite_##_##name_(void)    \
    {                                                                          \
        t_register(&t_test_##suite_##_##name_);                                \
    }                                                                          \
    static void t_run_##suite_##_##name_(void)

// Returns the seed of this run: T_SEED, or a fixed number.
uint64_t t_seed(void);
// Returns the next number, of 64 random bits, of a sequence that starts anew in
// each test and follows from the seed and the test's name.
uint64_t t_rand(void);
// Returns a number from [0, n) made from t_rand; n > 0.
uint64_t t_below(uint64_t n);

// Returns the path of an empty folder for this test, which is removed when the
// test ends. Each call within a test returns the same one.
const char *t_tmpdir(void);

// Returns t_tmpdir() + "/" + name; the text lives until the test ends.
const char *t_path(const char *name);

// Returns the sl_error of the test, cleared, for a call that wants one:
// T_OK(f(..., t_err())) prints its text when the call fails.
struct sl_error *t_err(void);

// Sets the command that a failure prints, from now until the test ends, as the
// way to repeat it, in place of T_SEED=...; it is copied.
void t_again(const char *command);

// Makes the n-th call of pthread_create that this thread makes from now on (1:
// the next), in the program or libsluice, fail with EAGAIN; 0: none. Calls
// within other libraries do not count.
void t_threads_refuse(unsigned n);
// Returns how many such calls this thread has made since t_threads_refuse;
// always 0 in a build with a sanitizer, where none is refused.
unsigned t_threads_asked(void);

// --- checks: each evaluates its arguments once. One that does not hold prints
// what was compared, and ends the test as failed.

#define T_TRUE(cond) t_check_true((cond), #cond, __FILE__, __LINE__)
#define T_FALSE(cond) T_TRUE(!(cond))
// T_OK: `call` returns SL_OK. T_FAILS: it returns this error.
#define T_OK(call) t_check_code(SL_OK, (call), #call, __FILE__, __LINE__)
#define T_FAILS(code, call)                                                    \
    t_check_code((code), (call), #call, __FILE__, __LINE__)

// Integers and enums of any width and sign (T_PTR for pointers): compared as
// numbers, so that -1 is less than 1u.
#define T_EQ(a, b) T_INT_(a, ==, b)
#define T_NE(a, b) T_INT_(a, !=, b)
#define T_LT(a, b) T_INT_(a, <, b)
#define T_LE(a, b) T_INT_(a, <=, b)
#define T_GT(a, b) T_INT_(a, >, b)
#define T_GE(a, b) T_INT_(a, >=, b)
#define T_INT_(a, op, b)                                                       \
    do {                                                                       \
        __int128 t_ia_ = (__int128)(a), t_ib_ = (__int128)(b);                 \
        t_check_int(t_ia_ op t_ib_, t_ia_, t_ib_, #a " " #op " " #b, __FILE__, \
                    __LINE__);                                                 \
    } while (0)
// T_PTR: equal pointers. T_STR: equal texts.
#define T_PTR(a, b) t_check_ptr((a), (b), #a " == " #b, __FILE__, __LINE__)
#define T_STR(a, b) t_check_str((a), (b), #a " == " #b, __FILE__, __LINE__)
// `text` contains `part`.
#define T_HAS(text, part)                                                      \
    t_check_has((text), (part), #text " has " #part, __FILE__, __LINE__)
// The `bytes` bytes at a and at b are equal.
#define T_MEM(a, b, bytes)                                                     \
    t_check_mem((a), (b), (bytes), #a " == " #b, __FILE__, __LINE__)
// |a - b| <= tolerance; a NaN is near nothing.
#define T_NEAR(a, b, tolerance)                                                \
    t_check_near((a), (b), (tolerance), #a " near " #b, __FILE__, __LINE__)

// T_FAIL ends the test as failed, with a text made as printf makes it; T_SKIP
// as skipped, for a literal reason.
#define T_FAIL(...) t_fail(__FILE__, __LINE__, __VA_ARGS__)
#define T_SKIP(reason) t_skip(reason)

// For other threads and for helpers outside a test: prints and aborts.
#define T_ASSERT(cond)                                                         \
    ((cond) ? (void)0 : t_assert_failed(#cond, __FILE__, __LINE__))

// What the macros call: `what` is the text of the comparison, `file` and `line`
// its place. They return if it holds, else they end the test.
void t_check_true(bool ok, const char *what, const char *file, int line);
void t_check_code(enum sl_err want, enum sl_err got, const char *what,
                  const char *file, int line);
void t_check_int(bool ok, __int128 a, __int128 b, const char *what,
                 const char *file, int line);
void t_check_ptr(const void *a, const void *b, const char *what,
                 const char *file, int line);
void t_check_str(const char *a, const char *b, const char *what,
                 const char *file, int line);
void t_check_has(const char *text, const char *part, const char *what,
                 const char *file, int line);
void t_check_mem(const void *a, const void *b, size_t bytes, const char *what,
                 const char *file, int line);
void t_check_near(double a, double b, double tolerance, const char *what,
                  const char *file, int line);
void t_fail(const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4), noreturn));
void t_skip(const char *reason) __attribute__((noreturn));
void t_assert_failed(const char *what, const char *file, int line)
    __attribute__((noreturn));

#endif
