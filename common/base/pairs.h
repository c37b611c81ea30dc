// SPDX-License-Identifier: Apache-2.0
// common/base/pairs.h -- one line of "key=value" pairs, as text or as JSON.
//
// The log and the history write their lines with it. A format holds pairs like
// "job=%llu addr=%s:%d"; a value may have several conversions but no blank.
// Printed strings may hold anything: they are quoted.
//
// Threads  any; a struct pairs belongs to one.
// Memory   a value, on the caller's stack; `len` 0 begins a line, and in JSON
//          the caller then appends "{" and a first member. Texts are copied,
//          and not NULL.
// Units    bytes.
// Errors   a pair for whose key there is no space is left out, a value is cut
//          where the line is full; the line stays whole.
#ifndef COMMON_BASE_PAIRS_H
#define COMMON_BASE_PAIRS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#define PAIRS_LINE 8192

// A line under construction; the last byte is kept for the newline.
struct pairs {
    char text[PAIRS_LINE]; // without a 0
    size_t len;            // bytes in use
    bool json;             // JSON, else text
};

// A va_list that can be handed down by pointer on every platform.
struct pairs_args {
    va_list ap;
};

// Appends n bytes as they are, without a key; cut where the line is full.
void pairs_bytes(struct pairs *l, const char *bytes, size_t n);

// Appends `text` as pairs_bytes does, without its 0.
void pairs_str(struct pairs *l, const char *text);

// Appends `text` as a JSON string with its quotes, valid for any bytes; cut
// where the line is full, but closed.
void pairs_quoted(struct pairs *l, const char *text);

// Appends each pair of `fmt` as ` key=value`, or as `,"key":value` in JSON.
// Takes the arguments out of *a; the caller ends a->ap (va_end). A value is cut
// at 4095 bytes. In JSON it is a string, but for one conversion to a finite
// decimal number (an integer of 18 digits at most); in text it is quoted if it
// is empty, or has a blank, '=', '"', '\\' or what may not be shown. A word
// without '=' is left out, and takes no argument.
void pairs_add(struct pairs *l, const char *fmt, struct pairs_args *a);

// Appends the closing brace, if it is JSON, and the newline; once, at the end.
void pairs_end(struct pairs *l);

#endif
