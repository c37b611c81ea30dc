// SPDX-License-Identifier: Apache-2.0
// common/log.c -- one event, one line, one write.
//
// The pairs are not printed with one vsnprintf: then a value that contains
// " x=" would forge a pair. The format is walked instead, one conversion at a
// time, and each value is quoted on its own.
#include "common/log.h"

#include <ctype.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/utf8.h"

#define NAME_MAX_BYTES 64
#define VALUE_MAX_BYTES 4096

static struct {
    pthread_mutex_t lock; // guards sink and the write
    log_sink sink;
    void *sink_arg;
    _Atomic int level;
    bool json, journal;
    char role[NAME_MAX_BYTES], node[NAME_MAX_BYTES];
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER, .level = LOG_LEVEL_INFO};

static const char *const level_names[] = {"debug", "info", "warn", "error"};
static const char *const format_names[] = {"auto", "text", "json"};

// A line under construction, in the caller's stack; the last byte is kept for
// the newline.
struct line {
    char text[LOG_LINE];
    size_t len;
};

static void put(struct line *l, const char *bytes, size_t n)
{
    size_t room = sizeof(l->text) - 1 - l->len;

    if (n > room)
        n = room;
    memcpy(l->text + l->len, bytes, n);
    l->len += n;
}

static void put_str(struct line *l, const char *text)
{
    put(l, text, strlen(text));
}

// A JSON string, valid whatever the bytes are. One that no longer fits is
// closed anyway, so the line stays JSON.
static void put_quoted(struct line *l, const char *text)
{
    size_t limit = sizeof(l->text) - 16;

    put(l, "\"", 1);
    while (*text != '\0' && l->len < limit) {
        unsigned char c = (unsigned char)*text;
        size_t n = utf8_sequence(text, strnlen(text, 4));
        char escape[8];

        if (n > 1) {
            put(l, text, n);
        } else if (n == 0) {
            put_str(l, "\\ufffd");
            n = 1;
        } else if (c == '"' || c == '\\') {
            snprintf(escape, sizeof(escape), "\\%c", c);
            put_str(l, escape);
        } else if (c < 0x20 || c == 0x7f) {
            snprintf(escape, sizeof(escape), "\\u%04x", c);
            put_str(l, escape);
        } else {
            put(l, text, 1);
        }
        text += n;
    }
    put(l, "\"", 1);
}

// One value's text and whether it is a JSON number.
struct value {
    char text[VALUE_MAX_BYTES];
    size_t len;
    int conversions;
    bool number, other; // of the last conversion; literal text beside it
};

static void value_literal(struct value *v, char c)
{
    if (v->len + 1 < sizeof(v->text))
        v->text[v->len++] = c;
    v->other = true;
}

// A va_list that can be handed down by pointer on every platform.
struct args {
    va_list ap;
};

// Prints one conversion with its own arguments. `spec` is "%-5.3lld" etc.
#define PRINT(T)                                                               \
    (stars == 0 ? snprintf(to, room, spec, va_arg(a->ap, T))                   \
     : stars == 1                                                              \
         ? snprintf(to, room, spec, star[0], va_arg(a->ap, T))                 \
         : snprintf(to, room, spec, star[0], star[1], va_arg(a->ap, T)))

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static void value_print(struct value *v, const char *spec, int stars,
                        struct args *a)
{
    int star[2] = {0, 0}, n;
    char *to = v->text + v->len, conv = spec[strlen(spec) - 1];
    size_t room = sizeof(v->text) - v->len;
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
        v->len += (size_t)n < room ? (size_t)n : room - 1;
}
#pragma GCC diagnostic pop
_Static_assert(sizeof(long) == sizeof(long long) &&
                   sizeof(size_t) == sizeof(long long),
               "value_print takes all wide integers as one");

// Copies "%...conv" to spec; returns the format behind it.
static const char *read_spec(const char *fmt, char *spec, size_t room,
                             int *stars)
{
    size_t n = 0;

    *stars = 0;
    do {
        if (*fmt == '*' && *stars < 2)
            ++*stars;
        if (n + 1 < room)
            spec[n++] = *fmt;
        fmt++;
    } while (*fmt != '\0' && strchr("diouxXfFeEgGaAcsp%", *fmt) == NULL);
    if (n + 1 < room && *fmt != '\0')
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

static void put_pair(struct line *l, const char *key, size_t key_len,
                     const struct value *v)
{
    bool number = v->conversions == 1 && v->number && !v->other &&
                  is_json_number(v->text);

    if (l->len + key_len + 32 > sizeof(l->text))
        return; // no room for a pair that would still be well formed
    if (shared.json) {
        put_str(l, ",\"");
        put(l, key, key_len);
        put_str(l, "\":");
    } else {
        put_str(l, " ");
        put(l, key, key_len);
        put_str(l, "=");
    }
    if (number || (!shared.json && v->text[0] != '\0' &&
                   strpbrk(v->text, " \"\\=\n\r\t\x1b") == NULL))
        put_str(l, v->text);
    else
        put_quoted(l, v->text);
}

static void put_pairs(struct line *l, const char *fmt, struct args *a)
{
    struct value v;
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
                fmt = read_spec(fmt, spec, sizeof(spec), &stars);
                value_print(&v, spec, stars, a);
            }
        }
        v.text[v.len] = '\0';
        put_pair(l, key, key_len, &v);
    }
}

