// SPDX-License-Identifier: Apache-2.0
// client/ask/logs.c -- what the daemons said of one job, or one of them at all.
//
// Lines come from the files of a local cluster, those of its own log folder and
// nothing else: what is named from outside is a job or a member, never a path.
// Or from the daemons themselves, through the coordinator, which are asked one
// after the other for what is newer than their last answer.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/call/api.h"
#include "client/cli/cli.h"
#include "client/cli/listing.h"
#include "client/cli/verbs.h"
#include "common/base/fs.h"
#include "common/base/json.h"
#include "common/base/mem.h"

#define TS_BYTES 28 // of clock.h, whose text sorts as time does
#define AGAIN_MS 500
#define BUSY_MS 50 // until a member that serves another client is asked again
#define BUSY_TRIES 100 // then it is left out
#define REST_ROUNDS 20 // that one is left alone which did not answer

struct logs_line {
    char ts[TS_BYTES];
    uint64_t order; // as it was read: of one instant
    char *text;     // owned, without its newline
    json_t *value;
};

struct logs_wanted {
    const char *dir;
    uint64_t job;            // 0: of a member
    const char *member;      // by its name; NULL: of a job
    struct logs_line *lines; // owned
    size_t count, space;
    unsigned files;
    enum sl_err rc;
};

// "j-7" or "7".
static bool logs_parse_job(const char *text, uint64_t *out)
{
    const char *digits = strncmp(text, "j-", 2) == 0 ? text + 2 : text;
    size_t n = strlen(digits);

    if (n == 0 || n > 19 || digits[strspn(digits, "0123456789")] != '\0')
        return false;
    *out = strtoull(digits, NULL, 10);
    return true;
}

// Returns the member that a line comes from: the daemon that the coordinator
// asked, else the node. `up` names nodes as its daemons; elsewhere they are
// hosts.
static const char *logs_line_member(const json_t *line)
{
    const char *name = json_string_value(json_object_get(line, "daemon"));

    if (name == NULL)
        name = json_string_value(json_object_get(line, "node"));
    return name != NULL ? name : "-";
}

// Returns true if the line is of the wanted job, which the coordinator writes
// as "j-7" and members write as 7.
static bool is_wanted(const struct logs_wanted *l, const json_t *line)
{
    const json_t *value = json_object_get(line, "job");
    uint64_t job = l->job, said;

    if (l->member != NULL)
        return strcmp(logs_line_member(line), l->member) == 0;
    if (json_is_integer(value))
        return (uint64_t)json_integer_value(value) == job;
    return json_is_string(value) &&
           logs_parse_job(json_string_value(value), &said) && said == job;
}

static enum sl_err logs_add_line(struct logs_wanted *l, const char *text,
                                 json_t *value)
{
    const char *ts = json_string_value(json_object_get(value, "ts"));
    struct logs_line *at;

    if (l->count == l->space) {
        size_t space = l->space == 0 ? 256 : 2 * l->space;
        struct logs_line *more =
            sl_realloc_array(l->lines, space, sizeof(*more));

        if (more == NULL)
            return SL_ENOMEM;
        l->lines = more;
        l->space = space;
    }
    at = &l->lines[l->count];
    *at = (struct logs_line){.order = l->count, .text = sl_strdup(text)};
    snprintf(at->ts, sizeof(at->ts), "%s", ts != NULL ? ts : "");
    at->value = json_incref(value);
    l->count++;
    return at->text != NULL ? SL_OK : SL_ENOMEM;
}

// Takes one line of a file. Lines that are no JSON (a crash's last words) have
// no author.
static enum sl_err logs_take_line(struct logs_wanted *l, char *text)
{
    json_t *value;
    enum sl_err rc = SL_OK;

    text[strcspn(text, "\n")] = '\0';
    if ((l->member == NULL && strstr(text, "\"job\":") == NULL) ||
        sl_json_parse(&value, "log", text, strlen(text), NULL, NULL) != SL_OK)
        return SL_OK;
    if (is_wanted(l, value))
        rc = logs_add_line(l, text, value);
    json_decref(value);
    return rc;
}

static void take_file(struct logs_wanted *l, const char *path)
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
        l->rc = logs_take_line(l, text);
    free(text); // getline's
    fclose(f);
}

