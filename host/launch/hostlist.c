// SPDX-License-Identifier: Apache-2.0
// host/launch/hostlist.c -- an item at a time: its names so far, each with
// each way to go on.
#include "host/launch/hostlist.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define DIGITS_MAX 9

struct hostlist_reader {
    const char *what, *text, *at;
    struct hostlist *done; // names of the finished items
    struct hostlist item;  // names of the current item so far
    struct sl_error *err;
};

static enum sl_err hostlist_malformed(const struct hostlist_reader *r,
                                      const char *at, const char *reason)
{
    return sl_fail(r->err, SL_EINVAL,
                   "%s:%zu: %s; a list looks like n[01-04,7]", r->what,
                   (size_t)(at - r->text) + 1, reason);
}

static enum sl_err hostlist_no_memory(const struct hostlist_reader *r)
{
    return sl_fail(r->err, SL_ENOMEM, "%s: out of memory", r->what);
}

static bool names_may_have(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
}

// A range of numbers, written with at least so many digits.
struct hostlist_range {
    unsigned long low, high;
    int width;
};

static bool hostlist_read_number(const char **at, unsigned long *out,
                                 int *digits)
{
    *out = 0;
    for (*digits = 0; **at >= '0' && **at <= '9'; ++*at, ++*digits) {
        if (*digits == DIGITS_MAX)
            return false;
        *out = *out * 10 + (unsigned long)(**at - '0');
    }
    return *digits > 0;
}

static enum sl_err hostlist_read_range(struct hostlist_reader *r,
                                       struct hostlist_range *out)
{
    const char *begin = r->at;
    int digits;

    if (!hostlist_read_number(&r->at, &out->low, &out->width))
        return hostlist_malformed(r, begin,
                                  "a number of 1 to 9 digits is missing here");
    out->high = out->low;
    if (*r->at != '-')
        return SL_OK;
    r->at++;
    if (!hostlist_read_number(&r->at, &out->high, &digits))
        return hostlist_malformed(r, r->at,
                                  "a number of 1 to 9 digits is missing here");
    if (out->high < out->low)
        return hostlist_malformed(r, begin, "a range must not count down");
    if (out->high - out->low >= HOSTLIST_NAMES_MAX)
        return sl_fail(r->err, SL_ERANGE, "%s:%zu: more than %d names", r->what,
                       (size_t)(begin - r->text) + 1, HOSTLIST_NAMES_MAX);
    return SL_OK;
}

// One more name: an old one, and what follows.
static enum sl_err hostlist_add_name(struct hostlist_reader *r,
                                     struct hostlist *to, const char *old,
                                     const char *more, size_t len)
{
    if (to->count + r->done->count >= HOSTLIST_NAMES_MAX)
        return sl_fail(r->err, SL_ERANGE, "%s: more than %d names", r->what,
                       HOSTLIST_NAMES_MAX);
    if (to->names.len > HOSTLIST_BYTES_MAX)
        return sl_fail(r->err, SL_ERANGE,
                       "%s: its names have more than %d bytes", r->what,
                       HOSTLIST_BYTES_MAX);
    if (strlen(old) + len > HOSTLIST_NAME_MAX)
        return sl_fail(r->err, SL_ERANGE,
                       "%s:%zu: a name is longer than %d bytes", r->what,
                       (size_t)(r->at - r->text), HOSTLIST_NAME_MAX);
    if (buf_append_str(&to->names, old) != SL_OK ||
        buf_append(&to->names, more, len) != SL_OK ||
        buf_append_char(&to->names, '\0') != SL_OK)
        return hostlist_no_memory(r);
    to->count++;
    return SL_OK;
}

// The item's names are now these.
static void hostlist_replace_item(struct hostlist_reader *r,
                                  struct hostlist *with)
{
    hostlist_release(&r->item);
    r->item = *with;
}

static enum sl_err hostlist_append_text(struct hostlist_reader *r)
{
    const char *begin = r->at, *old = buf_text(&r->item.names);
    struct hostlist next = HOSTLIST_INIT;
    enum sl_err rc = SL_OK;

    while (names_may_have(*r->at))
        r->at++;
    for (size_t i = 0; rc == SL_OK && i < r->item.count; i++) {
        rc = hostlist_add_name(r, &next, old, begin, (size_t)(r->at - begin));
        old += strlen(old) + 1;
    }
    if (rc != SL_OK)
        hostlist_release(&next);
    else
        hostlist_replace_item(r, &next);
    return rc;
}

