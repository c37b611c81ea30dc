// SPDX-License-Identifier: Apache-2.0
// client/cli/out.c -- the writers of text, tables and JSON on stdout; a write
// that fails is remembered.
#include "client/cli/out.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "client/cli/yaml.h"
#include "common/base/bytes.h"
#include "common/base/json.h"
#include "common/base/mem.h"
#include "common/base/utf8.h"

#define RED "\033[1;31m"
#define YELLOW "\033[1;33m"
#define GREEN "\033[1;32m"
#define SHORT 8 // a column of words has at least so many

// Of this process, which writes in one form.
static enum out_form written;
static bool colored;

enum out_form out_form_of(const char *word)
{
    return strcmp(word, "wide") == 0    ? OUT_WIDE
           : strcmp(word, "json") == 0  ? OUT_JSON
           : strcmp(word, "jsonl") == 0 ? OUT_JSONL
           : strcmp(word, "yaml") == 0  ? OUT_YAML
           : strcmp(word, "name") == 0  ? OUT_NAME
                                        : OUT_TEXT;
}

void out_init(struct out *o, enum out_form form, bool color)
{
    const char *no_color = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    bool able = term != NULL && strcmp(term, "dumb") != 0;
    bool wanted = color && (no_color == NULL || no_color[0] == '\0');

    o->form = form;
    o->json = form == OUT_JSON || form == OUT_JSONL || form == OUT_YAML;
    written = form;
    colored = able && wanted && isatty(STDOUT_FILENO);
    o->err_tty = able && isatty(STDERR_FILENO);
}

static bool out_is_one_of(const char *word, const char *const *list)
{
    while (*list != NULL && strcmp(word, *list) != 0)
        list++;
    return *list != NULL;
}

const char *out_color(const char *word)
{
    static const char *const red[] = {"failed", "fault", "unreadable", NULL};
    static const char *const yellow[] = {"draining", "lost",    "paused",
                                         "suspect",  "warning", NULL};
    static const char *const green[] = {"ready", "running", NULL};

    return !colored                      ? ""
           : out_is_one_of(word, red)    ? RED
           : out_is_one_of(word, yellow) ? YELLOW
           : out_is_one_of(word, green)  ? GREEN
                                         : "";
}

// The variable wins, as in other programs; 0: it says nothing.
static int columns_said(void)
{
    const char *said = getenv("COLUMNS");
    int n = said != NULL ? atoi(said) : 0;

    return n >= 20 && n < 10000 ? n : 0;
}

static int columns_of(int fd)
{
    struct winsize size;

    if (columns_said() > 0)
        return columns_said();
    if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col < 20)
        return 80;
    return size.ws_col;
}

int out_columns(void)
{
    return columns_of(STDERR_FILENO);
}

size_t out_room(void)
{
    if (!isatty(STDOUT_FILENO) && columns_said() == 0)
        return 0;
    return (size_t)columns_of(STDOUT_FILENO);
}

// Ends the process as any program of a pipe: the reader, such as head, has
// gone.
static void closed_pipe(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    raise(SIGPIPE);
}

// ---- characters that may not be shown

bool out_is_data(void)
{
    return written == OUT_JSON || written == OUT_JSONL || written == OUT_YAML;
}

static const char *const own[] = {RED, YELLOW, GREEN, OUT_PLAIN, "\n", "\t"};

// Returns the bytes of our own escape code that `text` begins with.
static size_t own_bytes(const char *text, size_t left)
{
    for (size_t i = 0; i < SL_COUNT(own); i++) {
        size_t n = strlen(own[i]);

        if (left >= n && memcmp(text, own[i], n) == 0)
            return n;
    }
    return 0;
}

static enum sl_err out_put_escaped(struct buf *to, const char *text,
                                   size_t left, bool ours)
{
    char shown[UTF8_SHOWN];
    enum sl_err rc = SL_OK;
    size_t run = 0, n; // bytes that come as they are

    for (; rc == SL_OK && left > 0; left -= n) {
        bool plain = utf8_shown(shown, text + run, left, &n)[0] == '\0';
        size_t of_us = plain || !ours ? 0 : own_bytes(text + run, left);

        if (of_us > 0)
            n = of_us;
        run += n;
        if (plain || of_us > 0)
            continue;
        rc = buf_append(to, text, run - n);
        if (rc == SL_OK)
            rc = buf_append_str(to, shown);
        text += run;
        run = 0;
    }
    return rc == SL_OK ? buf_append(to, text, run) : rc;
}

enum sl_err out_put(struct buf *to, const char *text)
{
    return out_put_escaped(to, text, strlen(text), false);
}

void out_tell(const char *text, size_t len, const char *end)
{
    struct buf line = BUF_INIT;

    if (utf8_plain(text, len))
        fprintf(stderr, "%.*s%s", (int)len, text, end);
    else if (out_put_escaped(&line, text, len, false) == SL_OK)
        fprintf(stderr, "%s%s", buf_text(&line), end);
    buf_release(&line);
}

