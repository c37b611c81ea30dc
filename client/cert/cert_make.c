// SPDX-License-Identifier: Apache-2.0
// client/cert/cert_make.c -- the commands that make, sign and revoke
// certificates.
//
// The openssl command makes them; nothing here is linked against it. Keys are
// P-256 and have mode 0600 from the first byte (umask).
#include "client/cert/cert_make.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/cli/command.h"
#include "common/base/buf.h"
#include "common/base/fs.h"

#define OPENSSL_MS 30000
#define CA_DAYS "3650"
#define CERT_DAYS "825"
#define CRL_DAYS "3650"
#define PATH_BYTES 1024
#define HOST_BYTES 253
#define LIST_BYTES ((size_t)16 << 20)

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

static enum sl_err cert_make_key(const char *path, struct sl_error *err)
{
    const char *const args[] = {
        "openssl", "genpkey",  "-algorithm",
        "EC",      "-pkeyopt", "ec_paramgen_curve:P-256",
        "-out",    path,       NULL};

    return openssl(args, err);
}

enum sl_err cert_authority(const char *dir, struct sl_error *err)
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
    if (rc != SL_OK)
        return rc;
    rc = cert_make_key(key, err); // which may leave a part of one
    if (rc == SL_OK)
        rc = openssl(args, err);
    if (rc != SL_OK)
        unlink(key); // by its key the authority is known to exist
    return rc;
}

// ---- one role

static bool is_ip(const char *host)
{
    uint8_t space[16];

    return inet_pton(AF_INET, host, space) == 1 ||
           inet_pton(AF_INET6, host, space) == 1;
}

static bool looks_like_ip(const char *host)
{
    const char *last = strrchr(host, '.');

    last = last != NULL ? last + 1 : host;
    return strchr(host, ':') != NULL ||
           last[strspn(last, "0123456789")] == '\0';
}

// A host becomes part of an extension file: letters, digits, '.', '-', ':'
// and a leading "*." only.
enum sl_err cert_host_check(const char *host, struct sl_error *err)
{
    const char *rest = strncmp(host, "*.", 2) == 0 ? host + 2 : host;
    size_t n = strspn(rest, "abcdefghijklmnopqrstuvwxyz"
                            "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:");

    if (*rest == '\0' || rest[n] != '\0' || strlen(host) > HOST_BYTES)
        return sl_fail(err, SL_EINVAL, "--host %s: not a host name or address",
                       host);
    // No name ends in digits alone, or has a colon (RFC 3696): it was meant to
    // be an address, and no peer would ever match it.
    if (!is_ip(host) && looks_like_ip(rest))
        return sl_fail(err, SL_EINVAL, "--host %s: no such IP address", host);
    return SL_OK;
}

// Lists the host names of a daemon that others dial, which is a client too.
static enum sl_err host_text(struct buf *out, const struct conf *conf,
                             struct sl_error *err)
{
    enum sl_err rc = buf_append_str(out, ",DNS:localhost,IP:127.0.0.1,IP:::1");

    for (size_t i = 0; rc == SL_OK && i < conf_list_count(conf, "host"); i++) {
        const char *host = conf_list_at(conf, "host", i);

        rc = cert_host_check(host, err);
        if (rc == SL_OK)
            rc = buf_appendf(out, ",%s:%s", is_ip(host) ? "IP" : "DNS", host);
    }
    return rc;
}

static enum sl_err extension_text(struct buf *out, const struct cert_wish *wish,
                                  struct sl_error *err)
{
    enum sl_err rc = buf_appendf(out,
                                 "basicConstraints=critical,CA:FALSE\n"
                                 "keyUsage=critical,digitalSignature\n"
                                 "extendedKeyUsage=%sclientAuth\n"
                                 "subjectAltName=URI:%s",
                                 wish->serves ? "serverAuth," : "", wish->uri);

    if (rc == SL_OK && wish->serves)
        rc = host_text(out, wish->conf, err);
    return rc == SL_OK ? buf_append_char(out, '\n') : rc;
}

// `args` are the command's, up to -CA; the new certificate is FILE.crt.
static enum sl_err cert_sign(const char *dir, const char *file,
                             const char *const *args, size_t count,
                             struct sl_error *err)
{
    char ca[PATH_BYTES], ca_key[PATH_BYTES], serial[PATH_BYTES];
    char cert[PATH_BYTES], fresh[PATH_BYTES];
    const char *all[32] = {"openssl", "x509", "-sha256"};
    const char *const rest[] = {
        "-CA",       ca,     "-CAkey", ca_key,    "-CAcreateserial",
        "-CAserial", serial, "-days",  CERT_DAYS, "-out",
        fresh};
    size_t n = 3;
    enum sl_err rc = path_of(ca, dir, "ca", ".crt", err);

