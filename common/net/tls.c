// SPDX-License-Identifier: Apache-2.0
// common/net/tls.c -- reads certificate files, and says what is wrong with
// them.
//
// Core takes any text and reports a bad one as a failed handshake, in its
// log, later. So everything that can be known before is checked here.
#include "common/net/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "common/base/mem.h"
#include "common/net/tls_peer.h"

#define PEM_MAX_BYTES ((size_t)1 << 20)

static enum sl_err read_open_file(char **out, int fd, const char *path,
                                  struct sl_error *err)
{
    size_t n = 0;
    ssize_t got;
    char *text = sl_malloc(PEM_MAX_BYTES + 1);

    if (text == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory to read %s", path);
    while (n <= PEM_MAX_BYTES) {
        got = read(fd, text + n, PEM_MAX_BYTES + 1 - n);
        if (got == 0)
            break;
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            sl_free(text);
            return sl_fail(err, sl_err_from_errno(errno), "cannot read %s: %s",
                           path, strerror(errno));
        }
        n += (size_t)got;
    }
    if (n > PEM_MAX_BYTES) {
        explicit_bzero(text, n);
        sl_free(text);
        return sl_fail(err, SL_EINVAL, "%s is over 1 MiB: not a PEM file",
                       path);
    }
    text[n] = '\0';
    *out = text;
    return SL_OK;
}

static enum sl_err tls_read_file(char **out, const char *path, bool secret,
                                 struct sl_error *err)
{
    struct stat st;
    enum sl_err rc;
    int fd;

    if (path == NULL || path[0] == '\0')
        return sl_fail(err, SL_EINVAL,
                       "TLS needs three files: authority, certificate and key "
                       "(--tls-ca, --tls-cert, --tls-key)");
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return sl_fail(err, sl_err_from_errno(errno), "cannot open %s: %s",
                       path, strerror(errno));
    if (secret && fstat(fd, &st) == 0 && (st.st_mode & S_IROTH))
        rc = sl_fail(
            err, SL_EDENIED,
            "other users may read the private key %s; do `chmod 600 %s`", path,
            path);
    else
        rc = read_open_file(out, fd, path, err);
    close(fd);
    return rc;
}

static X509 *parse_cert(const char *text)
{
    BIO *bio = BIO_new_mem_buf(text, -1);
    X509 *cert = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;

    BIO_free(bio);
    return cert;
}

static int no_passphrase(char *out, int size, int writing, void *arg)
{
    (void)out, (void)size, (void)writing, (void)arg;
    return -1; // or OpenSSL would ask on the terminal
}

static EVP_PKEY *parse_key(const char *text)
{
    BIO *bio = BIO_new_mem_buf(text, -1);
    EVP_PKEY *key =
        bio ? PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL) : NULL;

    BIO_free(bio);
    return key;
}

static bool is_past(const X509 *cert)
{
    return X509_cmp_current_time(X509_get0_notAfter(cert)) < 0;
}

static bool is_future(const X509 *cert)
{
    return X509_cmp_current_time(X509_get0_notBefore(cert)) > 0;
}

static const char *day(char out[16], time_t t)
{
    struct tm tm;

    if (gmtime_r(&t, &tm) == NULL || strftime(out, 16, "%Y-%m-%d", &tm) == 0)
        snprintf(out, 16, "?");
    return out;
}

// Expired, or a clock that is wrong: only a human can tell, so both days are
// named.
static enum sl_err check_days(const X509 *cert, const char *file,
                              struct sl_error *err)
{
    char today[16], then[16];

    day(today, time(NULL));
    if (is_past(cert))
        return sl_fail(
            err, SL_EDENIED,
            "%s expired on %s, and this host's clock says %s: make "
            "a new one with `sluice cert`, or set the clock",
            file, day(then, tls_time_seconds(X509_get0_notAfter(cert))), today);
    if (is_future(cert))
        return sl_fail(err, SL_EDENIED,
                       "%s is not valid yet (from %s on), and this host's "
                       "clock says %s: is it right?",
                       file,
                       day(then, tls_time_seconds(X509_get0_notBefore(cert))),
                       today);
    return SL_OK;
}

// Checks that one authority of the file is valid today: while an authority is
// replaced, the file has the old one and the new one.
static enum sl_err check_authorities(const char *text, const char *file,
                                     struct sl_error *err)
{
    BIO *bio = BIO_new_mem_buf(text, -1);
    enum sl_err rc =
        sl_fail(err, SL_EINVAL, "%s holds no certificate in PEM", file);
    X509 *cert;

    while (rc != SL_OK && bio != NULL &&
           (cert = PEM_read_bio_X509(bio, NULL, NULL, NULL)) != NULL) {
        rc = check_days(cert, file, err);
        X509_free(cert);
    }
    BIO_free(bio);
    if (rc == SL_OK && err != NULL)
        *err = (struct sl_error)SL_ERROR_INIT;
    return rc;
}

static enum sl_err check_pair(const X509 *cert, EVP_PKEY *key,
                              const struct rpc_tls *tls, struct sl_error *err)
{
    if (cert == NULL)
        return sl_fail(err, SL_EINVAL, "%s holds no certificate in PEM",
                       tls->cert_file);
    if (key == NULL)
        return sl_fail(err, SL_EINVAL,
                       "%s holds no private key in PEM, or one with a "
                       "passphrase",
                       tls->key_file);
    if (X509_check_private_key(cert, key) != 1)
        return sl_fail(
            err, SL_EINVAL,
            "the private key in %s does not belong to the certificate in %s",
            tls->key_file, tls->cert_file);
    return check_days(cert, tls->cert_file, err);
}

