// SPDX-License-Identifier: Apache-2.0
// client/cert/cert.c -- the verb cert: a private authority, a certificate per
// role, and more of them later.
//
// Those of `init` name all hosts and any name, so that a role may move between
// them. `issue` makes one for a single host, person or tenant. All bear their
// role in a URI (proto/access.h), by which the daemons tell each other apart.
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cert/cert_make.h"
#include "client/cli/cli.h"
#include "client/cli/verbs.h"
#include "common/base/fs.h"
#include "common/base/mem.h"
#include "common/base/utf8.h"
#include "proto/access.h"

#define FILE_BYTES 160

// The file of an admin's certificate is the one that sluice itself takes.
static const struct {
    const char *file;
    enum access_role role;
} first[] = {
    {"coordinator", ACCESS_COORDINATOR},
    {"psserver", ACCESS_PSSERVER},
    {"worker", ACCESS_WORKER},
    {"client", ACCESS_ADMIN},
};

// ---- init

static enum sl_err make_first(const struct conf *conf, const char *dir,
                              size_t i, struct sl_error *err)
{
    char uri[RPC_PEER_ID], subject[64];
    struct cert_wish wish = {.dir = dir,
                             .file = first[i].file,
                             .uri = uri,
                             .subject = subject,
                             .serves = true,
                             .conf = conf};
    enum sl_err rc = access_uri(uri, first[i].role, ACCESS_ANY, NULL, err);

    snprintf(subject, sizeof(subject), "sluice %s", first[i].file);
    return rc == SL_OK ? cert_make(&wish, err) : rc;
}

static enum sl_err init(const struct conf *conf, const char *dir,
                        struct sl_error *err)
{
    char *ca = fs_join(dir, "ca.key");
    enum sl_err rc =
        ca == NULL ? sl_no_memory(err) : fs_mkdirs(fs_posix(), dir, err);

    if (rc == SL_OK && fs_exists(fs_posix(), ca))
        rc = sl_fail(err, SL_EEXIST,
                     "%s exists: an authority is not replaced; "
                     "choose another folder, or add to it with `sluice cert "
                     "issue`",
                     ca);
    if (rc == SL_OK) {
        rc = cert_authority(dir, err);
        for (size_t i = 0; rc == SL_OK && i < SL_COUNT(first); i++)
            rc = make_first(conf, dir, i, err);
        if (rc != SL_OK)
            unlink(ca); // the next init makes an authority again
    }
    sl_free(ca);
    return rc;
}

static enum sl_err print_flags(const char *dir, struct sl_error *err)
{
    struct buf text = BUF_INIT;
    enum sl_err rc = buf_appendf(
        &text,
        "Made %s/ca.crt, ca.key and a certificate per role.\n"
        "Copy to each host ca.crt and the .crt and .key of the roles "
        "that run there;\nkeep ca.key off the hosts. Flags:\n",
        dir);

    for (size_t i = 0; rc == SL_OK && i < SL_COUNT(first); i++)
        rc = buf_appendf(&text,
                         "  %-11s --tls-ca=%s/ca.crt --tls-cert=%s/"
                         "%s.crt --tls-key=%s/%s.key\n",
                         first[i].role == ACCESS_ADMIN ? "sluice"
                                                       : first[i].file,
                         dir, dir, first[i].file, dir, first[i].file);
    return out_text(&text, rc, err);
}

static int cert_init(struct cli *cli, const char *dir)
{
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc;

    if (conf_list_count(cli->conf, "host") == 0)
        return cli_usage(cli, "name the hosts with --host NAME");
    rc = init(cli->conf, dir, &err);
    if (rc == SL_OK)
        rc = cli->out.json ? out_json(json_pack("{s:s}", "folder", dir), &err)
                           : print_flags(dir, &err);
    return rc == SL_OK ? CLI_EXIT_OK : cli_fail(&err);
}

// ---- those of later

// "worker-w7": the file of a role and a name.
static enum sl_err cert_role_file(char out[FILE_BYTES], const struct conf *conf,
                                  enum access_role *role, struct sl_error *err)
{
    const char *word = conf_str(conf, "role"), *name = conf_str(conf, "name");

    *role = access_role_of(word);
    if (*role == ACCESS_NOBODY)
        return sl_fail(err, SL_EINVAL,
                       "--role %.60s: say admin, submitter, viewer, worker, "
                       "psserver or coordinator",
                       word);
    if (name == NULL || strcmp(name, ACCESS_ANY) == 0)
        snprintf(out, FILE_BYTES, "%.40s", word);
    else
        snprintf(out, FILE_BYTES, "%.40s-%.100s", word, name);
    return strchr(out, '/') == NULL
               ? SL_OK
               : sl_fail(err, SL_EINVAL, "--name %.100s: no slashes", name);
}

static int print_file(struct cli *cli, const char *done, const char *dir,
                      const char *file, struct sl_error *err)
{
    struct buf text = BUF_INIT;
    enum sl_err rc;

    if (cli->out.json)
        rc =
            out_json(json_pack("{s:s, s:s}", "folder", dir, "file", file), err);
    else
        rc = out_text(
            &text, buf_appendf(&text, "%s %s/%s.crt\n", done, dir, file), err);
    return rc == SL_OK ? CLI_EXIT_OK : cli_fail(err);
}

