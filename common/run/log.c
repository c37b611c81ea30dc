// SPDX-License-Identifier: Apache-2.0
// common/run/log.c -- one event, one line, one write.
#include "common/run/log.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/pairs.h"

#define NAME_MAX_BYTES 64

_Static_assert(LOG_LINE == PAIRS_LINE, "a line of the log is one of pairs");

static struct {
    pthread_mutex_t lock; // guards sink and the write
    log_sink sink;
    void *sink_arg;
    uint64_t dropped;
    _Atomic int level;
    bool json, journal;
    char role[NAME_MAX_BYTES], node[NAME_MAX_BYTES];
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER, .level = LOG_LEVEL_INFO};

// The newest lines, as JSON whatever is written. A line's position is that of
// its first byte in all that was ever kept; the first is taken from the clock,
// so that positions go on over a restart of the program.
static struct {
    pthread_mutex_t lock;
    uint64_t start, end; // positions; 0: nothing was kept
    char text[LOG_KEPT];
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const char *const level_names[] = {"debug", "info", "warn", "error"};
static const char *const format_names[] = {"auto", "text", "json"};

// What stands before the line for the journal is left out.
static void log_keep_line(const struct pairs *l)
{
    const char *text = memchr(l->text, '{', l->len);
    size_t left = text != NULL ? l->len - (size_t)(text - l->text) : 0;

    pthread_mutex_lock(&kept.lock);
    if (kept.end == 0)
        kept.start = kept.end = sl_wall_us(sl_clock_real());
    while (left > 0) {
        size_t at = kept.end % LOG_KEPT;
        size_t n = left < LOG_KEPT - at ? left : LOG_KEPT - at;

        memcpy(kept.text + at, text, n);
        text += n;
        left -= n;
        kept.end += n;
    }
    pthread_mutex_unlock(&kept.lock);
}

// Returns the position of the oldest whole line.
static uint64_t first_position(void)
{
    uint64_t at = kept.end - LOG_KEPT;

    if (kept.end - kept.start <= LOG_KEPT)
        return kept.start;
    while (kept.text[at % LOG_KEPT] != '\n')
        at++;
    return at + 1;
}

size_t log_kept(char *out, size_t size, uint64_t *after)
{
    size_t n;

    pthread_mutex_lock(&kept.lock);
    if (*after > kept.end || *after < first_position())
        *after = first_position();
    n = kept.end - *after < size ? (size_t)(kept.end - *after) : size;
    for (size_t i = 0; i < n; i++)
        out[i] = kept.text[(*after + i) % LOG_KEPT];
    pthread_mutex_unlock(&kept.lock);
    while (n > 0 && out[n - 1] != '\n')
        n--;
    *after += n;
    return n;
}

static void put_start(struct pairs *l, enum log_level level, const char *msg)
{
    static const int syslog_priority[] = {7, 6, 4, 3};
    char ts[CLOCK_RFC3339], text[128];

    sl_rfc3339(ts, sl_wall_us(sl_clock_real()));
    if (shared.journal && shared.sink == NULL) {
        snprintf(text, sizeof(text), "<%d>", syslog_priority[level]);
        pairs_str(l, text);
    }
    if (!l->json) {
        snprintf(text, sizeof(text), "%s %-5s ", ts, level_names[level]);
        pairs_str(l, text);
        pairs_str(l, msg);
        return;
    }
    snprintf(text, sizeof(text),
             "{\"ts\":\"%s\",\"level\":\"%s\",\"role\":", ts,
             level_names[level]);
    pairs_str(l, text);
    pairs_quoted(l, shared.role);
    pairs_str(l, ",\"node\":");
    pairs_quoted(l, shared.node);
    pairs_str(l, ",\"msg\":");
    pairs_quoted(l, msg);
}

static void emit(struct pairs *l, enum log_level level)
{
    pthread_mutex_lock(&shared.lock);
    if (shared.sink != NULL) {
        shared.sink(shared.sink_arg, level, l->text, l->len);
    } else {
        ssize_t n = write(STDERR_FILENO, l->text, l->len);

        if (n < 0 || (size_t)n < l->len) // stderr is closed or full
            shared.dropped++;
    }
    pthread_mutex_unlock(&shared.lock);
}

static void log_compose(struct pairs *l, bool json, enum log_level level,
                        const char *msg, const char *pairs, va_list ap)
{
    struct pairs_args a;

    l->len = 0;
    l->json = json;
    put_start(l, level, msg);
    va_copy(a.ap, ap);
    pairs_add(l, pairs, &a);
    va_end(a.ap);
    pairs_end(l);
}

void log_vevent(enum log_level level, const char *msg, const char *pairs,
                va_list ap)
{
    struct pairs l;

    log_compose(&l, shared.json, level, msg, pairs, ap);
    emit(&l, level);
    if (!l.json)
        log_compose(&l, true, level, msg, pairs, ap);
    log_keep_line(&l);
}

static _Thread_local struct log_share *charged;

void log_charge(struct log_share *s)
{
    charged = s;
}

static bool pays(enum log_level level)
{
    unsigned most =
        level < LOG_LEVEL_ERROR ? LOG_SHARE_CHARGED : LOG_SHARE_ERRORS;
    struct log_share *by = charged;
    unsigned left_out;

    if (by == NULL)
        return true;
    if (!log_share(by, most, sl_real_ms(), &left_out))
        return false;
    if (by->lines > LOG_SHARE_CHARGED) { // an error: the number is told later
        by->left_out = left_out;
        return true;
    }
    charged = NULL;
    if (left_out > 0)
        LOG(WARN, "lines about one member left out", "count=%u", left_out);
    charged = by;
    return true;
}

void log_event(enum log_level level, const char *msg, const char *pairs, ...)
{
    va_list ap;

    if (!pays(level))
        return;
    va_start(ap, pairs);
    log_vevent(level, msg, pairs, ap);
    va_end(ap);
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

uint64_t log_dropped(void)
{
    uint64_t n;

    pthread_mutex_lock(&shared.lock);
    n = shared.dropped;
    pthread_mutex_unlock(&shared.lock);
    return n;
}

bool log_share(struct log_share *s, unsigned most, uint64_t now_ms,
               unsigned *left_out)
{
    if (s->lines == 0 || now_ms - s->since_ms >= 60000) {
        s->since_ms = now_ms;
        s->lines = 0;
    }
    *left_out = s->left_out;
    if (s->lines >= most) {
        s->left_out++;
        return false;
    }
    s->lines++;
    s->left_out = 0;
    return true;
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