    for (size_t i = 0; i < count; i++)
        all[n++] = args[i];
    for (size_t i = 0; i < SL_COUNT(rest); i++)
        all[n++] = rest[i];
    if (rc == SL_OK)
        rc = path_of(ca_key, dir, "ca", ".key", err);
    if (rc == SL_OK)
        rc = path_of(serial, dir, file, ".srl", err);
    if (rc == SL_OK)
        rc = path_of(fresh, dir, file, ".new", err);
    if (rc == SL_OK)
        rc = path_of(cert, dir, file, ".crt", err);
    if (rc != SL_OK)
        return rc;
    rc = openssl(all, err);
    if (rc == SL_OK)
        rc = fs_rename(fs_posix(), fresh, cert, err);
    if (rc != SL_OK)
        unlink(fresh);
    unlink(serial); // each certificate has a random one
    return rc;
}

static enum sl_err request_and_sign(const struct cert_wish *wish,
                                    const char *key, const char *request,
                                    const char *extensions,
                                    struct sl_error *err)
{
    char subject[200];
    const char *const ask[] = {"openssl", "req",   "-new", "-key",  key,
                               "-subj",   subject, "-out", request, NULL};
    const char *const args[] = {"-req", "-in", request, "-extfile", extensions};
    enum sl_err rc = cert_make_key(key, err);

    snprintf(subject, sizeof(subject), "/CN=%.64s", wish->subject);
    if (rc == SL_OK)
        rc = openssl(ask, err);
    return rc == SL_OK
               ? cert_sign(wish->dir, wish->file, args, SL_COUNT(args), err)
               : rc;
}

enum sl_err cert_make(const struct cert_wish *wish, struct sl_error *err)
{
    char key[PATH_BYTES], request[PATH_BYTES], extensions[PATH_BYTES];
    struct buf text = BUF_INIT;
    enum sl_err rc = path_of(key, wish->dir, wish->file, ".key", err);

    if (rc == SL_OK)
        rc = path_of(request, wish->dir, wish->file, ".csr", err);
    if (rc == SL_OK)
        rc = path_of(extensions, wish->dir, wish->file, ".ext", err);
    if (rc == SL_OK)
        rc = extension_text(&text, wish, err);
    if (rc == SL_OK)
        rc = fs_write_durable(fs_posix(), extensions, text.data, text.len, err);
    if (rc == SL_OK) {
        rc = request_and_sign(wish, key, request, extensions, err);
        if (rc != SL_OK)
            unlink(key); // a key without a certificate
        unlink(request);
        unlink(extensions);
    }
    buf_release(&text);
    return rc;
}

// ---- one that exists

static enum sl_err existing(char out[PATH_BYTES], const char *dir,
                            const char *file, struct sl_error *err)
{
    enum sl_err rc = path_of(out, dir, file, ".crt", err);

    if (rc == SL_OK && !fs_exists(fs_posix(), out))
        rc = sl_fail(err, SL_ENOENT, "there is no %s", out);
    return rc;
}

enum sl_err cert_renew(const char *dir, const char *file, struct sl_error *err)
{
    char cert[PATH_BYTES], key[PATH_BYTES], request[PATH_BYTES];
    const char *const ask[] = {"openssl", "x509",     "-x509toreq",
                               "-in",     cert,       "-copy_extensions",
                               "copyall", "-signkey", key,
                               "-out",    request,    NULL};
    const char *const args[] = {"-req", "-in", request, "-copy_extensions",
                                "copyall"};
    enum sl_err rc = existing(cert, dir, file, err);

    if (rc == SL_OK)
        rc = path_of(key, dir, file, ".key", err);
    if (rc == SL_OK)
        rc = path_of(request, dir, file, ".csr", err);
    if (rc == SL_OK) {
        rc = openssl(ask, err);
        if (rc == SL_OK)
            rc = cert_sign(dir, file, args, SL_COUNT(args), err);
        unlink(request);
    }
    return rc;
}

// ---- revocation: openssl's list of certificates has those that are revoked

static enum sl_err serial_of(struct buf *out, const char *cert,
                             struct sl_error *err)
{
    const char *const args[] = {"openssl", "x509", "-noout", "-serial",
                                "-in",     cert,   NULL};
    struct buf text = BUF_INIT;
    enum sl_err rc = command_run(args, OPENSSL_MS, &text, err);
    const char *at = rc == SL_OK ? strchr(buf_text(&text), '=') : NULL;

