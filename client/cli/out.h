// SPDX-License-Identifier: Apache-2.0
// client/cli/out.h -- data on stdout: text, tables, JSON.
//
// Everything that is no data goes to stderr (cli_say). Escape codes only when
// the stream is a terminal, and never with NO_COLOR, TERM=dumb or --no-color.
//
// Threads  main.
// Memory   a table owns its cells until table_release. Texts are copied, or
//          read only during the call; none is NULL.
// Errors   SL_EIO when stdout cannot take more (a full disk). Where the
//          pipe has no reader any longer, the process ends by SIGPIPE, without
//          a word. SL_ENOMEM. `err` may be NULL. What appends may leave a part.
#ifndef CLIENT_CLI_OUT_H
#define CLIENT_CLI_OUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/status.h"
#include "proto/pbjson.h"

// Values of --output. JSONL: what is a list is a line each; YAML: the document
// of JSON, as YAML; NAME: only what other verbs are called with.
enum out_form { OUT_TEXT, OUT_WIDE, OUT_JSON, OUT_JSONL, OUT_YAML, OUT_NAME };

struct out {
    enum out_form form;
    bool json;    // form is JSON, JSONL or YAML
    bool err_tty; // stderr is a terminal that can redraw a line
};

// Sets the form. From here on out_json and out_message write lines, if the form
// is JSONL, or documents of YAML; and tables have colours, if `color` and
// stdout allow it. A later call sets it anew; before the first the form is
// OUT_TEXT, without colours.
void out_init(struct out *o, enum out_form form, bool color);

// Returns the form that `word` names; OUT_TEXT for any other word.
enum out_form out_form_of(const char *word);

// Returns the escape code before the word of a state or level ("failed"), of
// which OUT_PLAIN is the end; "" for other words and where none may be written.
const char *out_color(const char *word);
#define OUT_PLAIN "\033[0m"

// Returns the columns of the terminal on stderr: $COLUMNS, what the terminal
// says, or 80.
int out_columns(void);

// Returns the columns of stdout, for tables; 0, no bound, if stdout is no
// terminal and $COLUMNS is not set.
size_t out_room(void);

// Returns the columns that text[bytes], UTF-8, takes on the screen: one for
// each character.
size_t out_width(const char *text, size_t bytes);

// Returns whether stdout is JSON or YAML, which has escapes of its own for what
// may not be shown (common/base/utf8.h). Elsewhere the words of others are made
// plain where they come in (wire_plain), so that they begin no line and no
// column.
bool out_is_data(void);

// Appends `text`, which comes from outside, to a line; what may not be shown is
// escaped, as "\u001b".
enum sl_err out_put(struct buf *to, const char *text);

// Writes text[len] as one line to stderr, escaped where it may not be shown,
// and `end` as it is. Without memory it may write nothing.
void out_tell(const char *text, size_t len, const char *end);

// Writes the lines of `text` to stderr, each as out_tell does.
void out_tell_lines(const char *text);

// Writes text[len] to stdout and flushes it. Characters that may not be shown
// are escaped, except line ends, tabs and our own colours.
enum sl_err out_write(const char *text, size_t len, struct sl_error *err);

// Writes `text` to stdout if building it ended with `rc` SL_OK; any other `rc`
// is reported in `err`, as out of memory, and returned. Releases the text in
// every case.
enum sl_err out_text(struct buf *text, enum sl_err rc, struct sl_error *err);

// Writes `object` to stdout with "schema_version" in front, indented, with a
// newline. Takes the reference in every case; NULL is SL_ENOMEM.
enum sl_err out_json(json_t *object, struct sl_error *err);

// Writes `object` as out_json does, on one line.
enum sl_err out_json_line(json_t *object, struct sl_error *err);

// Writes the message `msg` as out_json does.
enum sl_err out_message(const ProtobufCMessage *msg, struct sl_error *err);

// Writes `msg`, a list of the messages items[count]. With JSONL each item is a
// line with its own schema_version.
enum sl_err out_list(const struct out *o, const ProtobufCMessage *msg,
                     ProtobufCMessage *const *items, size_t count,
                     struct sl_error *err);

// ---- tables: columns as wide as their widest cell, two blanks between; where
// they have no room the widest words are cut ("…")

#define TABLE_COLUMNS 14
struct table {
    size_t columns;
    size_t shown;    // the first so many are written; 0: all
    size_t room;     // columns of the screen; 0: no bound
    unsigned right;  // bit i: column i is aligned to the right
    unsigned states; // bit i: its cells are states, with their colours
    size_t count;    // cells so far, head included
    char **cells;    // owned
    enum sl_err rc;  // error of the first cell that failed
};

// Starts a table with `head`, one cell per column (at most TABLE_COLUMNS),
// ended by NULL. `right` as in the struct; a column that is headed "state" has
// states. `shown` and `room` are 0: the caller may set them before table_text.
// *t need not be zeroed; free it with table_release.
void table_init(struct table *t, unsigned right, const char *const *head);

// Adds the next cell, row by row; an error is kept in t->rc, and later cells
// are then left out.
void table_cell(struct table *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

// Appends the table as text to `out`; returns t->rc if a cell failed. The table
// stays as it is.
enum sl_err table_text(struct buf *out, const struct table *t);
// Writes the table to stdout and releases it, also on failure.
enum sl_err table_print(struct table *t, struct sl_error *err);
// Frees the cells; the table is then empty and without its settings.
void table_release(struct table *t);

// ---- numbers for people. Each writes to `out` and returns it. out_mean writes
// four decimals, and "-" for what is not finite; out_time "-" for what is not
// finite, negative or above 1e12.

#define OUT_NUMBER 32
const char *out_count(char out[OUT_NUMBER], uint64_t n);     // 1,048,576
const char *out_mean(char out[OUT_NUMBER], double value);    // 0.4123; NAN: -
const char *out_bytes(char out[OUT_NUMBER], uint64_t bytes); // 1.5 MiB
const char *out_time(char out[OUT_NUMBER], double seconds);  // 2m04s

// Writes the time since `unix_seconds`, as out_time does; "-" for 0.
const char *out_age(char out[OUT_NUMBER], double unix_seconds);

// Writes "2026-07-01 12:34:56 +0200", local time and its zone; "-" for 0.
const char *out_when(char out[OUT_NUMBER], double unix_seconds);

#endif
