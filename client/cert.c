// SPDX-License-Identifier: Apache-2.0
// client/cert.c -- cert init: a private authority and a certificate per role.
//
// The openssl command makes them; nothing here is linked against it. Keys are
// P-256 and have mode 0600 from the first byte (umask). Every certificate
// names all hosts, so that any role may move between them, and its role as a
// SPIFFE URI, by which the daemons tell each other apart.
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli.h"
#include "client/command.h"
#include "client/verbs.h"
#include "common/base/fs.h"
#include "common/base/mem.h"

#define OPENSSL_MS 30000
#define CA_DAYS "3650"
#define CERT_DAYS "825"
#define PATH_BYTES 1024
#define HOST_BYTES 253

static const char *const roles[] = {"coordinator", "psserver", "worker",
                                    "client"};

static enum sl_err path_of(char out[PATH_BYTES], const char *dir,
                           const char *name, const char *ending,
                           struct sl_error *err)
{
    int n = snprintf(out, PATH_BYTES, "%s/%s%s", dir, name, ending);

    return n < PATH_BYTES ? SL_OK
                          : sl_fail(err, SL_EINVAL, "%s: too long", dir);
}

static enum sl_err openssl(const char *const *args, struct sl_error *err)
{
    enum sl_err rc = command_run(args, OPENSSL_MS, NULL, err);

    if (rc == SL_ENOENT)
        return sl_fail(err, rc,
                       "the openssl command is missing; install the "
                       "package openssl");
    return rc;
}

static enum sl_err make_key(const char *path, struct sl_error *err)
{
    const char *const args[] = {
        "openssl", "genpkey",  "-algorithm",
        "EC",      "-pkeyopt", "ec_paramgen_curve:P-256",
        "-out",    path,       NULL};

    return openssl(args, err);
}

static enum sl_err make_authority(const char *dir, struct sl_error *err)
{
    char key[PATH_BYTES], cert[PATH_BYTES];
    const char *const args[] = {"openssl",
                                "req",
                                "-x509",
                                "-new",
                                "-sha256",
                                "-key",
                                key,
                                "-days",
                                CA_DAYS,
                                "-subj",
                                "/CN=Sluice private authority",
                                "-addext",
                                "basicConstraints=critical,CA:TRUE",
                                "-addext",
                                "keyUsage=critical,keyCertSign,cRLSign",
                                "-out",
                                cert,
                                NULL};
    enum sl_err rc = path_of(key, dir, "ca", ".key", err);

    if (rc == SL_OK)
        rc = path_of(cert, dir, "ca", ".crt", err);
    if (rc == SL_OK)
        rc = make_key(key, err);
    return rc == SL_OK ? openssl(args, err) : rc;
}

// ---- one role

static bool is_ip(const char *host)
{
    uint8_t space[16];

    return inet_pton(AF_INET, host, space) == 1 ||
           inet_pton(AF_INET6, host, space) == 1;
}

// A host becomes part of an extension file: letters, digits, '.', '-', ':'
// and a leading "*." only.
static enum sl_err check_host(const char *host, struct sl_error *err)
{
    const char *rest = strncmp(host, "*.", 2) == 0 ? host + 2 : host;
    size_t n = strspn(rest, "abcdefghijklmnopqrstuvwxyz"
                            "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:");

    if (*rest == '\0' || rest[n] != '\0' || strlen(host) > HOST_BYTES)
        return sl_fail(err, SL_EINVAL, "--host %s: not a host name or address",
                       host);
    return SL_OK;
}

static enum sl_err extension_text(struct buf *out, const struct conf *conf,
                                  const char *role, struct sl_error *err)
{
    enum sl_err rc =
        buf_appendf(out,
                    "basicConstraints=critical,CA:FALSE\n"
                    "keyUsage=critical,digitalSignature\n"
                    "extendedKeyUsage=serverAuth,clientAuth\n"
                    "subjectAltName=URI:spiffe://sluice/%s,DNS:localhost,"
                    "IP:127.0.0.1,IP:::1",
                    role);

    for (size_t i = 0; rc == SL_OK && i < conf_list_count(conf, "host"); i++) {
        const char *host = conf_list_at(conf, "host", i);

        rc = check_host(host, err);
        if (rc != SL_OK)
            return rc;
        rc = buf_appendf(out, ",%s:%s", is_ip(host) ? "IP" : "DNS", host);
    }
    if (rc == SL_OK)
        rc = buf_append_char(out, '\n');
    return rc == SL_OK ? SL_OK : sl_fail(err, rc, "out of memory");
}

