// SPDX-License-Identifier: Apache-2.0
// client/up/run.c -- becomes the daemon that this process is to be, as its
// launcher says.
#include "client/up/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/up/child.h"
#include "client/cli/cli.h"
#include "client/cli/verbs.h"
#include "common/base/mem.h"
#include "common/base/utf8.h"
#include "host/daemon/discover.h"

#define MORE_ARGS 30 // words after "--"

struct run_start {
    struct cli *cli;
    struct launch_plan plan;
    char *dir;                 // absolute; owned
    struct child self, beside; // arguments; of the coordinator beside a worker
};

// ---- what is asked

static enum sl_err run_find_plan(struct run_start *r, struct sl_error *err)
{
    const struct conf *c = r->cli->conf;
    char host[DISCOVER_HOST];
    struct launch_asked asked;

    discover_asked(&asked, c, launch_role_of(conf_str(c, "role")), host);
    asked.psservers = (unsigned)conf_int(c, "psservers");
    if (conf_origin(c, "coordinator") != CONF_DEFAULT)
        asked.coordinator = conf_str(c, "coordinator");
    return launch_find(&r->plan, &asked, err);
}

// ---- arguments

// What the daemon hears from the environment by itself is not overruled.
static bool heard(const char *key)
{
    char name[64] = "SLUICE_";
    size_t n = strlen(name);

    for (; *key != '\0' && n < sizeof(name) - 1; key++)
        name[n++] = (char)(*key == '-' ? '_' : *key - 'a' + 'A');
    name[n] = '\0';
    return getenv(name) != NULL;
}

static enum sl_err run_add_option(struct child *c, const char *key,
                                  const char *value)
{
    return heard(key) ? SL_OK : child_arg(c, "--%s=%s", key, value);
}

// In one folder, as `sluice up` has it: state of each by its name, and
// checkpoints of all.
static enum sl_err tell_folders(struct run_start *r, struct child *c,
                                enum launch_role role, const char *name)
{
    const char *dir = r->dir;
    enum sl_err rc = SL_OK;

    if (role != LAUNCH_WORKER && !heard("state"))
        rc = child_arg(c, "--state=%s/%s", dir, name);
    if (rc == SL_OK && !heard("store"))
        rc = child_arg(c, "--store=%s/checkpoints", dir);
    return rc;
}

// Adds the role's TLS files: those in the folder --certs, else the options'.
static enum sl_err tell_tls(struct run_start *r, struct child *c,
                            enum launch_role role)
{
    static const char *const keys[] = {"tls-ca", "tls-cert", "tls-key"};
    const char *dir = conf_str(r->cli->conf, "certs");
    const char *name = launch_role_name(role);
    enum sl_err rc = SL_OK;

    if (dir != NULL) {
        rc = child_arg(c, "--tls-ca=%s/ca.crt", dir);
        if (rc == SL_OK)
            rc = child_arg(c, "--tls-cert=%s/%s.crt", dir, name);
        return rc == SL_OK ? child_arg(c, "--tls-key=%s/%s.key", dir, name)
                           : rc;
    }

    for (size_t i = 0; rc == SL_OK && i < SL_COUNT(keys); i++)
        if (conf_is_set(r->cli->conf, keys[i]))
            rc = child_arg(c, "--%s=%s", keys[i],
                           conf_str(r->cli->conf, keys[i]));
    return rc;
}

// The program, and what all daemons are told.
static enum sl_err run_begin_args(struct run_start *r, struct child *c,
                                  enum launch_role role, const char *name,
                                  struct sl_error *err)
{
    char path[PATH_MAX];
    enum sl_err rc = child_program(path, launch_role_name(role), err);

    if (rc == SL_OK)
        rc = child_arg(c, "%s", path);
    if (rc == SL_OK) // or a SLUICE_DISCOVER that was meant for us
        rc = child_arg(c, "--discover=static");
    if (rc == SL_OK)
        rc = run_add_option(c, "node", name);
    if (rc == SL_OK)
        rc = tell_folders(r, c, role, name);
    return rc == SL_OK ? tell_tls(r, c, role) : rc;
}

static enum sl_err make_self(struct run_start *r, struct sl_error *err)
{
    struct launch_setting told[LAUNCH_SETTINGS];
    unsigned n = launch_settings(told, &r->plan);
    enum sl_err rc =
        run_begin_args(r, &r->self, r->plan.role, r->plan.name, err);

    for (unsigned i = 0; rc == SL_OK && i < n; i++)
        rc = strcmp(told[i].key, "coordinator") == 0
                 ? child_arg(&r->self, "--coordinator=%s", told[i].value)
                 : run_add_option(&r->self, told[i].key, told[i].value);
    for (size_t i = 0; rc == SL_OK && i < conf_arg_count(r->cli->conf); i++)
        rc = child_arg(&r->self, "%s", conf_arg(r->cli->conf, i));
    return rc;
}

static enum sl_err make_beside(struct run_start *r, struct sl_error *err)
{
    enum sl_err rc =
        run_begin_args(r, &r->beside, LAUNCH_COORDINATOR, "coordinator", err);

    return rc == SL_OK ? child_arg(&r->beside, "--listen=%s", r->plan.serve)
                       : rc;
}

