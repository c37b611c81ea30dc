// SPDX-License-Identifier: Apache-2.0
// common/run/expo.c -- see expo.h.
#include "common/run/expo.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const kind_names[] = {"counter", "gauge", "histogram"};
static const char total[] = "_total";

static void expo_keep_error(struct expo *e, enum sl_err rc)
{
    if (e->rc == SL_OK)
        e->rc = rc;
}

static void expo_put_text(struct expo *e, const char *text)
{
    expo_keep_error(e, buf_append_str(e->out, text));
}

static void put_escaped(struct expo *e, const char *text, bool quote)
{
    for (; *text != '\0'; text++) {
        if (*text == '\n')
            expo_put_text(e, "\\n");
        else if (*text == '\\' || (quote && *text == '"'))
            expo_keep_error(e, buf_appendf(e->out, "\\%c", *text));
        else
            expo_keep_error(e, buf_append_char(e->out, *text));
    }
}

// As Go reads it back.
static void put_number(struct expo *e, double value)
{
    if (isnan(value))
        expo_put_text(e, "NaN");
    else if (isinf(value))
        expo_put_text(e, value > 0 ? "+Inf" : "-Inf");
    else if (value == floor(value) && fabs(value) < 1e15)
        expo_keep_error(e, buf_appendf(e->out, "%.0f", value));
    else
        expo_keep_error(e, buf_appendf(e->out, "%.17g", value));
}

void expo_begin(struct expo *e, struct buf *out, bool open)
{
    *e = (struct expo){.out = out, .open = open};
}

enum sl_err expo_end(struct expo *e)
{
    if (e->open)
        expo_put_text(e, "# EOF\n");
    return e->rc;
}

// OpenMetrics names a counter without what its samples end in.
static void put_head(struct expo *e, const char *word, bool counter)
{
    size_t n = strlen(e->name);

    if (e->open && counter)
        n -= sizeof(total) - 1;
    expo_keep_error(e,
                    buf_appendf(e->out, "# %s %.*s ", word, (int)n, e->name));
}

void expo_family(struct expo *e, const char *name, enum expo_kind kind,
                 const char *help)
{
    size_t n = strlen(name), t = sizeof(total) - 1;
    bool ends = n > t && strcmp(name + n - t, total) == 0;

    // Counters with names of the operating system may lack _total elsewhere;
    // Sluice has none of them.
    assert(ends == (kind == EXPO_COUNTER));
    e->name = name;
    put_head(e, "HELP", kind == EXPO_COUNTER);
    put_escaped(e, help, false);
    expo_put_text(e, "\n");
    put_head(e, "TYPE", kind == EXPO_COUNTER);
    expo_put_text(e, kind_names[kind]);
    expo_put_text(e, "\n");
}

static void put_label(struct expo *e, bool *first, const char *name,
                      const char *value)
{
    expo_put_text(e, *first ? "{" : ",");
    *first = false;
    expo_put_text(e, name);
    expo_put_text(e, "=\"");
    put_escaped(e, value, true);
    expo_put_text(e, "\"");
}

// `bound` (NULL: none) is one more label, le.
static void put_sample(struct expo *e, const char *suffix, va_list pairs,
                       const char *bound, double value)
{
    const char *name;
    bool first = true;
    va_list ap;

    expo_put_text(e, e->name);
    expo_put_text(e, suffix);
    va_copy(ap, pairs);
    while ((name = va_arg(ap, const char *)) != NULL)
        put_label(e, &first, name, va_arg(ap, const char *));
    va_end(ap);
    if (bound != NULL)
        put_label(e, &first, "le", bound);
    expo_put_text(e, first ? " " : "} ");
    put_number(e, value);
    expo_put_text(e, "\n");
}

void expo_value(struct expo *e, double value, ...)
{
    va_list ap;

    va_start(ap, value);
    put_sample(e, "", ap, NULL, value);
    va_end(ap);
}

void expo_single(struct expo *e, const char *name, enum expo_kind kind,
                 const char *help, double value)
{
    expo_family(e, name, kind, help);
    expo_value(e, value, NULL);
}

void expo_histogram(struct expo *e, const struct histogram *h, ...)
{
    uint64_t below = 0;
    char bound[32];
    va_list ap;

    va_start(ap, h);
    for (int i = 0; i < HISTOGRAM_BOUNDS && h->bounds[i] != UINT64_MAX; i++) {
        below += atomic_load_explicit(&h->count[i], memory_order_relaxed);
        snprintf(bound, sizeof(bound), "%.9g", (double)h->bounds[i] * h->unit);
        put_sample(e, "_bucket", ap, bound, (double)below);
    }
    // What is above the bounds that are shown is one bucket of the struct.
    below +=
        atomic_load_explicit(&h->count[HISTOGRAM_BOUNDS], memory_order_relaxed);
    for (int i = 0; i < HISTOGRAM_BOUNDS; i++) {
        if (h->bounds[i] == UINT64_MAX)
            below += atomic_load_explicit(&h->count[i], memory_order_relaxed);
    }
    put_sample(e, "_bucket", ap, "+Inf", (double)below);
    put_sample(e, "_sum", ap, NULL,
               (double)atomic_load_explicit(&h->sum, memory_order_relaxed) *
                   h->unit);
    put_sample(e, "_count", ap, NULL, (double)below);
    va_end(ap);
}