static enum sl_err logs_on_file_name(void *arg, const char *name)
{
    struct logs_wanted *l = arg;
    char *path = strstr(name, ".log") != NULL ? fs_join(l->dir, name) : NULL;

    if (path != NULL)
        take_file(l, path);
    sl_free(path);
    return l->rc;
}

static int logs_line_by_time(const void *a, const void *b)
{
    const struct logs_line *x = a, *y = b;
    int order = strcmp(x->ts, y->ts);

    return order != 0 ? order : (x->order > y->order) - (x->order < y->order);
}

// "12:00:01.123456 info  ps-0: snapshot written shard=1 bytes=4096"
static enum sl_err logs_compose_line(struct buf *out, const json_t *line)
{
    static const char *const head[] = {"ts",   "level",  "msg",
                                       "role", "daemon", "node"};
    const char *word[SL_COUNT(head)], *key;
    json_t *value;
    enum sl_err rc;

    for (size_t i = 0; i < SL_COUNT(head); i++) {
        word[i] = json_string_value(json_object_get(line, head[i]));
        word[i] = word[i] != NULL ? word[i] : "-";
    }
    rc = buf_appendf(out, "%s %-5s %s: %s", word[0], word[1],
                     logs_line_member(line), word[2]);
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
    return rc;
}

// Appends the line's text, escaped: a log quotes words from other machines.
static enum sl_err logs_append_line(struct buf *out, const json_t *line)
{
    struct buf text = BUF_INIT;
    enum sl_err rc = logs_compose_line(&text, line);

    if (rc == SL_OK)
        rc = out_put(out, buf_text(&text));
    buf_release(&text);
    return rc == SL_OK ? buf_append_char(out, '\n') : rc;
}

static enum sl_err logs_print(const struct cli *cli, struct logs_wanted *l,
                              struct sl_error *err)
{
    struct buf out = BUF_INIT;
    enum sl_err rc = SL_OK;

    qsort(l->lines, l->count, sizeof(*l->lines), logs_line_by_time);
    for (size_t i = 0; i < l->count && rc == SL_OK; i++)
        rc = cli->out.json ? buf_appendf(&out, "%s\n", l->lines[i].text)
                           : logs_append_line(&out, l->lines[i].value);
    return out_text(&out, rc, err);
}

static void logs_forget_lines(struct logs_wanted *l)
{
    for (size_t i = 0; i < l->count; i++) {
        sl_free(l->lines[i].text);
        json_decref(l->lines[i].value);
    }
    l->count = 0;
}

static enum sl_err read_files(struct cli *cli, struct logs_wanted *l,
                              struct sl_error *err)
{
    enum sl_err rc = fs_list(fs_posix(), l->dir, logs_on_file_name, l, err);

    if (rc == SL_OK && l->count == 0)
        rc = sl_fail(err, SL_ENOENT,
                     "none of the %u files of %s has a line about %s; --dir "
                     "names the folder of a `sluice up`, --coordinator the "
                     "coordinator of other daemons",
                     l->files, l->dir, cli_arg(cli, 0));
    return rc == SL_OK ? logs_print(cli, l, err) : rc;
}

// ---- through the coordinator

struct logs_source {
    char name[WIRE_NAME_BYTES + 1];
    uint64_t after; // LogLines.last
    unsigned rests; // rounds to skip before it is asked again
    bool silent;    // its failure was reported
};

struct asker {
    struct cli *cli;
    struct api_client *api;
    struct logs_wanted *l;
    struct logs_source *sources; // owned
    size_t count;
    bool again; // this is not the first round
    bool away;  // the coordinator's absence was reported
};

// Finds or adds the source `name`. The pointer lasts until the next call.
static struct logs_source *logs_find_source(struct asker *a, const char *name)
{
    struct logs_source *more;

    for (size_t i = 0; i < a->count; i++)
        if (strcmp(a->sources[i].name, name) == 0)
            return &a->sources[i];
    more = sl_realloc_array(a->sources, a->count + 1, sizeof(*more));
    if (more == NULL)
        return NULL;
    a->sources = more;
    more = &a->sources[a->count++];
    *more = (struct logs_source){.after = 0};
    snprintf(more->name, sizeof(more->name), "%s", name);
    return more;
}

