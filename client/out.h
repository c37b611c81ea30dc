// SPDX-License-Identifier: Apache-2.0
// client/out.h -- data on stdout: text, tables, JSON.
//
// Everything that is no data goes to stderr (cli_say). Escape codes only when
// the stream is a terminal, and never with NO_COLOR, TERM=dumb or --no-color.
//
// Threads  main.
// Memory   a table owns its cells until table_release.
// Errors   SL_EIO when stdout cannot take more (a full disk). Where nobody
// reads
//          the pipe any longer, the process ends by SIGPIPE, without a word.
#ifndef CLIENT_OUT_H
#define CLIENT_OUT_H

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
    bool json;    // one of the three
    bool err_tty; // stderr is a terminal that can redraw a line
};

// From here on out_json and out_message write lines, if the form is JSONL, or
// documents of YAML; and tables have colours, if `color` and stdout allow it.
void out_init(struct out *o, enum out_form form, bool color);

enum out_form out_form_of(const char *word); // OUT_TEXT for any other

// Returns the escape code before the word of a state or level ("failed"), of
// which OUT_PLAIN is the end; "" for other words and where none may be written.
const char *out_color(const char *word);
#define OUT_PLAIN "\033[0m"

// Columns of the terminal on stderr: $COLUMNS, what the terminal says, or 80.
int out_columns(void);

// The same of stdout, for tables; 0, which is no bound, where that is no
// terminal and $COLUMNS says nothing.
size_t out_room(void);

// Columns that so many bytes of UTF-8 take on the screen.
size_t out_width(const char *text, size_t bytes);

// Whether stdout is JSON or YAML, which has escapes of its own for what may not
// be shown (common/base/utf8.h). Elsewhere the words of others are made plain
// where they come in (wire_plain), so that they begin no line and no column.
bool out_is_data(void);

// Appends words of others to a line.
enum sl_err out_put(struct buf *to, const char *text);

// One line to stderr: whatever may not be shown is escaped. `end` comes as it
// is.
void out_tell(const char *text, size_t len, const char *end);

// The same for several lines, with their ends.
void out_tell_lines(const char *text);

// All of it, to stdout, flushed; what may not be shown is escaped, but for ends
// of lines, tabs and our own colours.
enum sl_err out_write(const char *text, size_t len, struct sl_error *err);

// What was built in `text`, if building it ended with SL_OK: any other `rc` is
// told (out of memory) and returned. Releases the text.
enum sl_err out_text(struct buf *text, enum sl_err rc, struct sl_error *err);

// The members of `object` after "schema_version", indented, with a newline.
// Takes the reference; NULL is SL_ENOMEM.
enum sl_err out_json(json_t *object, struct sl_error *err);

// The same on one line.
enum sl_err out_json_line(json_t *object, struct sl_error *err);

// The same for a message.
enum sl_err out_message(const ProtobufCMessage *msg, struct sl_error *err);

// A message that is a list of others: with JSONL these, each with its
// schema_version on a line of its own.
enum sl_err out_list(const struct out *o, const ProtobufCMessage *msg,
                     ProtobufCMessage *const *items, size_t count,
                     struct sl_error *err);

// ---- tables: columns as wide as their widest cell, two blanks between; where
// they have no room the widest words are cut ("…")

#define TABLE_COLUMNS 13
struct table {
    size_t columns;
    size_t shown;    // the first so many are written; 0: all
    size_t room;     // columns of the screen; 0: no bound
    unsigned right;  // bit i: column i is aligned to the right
    unsigned states; // bit i: its cells are states, with their colours
    size_t count;    // cells so far, head included
    char **cells;    // owned
    enum sl_err rc;  // of the first cell that failed
};

// The head: one cell per column, ended by NULL. `right` as in the struct; a
// column that is headed "state" has states.
void table_init(struct table *t, unsigned right, const char *const *head);

// The next cell.
void table_cell(struct table *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

enum sl_err table_text(struct buf *out, const struct table *t);
enum sl_err table_print(struct table *t, struct sl_error *err); // and release
void table_release(struct table *t);

// ---- numbers for people. Each returns `out`.

#define OUT_NUMBER 32
const char *out_count(char out[OUT_NUMBER], uint64_t n);     // 1,048,576
const char *out_mean(char out[OUT_NUMBER], double value);    // 0.4123; NAN: -
const char *out_bytes(char out[OUT_NUMBER], uint64_t bytes); // 1.5 MiB
const char *out_time(char out[OUT_NUMBER], double seconds);  // 2m04s

// How long ago that was, as out_time; "-" for 0.
const char *out_age(char out[OUT_NUMBER], double unix_seconds);

// "2026-07-01 12:34:56 +0200", local time and its zone; "-" for 0.
const char *out_when(char out[OUT_NUMBER], double unix_seconds);

#endif