static void put_start(struct line *l, enum log_level level, const char *msg)
{
    static const int syslog_priority[] = {7, 6, 4, 3};
    char ts[CLOCK_RFC3339], text[128];

    sl_rfc3339(ts, sl_wall_us(sl_clock_real()));
    if (shared.journal && shared.sink == NULL) {
        snprintf(text, sizeof(text), "<%d>", syslog_priority[level]);
        put_str(l, text);
    }
    if (!shared.json) {
        snprintf(text, sizeof(text), "%s %-5s ", ts, level_names[level]);
        put_str(l, text);
        put_str(l, msg);
        return;
    }
    snprintf(text, sizeof(text),
             "{\"ts\":\"%s\",\"level\":\"%s\",\"role\":", ts,
             level_names[level]);
    put_str(l, text);
    put_quoted(l, shared.role);
    put_str(l, ",\"node\":");
    put_quoted(l, shared.node);
    put_str(l, ",\"msg\":");
    put_quoted(l, msg);
}

static void emit(struct line *l, enum log_level level)
{
    pthread_mutex_lock(&shared.lock);
    if (shared.sink != NULL) {
        shared.sink(shared.sink_arg, level, l->text, l->len);
    } else {
        ssize_t n = write(STDERR_FILENO, l->text, l->len);

        (void)n; // nobody left to tell
    }
    pthread_mutex_unlock(&shared.lock);
}

void log_event(enum log_level level, const char *msg, const char *pairs, ...)
{
    struct line l;
    struct args a;

    l.len = 0;
    put_start(&l, level, msg);
    va_start(a.ap, pairs);
    put_pairs(&l, pairs, &a);
    va_end(a.ap);
    if (shared.json) {
        if (l.len > sizeof(l.text) - 2)
            l.len = sizeof(l.text) - 2;
        put(&l, "}", 1);
    }
    l.text[l.len++] = '\n';
    emit(&l, level);
}

// Under systemd the variable names the stream that is the journal's; stderr
// may have been redirected since.
static bool stderr_is_journal(void)
{
    const char *text = getenv("JOURNAL_STREAM");
    unsigned long long dev, ino;
    struct stat st;

    return text != NULL && sscanf(text, "%llu:%llu", &dev, &ino) == 2 &&
           fstat(STDERR_FILENO, &st) == 0 && st.st_dev == dev &&
           st.st_ino == ino;
}

void log_init(enum log_format format, enum log_level level, const char *role,
              const char *node)
{
    shared.json = format == LOG_FORMAT_JSON ||
                  (format == LOG_FORMAT_AUTO && !isatty(STDERR_FILENO));
    shared.journal = stderr_is_journal();
    snprintf(shared.role, sizeof(shared.role), "%s", role);
    snprintf(shared.node, sizeof(shared.node), "%s", node);
    log_set_level(level);
}

void log_set_level(enum log_level level)
{
    atomic_store_explicit(&shared.level, (int)level, memory_order_relaxed);
}

enum log_level log_get_level(void)
{
    return (enum log_level)atomic_load_explicit(&shared.level,
                                                memory_order_relaxed);
}

bool log_on(enum log_level level)
{
    return level >= log_get_level();
}

void log_set_sink(log_sink sink, void *arg)
{
    pthread_mutex_lock(&shared.lock);
    shared.sink = sink;
    shared.sink_arg = arg;
    pthread_mutex_unlock(&shared.lock);
}

static int index_of(const char *word, const char *const *names, int count)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(word, names[i]) == 0)
            return i;
    }
    return -1;
}

enum sl_err log_level_parse(const char *word, enum log_level *out)
{
    int i = index_of(word, level_names, SL_COUNT(level_names));

    if (i < 0)
        return SL_EINVAL;
    *out = (enum log_level)i;
    return SL_OK;
}

enum sl_err log_format_parse(const char *word, enum log_format *out)
{
    int i = index_of(word, format_names, SL_COUNT(format_names));

    if (i < 0)
        return SL_EINVAL;
    *out = (enum log_format)i;
    return SL_OK;
}