static enum sl_err sign(const char *dir, const char *role, const char *request,
                        const char *extensions, struct sl_error *err)
{
    char ca[PATH_BYTES], ca_key[PATH_BYTES], cert[PATH_BYTES];
    const char *const args[] = {"openssl",
                                "x509",
                                "-req",
                                "-sha256",
                                "-in",
                                request,
                                "-CA",
                                ca,
                                "-CAkey",
                                ca_key,
                                "-CAcreateserial",
                                "-days",
                                CERT_DAYS,
                                "-extfile",
                                extensions,
                                "-out",
                                cert,
                                NULL};
    enum sl_err rc = path_of(ca, dir, "ca", ".crt", err);

    if (rc == SL_OK)
        rc = path_of(ca_key, dir, "ca", ".key", err);
    if (rc == SL_OK)
        rc = path_of(cert, dir, role, ".crt", err);
    return rc == SL_OK ? openssl(args, err) : rc;
}

static enum sl_err make_role(const struct conf *conf, const char *dir,
                             const char *role, struct sl_error *err)
{
    char key[PATH_BYTES], request[PATH_BYTES], extensions[PATH_BYTES];
    char subject[64];
    const char *const args[] = {"openssl", "req",   "-new", "-key",  key,
                                "-subj",   subject, "-out", request, NULL};
    struct buf text = BUF_INIT;
    enum sl_err rc = path_of(key, dir, role, ".key", err);

    snprintf(subject, sizeof(subject), "/CN=sluice %s", role);
    if (rc == SL_OK)
        rc = path_of(request, dir, role, ".csr", err);
    if (rc == SL_OK)
        rc = path_of(extensions, dir, role, ".ext", err);
    if (rc == SL_OK)
        rc = extension_text(&text, conf, role, err);
    if (rc == SL_OK)
        rc = fs_write_durable(fs_posix(), extensions, text.data, text.len, err);
    if (rc == SL_OK) {
        rc = make_key(key, err);
        if (rc == SL_OK)
            rc = openssl(args, err);
        if (rc == SL_OK)
            rc = sign(dir, role, request, extensions, err);
        unlink(request);
        unlink(extensions);
    }
    buf_release(&text);
    return rc;
}

// ---- all of it

static enum sl_err init(const struct conf *conf, const char *dir,
                        struct sl_error *err)
{
    char serial[PATH_BYTES], ca[PATH_BYTES];
    enum sl_err rc = fs_mkdirs(fs_posix(), dir, err);

    if (rc == SL_OK)
        rc = path_of(ca, dir, "ca", ".key", err);
    if (rc == SL_OK)
        rc = path_of(serial, dir, "ca", ".srl", err);
    if (rc == SL_OK && fs_exists(fs_posix(), ca))
        rc = sl_fail(err, SL_EEXIST,
                     "%s exists: an authority is not replaced; "
                     "choose another folder",
                     ca);
    if (rc == SL_OK)
        rc = make_authority(dir, err);
    for (size_t i = 0; rc == SL_OK && i < SL_COUNT(roles); i++)
        rc = make_role(conf, dir, roles[i], err);
    if (rc == SL_OK)
        unlink(serial);
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

    for (size_t i = 0; rc == SL_OK && i < SL_COUNT(roles); i++)
        rc = buf_appendf(&text,
                         "  %-11s --tls-ca=%s/ca.crt --tls-cert=%s/"
                         "%s.crt --tls-key=%s/%s.key\n",
                         strcmp(roles[i], "client") == 0 ? "sluice" : roles[i],
                         dir, dir, roles[i], dir, roles[i]);
    return out_text(&text, rc, err);
}

int verb_cert(struct cli *cli)
{
    struct sl_error err = SL_ERROR_INIT;
    const char *dir = cli_arg(cli, 1);
    enum sl_err rc = SL_OK;

    if (strcmp(cli_arg(cli, 0), "init") != 0)
        return cli_usage(cli, "'%s' is not known; say: cert init DIR",
                         cli_arg(cli, 0));
    if (conf_list_count(cli->conf, "host") == 0)
        return cli_usage(cli, "name the hosts with --host NAME");
    for (size_t i = 0; i < conf_list_count(cli->conf, "host"); i++)
        if (rc == SL_OK)
            rc = check_host(conf_list_at(cli->conf, "host", i), &err);
    umask(077);
    if (rc == SL_OK)
        rc = init(cli->conf, dir, &err);
    if (rc == SL_OK)
        rc = cli->out.json ? out_json(json_pack("{s:s}", "folder", dir), &err)
                           : print_flags(dir, &err);
    return rc == SL_OK ? CLI_EXIT_OK : cli_fail(&err);
}