// Takes a line of member `name`, which is put in front of the line's fields.
static enum sl_err take_from(struct logs_wanted *l, const char *name,
                             const char *line, size_t bytes)
{
    struct buf text = BUF_INIT;
    json_t *word = json_string(name);
    enum sl_err rc = word != NULL ? SL_OK : SL_ENOMEM;

    if (rc == SL_OK)
        rc = buf_append_str(&text, "{\"daemon\":");
    if (rc == SL_OK)
        rc = sl_json_write(&text, word, false);
    if (rc == SL_OK)
        rc = buf_append_char(&text, ',');
    if (rc == SL_OK)
        rc = buf_append(&text, line + 1, bytes - 1);
    if (rc == SL_OK)
        rc = buf_append_char(&text, '\0');
    if (rc == SL_OK)
        rc = logs_take_line(l, (char *)text.data);
    json_decref(word);
    buf_release(&text);
    return rc;
}

static enum sl_err take_lines(struct logs_wanted *l, const char *name,
                              const Sluice__V1__LogLines *lines)
{
    const char *at = (const char *)lines->text.data;
    const char *end = at + lines->text.len;
    enum sl_err rc = SL_OK;

    while (at < end && rc == SL_OK) {
        const char *next = memchr(at, '\n', (size_t)(end - at));

        next = next != NULL ? next + 1 : end;
        if (*at == '{')
            rc = take_from(l, name, at, (size_t)(next - at));
        at = next;
    }
    return rc;
}

static bool logs_is_coordinator(const struct logs_source *s)
{
    return strcmp(s->name, "coordinator") == 0;
}

static enum sl_err logs_ask_source(struct asker *a, struct logs_source *s,
                                   struct sl_error *err)
{
    Sluice__V1__LogsRequest request = SLUICE__V1__LOGS_REQUEST__INIT;
    Sluice__V1__LogLines *lines = NULL;
    unsigned tries = 0;
    enum sl_err rc;

    request.member = logs_is_coordinator(s) ? (char *)"" : s->name;
    request.job = a->l->job;
    do {
        request.after = s->after;
        rc = api_logs(a->api, &request, &lines, err);
        if (rc == SL_EBUSY)
            cli_pause_ms(BUSY_MS);
        if (rc != SL_OK)
            continue;
        s->after = lines->last;
        if (take_lines(a->l, s->name, lines) != SL_OK)
            return sl_fail(err, SL_ENOMEM, "no memory for the lines");
    } while ((rc == SL_OK && lines->more) ||
             (rc == SL_EBUSY && ++tries < BUSY_TRIES));
    return rc;
}

// What is the matter with a member, not with the way to the coordinator.
static bool is_of_member(enum sl_err rc)
{
    return rc == SL_ESTATE || rc == SL_ENOENT || rc == SL_EBUSY;
}

// A member that tells nothing is named once, and left alone for a while. One
// that was asked for by its name, and never told anything, is an error.
static enum sl_err logs_poll_member(struct asker *a, const char *name,
                                    struct sl_error *err)
{
    struct logs_source *s = logs_find_source(a, name);
    struct sl_error why = SL_ERROR_INIT;
    enum sl_err rc;

    if (s == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory for a member");
    if (s->rests > 0) {
        s->rests--;
        return SL_OK;
    }
    rc = logs_ask_source(a, s, &why);
    if (rc == SL_OK)
        s->silent = false;
    else if (rc == SL_ENOTSUP)
        sl_fail(err, rc,
                "coordinator %s sends no log lines: its version is too old",
                api_address(a->api));
    else if (!is_of_member(rc))
        *err = why;
    else if (a->l->member != NULL && !a->again)
        sl_fail(err, rc, "nothing from %s: %s", name, why.text);
    else {
        if (!s->silent)
            cli_say("sluice: nothing from %s: %s", name, why.text);
        s->silent = true;
        s->rests = rc == SL_ESTATE ? REST_ROUNDS : 0; // it may cost 5 s
        rc = SL_OK;
    }
    return rc;
}

static enum sl_err logs_poll_members(struct asker *a, struct sl_error *err)
{
    Sluice__V1__ClusterRequest request = SLUICE__V1__CLUSTER_REQUEST__INIT;
    Sluice__V1__ClusterReply *reply;
    enum sl_err rc = logs_poll_member(a, "coordinator", err);