// The folder need not be there yet, so that realpath is no help.
static enum sl_err find_folder(struct run_start *r, struct sl_error *err)
{
    const char *dir = conf_str(r->cli->conf, "dir");
    struct buf path = BUF_INIT;
    char here[PATH_MAX] = "";
    enum sl_err rc;

    if (dir[0] != '/' && getcwd(here, sizeof(here)) == NULL)
        return sl_fail(err, sl_err_from_errno(errno), "this folder: %s",
                       strerror(errno));
    rc = buf_appendf(&path, "%s%s%s", here, here[0] != '\0' ? "/" : "", dir);
    r->dir = (char *)buf_detach(&path, NULL);
    return rc;
}

static enum sl_err run_make_children(struct run_start *r, struct sl_error *err)
{
    enum sl_err rc;

    if (r->plan.role == LAUNCH_EVALUATOR)
        return SL_OK;
    rc = find_folder(r, err);
    if (rc == SL_OK)
        rc = make_self(r, err);
    if (rc == SL_OK && r->plan.serve[0] != '\0')
        rc = make_beside(r, err);
    if (rc == SL_ENOMEM)
        sl_fail(err, rc, "out of memory");
    return rc;
}

// ---- what becomes of it

static enum sl_err print_words(struct buf *out, const struct child *c)
{
    enum sl_err rc = SL_OK;

    if (c->args_count > 0)
        rc = buf_appendf(out, "%-17s", "starts");
    for (unsigned i = 0; rc == SL_OK && i < c->args_count; i++)
        rc = buf_appendf(out, " %s", c->args[i]);
    return rc == SL_OK && c->args_count > 0 ? buf_append_char(out, '\n') : rc;
}

// Appends the words that start a process, if there are any.
static enum sl_err run_append_args(json_t *list, const struct child *c,
                                   struct sl_error *err)
{
    json_t *words = json_array();
    enum sl_err rc = SL_OK;

    for (unsigned i = 0; rc == SL_OK && i < c->args_count; i++) {
        if (!utf8_valid(c->args[i], strlen(c->args[i])))
            rc = sl_fail(err, SL_EINVAL,
                         "word %u of what is started is no UTF-8, which JSON "
                         "cannot say: leave out -o json",
                         i + 1);
        else if (json_array_append_new(words, json_string(c->args[i])) != 0)
            rc = sl_no_memory(err);
    }
    if (rc == SL_OK && c->args_count > 0 && json_array_append(list, words) != 0)
        rc = sl_no_memory(err);
    json_decref(words);
    return rc;
}

static enum sl_err run_print_json(const struct run_start *r,
                                  struct sl_error *err)
{
    json_t *json = launch_json(&r->plan), *starts = json_array();
    enum sl_err rc = run_append_args(starts, &r->beside, err);

    if (rc == SL_OK)
        rc = run_append_args(starts, &r->self, err);
    if (rc == SL_OK && json_object_set(json, "starts", starts) != 0)
        rc = sl_no_memory(err);
    json_decref(starts);
    if (rc == SL_OK)
        return out_json(json, err);
    json_decref(json);
    return rc;
}

static int run_print_plan(const struct run_start *r)
{
    struct sl_error err = SL_ERROR_INIT;
    struct buf text = BUF_INIT;
    enum sl_err rc;

    if (r->cli->out.json) {
        rc = run_print_json(r, &err);
    } else {
        rc = launch_text(&text, &r->plan);
        if (rc == SL_OK)
            rc = print_words(&text, &r->beside);
        if (rc == SL_OK)
            rc = print_words(&text, &r->self);
        rc = out_text(&text, rc, &err);
    }
    return rc == SL_OK ? CLI_EXIT_OK : cli_fail(&err);
}

static int run_exec(const struct run_start *r)
{
    struct sl_error err = SL_ERROR_INIT;
    struct buf line = BUF_INIT;

    if (launch_line(&line, &r->plan) == SL_OK)
        cli_say("sluice run: %s", buf_text(&line));
    buf_release(&line);
    if (r->plan.notes[0] != '\0')
        cli_say("sluice run: %s", r->plan.notes);
    if (r->plan.role == LAUNCH_EVALUATOR) {
        cli_say("sluice run: nothing to start: workers evaluate, as the job "
                "says");
        return CLI_EXIT_OK;
    }
    if (r->beside.args_count > 0 && run_beside(r->beside.args, &err) != SL_OK)
        return cli_fail(&err);
    execv(r->self.args[0], r->self.args);
    cli_say("sluice run: %s: %s", r->self.args[0], strerror(errno));
    return CLI_EXIT_FAILED;
}

int verb_run(struct cli *cli)
{
    struct run_start r = {.cli = cli};
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc;
    int code;

    if (conf_arg_count(cli->conf) > MORE_ARGS)
        return cli_usage(cli, "the command after -- has more than %d words",
                         MORE_ARGS);
    rc = run_find_plan(&r, &err);
    if (rc == SL_OK)
        rc = run_make_children(&r, &err);
    if (rc == SL_OK && conf_bool(cli->conf, "discover-only"))
        code = run_print_plan(&r);
    else if (rc == SL_OK)
        code = run_exec(&r);
    else if (rc == SL_ENOENT) // it is no question of what exists
        code = cli_usage(cli, "%s", err.text);
    else
        code = cli_fail(&err);
    child_release(&r.self);
    child_release(&r.beside);
    sl_free(r.dir);
    return code;
}
