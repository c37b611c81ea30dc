// SPDX-License-Identifier: Apache-2.0
// client/out.c -- the writers of text, tables and JSON on stdout; a write that
// fails is remembered.
#include "client/out.h"

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

#include "common/base/json.h"
#include "common/base/mem.h"

// Of this process, which writes in one form.
static bool one_line;

enum out_form out_form_of(const char *word)
{
    return strcmp(word, "wide") == 0    ? OUT_WIDE
           : strcmp(word, "json") == 0  ? OUT_JSON
           : strcmp(word, "jsonl") == 0 ? OUT_JSONL
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
    o->json = form == OUT_JSON || form == OUT_JSONL;
    one_line = form == OUT_JSONL;
    o->color = able && wanted && isatty(STDOUT_FILENO);
    o->err_tty = able && isatty(STDERR_FILENO);
}

int out_columns(void)
{
    struct winsize size;

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 20)
        return 80;
    return size.ws_col;
}

// Who read has seen enough, as head does: we end as any program of a pipe.
static void closed_pipe(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    raise(SIGPIPE);
}

enum sl_err out_write(const char *text, size_t len, struct sl_error *err)
{
    if (fwrite(text, 1, len, stdout) == len && fflush(stdout) == 0)
        return SL_OK;
    if (errno == EPIPE)
        closed_pipe();
    return sl_fail(err, SL_EIO, "standard output: %s", strerror(errno));
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

static enum sl_err write_json(json_t *object, bool pretty, struct sl_error *err)
{
    json_t *all = json_object();
    struct buf text = BUF_INIT;
    enum sl_err rc = SL_ENOMEM;

    if (all != NULL && object != NULL &&
        json_object_set_new(all, "schema_version",
                            json_integer(PBJSON_SCHEMA_VERSION)) == 0 &&
        json_object_update(all, object) == 0)
        rc = sl_json_write(&text, all, pretty);
    if (rc == SL_OK)
        rc = buf_append_char(&text, '\n');
    rc = out_text(&text, rc, err);
    json_decref(all);
    json_decref(object);
    return rc;
}

enum sl_err out_json(json_t *object, struct sl_error *err)
{
    return write_json(object, !one_line, err);
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
    for (size_t i = 0; i < t->columns; i++)
        table_cell(t, "%s", head[i]);
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

// Columns on the screen: bytes that do not continue a character.
static size_t width_of(const char *text)
{
    size_t n = 0;

    for (; *text != '\0'; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
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
    for (size_t i = 0; rc == SL_OK && i < t->count; i++) {
        size_t column = i % t->columns;
        bool last = column + 1 == shown;
        bool right = t->right >> column & 1;
        int pad = (int)(width[column] - width_of(t->cells[i]));

        if (column >= shown)
            continue;
        rc = buf_appendf(out, "%*s%s%*s%s", right ? pad : 0, "", t->cells[i],
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
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes / 1024;
    size_t unit = 0;

    if (bytes < 1024) {
        snprintf(out, OUT_NUMBER, "%llu B", (unsigned long long)bytes);
        return out;
    }
    while (value >= 1024 && unit + 1 < SL_COUNT(units)) {
        value /= 1024;
        unit++;
    }
    snprintf(out, OUT_NUMBER, value < 10 ? "%.2f %s" : "%.1f %s", value,
             units[unit]);
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

const char *out_when(char out[OUT_NUMBER], double unix_seconds)
{
    time_t t = (time_t)unix_seconds;
    struct tm tm;

    if (t <= 0 || localtime_r(&t, &tm) == NULL ||
        strftime(out, OUT_NUMBER, "%Y-%m-%d %H:%M:%S %z", &tm) == 0)
        snprintf(out, OUT_NUMBER, "-");
    return out;
}