static enum sl_err tls_pem_check(struct tls_pem *pem, const struct rpc_tls *tls,
                                 struct sl_error *err)
{
    X509 *cert = parse_cert(pem->cert);
    EVP_PKEY *key = parse_key(pem->key);
    enum sl_err rc = check_pair(cert, key, tls, err);

    if (rc == SL_OK)
        rc = check_authorities(pem->ca, tls->ca_file, err);
    if (rc == SL_OK)
        pem->ends = tls_time_seconds(X509_get0_notAfter(cert));
    X509_free(cert);
    EVP_PKEY_free(key);
    ERR_clear_error();
    return rc;
}

enum sl_err tls_load(struct tls_pem *out, const struct rpc_tls *tls,
                     struct sl_error *err)
{
    struct tls_pem pem = {.ca = NULL};
    enum sl_err rc = tls_read_file(&pem.ca, tls->ca_file, false, err);

    if (rc == SL_OK)
        rc = tls_read_file(&pem.cert, tls->cert_file, false, err);
    if (rc == SL_OK)
        rc = tls_read_file(&pem.key, tls->key_file, true, err);
    if (rc == SL_OK)
        rc = tls_pem_check(&pem, tls, err);
    if (rc == SL_OK && tls->crl_file != NULL)
        rc = tls_read_file(&pem.crl, tls->crl_file, false, err);
    if (rc == SL_OK && pem.crl != NULL)
        rc = tls_check_crl(pem.crl, pem.ca, tls->crl_file, &pem.crl_ends, err);
    if (rc != SL_OK) {
        tls_pem_release(&pem);
        return rc;
    }
    *out = pem;
    return SL_OK;
}

void tls_pem_release(struct tls_pem *pem)
{
    if (pem->key != NULL)
        explicit_bzero(pem->key, strlen(pem->key));
    sl_free(pem->key);
    sl_free(pem->cert);
    sl_free(pem->ca);
    sl_free(pem->crl);
    pem->ca = pem->cert = pem->key = pem->crl = NULL;
}

// ---- settings

const struct conf_key tls_keys[] = {
    {.name = "tls-ca",
     .kind = CONF_STRING,
     .help = "PEM file of the authority that signs all certificates."},
    {.name = "tls-cert",
     .kind = CONF_STRING,
     .help = "PEM file of this daemon's certificate."},
    {.name = "tls-key",
     .kind = CONF_STRING,
     .help = "PEM file of its key; other users must not be able to read it."},
    {.name = NULL},
};

enum sl_err tls_read_conf(struct rpc_tls *out, const struct conf *conf,
                          struct sl_error *err)
{
    struct rpc_tls tls = {.ca_file = conf_str(conf, "tls-ca"),
                          .cert_file = conf_str(conf, "tls-cert"),
                          .key_file = conf_str(conf, "tls-key")};
    int said = (tls.ca_file != NULL) + (tls.cert_file != NULL) +
               (tls.key_file != NULL);

    if (said != 0 && said != 3)
        return sl_fail(err, SL_EINVAL,
                       "TLS needs all of --tls-ca, --tls-cert and --tls-key; "
                       "`sluice cert init` makes them");
    *out = tls;
    return SL_OK;
}

const struct conf_key tls_crl_keys[] = {
    {.name = "tls-crl",
     .kind = CONF_STRING,
     .help = "PEM file of certificates that the authority has revoked (`sluice "
             "cert revoke`); a peer that shows one is refused."},
    {.name = NULL},
};

enum sl_err tls_read_crl_conf(struct rpc_tls *tls, const struct conf *conf,
                              struct sl_error *err)
{
    const char *file = conf_str(conf, "tls-crl");

    if (file != NULL && tls->ca_file == NULL)
        return sl_fail(err, SL_EINVAL,
                       "--tls-crl needs --tls-ca, --tls-cert and --tls-key");
    tls->crl_file = file;
    return SL_OK;
}

// ---- the transport's words

const char *tls_explain(const char *text)
{
    static const struct {
        const char *word, *meaning;
    } table[] = {
        {"alert certificate expired",
         "the peer says that our certificate has expired: replace it, or set "
         "the clock of the host that is wrong"},
        {"certificate verify failed",
         "the peer's certificate is not accepted here: it has expired, is not "
         "valid yet by this host's clock, or is not of the authority in "
         "--tls-ca"},
        {"alert unknown ca",
         "the peer does not know the authority of our certificate (its "
         "--tls-ca)"},
        {"alert bad certificate", "the peer does not accept our certificate"},
        {"did not return a certificate", "the peer shows no certificate"},
        {"alert certificate required",
         "the peer wants a certificate (--tls-cert, --tls-key)"},
        {"No match found for server name",
         "the peer's certificate is not for this address: make one with "
         "`sluice cert init --host`"},
        {"wrong version number", "the peer does not speak TLS"},
        {"not in peer certificate",
         "the peer's certificate is not for this address: make one with "
         "`sluice cert init --host`"},
    };

    const char *ours = strstr(text, TLS_NOT_WHOM);

    if (ours != NULL)
        return ours;
    for (size_t i = 0; i < SL_COUNT(table); i++) {
        if (strstr(text, table[i].word) != NULL)
            return table[i].meaning;
    }
    // All that a client of TLS 1.3 hears when it is refused.
    if (strstr(text, "failed to connect") != NULL &&
        strstr(text, "Socket closed") != NULL)
        return "the peer hung up before the connection stood: it is ending, "
               "does not accept our certificate (its log says why), or only "
               "one side uses TLS";
    return NULL;
}