static enum sl_err refuse_existing(const char *dir, const char *file,
                                   struct sl_error *err)
{
    char path[1024];

    snprintf(path, sizeof(path), "%s/%s.crt", dir, file);
    if (!fs_exists(fs_posix(), path))
        return SL_OK;
    return sl_fail(err, SL_EEXIST,
                   "%s exists: renew it, or revoke it first (sluice cert "
                   "--help)",
                   path);
}

static bool is_dialled(enum access_role role)
{
    return role == ACCESS_WORKER || role == ACCESS_PSSERVER ||
           role == ACCESS_COORDINATOR;
}

static int cert_issue(struct cli *cli, const char *dir)
{
    const char *name = conf_str(cli->conf, "name");
    char file[FILE_BYTES], uri[RPC_PEER_ID], subject[200];
    struct cert_wish wish = {.dir = dir,
                             .file = file,
                             .uri = uri,
                             .subject = subject,
                             .conf = cli->conf};
    struct sl_error err = SL_ERROR_INIT;
    enum access_role role;
    enum sl_err rc;

    if (conf_str(cli->conf, "role") == NULL || name == NULL)
        return cli_usage(cli, "say --role ROLE and --name NAME");
    rc = cert_role_file(file, cli->conf, &role, &err);
    if (rc == SL_OK)
        rc = access_uri(uri, role, name, conf_str(cli->conf, "tenant"), &err);
    if (rc == SL_OK)
        rc = refuse_existing(dir, file, &err);
    if (rc == SL_OK) {
        snprintf(subject, sizeof(subject), "sluice %s", file);
        wish.serves = is_dialled(role);
        rc = cert_make(&wish, &err);
    }
    return rc == SL_OK ? print_file(cli, "Made", dir, file, &err)
                       : cli_fail(&err);
}

struct renewal {
    const char *dir;
    size_t count;
    struct sl_error *err;
};

// Each certificate of the folder that is in use: its key lies beside it.
static enum sl_err renew_one(void *arg, const char *name)
{
    struct renewal *r = arg;
    char file[FILE_BYTES], key[1024];

    if (!utf8_ends_with(name, ".crt") || strcmp(name, ".crt") == 0 ||
        utf8_ends_with(name, ".revoked.crt") || strcmp(name, "ca.crt") == 0 ||
        strlen(name) >= sizeof(file))
        return SL_OK;
    snprintf(file, sizeof(file), "%.*s", (int)strlen(name) - 4, name);
    snprintf(key, sizeof(key), "%s/%s.key", r->dir, file);
    if (!fs_exists(fs_posix(), key))
        return SL_OK;
    r->count++;
    return cert_renew(r->dir, file, r->err);
}

static int renew_all(struct cli *cli, const char *dir)
{
    struct sl_error err = SL_ERROR_INIT;
    struct renewal r = {.dir = dir, .err = &err};
    enum sl_err rc = fs_list(fs_posix(), dir, renew_one, &r, &err);

    if (rc != SL_OK) {
        err.code = rc;
        return cli_fail(&err);
    }
    cli_say("sluice: %zu certificates renewed", r.count);
    return CLI_EXIT_OK;
}

static int cert_one(struct cli *cli, const char *dir, const char *done,
                    enum sl_err (*act)(const char *dir, const char *file,
                                       struct sl_error *err))
{
    struct sl_error err = SL_ERROR_INIT;
    char file[FILE_BYTES];
    enum access_role role;
    enum sl_err rc = cert_role_file(file, cli->conf, &role, &err);

    if (rc == SL_OK)
        rc = act(dir, file, &err);
    return rc == SL_OK ? print_file(cli, done, dir, file, &err)
                       : cli_fail(&err);
}

int verb_cert(struct cli *cli)
{
    const char *what = cli_arg(cli, 0), *dir = cli_arg(cli, 1);
    bool one = conf_str(cli->conf, "role") != NULL;
    struct sl_error err = SL_ERROR_INIT;

    for (size_t i = 0; i < conf_list_count(cli->conf, "host"); i++)
        if (cert_host_check(conf_list_at(cli->conf, "host", i), &err) != SL_OK)
            return cli_fail(&err);
    umask(077);
    if (strcmp(what, "init") == 0)
        return cert_init(cli, dir);
    if (strcmp(what, "issue") == 0)
        return cert_issue(cli, dir);
    if (strcmp(what, "renew") == 0 && conf_list_count(cli->conf, "host") > 0)
        return cli_usage(cli, "renew keeps the hosts; issue makes a new one");
    if (strcmp(what, "renew") == 0)
        return one ? cert_one(cli, dir, "Renewed", cert_renew)
                   : renew_all(cli, dir);
    if (strcmp(what, "revoke") != 0)
        return cli_usage(cli,
                         "'%s' is not known; say: cert init, issue, renew or "
                         "revoke DIR",
                         what);
    if (!one)
        return cli_usage(cli, "which one? Say --role ROLE and --name NAME");
    return cert_one(cli, dir, "Revoked", cert_revoke);
}
