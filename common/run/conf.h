// SPDX-License-Identifier: Apache-2.0
// common/run/conf.h -- settings: flag > environment > file > default.
//
// One table describes every key: its kind, bounds, unit, default and help.
// From it come --key VALUE and --key=VALUE, SLUICE_KEY, `key = value` in the
// file that --config names, --help, and --print-config with the origin of
// each value. Keys are written with '-'; in the environment upper case and
// '_'. In the file blanks around both are dropped, then a pair of '"' around
// the value; a line that begins with '#' is a comment. An unknown key is an
// error with "did you mean"; an unknown SLUICE_ variable, and SLUICE_HELP, _MAN
// and _VERSION, are left alone (they may be another program's).
//
// Threads  one at a time; queries: any.
// Memory   tables and their strings must outlive the conf; strings that
//          queries return live as long as it, unless conf_load or conf_set sets
//          their key later. Values that are read are copied, arguments
//          (conf_arg) point into `argv`.
// Errors   SL_EINVAL says where the value came from and what would be right;
//          those of the file of --config unchanged.
//          Asking for a key that is in no table, or as another kind, is a bug
//          and asserts (without assertions it is undefined); else a query does
//          not fail, and before conf_load it gives the default. `err` may be
//          NULL; a conf and a name may not, but in conf_free. The functions
//          that append may leave a part of the text in `out` if they fail
//          (SL_ENOMEM).
#ifndef COMMON_RUN_CONF_H
#define COMMON_RUN_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

struct buf;
struct conf;
struct fs;

// The last of repeated flags, or lines of the file, counts, but where it is
// said that they add.
enum conf_kind {
    CONF_STRING, // min, max: length in bytes
    CONF_INT,    // min <= value <= max; `unit` is for the help
    CONF_BYTES,  // an integer with B, KiB, MiB, GiB, TiB; bare: bytes
    CONF_MS,     // an integer with ms, s, m, h, d; bare: milliseconds
    CONF_FLOAT,  // min <= value <= max
    CONF_BOOL,   // --key, --no-key, --key=true|false; yes no on off 1 0
    CONF_LIST,   // split at commas, without empty words; repeated ones add
    CONF_MULTI,  // not split; repeated ones add
    CONF_CHOICE, // one of `choices`, separated by '|'
};

struct conf_key {
    const char *name; // "grace"; NULL ends a table that is not counted
    enum conf_kind kind;
    const char *value;   // the default as it would be written; NULL: unset
    const char *help;    // one sentence; NULL: --help leaves the key out
    int64_t min, max;    // both 0: no bounds
    const char *unit;    // or NULL: "steps", "workers"; CONF_MULTI: "DIR"
    const char *choices; // CONF_CHOICE: "auto|text|json"
    char letter;         // 0, or a short form: -o VALUE, -oVALUE
    bool secret;         // --print-config shows "(set)"
};

struct conf_about {
    const char *program; // "psserver"
    const char *usage;   // "psserver [OPTION]..."
    const char *text;    // what it does: one or two sentences
    const char *example; // command line that can be pasted, or NULL
    const char *after;   // more text at the end of the help, or NULL; the
                         // section EXIT STATUS of a manual page
};

enum conf_origin {
    CONF_DEFAULT,
    CONF_FILE,
    CONF_ENVIRONMENT,
    CONF_FLAG,
};

// Makes settings of the table `keys`, which a name of NULL ends, for conf_free;
// `about` is not NULL, and must outlive them like the tables; conf_add adds
// further tables before conf_load. --help, --version, --print-config, --config
// and --man exist without being in a table. A key that an earlier table has is
// left out, so a room can give a common key its own default. Fails as conf_add
// does; *out is then untouched.
enum sl_err conf_new(struct conf **out, const struct conf_about *about,
                     const struct conf_key *keys);

// Adds the table `keys`, which a name of NULL ends, before conf_load; keys that
// the conf has stay as they are. After an error (SL_ENOMEM; SL_EINVAL: a
// default that is no value of its key) the conf can only be freed.
enum sl_err conf_add(struct conf *c, const struct conf_key *keys);
// Frees the settings and their strings, not the tables. NULL is allowed.
void conf_free(struct conf *c);

// Reads flags, environment and file (by `fs`; it waits for the disk), once for
// each conf; with --help or -h none of them, and SL_OK. Skips argv[0]; `env` is
// like environ; NULL means none. A word that is no flag, or "-", is an argument
// (conf_arg); "--" ends the flags. The file is that of --config, or of
// SLUICE_CONFIG, and has at most 1 MiB (SL_ERANGE). After an error the conf can
// only be freed. With --version or --print-config wrong values are errors all
// the same; --help always wins.
enum sl_err conf_load(struct conf *c, struct fs *fs, int argc,
                      char *const *argv, char *const *env,
                      struct sl_error *err);

