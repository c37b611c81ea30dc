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

// Sets *o to this form; from here on the process writes in it: out_json and
// out_message as lines if it is JSONL, as YAML if it is that; tables with
// colours if `color` is true and stdout is a terminal that allows it. A later
// call sets it anew; before the first the form is OUT_TEXT, without colours.
void out_init(struct out *o, enum out_form form, bool color);

// Returns the form that `word` names; OUT_TEXT for any other word.
enum out_form out_form_of(const char *word);

// Returns the escape code to write before the word of a state or level
// ("failed"), with OUT_PLAIN after the word; "" for words without a colour, and
// where no colours are used.
const char *out_color(const char *word);
#define OUT_PLAIN "\033[0m"

// Returns the width of the terminal on stderr in columns: $COLUMNS from 20 to
// 9,999, else what the terminal says from 20 on, else 80.
int out_columns(void);

// Returns the width of stdout in columns, for tables, as out_columns finds that
// of stderr; 0, no bound, if stdout is no terminal and $COLUMNS is not from 20
// to 9,999.
size_t out_room(void);

// Returns how many columns text[bytes], which is UTF-8, takes on the screen:
// one for each code point, also for a last one of which bytes are cut off.
size_t out_width(const char *text, size_t bytes);

// Returns true if stdout is JSON or YAML, where what may not be shown is
// escaped by the format itself (common/base/utf8.h). Elsewhere texts of other
// processes are made plain where they come in (wire_plain), so that none of
// them begins a line or a column.
bool out_is_data(void);

// Appends `text`, which comes from outside, to a line; characters that may not
// be shown are escaped, as "\u001b".
enum sl_err out_put(struct buf *to, const char *text);

// Writes text[len] as one line to stderr, with characters escaped that may not
// be shown, and then `end` as it is. Without memory it may write nothing.
void out_tell(const char *text, size_t len, const char *end);

// Writes the lines of `text` to stderr, each as out_tell does, and no line end
// behind the last that `text` has not; tabs and our own colours stay as they
// are. Without memory it writes nothing.
void out_tell_lines(const char *text);

// Writes text[len] to stdout and flushes it. Characters that may not be shown
// are escaped, except line ends, tabs and our own colours. Returns SL_OK,
// SL_EIO or SL_ENOMEM.
enum sl_err out_write(const char *text, size_t len, struct sl_error *err);

// Writes `text` to stdout if `rc`, the result of building it, is SL_OK, and
// returns the result of that. Else sets *err to say that memory is short, and
// returns `rc`. Releases the text in every case.
enum sl_err out_text(struct buf *text, enum sl_err rc, struct sl_error *err);

// Writes `object` to stdout with "schema_version" in front (its own value if it
// has that key, else PBJSON_SCHEMA_VERSION), indented, with a newline; in the
// form JSONL on one line, in YAML as a document that "---" begins. Takes the
// reference in every case; NULL is SL_ENOMEM.
enum sl_err out_json(json_t *object, struct sl_error *err);

// Writes `object` as out_json does, on one line, unless the form is YAML.
enum sl_err out_json_line(json_t *object, struct sl_error *err);

// Writes the message `msg` as out_json does.
enum sl_err out_message(const ProtobufCMessage *msg, struct sl_error *err);

// Writes `msg`, the list of the messages items[count], to stdout: as
// out_message does or, with JSONL, each item on a line with its own
// schema_version.
enum sl_err out_list(const struct out *o, const ProtobufCMessage *msg,
                     ProtobufCMessage *const *items, size_t count,
                     struct sl_error *err);

// ---- tables: columns as wide as their widest cell, two blanks between; where
// they have no room the widest words are cut ("…")

#define TABLE_COLUMNS 17
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

// Adds the next cell, row by row, with a text made as printf makes it. An error
// is kept in t->rc, and all later cells are left out.
void table_cell(struct table *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

// Appends the table as text to `out`, and leaves the table as it is. Returns
// SL_OK; SL_ENOMEM; or t->rc, if a cell failed.
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

// Writes the time since `unix_seconds`, as out_time does, 0 for one to come;
// "-" for 0 or less.
const char *out_age(char out[OUT_NUMBER], double unix_seconds);

// Writes "2026-07-01 12:34:56 +0200", local time and its zone; "-" for 0 or
// less, and for what is no time.
const char *out_when(char out[OUT_NUMBER], double unix_seconds);

#endif
