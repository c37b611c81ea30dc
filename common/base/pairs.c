// SPDX-License-Identifier: Apache-2.0
// common/base/pairs.c -- "key=format ..." written pair by pair.
//
// Not one vsnprintf: then a value that contains " x=" would forge a pair. The
// format is walked instead, one conversion at a time, and each value is quoted
// on its own.
#include "common/base/pairs.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "common/base/utf8.h"

#define VALUE_MAX_BYTES 4096

void pairs_bytes(struct pairs *l, const char *bytes, size_t n)
{
    size_t space = sizeof(l->text) - 1 - l->len;

    if (n > space)
        n = space;
    memcpy(l->text + l->len, bytes, n);
    l->len += n;
}

void pairs_str(struct pairs *l, const char *text)
{
    pairs_bytes(l, text, strlen(text));
}

// A JSON string, valid whatever the bytes are. One that no longer fits is
// closed anyway, so the line stays JSON.
void pairs_quoted(struct pairs *l, const char *text)
{
    size_t limit = sizeof(l->text) - 16;

    pairs_bytes(l, "\"", 1);
    while (*text != '\0' && l->len < limit) {
        char shown[UTF8_SHOWN];
        size_t n;

        utf8_shown(shown, text, strnlen(text, 4), &n);
        if (*text == '"' || *text == '\\')
            pairs_bytes(l, "\\", 1);
        if (shown[0] == '\0')
            pairs_bytes(l, text, n);
        else // JSON has no "\xff"
            pairs_str(l, shown[1] == 'x' ? "\\ufffd" : shown);
        text += n;
    }
    pairs_bytes(l, "\"", 1);
}

// One value's text and whether it is a JSON number.
struct pairs_value {
    char text[VALUE_MAX_BYTES];
    size_t len;
    int conversions;
    bool number, other; // of the last conversion; literal text beside it
};

static void value_literal(struct pairs_value *v, char c)
{
    if (v->len + 1 < sizeof(v->text))
        v->text[v->len++] = c;
    v->other = true;
}

// Prints one conversion with its own arguments. `spec` is "%-5.3lld" etc.
#define PRINT(T)                                                               \
    (stars == 0 ? snprintf(to, space, spec, va_arg(a->ap, T))                  \
     : stars == 1                                                              \
         ? snprintf(to, space, spec, star[0], va_arg(a->ap, T))                \
         : snprintf(to, space, spec, star[0], star[1], va_arg(a->ap, T)))

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static void value_print(struct pairs_value *v, const char *spec, int stars,
                        struct pairs_args *a)
{
    int star[2] = {0, 0}, n;
    char *to = v->text + v->len, conv = spec[strlen(spec) - 1];
    size_t space = sizeof(v->text) - v->len;
    bool wide = strchr(spec, 'l') != NULL || strchr(spec, 'z') != NULL ||
                strchr(spec, 'j') != NULL || strchr(spec, 't') != NULL;

    for (int i = 0; i < stars; i++)
        star[i] = va_arg(a->ap, int);
    v->conversions++;
    v->number = strchr("diufFeEgG", conv) != NULL;
    if (conv == 's') {
        n = PRINT(const char *);
    } else if (conv == 'p') {
        n = PRINT(void *);
    } else if (strchr("fFeEgGaA", conv) != NULL) {
        n = PRINT(double);
    } else if (wide) { // long, size_t, intmax_t are all 64 bits here
        n = PRINT(long long);
    } else {
        n = PRINT(int);
    }
    if (n > 0)
        v->len += (size_t)n < space ? (size_t)n : space - 1;
}
#pragma GCC diagnostic pop
_Static_assert(sizeof(long) == sizeof(long long) &&
                   sizeof(size_t) == sizeof(long long),
               "value_print takes all wide integers as one");

// Copies "%...conv" to spec; returns the format behind it.
static const char *pairs_read_spec(const char *fmt, char *spec, size_t space,
                                   int *stars)
{
    size_t n = 0;

    *stars = 0;
    do {
        if (*fmt == '*' && *stars < 2)
            ++*stars;
        if (n + 1 < space)
            spec[n++] = *fmt;
        fmt++;
    } while (*fmt != '\0' && strchr("diouxXfFeEgGaAcsp%", *fmt) == NULL);
    if (n + 1 < space && *fmt != '\0')
        spec[n++] = *fmt++;
    spec[n] = '\0';
    return fmt;
}

// JSON knows no inf and nan, no "+5" and no padding; and many readers know no
// integers beyond 63 bits.
static bool is_json_number(const char *text)
{
    const char *at = text + (*text == '-');

    if (!isdigit((unsigned char)*at) || strpbrk(text, "xX ") != NULL ||
        strspn(at, "0123456789") > 18)
        return false;
    return at[0] != '0' || at[1] == '\0' || strchr(".eE", at[1]) != NULL;
}

static void put_pair(struct pairs *l, const char *key, size_t key_len,
                     const struct pairs_value *v)
{
    bool number = v->conversions == 1 && v->number && !v->other &&
                  is_json_number(v->text);

    if (l->len + key_len + 32 > sizeof(l->text))
        return; // no space for a pair that would still be well formed
    if (l->json) {
        pairs_str(l, ",\"");
        pairs_bytes(l, key, key_len);
        pairs_str(l, "\":");
    } else {
        pairs_str(l, " ");
        pairs_bytes(l, key, key_len);
        pairs_str(l, "=");
    }
    if (number ||
        (!l->json && v->text[0] != '\0' && strpbrk(v->text, " \"\\=") == NULL &&
         utf8_plain(v->text, v->len)))
        pairs_str(l, v->text);
    else
        pairs_quoted(l, v->text);
}

void pairs_add(struct pairs *l, const char *fmt, struct pairs_args *a)
{
    struct pairs_value v;
    char spec[32];
    int stars;

    while (*fmt != '\0') {
        const char *key = fmt += strspn(fmt, " ");
        size_t key_len = strcspn(fmt, "= ");

        fmt += key_len;
        if (*fmt != '=')
            continue; // a word without value: nothing to consume
        fmt++;
        v.len = 0;
        v.conversions = 0;
        v.number = v.other = false;
        while (*fmt != '\0' && *fmt != ' ') {
            if (*fmt != '%') {
                value_literal(&v, *fmt++);
            } else if (fmt[1] == '%') {
                value_literal(&v, '%');
                fmt += 2;
            } else {
                fmt = pairs_read_spec(fmt, spec, sizeof(spec), &stars);
                value_print(&v, spec, stars, a);
            }
        }
        v.text[v.len] = '\0';
        put_pair(l, key, key_len, &v);
    }
}

void pairs_end(struct pairs *l)
{
    if (l->json) {
        if (l->len > sizeof(l->text) - 2)
            l->len = sizeof(l->text) - 2;
        l->text[l->len++] = '}';
    }
    l->text[l->len++] = '\n';
}
