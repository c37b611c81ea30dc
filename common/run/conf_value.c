// SPDX-License-Identifier: Apache-2.0
// common/run/conf_value.c -- one key: from text to a value, with its bounds.
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/run/conf_own.h"
#include "common/base/mem.h"
#include "common/base/suggest.h"

struct unit {
    const char *name;
    int64_t factor;
};

// Smallest first; conf_show_integer takes the largest that divides.
static const struct unit byte_units[] = {{"B", 1},
                                         {"KiB", INT64_C(1) << 10},
                                         {"MiB", INT64_C(1) << 20},
                                         {"GiB", INT64_C(1) << 30},
                                         {"TiB", INT64_C(1) << 40}};
static const struct unit time_units[] = {
    {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
static const struct unit no_unit[] = {{"", 1}};

static const struct unit *units_of(enum conf_kind kind, size_t *count)
{
    if (kind == CONF_BYTES) {
        *count = SL_COUNT(byte_units);
        return byte_units;
    }
    if (kind == CONF_MS) {
        *count = SL_COUNT(time_units);
        return time_units;
    }
    *count = SL_COUNT(no_unit);
    return no_unit;
}

void conf_show_integer(char *out, size_t space, const struct conf_key *key,
                       int64_t value)
{
    size_t n;
    const struct unit *units = units_of(key->kind, &n);

    while (n > 1 && (value == 0 || value % units[n - 1].factor != 0))
        n--;
    snprintf(out, space, "%" PRId64 "%s", value / units[n - 1].factor,
             units[n - 1].name);
}

// What would be right, for errors.
static const char *conf_value_expected(const struct conf_key *key)
{
    switch (key->kind) {
    case CONF_BYTES:
        return "an integer with B, KiB, MiB, GiB or TiB";
    case CONF_MS:
        return "an integer with ms, s, m, h or d";
    case CONF_FLOAT:
        return "a number";
    case CONF_BOOL:
        return "true or false";
    default:
        return "an integer";
    }
}

static enum sl_err conf_value_refuse(const struct conf_key *key,
                                     const char *text, const char *where,
                                     struct sl_error *err)
{
    return sl_fail(err, SL_EINVAL, "%s: '%.100s' is no value for %s; use %s",
                   where, text, key->name, conf_value_expected(key));
}

static bool bounded(const struct conf_key *key)
{
    return key->min != 0 || key->max != 0;
}

static enum sl_err check_bounds(const struct conf_key *key, int64_t value,
                                const char *text, const char *where,
                                struct sl_error *err)
{
    char low[32], high[32];

    if (!bounded(key) || (value >= key->min && value <= key->max))
        return SL_OK;
    conf_show_integer(low, sizeof(low), key, key->min);
    conf_show_integer(high, sizeof(high), key, key->max);
    return sl_fail(err, SL_EINVAL,
                   "%s: %s is %.100s; from %s to %s%s%s is possible", where,
                   key->name, text, low, high, key->unit != NULL ? " " : "",
                   key->unit != NULL ? key->unit : "");
}

enum sl_err conf_read_number(const struct conf_key *key, const char *text,
                             int64_t *out, const char *where,
                             struct sl_error *err)
{
    size_t n;
    const struct unit *units = units_of(key->kind, &n);
    char *end;
    int64_t value;

    // Sizes and durations are not negative, also where a table says no bounds.
    if (!isdigit((unsigned char)text[*text == '-' && n == 1]))
        return conf_value_refuse(key, text, where, err);
    errno = 0;
    value = strtoll(text, &end, 10);
    if (errno != 0)
        return conf_value_refuse(key, text, where, err);
    end += *end == ' ';
    for (size_t i = 0; i < n; i++) {
        if (strcmp(end, units[i].name) != 0 && !(i == 0 && *end == '\0'))
            continue;
        if (__builtin_mul_overflow(value, units[i].factor, &value))
            return conf_value_refuse(key, text, where, err);
        *out = value;
        return check_bounds(key, value, text, where, err);
    }
    return conf_value_refuse(key, text, where, err);
}

static enum sl_err read_real(const struct conf_key *key, const char *text,
                             double *out, const char *where,
                             struct sl_error *err)
{
    locale_t c = newlocale(LC_ALL_MASK, "C", NULL);
    char *end;
    double value = strtod_l(text, &end, c);

    freelocale(c);
    if (end == text || *end != '\0' || !__builtin_isfinite(value))
        return conf_value_refuse(key, text, where, err);
    if (bounded(key) && (value < (double)key->min || value > (double)key->max))
        return sl_fail(err, SL_EINVAL,
                       "%s: %s is %.100s; from %" PRId64 " to %" PRId64
                       " is possible",
                       where, key->name, text, key->min, key->max);
    *out = value;
    return SL_OK;
}

static enum sl_err read_bool(const struct conf_key *key, const char *text,
                             int64_t *out, const char *where,
                             struct sl_error *err)
{
    static const char *const words[] = {"false", "true", "no", "yes",
                                        "off",   "on",   "0",  "1"};

    for (size_t i = 0; i < SL_COUNT(words); i++) {
        if (strcmp(text, words[i]) == 0) {
            *out = (int64_t)(i & 1);
            return SL_OK;
        }
    }
    return conf_value_refuse(key, text, where, err);
}

static enum sl_err check_choice(const struct conf_key *key, const char *text,
                                const char *where, struct sl_error *err)
{
    size_t len = strlen(text);

    for (const char *at = key->choices;; at++) {
        size_t n = strcspn(at, "|");

        if (n == len && memcmp(at, text, n) == 0)
            return SL_OK;
        at += n;
        if (*at == '\0')
            break;
    }
    return sl_fail(err, SL_EINVAL, "%s: '%.100s' is no value for %s; use %s",
                   where, text, key->name, key->choices);
}

static enum sl_err check_length(const struct conf_key *key, const char *text,
                                const char *where, struct sl_error *err)
{
    int64_t n = (int64_t)strlen(text);

    if (!bounded(key) || (n >= key->min && n <= key->max))
        return SL_OK;
    return sl_fail(err, SL_EINVAL,
                   "%s: %s has %" PRId64 " bytes; from %" PRId64 " to %" PRId64
                   " are possible",
                   where, key->name, n, key->min, key->max);
}

static enum sl_err list_add(struct conf_value *v, const char *item, size_t len)
{
    char **list = sl_realloc_array(v->list, v->list_count + 1, sizeof(char *));

    if (list == NULL)
        return SL_ENOMEM;
    v->list = list;
    list[v->list_count] = sl_strndup(item, len);
    if (list[v->list_count] == NULL)
        return SL_ENOMEM;
    v->list_count++;
    return SL_OK;
}

static void list_clear(struct conf_value *v)
{
    for (size_t i = 0; i < v->list_count; i++)
        sl_free(v->list[i]);
    sl_free(v->list);
    v->list = NULL;
    v->list_count = 0;
}

static enum sl_err list_take(struct conf_value *v, const char *text,
                             enum conf_origin origin)
{
    enum sl_err rc = SL_OK;

    if (!v->set || v->origin != origin || origin == CONF_DEFAULT)
        list_clear(v);
    if (v->key->kind == CONF_MULTI)
        return list_add(v, text, strlen(text));
    while (*text != '\0' && rc == SL_OK) {
        size_t n = strcspn(text, ",");

        if (n > 0)
            rc = list_add(v, text, n);
        text += n + (text[n] == ',');
    }
    return rc;
}

// What --print-config shows of a list: its members in the order given.
static char *list_text(const struct conf_value *v)
{
    size_t space = 1, at = 0;
    char *text;

    for (size_t i = 0; i < v->list_count; i++)
        space += strlen(v->list[i]) + 1;
    text = sl_malloc(space);
    if (text == NULL)
        return NULL;
    for (size_t i = 0; i < v->list_count; i++)
        at += (size_t)snprintf(text + at, space - at, "%s%s", i > 0 ? "," : "",
                               v->list[i]);
    text[at] = '\0';
    return text;
}

static enum sl_err read_kind(struct conf_value *v, const char *text,
                             enum conf_origin origin, const char *where,
                             struct sl_error *err)
{
    switch (v->key->kind) {
    case CONF_INT:
    case CONF_BYTES:
    case CONF_MS:
        return conf_read_number(v->key, text, &v->integer, where, err);
    case CONF_FLOAT:
        return read_real(v->key, text, &v->real, where, err);
    case CONF_BOOL:
        return read_bool(v->key, text, &v->integer, where, err);
    case CONF_CHOICE:
        return check_choice(v->key, text, where, err);
    case CONF_STRING:
        return check_length(v->key, text, where, err);
    case CONF_LIST:
    case CONF_MULTI:
        if (list_take(v, text, origin) != SL_OK)
            return sl_fail(err, SL_ENOMEM, "%s: out of memory", where);
        return SL_OK;
    }
    return SL_EINTERNAL;
}

enum sl_err conf_value_set(struct conf_value *v, const char *text,
                           enum conf_origin origin, const char *where,
                           struct sl_error *err)
{
    bool is_list = v->key->kind == CONF_LIST || v->key->kind == CONF_MULTI;
    enum sl_err rc;
    char *copy;

    if (v->set && origin < v->origin)
        return SL_OK; // a stronger source has spoken
    rc = read_kind(v, text, origin, where, err);
    if (rc != SL_OK)
        return rc;
    copy = is_list ? list_text(v) : sl_strdup(text);
    if (copy == NULL)
        return sl_fail(err, SL_ENOMEM, "%s: out of memory", where);
    sl_free(v->text);
    v->text = copy;
    v->set = true;
    v->origin = origin;
    return SL_OK;
}

void conf_value_release(struct conf_value *v)
{
    list_clear(v);
    sl_free(v->text);
}