// Returns true if a flag asked conf_load for a text instead of a run (or the
// file, but not for --help; or SLUICE_PRINT_CONFIG): the caller then prints the
// text that the named function appends, and ends. False before conf_load.
bool conf_wants_help(const struct conf *c);    // --help: conf_help
bool conf_wants_version(const struct conf *c); // --version: conf_version
bool conf_wants_man(const struct conf *c);     // --man, not in --help: conf_man
bool conf_wants_print(const struct conf *c);   // --print-config: conf_print

// Returns the text of a STRING or CHOICE key; NULL if it is unset.
const char *conf_str(const struct conf *c, const char *name);
// Returns the value of an INT, BYTES or MS key, in its unit, in bytes, or in
// milliseconds; 0 if it is unset.
int64_t conf_int(const struct conf *c, const char *name);
// Returns the value of a FLOAT key; 0 if it is unset.
double conf_float(const struct conf *c, const char *name);
// Returns the value of a BOOL key; false if it is unset.
bool conf_bool(const struct conf *c, const char *name);
// Returns the number of words of a LIST or MULTI key; 0 if it is unset.
size_t conf_list_count(const struct conf *c, const char *name);
// Returns word i of a LIST or MULTI key; i is below conf_list_count (it
// asserts).
const char *conf_list_at(const struct conf *c, const char *name, size_t i);
// Returns true if a key of any kind has a value, be it its default.
bool conf_is_set(const struct conf *c, const char *name);
// Returns where the value of a key is from; CONF_DEFAULT if it is unset.
enum conf_origin conf_origin(const struct conf *c, const char *name);
// Returns the word of an origin, "default", "file", "environment" or "flag";
// static text.
const char *conf_origin_name(enum conf_origin origin);

// Returns the number of arguments: words of the command line that are no flags.
size_t conf_arg_count(const struct conf *c);
// Returns argument i; NULL beyond the last.
const char *conf_arg(const struct conf *c, size_t i);

// Sets a key as if the environment or the file (`origin`) had set it: for
// callers with a source of their own, before conf_load or after it. Does
// nothing, SL_OK, if a stronger origin has set it; of the same origin the later
// call counts, or adds to a list. Strings that queries returned for the key are
// then freed. `where` is for errors. SL_EINVAL: no such key, or no value of it;
// SL_ENOMEM. After an error the conf can only be freed.
enum sl_err conf_set(struct conf *c, const char *name, const char *value,
                     enum conf_origin origin, const char *where,
                     struct sl_error *err);

// Reads one number by the rules of a key of kind INT, BYTES or MS, for values
// with several numbers in them; one blank may stand before the unit. `where` is
// for errors. SL_EINVAL: *out is the number if only its bounds do not hold,
// else as it was.
enum sl_err conf_read_number(const struct conf_key *key, const char *text,
                             int64_t *out, const char *where,
                             struct sl_error *err);

// These three append to `out`, before conf_load or after it.

// Appends the text of --help, without the keys that have no help; wrapped at 80
// columns, but for the about's usage, example and `after`. SL_ENOMEM.
enum sl_err conf_help(struct buf *out, const struct conf *c);

// Appends every key of the tables with its value and origin, as a file that
// --config reads back: each word of a MULTI key has a line, and a value with
// blanks at its ends, or in quotes, stands in quotes. Unset keys are comments;
// so are secrets, and values with a line break, without the value. SL_ENOMEM.
enum sl_err conf_print(struct buf *out, const struct conf *c);

// Appends the line of --version: "psserver (sluice) VERSION". SL_ENOMEM.
enum sl_err conf_version(struct buf *out, const struct conf *c);

// ---- conf_man.c: manual pages, in mdoc

// Appends a daemon's manual page, of section 8 and in mdoc; its brief is the
// about's text up to the first '.', ':' or ';'. SL_ENOMEM.
enum sl_err conf_man(struct buf *out, const struct conf *c);

// These append parts of a page. SL_ENOMEM.

// Appends the head: the title `name` (ASCII, shown in capitals) in `section`,
// and the line that says `brief`, a text without a full stop. Neither is
// escaped.
enum sl_err conf_man_head(struct buf *out, const char *name, int section,
                          const char *brief);

// Appends text, escaped and wrapped, with each sentence on a new line; blanks
// and line breaks of `text` part words alone.
enum sl_err conf_man_text(struct buf *out, const char *text);

// Appends the lines of `text`, escaped, as an indented block that is not
// wrapped; leading blanks and empty lines are left out.
enum sl_err conf_man_line(struct buf *out, const char *text);

// Appends a list of the options in the table `keys`, which a name of NULL ends,
// but for those without a help.
enum sl_err conf_man_keys(struct buf *out, const struct conf_key *keys);

// Appends the section on the environment and the file of --config.
enum sl_err conf_man_environment(struct buf *out);

#endif