void out_tell_lines(const char *text)
{
    struct buf lines = BUF_INIT;

    if (out_put_escaped(&lines, text, strlen(text), true) == SL_OK)
        fputs(buf_text(&lines), stderr);
    buf_release(&lines);
}

static enum sl_err out_write_all(const char *text, size_t len,
                                 struct sl_error *err)
{
    if (fwrite(text, 1, len, stdout) == len && fflush(stdout) == 0)
        return SL_OK;
    if (errno == EPIPE)
        closed_pipe();
    return sl_fail(err, SL_EIO, "standard output: %s", strerror(errno));
}

enum sl_err out_write(const char *text, size_t len, struct sl_error *err)
{
    struct buf shown = BUF_INIT;
    enum sl_err rc = out_put_escaped(&shown, text, len, true);

    rc = rc == SL_OK ? out_write_all(buf_text(&shown), shown.len, err)
                     : sl_fail(err, rc, "out of memory for the output");
    buf_release(&shown);
    return rc;
}

enum sl_err out_text(struct buf *text, enum sl_err rc, struct sl_error *err)
{
    if (rc == SL_OK)
        rc = out_write(buf_text(text), text->len, err);
    else
        sl_fail(err, rc, "out of memory for the output");
    buf_release(text);
    return rc;
}

// Appends the object as a YAML document: watch writes several.
static enum sl_err write_yaml(struct buf *out, const json_t *object)
{
    enum sl_err rc = buf_append_str(out, "---\n");

    return rc == SL_OK ? yaml_write(out, object) : rc;
}

static enum sl_err write_json(json_t *object, bool pretty, struct sl_error *err)
{
    json_t *all = json_object();
    struct buf text = BUF_INIT;
    enum sl_err rc = SL_ENOMEM;

    if (all != NULL && object != NULL &&
        json_object_set_new(all, "schema_version",
                            json_integer(PBJSON_SCHEMA_VERSION)) == 0 &&
        json_object_update(all, object) == 0)
        rc = written == OUT_YAML ? write_yaml(&text, all)
                                 : sl_json_write(&text, all, pretty);
    if (rc == SL_OK && written != OUT_YAML)
        rc = buf_append_char(&text, '\n');
    rc = out_text(&text, rc, err);
    json_decref(all);
    json_decref(object);
    return rc;
}

enum sl_err out_json(json_t *object, struct sl_error *err)
{
    return write_json(object, written != OUT_JSONL, err);
}

enum sl_err out_json_line(json_t *object, struct sl_error *err)
{
    return write_json(object, false, err);
}

enum sl_err out_message(const ProtobufCMessage *msg, struct sl_error *err)
{
    json_t *object = NULL;

    (void)pbjson_write(&object, msg); // no memory: it is NULL
    return out_json(object, err);
}

enum sl_err out_list(const struct out *o, const ProtobufCMessage *msg,
                     ProtobufCMessage *const *items, size_t count,
                     struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    if (o->form != OUT_JSONL)
        return out_message(msg, err);
    for (size_t i = 0; rc == SL_OK && i < count; i++)
        rc = out_message(items[i], err);
    return rc;
}

// ---- tables

void table_init(struct table *t, unsigned right, const char *const *head)
{
    *t = (struct table){.right = right};
    while (head[t->columns] != NULL)
        t->columns++;
    for (size_t i = 0; i < t->columns; i++) {
        t->states |= (unsigned)(strcmp(head[i], "state") == 0) << i;
        table_cell(t, "%s", head[i]);
    }
}

void table_cell(struct table *t, const char *fmt, ...)
{
    struct buf text = BUF_INIT;
    char **grown;
    va_list ap;

    if (t->rc != SL_OK)
        return;
    grown = sl_realloc_array(t->cells, t->count + 1, sizeof(*grown));
    if (grown == NULL) {
        t->rc = SL_ENOMEM;
        return;
    }
    t->cells = grown;
    va_start(ap, fmt);
    t->rc = buf_vappendf(&text, fmt, ap);
    va_end(ap);
    if (t->rc == SL_OK)
        t->rc = buf_append_char(&text, '\0');
    if (t->rc == SL_OK)
        t->cells[t->count++] = (char *)buf_detach(&text, NULL);
    buf_release(&text);
}

