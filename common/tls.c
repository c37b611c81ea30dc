// SPDX-License-Identifier: Apache-2.0
// common/tls.c -- reads certificate files, and says what is wrong with them.
//
// Core takes any text and reports a bad one as a failed handshake, in its
// log, later. So everything that can be known at the start is checked here.
#include "common/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "common/mem.h"

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

static enum sl_err read_file(char **out, const char *path, bool secret,
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
        rc = sl_fail(err, SL_EDENIED,
                     "%s is a private key that everybody may read; do `chmod "
                     "600 %s`",
                     path, path);
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
        return sl_fail(err, SL_EINVAL, "%s is not the key of %s", tls->key_file,
                       tls->cert_file);
    if (X509_cmp_current_time(X509_get0_notAfter(cert)) < 0)
        return sl_fail(err, SL_EDENIED,
                       "%s has expired; make a new one with `sluice cert`",
                       tls->cert_file);
    if (X509_cmp_current_time(X509_get0_notBefore(cert)) > 0)
        return sl_fail(err, SL_EDENIED,
                       "%s is not valid yet: is this machine's clock right?",
                       tls->cert_file);
    return SL_OK;
}

static enum sl_err check(const struct tls_pem *pem, const struct rpc_tls *tls,
                         struct sl_error *err)
{
    X509 *ca = parse_cert(pem->ca), *cert = parse_cert(pem->cert);
    EVP_PKEY *key = parse_key(pem->key);
    enum sl_err rc = check_pair(cert, key, tls, err);

    if (rc == SL_OK && ca == NULL)
        rc = sl_fail(err, SL_EINVAL, "%s holds no certificate in PEM",
                     tls->ca_file);
    X509_free(ca);
    X509_free(cert);
    EVP_PKEY_free(key);
    ERR_clear_error();
    return rc;
}

enum sl_err tls_load(struct tls_pem *out, const struct rpc_tls *tls,
                     struct sl_error *err)
{
    struct tls_pem pem = {NULL, NULL, NULL};
    enum sl_err rc = read_file(&pem.ca, tls->ca_file, false, err);

    if (rc == SL_OK)
        rc = read_file(&pem.cert, tls->cert_file, false, err);
    if (rc == SL_OK)
        rc = read_file(&pem.key, tls->key_file, true, err);
    if (rc == SL_OK)
        rc = check(&pem, tls, err);
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
    pem->ca = pem->cert = pem->key = NULL;
}
