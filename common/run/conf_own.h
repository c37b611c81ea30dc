// SPDX-License-Identifier: Apache-2.0
// common/run/conf_own.h -- within conf*.c only: the parts of a conf.
//
// Threads  as in conf.h.
// Memory   texts are copied; keys are borrowed from the tables.
// Errors   SL_EINVAL begins with `where`; SL_ENOMEM. `err` may be NULL. A
//          failure may leave a value half set: the conf can only be freed.
#ifndef COMMON_RUN_CONF_OWN_H
#define COMMON_RUN_CONF_OWN_H

#include "common/run/conf.h"

#define CONF_BLANKS " \t\r" // dropped around a line, a name and a value

// A key and its value.
struct conf_value {
    const struct conf_key *key;
    enum conf_origin origin;
    bool set;        // the key has a value, perhaps its default
    char *text;      // owned: as it was written; lists: joined by commas
    int64_t integer; // INT, BYTES, MS; BOOL: 0 or 1
    double real;     // FLOAT
    char **list;     // owned: LIST, MULTI
    size_t list_count;
};

struct conf {
    const struct conf_about *about;
    struct conf_value *values; // owned
    size_t count;
    char **args; // owned array of argv's strings
    size_t arg_count;
    bool help, version, print, man; // texts that flags ask for
};

// Reads `text` as the key's kind into *v, replacing its value or, for a list
// of the same origin, adding to it. Does nothing, SL_OK, if a stronger origin
// has set it. `where` begins the error.
enum sl_err conf_value_set(struct conf_value *v, const char *text,
                           enum conf_origin origin, const char *where,
                           struct sl_error *err);

// Frees the text and the list of *v, not *v itself.
void conf_value_release(struct conf_value *v);

// Returns the value of the key that the first `len` bytes of `name` name, where
// '_' may stand for '-'; NULL: no such key.
struct conf_value *conf_find(const struct conf *c, const char *name,
                             size_t len);

// Returns the placeholder of a key's value in the help, as "TIME"; "" for a
// BOOL, which needs none.
const char *conf_kind_word(const struct conf_key *key);

// Appends the description of a key, which has a help: that, its choices or
// bounds (not those of a length), and its default (of a BOOL only if it is on).
// SL_ENOMEM.
enum sl_err conf_describe(struct buf *out, const struct conf_key *key);

// Writes a default or a bound of a key, BYTES and MS in the largest unit that
// divides it, as "64MiB", "10s", "0B"; other kinds as a plain number, "512".
// `space` of 24 bytes is always enough; a longer text is cut, and ended by 0.
void conf_show_integer(char *out, size_t space, const struct conf_key *key,
                       int64_t value);

#endif
