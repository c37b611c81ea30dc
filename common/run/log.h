// SPDX-License-Identifier: Apache-2.0
// common/run/log.h -- one line per event, to stderr.
//
//     LOG(INFO, "worker lost", "worker=%s closure=%llu", name, id);
//
// The message is a constant that one can search for; everything that varies
// is a key=value pair. On a tty a line is text, otherwise one JSON object per
// line with the keys ts, level, role, node, msg and then the pairs. A pair
// whose value is a single integer (of at most 18 digits) or finite float
// becomes a JSON number.
// Library code returns errors and does not log them (see status.h).
//
// Threads  any, also at the same time; lines are never mixed. log_init and
//          log_set_sink: before other threads log.
// Memory   the role and node names, which are copied, and the newest lines, in
//          LOG_KEPT bytes of the program's own.
// Errors   none: what cannot be written is lost; a line is cut at LOG_LINE.
#ifndef COMMON_RUN_LOG_H
#define COMMON_RUN_LOG_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

#define LOG_LINE 8192 // longest line in bytes, with its newline
#define LOG_KEPT ((size_t)256 << 10)

enum log_level {
    LOG_LEVEL_DEBUG,
    LOG_LEVEL_INFO,
    LOG_LEVEL_WARN,
    LOG_LEVEL_ERROR,
};

enum log_format {
    LOG_FORMAT_AUTO, // text when stderr is a tty, else JSON
    LOG_FORMAT_TEXT,
    LOG_FORMAT_JSON,
};

// Names every later line; before it, lines have role "" and level INFO.
void log_init(enum log_format format, enum log_level level, const char *role,
              const char *node);

void log_set_level(enum log_level level);
enum log_level log_get_level(void);

// "debug", "info", "warn", "error"; "auto", "text", "json".
enum sl_err log_level_parse(const char *word, enum log_level *out);
enum sl_err log_format_parse(const char *word, enum log_format *out);

// Takes lines away from stderr, for tests. `line` ends with '\n' and is not
// terminated. Called under the log's lock: do not log from it. NULL puts stderr
// back.
typedef void (*log_sink)(void *arg, enum log_level level, const char *line,
                         size_t len);
void log_set_sink(log_sink sink, void *arg);

// Lines that could not be written, or not whole.
uint64_t log_dropped(void);

// Copies whole lines that were logged after the position *after, oldest first,
// as JSON; those that fit, of those that are kept. Moves *after behind them and
// returns their bytes. 0, and what is no position of this program: from the
// oldest that is kept. `size` is LOG_LINE at least.
size_t log_kept(char *out, size_t size, uint64_t *after);

// Of what somebody else can cause as often as it likes there are so many lines
// a minute: for each whom it is kept for, or for all. All zeroes at first.
#define LOG_SHARE 20
#define LOG_SHARE_ALL 300
struct log_share {
    uint64_t since_ms;
    unsigned lines, left_out;
};

// Whether there may be a line now, and how many there were not since the last
// one. `now_ms` is monotonic. Threads: one at a time.
bool log_share(struct log_share *s, unsigned most, uint64_t now_ms,
               unsigned *left_out);

// Until it is said again, lines of this thread are of this account, which is
// borrowed: LOG_SHARE_CHARGED a minute, and how many were left out. Errors are
// written beyond that, up to LOG_SHARE_ERRORS lines in all: other lines take no
// error's place. NULL, as at first: lines are nobody's.
#define LOG_SHARE_CHARGED 6000
#define LOG_SHARE_ERRORS 12000
void log_charge(struct log_share *s);

bool log_on(enum log_level level);

// Use LOG. `pairs` is "key=format key=format ..."; a value may have several
// conversions ("addr=%s:%d"). No spaces within the format of one value;
// printed strings may hold anything.
void log_event(enum log_level level, const char *msg, const char *pairs, ...)
    __attribute__((format(printf, 3, 4)));
void log_vevent(enum log_level level, const char *msg, const char *pairs,
                va_list ap) __attribute__((format(printf, 3, 0)));

// The pairs may be left out: LOG(INFO, "ready"). The blank keeps the format
// from being empty, which the compiler would warn about.
#define LOG(level, msg, ...)                                                   \
    do {                                                                       \
        if (log_on(LOG_LEVEL_##level))                                         \
            log_event(LOG_LEVEL_##level, msg, " " __VA_ARGS__);                \
    } while (0)

#endif