    if (rc == SL_OK)
        rc = api_cluster(a->api, &request, &reply, err);
    for (size_t i = 0; rc == SL_OK && i < reply->n_members; i++)
        if (!list_is_lost(reply->members[i]))
            rc = logs_poll_member(a, reply->members[i]->name, err);
    return rc;
}

static enum sl_err go_round(struct asker *a, struct sl_error *err)
{
    enum sl_err rc = a->l->member != NULL
                         ? logs_poll_member(a, a->l->member, err)
                         : logs_poll_members(a, err);
    enum sl_err printed = logs_print(a->cli, a->l, rc == SL_OK ? err : NULL);

    api_forget(a->api);
    if (rc == SL_OK && a->away)
        cli_say("The coordinator is back");
    a->away = a->away && rc != SL_OK;
    a->again = true;
    return rc == SL_OK ? printed : rc;
}

// Over restarts of the coordinator and of members: positions go on.
static enum sl_err logs_follow(struct asker *a, struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    while (rc == SL_OK) {
        logs_forget_lines(a->l);
        cli_pause_ms(AGAIN_MS);
        rc = go_round(a, err);
        if (rc != SL_EUNAVAIL && rc != SL_ETIMEDOUT)
            continue;
        if (!a->away)
            cli_say("The coordinator at %s is away, waiting for it to come "
                    "back",
                    api_address(a->api));
        a->away = true;
        rc = SL_OK;
    }
    return rc;
}

static enum sl_err ask_coordinator(struct cli *cli, struct logs_wanted *l,
                                   struct sl_error *err)
{
    struct asker a = {.cli = cli, .l = l};
    enum sl_err rc = api_open(&a.api, cli->conf, err);

    if (rc == SL_OK)
        rc = go_round(&a, err);
    if (rc == SL_OK && conf_bool(cli->conf, "follow"))
        rc = logs_follow(&a, err);
    else if (rc == SL_OK && l->count == 0)
        rc = sl_fail(
            err, SL_ENOENT,
            "no daemon that answers has a line about %s among its newest "
            "lines; older lines are in the journal of each host, and `sluice "
            "events %s` prints the events that the coordinator knows",
            cli_arg(cli, 0), l->member == NULL ? cli_arg(cli, 0) : "");
    api_close(a.api);
    sl_free(a.sources);
    return rc;
}

// Returns true if logs are read from the files of a local cluster: no member is
// named to be asked.
static bool reads_files(const struct conf *conf, const char *dir)
{
    if (conf_bool(conf, "follow"))
        return false;
    if (conf_origin(conf, "dir") == CONF_FLAG)
        return true;
    return conf_origin(conf, "coordinator") != CONF_FLAG &&
           fs_exists(fs_posix(), dir);
}

int verb_logs(struct cli *cli)
{
    struct sl_error err = SL_ERROR_INIT;
    const char *of = cli_arg(cli, 0);
    char *dir = fs_join(conf_str(cli->conf, "dir"), "log");
    struct logs_wanted l = {.dir = dir};
    enum sl_err rc;

    if (!logs_parse_job(of, &l.job) || l.job == 0) {
        l.member = of;
        if (of[0] == '\0' || strchr(of, '/') != NULL ||
            strlen(of) > WIRE_NAME_BYTES) {
            sl_free(dir);
            return cli_usage(cli,
                             "'%.60s' is no job's id, as `sluice jobs` lists "
                             "it: j-1, and no name of a daemon: w-3",
                             of);
        }
    }
    if (dir == NULL)
        rc = sl_no_memory(&err);
    else if (reads_files(cli->conf, dir))
        rc = read_files(cli, &l, &err);
    else
        rc = ask_coordinator(cli, &l, &err);
    logs_forget_lines(&l);
    sl_free(l.lines);
    sl_free(dir);
    return rc == SL_OK ? CLI_EXIT_OK : cli_fail(&err);
}