    if (rc == SL_OK && at == NULL)
        rc = sl_fail(err, SL_ECORRUPT, "%s has no serial number", cert);
    if (rc == SL_OK)
        rc = buf_append(out, at + 1, strspn(at + 1, "0123456789ABCDEF"));
    if (rc == SL_OK && out->len == 0)
        rc = sl_fail(err, SL_ECORRUPT, "%s has a negative serial number", cert);
    buf_release(&text);
    return rc;
}

static bool is_listed(const char *list, const char *serial)
{
    size_t n = strlen(serial);

    for (const char *at = list; (at = strstr(at, serial)) != NULL; at++)
        if (at > list && at[-1] == '\t' && at[n] == '\t')
            return true;
    return false;
}

// Adds a serial number to the list, unless it is there: the call before could
// not make the revocation list of it. A line of `openssl ca`: state, end, when
// it was revoked, serial, file, name.
static enum sl_err cert_add_revoked(const char *list, const char *serial,
                                    struct sl_error *err)
{
    struct buf text = BUF_INIT;
    time_t now = time(NULL);
    char when[16] = "";
    struct tm tm;
    enum sl_err rc = SL_OK;

    if (fs_exists(fs_posix(), list))
        rc = fs_read_all(fs_posix(), list, LIST_BYTES, &text, err);
    if (rc == SL_OK && is_listed(buf_text(&text), serial)) {
        buf_release(&text);
        return SL_OK;
    }
    if (gmtime_r(&now, &tm) != NULL)
        strftime(when, sizeof(when), "%y%m%d%H%M%SZ", &tm);
    if (rc == SL_OK)
        rc = buf_appendf(&text, "R\t491231235959Z\t%s\t%s\tunknown\t/CN=%s\n",
                         when, serial, serial);
    if (rc == SL_OK)
        rc = fs_write_durable(fs_posix(), list, text.data, text.len, err);
    buf_release(&text);
    return rc;
}

static enum sl_err write_settings(const char *path, const char *list,
                                  struct sl_error *err)
{
    struct buf text = BUF_INIT;
    enum sl_err rc;

    if (strpbrk(list, "$\\#\"'\n") != NULL)
        return sl_fail(err, SL_EINVAL,
                       "%s: a folder without $ \\ # and quotes, please", list);
    rc = buf_appendf(&text,
                     "[ca]\ndefault_ca=sluice\n[sluice]\ndatabase=%s\n"
                     "default_md=sha256\n",
                     list);
    if (rc == SL_OK)
        rc = fs_write_durable(fs_posix(), path, text.data, text.len, err);
    buf_release(&text);
    return rc;
}

static enum sl_err make_list(const char *dir, const char *list,
                             struct sl_error *err)
{
    char ca[PATH_BYTES], key[PATH_BYTES], settings[PATH_BYTES];
    char fresh[PATH_BYTES], crl[PATH_BYTES];
    const char *const args[] = {"openssl",  "ca",     "-gencrl",  "-batch",
                                "-config",  settings, "-cert",    ca,
                                "-keyfile", key,      "-crldays", CRL_DAYS,
                                "-out",     fresh,    NULL};
    enum sl_err rc = path_of(ca, dir, "ca", ".crt", err);

    if (rc == SL_OK)
        rc = path_of(key, dir, "ca", ".key", err);
    if (rc == SL_OK)
        rc = path_of(settings, dir, "ca", ".cnf", err);
    if (rc == SL_OK)
        rc = path_of(fresh, dir, "ca", ".new", err);
    if (rc == SL_OK)
        rc = path_of(crl, dir, "ca", ".crl", err);
    if (rc == SL_OK)
        rc = write_settings(settings, list, err);
    if (rc == SL_OK) {
        rc = openssl(args, err);
        if (rc == SL_OK)
            rc = fs_rename(fs_posix(), fresh, crl, err);
        if (rc != SL_OK)
            unlink(fresh);
        unlink(settings);
    }
    return rc;
}

enum sl_err cert_revoke(const char *dir, const char *file, struct sl_error *err)
{
    char cert[PATH_BYTES], gone[PATH_BYTES], list[PATH_BYTES];
    struct buf serial = BUF_INIT;
    enum sl_err rc = existing(cert, dir, file, err);

    if (rc == SL_OK)
        rc = path_of(gone, dir, file, ".revoked.crt", err);
    if (rc == SL_OK)
        rc = path_of(list, dir, "revoked", ".txt", err);
    if (rc == SL_OK)
        rc = serial_of(&serial, cert, err);
    if (rc == SL_OK)
        rc = cert_add_revoked(list, buf_text(&serial), err);
    if (rc == SL_OK)
        rc = make_list(dir, list, err);
    if (rc == SL_OK)
        rc = fs_rename(fs_posix(), cert, gone, err);
    buf_release(&serial);
    return rc;
}
