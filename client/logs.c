// SPDX-License-Identifier: Apache-2.0
// client/logs.c -- what the daemons of a local cluster said of one job.
//
// The files are those of the cluster's own log folder and nothing else: what
// is named from outside is a job, never a path.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli.h"
#include "client/verbs.h"
#include "common/base/fs.h"
#include "common/base/json.h"
#include "common/base/mem.h"

#define TS_BYTES 28 // of clock.h, whose text sorts as time does

struct line {
    char ts[TS_BYTES];
    uint64_t order; // as it was read: of one instant
    char *text;     // owned, without its newline
    json_t *value;
};

struct logs {
    const char *dir;
    uint64_t job;
    struct line *lines; // owned
    size_t count, space;
    unsigned files;
    enum sl_err rc;
};

// "j-7" or "7".
static bool read_job(const char *text, uint64_t *out)
{
    const char *digits = strncmp(text, "j-", 2) == 0 ? text + 2 : text;
    size_t n = strlen(digits);

    if (n == 0 || n > 19 || digits[strspn(digits, "0123456789")] != '\0')
        return false;
    *out = strtoull(digits, NULL, 10);
    return true;
}

// The coordinator writes "j-7", who holds shards or leases 7.
static bool is_of(const json_t *line, uint64_t job)
{
    const json_t *value = json_object_get(line, "job");
    uint64_t said;

    if (json_is_integer(value))
        return (uint64_t)json_integer_value(value) == job;
    return json_is_string(value) && read_job(json_string_value(value), &said) &&
           said == job;
}

static enum sl_err keep(struct logs *l, const char *text, json_t *value)
{
    const char *ts = json_string_value(json_object_get(value, "ts"));
    struct line *at;

    if (l->count == l->space) {
        size_t space = l->space == 0 ? 256 : 2 * l->space;
        struct line *more = sl_realloc_array(l->lines, space, sizeof(*more));

        if (more == NULL)
            return SL_ENOMEM;
        l->lines = more;
        l->space = space;
    }
    at = &l->lines[l->count];
    *at = (struct line){.order = l->count, .text = sl_strdup(text)};
    snprintf(at->ts, sizeof(at->ts), "%s", ts != NULL ? ts : "");
    at->value = json_incref(value);
    l->count++;
    return at->text != NULL ? SL_OK : SL_ENOMEM;
}

// Lines that are no JSON (a crash's last words) are of no job.
static enum sl_err take_line(struct logs *l, char *text)
{
    json_t *value;
    enum sl_err rc = SL_OK;

    text[strcspn(text, "\n")] = '\0';
    if (strstr(text, "\"job\":") == NULL ||
        sl_json_parse(&value, "log", text, strlen(text), NULL, NULL) != SL_OK)
        return SL_OK;
    if (is_of(value, l->job))
        rc = keep(l, text, value);
    json_decref(value);
    return rc;
}

static void take_file(struct logs *l, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;
    FILE *f = NULL;
    char *text = NULL;
    size_t space = 0;

    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        f = fdopen(fd, "re");
    if (f == NULL) {
        if (fd >= 0)
            close(fd);
        return;
    }
    l->files++;
    while (l->rc == SL_OK && getline(&text, &space, f) >= 0)
        l->rc = take_line(l, text);
    free(text); // getline's
    fclose(f);
}

static enum sl_err on_name(void *arg, const char *name)
{
    struct logs *l = arg;
    char *path = strstr(name, ".log") != NULL ? fs_join(l->dir, name) : NULL;

    if (path != NULL)
        take_file(l, path);
    sl_free(path);
    return l->rc;
}

static int by_time(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    int order = strcmp(x->ts, y->ts);

    return order != 0 ? order : (x->order > y->order) - (x->order < y->order);
}

// "12:00:01.123456 info  ps-0: snapshot written shard=1 bytes=4096"
static enum sl_err put_text(struct buf *out, const json_t *line)
{
    static const char *const head[] = {"ts", "level", "role", "node", "msg"};
    const char *word[SL_COUNT(head)], *key;
    json_t *value;
    enum sl_err rc;

    for (size_t i = 0; i < SL_COUNT(head); i++) {
        word[i] = json_string_value(json_object_get(line, head[i]));
        word[i] = word[i] != NULL ? word[i] : "-";
    }
    rc = buf_appendf(out, "%s %-5s %s: %s", word[0], word[1], word[3], word[4]);
    json_object_foreach((json_t *)line, key, value)
    {
        bool said = strcmp(key, "job") == 0;

        for (size_t i = 0; i < SL_COUNT(head); i++)
            said = said || strcmp(key, head[i]) == 0;
        if (said || rc != SL_OK)
            continue;
        rc = buf_appendf(out, " %s=", key);
        if (rc == SL_OK && json_is_string(value))
            rc = buf_append_str(out, json_string_value(value));
        else if (rc == SL_OK)
            rc = sl_json_write(out, value, false);
    }
    return rc == SL_OK ? buf_append_char(out, '\n') : rc;
}

static int print(struct cli *cli, struct logs *l, struct sl_error *err)
{
    struct buf out = BUF_INIT;
    enum sl_err rc = SL_OK;

    qsort(l->lines, l->count, sizeof(*l->lines), by_time);
    for (size_t i = 0; i < l->count && rc == SL_OK; i++)
        rc = cli->out.json ? buf_appendf(&out, "%s\n", l->lines[i].text)
                           : put_text(&out, l->lines[i].value);
    if (out_text(&out, rc, err) != SL_OK)
        return cli_fail(err);
    return CLI_EXIT_OK;
}

static void release(struct logs *l)
{
    for (size_t i = 0; i < l->count; i++) {
        sl_free(l->lines[i].text);
        json_decref(l->lines[i].value);
    }
    sl_free(l->lines);
}

int verb_logs(struct cli *cli)
{
    struct sl_error err = SL_ERROR_INIT;
    char *dir = fs_join(conf_str(cli->conf, "dir"), "log");
    struct logs l = {.dir = dir};
    enum sl_err rc = dir == NULL ? SL_ENOMEM : SL_OK;
    int code;

    if (!read_job(cli_arg(cli, 0), &l.job)) {
        sl_free(dir);
        return cli_usage(cli,
                         "'%.60s' is no job's id, as `sluice jobs` lists it: "
                         "j-1",
                         cli_arg(cli, 0));
    }
    if (rc == SL_OK)
        rc = fs_list(fs_posix(), dir, on_name, &l, &err);
    if (rc == SL_OK && l.count == 0)
        rc = sl_fail(&err, SL_ENOENT,
                     "nothing in the %u files of %s is about j-%" PRIu64
                     "; --dir names the folder of a `sluice up`. Of daemons "
                     "that were started otherwise: `sluice events j-%" PRIu64
                     " --follow`, and the journal of their host",
                     l.files, dir, l.job, l.job);
    code = rc == SL_OK ? print(cli, &l, &err) : cli_fail(&err);
    release(&l);
    sl_free(dir);
    return code;
}
