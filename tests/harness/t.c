// SPDX-License-Identifier: Apache-2.0
// tests/harness/t.c -- checks: compare, and print what was compared.
#include "tests/harness/t.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>

#include "tests/harness/t_run.h"

struct t_run t_now;

static void place(const char *file, int line)
{
    fprintf(stderr, "%s:%d: %s.%s: ", file, line, t_now.test->suite,
            t_now.test->name);
}

void t_again(const char *command)
{
    snprintf(t_now.again, sizeof(t_now.again), "%s", command);
}

static void __attribute__((noreturn)) failed(void)
{
    if (t_now.again[0] != '\0') {
        fprintf(stderr, "\n    again: %s\n", t_now.again);
        longjmp(t_now.out, T_FAILED);
    }
    fprintf(stderr, "\n    seed %llu; again: T_SEED=%llu %s %s.%s\n",
            (unsigned long long)t_seed(), (unsigned long long)t_seed(),
            program_invocation_short_name, t_now.test->suite, t_now.test->name);
    longjmp(t_now.out, T_FAILED);
}

void t_fail(const char *file, int line, const char *fmt, ...)
{
    va_list ap;

    place(file, line);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    failed();
}

void t_skip(const char *reason)
{
    printf("skip %s.%s: %s\n", t_now.test->suite, t_now.test->name, reason);
    longjmp(t_now.out, T_SKIPPED);
}

void t_assert_failed(const char *what, const char *file, int line)
{
    fprintf(stderr, "%s:%d: %s does not hold; seed %llu\n", file, line, what,
            (unsigned long long)t_seed());
    abort();
}

struct sl_error *t_err(void)
{
    t_now.err = (struct sl_error)SL_ERROR_INIT;
    return &t_now.err;
}

void t_check_true(bool ok, const char *what, const char *file, int line)
{
    if (ok)
        return;
    place(file, line);
    fprintf(stderr, "%s does not hold", what);
    failed();
}

void t_check_code(enum sl_err want, enum sl_err got, const char *what,
                  const char *file, int line)
{
    if (want == got)
        return;
    place(file, line);
    fprintf(stderr, "%s\n    is %s, not %s", what, sl_err_name(got),
            sl_err_name(want));
    if (t_now.err.text[0] != '\0')
        fprintf(stderr, "\n    \"%s\"", t_now.err.text);
    failed();
}

static void print_int(__int128 value)
{
    if (value < 0)
        fprintf(stderr, "%lld", (long long)value);
    else
        fprintf(stderr, "%llu (0x%llx)", (unsigned long long)value,
                (unsigned long long)value);
}

void t_check_int(bool ok, __int128 a, __int128 b, const char *what,
                 const char *file, int line)
{
    if (ok)
        return;
    place(file, line);
    fprintf(stderr, "%s does not hold\n    left  ", what);
    print_int(a);
    fprintf(stderr, "\n    right ");
    print_int(b);
    failed();
}

void t_check_ptr(const void *a, const void *b, const char *what,
                 const char *file, int line)
{
    if (a == b)
        return;
    place(file, line);
    fprintf(stderr, "%s does not hold\n    left  %p\n    right %p", what, a, b);
    failed();
}

static const char *shown(const char *text)
{
    return text != NULL ? text : "(null)";
}

void t_check_str(const char *a, const char *b, const char *what,
                 const char *file, int line)
{
    if (a == b || (a != NULL && b != NULL && strcmp(a, b) == 0))
        return;
    place(file, line);
    fprintf(stderr, "%s does not hold\n    left  \"%s\"\n    right \"%s\"",
            what, shown(a), shown(b));
    failed();
}

void t_check_has(const char *text, const char *part, const char *what,
                 const char *file, int line)
{
    if (text != NULL && strstr(text, part) != NULL)
        return;
    place(file, line);
    fprintf(stderr, "%s does not hold\n    text  \"%s\"\n    part  \"%s\"",
            what, shown(text), part);
    failed();
}

void t_check_mem(const void *a, const void *b, size_t bytes, const char *what,
                 const char *file, int line)
{
    const unsigned char *x = a, *y = b;

    for (size_t i = 0; i < bytes; i++) {
        if (x[i] == y[i])
            continue;
        place(file, line);
        fprintf(stderr,
                "%s does not hold\n    byte %zu of %zu: left %02x, right %02x",
                what, i, bytes, x[i], y[i]);
        failed();
    }
}

void t_check_near(double a, double b, double tolerance, const char *what,
                  const char *file, int line)
{
    // An infinity is near itself, though their difference is not a number.
    if (a == b || fabs(a - b) <= tolerance)
        return;
    place(file, line);
    fprintf(stderr,
            "%s does not hold\n    left  %.17g\n    right %.17g\n"
            "    apart %.3g, allowed %.3g",
            what, a, b, fabs(a - b), tolerance);
    failed();
}