// Appends the numbers of a bracket as text, each ended by a 0.
static enum sl_err read_bracket(struct hostlist_reader *r,
                                struct hostlist *numbers)
{
    const char *open = r->at++;
    struct hostlist_range range = {0, 0, 0};
    char text[DIGITS_MAX + 1];
    enum sl_err rc;

    for (;; r->at++) {
        rc = hostlist_read_range(r, &range);
        for (unsigned long n = range.low; rc == SL_OK && n <= range.high; n++) {
            int len = snprintf(text, sizeof(text), "%0*lu", range.width, n);

            rc = hostlist_add_name(r, numbers, "", text, (size_t)len);
        }
        if (rc != SL_OK || *r->at != ',')
            break;
    }
    if (rc == SL_OK && *r->at == '\0')
        return hostlist_malformed(r, open, "the bracket is never closed");
    if (rc == SL_OK && *r->at != ']')
        return hostlist_malformed(r, r->at, "',', '-' or ']' must stand here");
    r->at++;
    return rc;
}

static enum sl_err hostlist_append_bracket(struct hostlist_reader *r)
{
    struct hostlist numbers = HOSTLIST_INIT, next = HOSTLIST_INIT;
    const char *old = buf_text(&r->item.names);
    enum sl_err rc = read_bracket(r, &numbers);

    for (size_t i = 0; rc == SL_OK && i < r->item.count; i++) {
        const char *number = buf_text(&numbers.names);

        for (size_t n = 0; rc == SL_OK && n < numbers.count; n++) {
            rc = hostlist_add_name(r, &next, old, number, strlen(number));
            number += strlen(number) + 1;
        }
        old += strlen(old) + 1;
    }
    hostlist_release(&numbers);
    if (rc != SL_OK)
        hostlist_release(&next);
    else
        hostlist_replace_item(r, &next);
    return rc;
}

// An item begins as one name, which is empty, and must become longer.
static enum sl_err read_item(struct hostlist_reader *r)
{
    const char *begin = r->at;
    enum sl_err rc;

    hostlist_release(&r->item);
    rc = hostlist_add_name(r, &r->item, "", "", 0);
    while (rc == SL_OK && *r->at != '\0' && *r->at != ',') {
        if (*r->at == '[')
            rc = hostlist_append_bracket(r);
        else if (names_may_have(*r->at))
            rc = hostlist_append_text(r);
        else
            rc = hostlist_malformed(r, r->at,
                                    "this character cannot be part of a name");
    }
    if (rc == SL_OK && r->at == begin)
        rc = hostlist_malformed(r, begin, "a name is missing here");
    if (rc == SL_OK && buf_append(&r->done->names, r->item.names.data,
                                  r->item.names.len) != SL_OK)
        rc = hostlist_no_memory(r);
    if (rc == SL_OK)
        r->done->count += r->item.count;
    return rc;
}

enum sl_err hostlist_read(struct hostlist *out, const char *what,
                          const char *text, struct sl_error *err)
{
    struct hostlist done = HOSTLIST_INIT;
    struct hostlist_reader r = {what, text, text, &done, HOSTLIST_INIT, err};
    enum sl_err rc;

    if (strnlen(text, HOSTLIST_TEXT_MAX + 1) > HOSTLIST_TEXT_MAX)
        return sl_fail(err, SL_ERANGE, "%s: more than %d bytes", what,
                       HOSTLIST_TEXT_MAX);
    rc = read_item(&r);
    while (rc == SL_OK && *r.at == ',') {
        r.at++;
        rc = read_item(&r);
    }
    hostlist_release(&r.item);
    if (rc != SL_OK) {
        hostlist_release(&done);
        return rc;
    }
    hostlist_release(out);
    *out = done;
    return SL_OK;
}

void hostlist_release(struct hostlist *list)
{
    buf_release(&list->names);
    list->count = 0;
}

const char *hostlist_at(const struct hostlist *list, size_t i)
{
    const char *name = buf_text(&list->names);

    assert(i < list->count);
    while (i-- > 0)
        name += strlen(name) + 1;
    return name;
}