size_t out_width(const char *text, size_t bytes)
{
    size_t n = 0;

    for (size_t i = 0; i < bytes; i++)
        n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

static size_t width_of(const char *text)
{
    return out_width(text, strlen(text));
}

// Takes from the widest columns of words until all of them have room; one that
// would come below SHORT stays, and so does a column of numbers.
static void table_shrink_columns(size_t *width, const struct table *t,
                                 size_t shown)
{
    size_t all = 2 * (shown - 1);

    for (size_t i = 0; i < shown; i++)
        all += width[i];
    while (t->room > 0 && all > t->room) {
        size_t widest = shown;

        for (size_t i = 0; i < shown; i++)
            if ((t->right >> i & 1) == 0 && width[i] > SHORT &&
                (widest == shown || width[i] > width[widest]))
                widest = i;
        if (widest == shown)
            return;
        width[widest]--;
        all--;
    }
}

// As many bytes of the cell as are shown, and whether "…" follows them.
static size_t cell_bytes(const char *cell, size_t width, bool *cut)
{
    size_t n = 0;

    *cut = width_of(cell) > width;
    if (!*cut)
        return strlen(cell);
    while (out_width(cell, n + 1) < width)
        n++;
    while (((unsigned char)cell[n] & 0xc0) == 0x80)
        n++;
    return n;
}

enum sl_err table_text(struct buf *out, const struct table *t)
{
    size_t width[TABLE_COLUMNS] = {0};
    size_t shown = t->shown > 0 ? t->shown : t->columns;
    enum sl_err rc = t->rc;

    for (size_t i = 0; i < t->count; i++) {
        size_t w = width_of(t->cells[i]);

        if (w > width[i % t->columns])
            width[i % t->columns] = w;
    }
    table_shrink_columns(width, t, shown);
    for (size_t i = 0; rc == SL_OK && i < t->count; i++) {
        size_t column = i % t->columns, bytes;
        bool last = column + 1 == shown, cut;
        bool right = t->right >> column & 1;
        const char *color;
        int pad;

        if (column >= shown)
            continue;
        bytes = cell_bytes(t->cells[i], width[column], &cut);
        pad = (int)(width[column] - out_width(t->cells[i], bytes) - cut);
        color = t->states >> column & 1 ? out_color(t->cells[i]) : "";
        rc = buf_appendf(out, "%*s%s%.*s%s%s%*s%s", right ? pad : 0, "", color,
                         (int)bytes, t->cells[i], cut ? "…" : "",
                         color[0] != '\0' ? OUT_PLAIN : "",
                         right || last ? 0 : pad, "", last ? "\n" : "  ");
    }
    return rc;
}

enum sl_err table_print(struct table *t, struct sl_error *err)
{
    struct buf text = BUF_INIT;
    enum sl_err rc = table_text(&text, t);

    rc = out_text(&text, rc, err);
    table_release(t);
    return rc;
}

void table_release(struct table *t)
{
    for (size_t i = 0; i < t->count; i++)
        sl_free(t->cells[i]);
    sl_free(t->cells);
    *t = (struct table){.columns = t->columns};
}

// ---- numbers

const char *out_mean(char out[OUT_NUMBER], double value)
{
    if (isfinite(value))
        snprintf(out, OUT_NUMBER, "%.4f", value);
    else
        snprintf(out, OUT_NUMBER, "-");
    return out;
}

const char *out_count(char out[OUT_NUMBER], uint64_t n)
{
    char digits[OUT_NUMBER];
    size_t len =
        (size_t)snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n);
    char *to = out;

    for (size_t i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            *to++ = ',';
        *to++ = digits[i];
    }
    *to = '\0';
    return out;
}

const char *out_bytes(char out[OUT_NUMBER], uint64_t bytes)
{
    const char *unit;
    double value = bytes_in_unit(bytes, &unit);

    if (bytes < 1024)
        snprintf(out, OUT_NUMBER, "%llu B", (unsigned long long)bytes);
    else
        snprintf(out, OUT_NUMBER, value < 10 ? "%.2f %s" : "%.1f %s", value,
                 unit);
    return out;
}

const char *out_time(char out[OUT_NUMBER], double seconds)
{
    unsigned long long s;

    if (!isfinite(seconds) || seconds < 0 || seconds > 1e12) {
        snprintf(out, OUT_NUMBER, "-");
        return out;
    }
    s = (unsigned long long)(seconds + 0.5);
    if (seconds < 9.95)
        snprintf(out, OUT_NUMBER, "%.1fs", seconds);
    else if (s < 60)
        snprintf(out, OUT_NUMBER, "%llus", s);
    else if (s < 3600)
        snprintf(out, OUT_NUMBER, "%llum%02llus", s / 60, s % 60);
    else if (s < 86400)
        snprintf(out, OUT_NUMBER, "%lluh%02llum", s / 3600, s / 60 % 60);
    else
        snprintf(out, OUT_NUMBER, "%llud%02lluh", s / 86400, s / 3600 % 24);
    return out;
}

const char *out_age(char out[OUT_NUMBER], double unix_seconds)
{
    double age = (double)time(NULL) - unix_seconds;

    if (unix_seconds <= 0)
        snprintf(out, OUT_NUMBER, "-");
    else
        out_time(out, age < 0 ? 0 : age);
    return out;
}

const char *out_when(char out[OUT_NUMBER], double unix_seconds)
{
    time_t t = (time_t)unix_seconds;
    struct tm tm;

    if (t <= 0 || localtime_r(&t, &tm) == NULL ||
        strftime(out, OUT_NUMBER, "%Y-%m-%d %H:%M:%S %z", &tm) == 0)
        snprintf(out, OUT_NUMBER, "-");
    return out;
}
