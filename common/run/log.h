// SPDX-License-Identifier: Apache-2.0
// common/run/log.h -- one line per event, to stderr.
//
//     LOG(INFO, "worker lost", "worker=%s closure=%llu", name, id);
//
// The message is a constant that one can search for; everything that varies
// is a key=value pair. On a tty a line is text, otherwise one JSON object per
// line with the keys ts, level, role, node, msg and then the pairs. A value
// that is a single integer (of at most 18 digits) or finite float becomes a
// JSON number.
// Library code returns errors and does not log them (see status.h).
//
// Threads  any, also at the same time; lines are never mixed. log_init and
//          log_set_sink: before other threads log. A line waits for a lock and
//          for the write to stderr; it allocates nothing.
// Memory   the role and node names, which are copied, and the newest lines, in
//          LOG_KEPT bytes of the program's own.
// Errors   none: a line that cannot be written is lost; a line is cut at
//          LOG_LINE.
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

// Sets the format, the level and the names of every later line; before it,
// lines are text, have role "", and the level is INFO. The names are not NULL,
// and cut at 63 bytes. A second call replaces what the first set. Lines for
// systemd's journal begin with their priority, as "<6>".
void log_init(enum log_format format, enum log_level level, const char *role,
              const char *node);

// Sets the lowest level that is written, from the next line on.
void log_set_level(enum log_level level);

// Returns the lowest level that is written.
enum log_level log_get_level(void);

// Reads "debug", "info", "warn" or "error". SL_EINVAL for other words, and *out
// is untouched.
enum sl_err log_level_parse(const char *word, enum log_level *out);

// Reads "auto", "text" or "json". SL_EINVAL for other words, and *out is
// untouched.
enum sl_err log_format_parse(const char *word, enum log_format *out);

// Receives a line of `len` bytes, which ends with '\n' and not with a 0. Called
// under the log's lock: do not log from it.
typedef void (*log_sink)(void *arg, enum log_level level, const char *line,
                         size_t len);

// Gives later lines to sink(arg, ..) instead of stderr, for tests; NULL puts
// stderr back. Once it returns, no call of the former sink runs.
void log_set_sink(log_sink sink, void *arg);

// Returns the number of lines that could not be written, or not whole.
uint64_t log_dropped(void);

// Copies the kept lines after position *after as JSON, oldest first, as many
// whole lines as fit, with no 0 behind them. Each line is kept, also one that a
// sink took or that could not be written. Moves *after behind them and returns
// the number of their bytes; 0: no line is newer. *after before or behind all
// that is kept (0, say): begins with the oldest kept line; else it must be from
// an earlier call. `size` is LOG_LINE at least.
size_t log_kept(char *out, size_t size, uint64_t *after);

// Account of log lines that a peer can cause as often as it likes, so that they
// are limited per minute: LOG_SHARE for one peer, LOG_SHARE_ALL for all. All
// zeroes at first.
#define LOG_SHARE 20
#define LOG_SHARE_ALL 300
struct log_share {
    uint64_t since_ms; // beginning of its minute, monotonic
    // Lines written in that minute; lines left out since the last one written.
    unsigned lines, left_out;
};

// Returns true if the account `s`, of at most `most` lines a minute, may log a
// line now, and counts it; else counts one more that was left out. *left_out
// (set in any case) is the number of lines left out since the last that was
// logged, without this one. `now_ms` is monotonic. Threads: one at a time.
bool log_share(struct log_share *s, unsigned most, uint64_t now_ms,
               unsigned *left_out);

#define LOG_SHARE_CHARGED 6000
#define LOG_SHARE_ERRORS 12000

// Charges the later lines of this thread to the account `s`, which is borrowed
// until the next call: at most LOG_SHARE_CHARGED a minute, and it counts those
// left out; a later line tells their number. Errors are written beyond that, up
// to LOG_SHARE_ERRORS lines in all: other lines take no error's place. NULL, as
// at first: no line is charged.
void log_charge(struct log_share *s);

// Returns true if lines of this level are written.
bool log_on(enum log_level level);

// Writes one line, whatever the lowest level is, unless the thread's account
// (log_charge) is used up; call LOG instead. `pairs` is "key=format key=format
// ..."; a value may have several conversions ("addr=%s:%d"). No spaces within
// the format of one value; printed strings may hold any bytes.
void log_event(enum log_level level, const char *msg, const char *pairs, ...)
    __attribute__((format(printf, 3, 4)));

// Writes one line in the same way, but charges it to no account (log_charge).
// `ap` stays as it was: the caller ends it (va_end).
void log_vevent(enum log_level level, const char *msg, const char *pairs,
                va_list ap) __attribute__((format(printf, 3, 0)));

// Writes one line if lines of the level are written (log_on); else evaluates no
// argument. `level` is DEBUG, INFO, WARN or ERROR. The pairs, a literal, may be
// left out: LOG(INFO, "ready"). The blank keeps the format from being empty,
// which the compiler would warn about.
#define LOG(level, msg, ...)                                                   \
    do {                                                                       \
        if (log_on(LOG_LEVEL_##level))                                         \
            log_event(LOG_LEVEL_##level, msg, " " __VA_ARGS__);                \
    } while (0)

#endif
