// SPDX-License-Identifier: Apache-2.0
// common/net/tls_bearer.c -- tokens that are signed by a certificate's key.
#include "common/net/tls_bearer.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include "common/base/base64.h"
#include "common/base/mem.h"
#include "common/net/tls.h"
#include "common/net/tls_peer.h"

#define HEAD "sl1."
#define CHAIN_MAX 8 // certificates of a token

// ---- signatures

// Those of keys that hash by themselves take no digest.
static const EVP_MD *digest_of(EVP_PKEY *key)
{
    int id = EVP_PKEY_get_base_id(key);

    return id == EVP_PKEY_ED25519 || id == EVP_PKEY_ED448 ? NULL : EVP_sha256();
}

static enum sl_err tls_bearer_sign(struct buf *out, EVP_PKEY *key,
                                   const char *text, size_t n)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    unsigned char bytes[1024];
    size_t size = sizeof(bytes);
    bool done =
        context != NULL &&
        EVP_DigestSignInit(context, NULL, digest_of(key), NULL, key) == 1 &&
        EVP_DigestSign(context, bytes, &size, (const unsigned char *)text, n) ==
            1;

    EVP_MD_CTX_free(context);
    return done ? base64_encode(out, bytes, size) : SL_ENOTSUP;
}

static bool tls_bearer_verify(X509 *cert, const char *text, size_t n,
                              const struct buf *signature)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    EVP_PKEY *key = X509_get0_pubkey(cert);
    bool holds =
        context != NULL && key != NULL &&
        EVP_DigestVerifyInit(context, NULL, digest_of(key), NULL, key) == 1 &&
        EVP_DigestVerify(context, (const unsigned char *)signature->data,
                         signature->len, (const unsigned char *)text, n) == 1;

    EVP_MD_CTX_free(context);
    return holds;
}

// ---- making one

// Appends all certificates of a PEM text, one after the other. SL_ERANGE: they
// are more than a token may have.
static enum sl_err tls_bearer_chain_der(struct buf *out, const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    enum sl_err rc = bio != NULL ? SL_OK : SL_ENOMEM;
    unsigned count = 0;
    X509 *cert;

    while (rc == SL_OK &&
           (cert = PEM_read_bio_X509(bio, NULL, NULL, NULL)) != NULL) {
        unsigned char *der = NULL;
        int n = i2d_X509(cert, &der);

        rc = n > 0 ? buf_append(out, der, (size_t)n) : SL_ENOMEM;
        if (rc == SL_OK && ++count > CHAIN_MAX)
            rc = SL_ERANGE;
        OPENSSL_free(der);
        X509_free(cert);
    }
    BIO_free(bio);
    return rc;
}

static EVP_PKEY *tls_bearer_read_key(const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    EVP_PKEY *key = // tls_load has refused those with a passphrase
        bio != NULL ? PEM_read_bio_PrivateKey(bio, NULL, NULL, (void *)"")
                    : NULL;

    BIO_free(bio);
    return key;
}

static enum sl_err write_token(struct buf *out, const struct tls_pem *pem,
                               time_t now, long seconds)
{
    struct buf chain = BUF_INIT;
    EVP_PKEY *key = tls_bearer_read_key(pem->key);
    enum sl_err rc =
        key != NULL ? tls_bearer_chain_der(&chain, pem->cert) : SL_ENOTSUP;

    if (rc == SL_OK)
        rc = buf_append(out, HEAD, strlen(HEAD));
    if (rc == SL_OK)
        rc = base64_encode(out, chain.data, chain.len);
    if (rc == SL_OK)
        rc = buf_appendf(out, ".%lld.%lld.", (long long)now,
                         (long long)now + seconds);
    if (rc == SL_OK)
        rc = tls_bearer_sign(out, key, buf_text(out), out->len);
    EVP_PKEY_free(key);
    buf_release(&chain);
    return rc == SL_OK && out->len > TLS_BEARER_MAX ? SL_ERANGE : rc;
}

enum sl_err tls_bearer_make(struct buf *out, const struct rpc_tls *tls,
                            time_t now, long seconds, struct sl_error *err)
{
    struct buf token = BUF_INIT;
    struct tls_pem pem;
    enum sl_err rc;

    if (seconds < 1 || seconds > TLS_BEARER_MAX_S)
        return sl_fail(err, SL_EINVAL, "a token is for 1 s to %ld s",
                       TLS_BEARER_MAX_S);
    rc = tls_load(&pem, tls, err);
    if (rc != SL_OK)
        return rc;
    rc = write_token(&token, &pem, now, seconds);
    tls_pem_release(&pem);
    ERR_clear_error();
    if (rc == SL_ERANGE)
        rc = sl_fail(err, SL_EINVAL,
                     "the certificate chain of %s is too long for a token "
                     "(at most %d certificates and %d bytes)",
                     tls->cert_file, CHAIN_MAX, TLS_BEARER_MAX);
    else if (rc == SL_OK)
        rc = buf_append(out, token.data, token.len);
    if (rc != SL_OK && rc != SL_EINVAL)
        sl_fail(err, rc, "cannot sign with %s: %s", tls->key_file,
                sl_err_text(rc));
    buf_release(&token);
    return rc;
}

// ---- reading one

struct token {
    STACK_OF(X509) * chain; // the bearer's is the first
    time_t made, ends;
    size_t signed_bytes;
    struct buf signature;
};

static bool tls_bearer_take_number(time_t *out, const char **at)
{
    char *end;

    if (**at < '0' || **at > '9' || strcspn(*at, ".") > 15)
        return false;
    *out = (time_t)strtoll(*at, &end, 10);
    *at = end + 1;
    return *end == '.';
}

static bool take_chain(struct token *t, const char **at)
{
    struct buf der = BUF_INIT;
    size_t n = strcspn(*at, ".");
    bool fits = (*at)[n] == '.' && base64_decode(&der, *at, n) == SL_OK;
    const unsigned char *next = (const unsigned char *)der.data;
    const unsigned char *end = next + der.len;

    t->chain = sk_X509_new_null();
    fits = fits && t->chain != NULL && der.len > 0;
    while (fits && next < end) {
        X509 *cert = sk_X509_num(t->chain) < CHAIN_MAX
                         ? d2i_X509(NULL, &next, end - next)
                         : NULL;

        fits = cert != NULL && sk_X509_push(t->chain, cert) > 0;
        if (!fits)
            X509_free(cert);
    }
    buf_release(&der);
    *at += fits ? n + 1 : 0;
    return fits;
}

static bool tls_bearer_parse(struct token *t, const char *text)
{
    const char *at = text + strlen(HEAD);

    if (strnlen(text, TLS_BEARER_MAX + 1) > TLS_BEARER_MAX ||
        strncmp(text, HEAD, strlen(HEAD)) != 0 || !take_chain(t, &at) ||
        !tls_bearer_take_number(&t->made, &at) ||
        !tls_bearer_take_number(&t->ends, &at))
        return false;
    t->signed_bytes = (size_t)(at - text);
    return base64_decode(&t->signature, at, strlen(at)) == SL_OK;
}

static void tls_bearer_release(struct token *t)
{
    sk_X509_pop_free(t->chain, X509_free);
    buf_release(&t->signature);
    ERR_clear_error();
}

static enum sl_err check_dates(const struct token *t, time_t now,
                               struct sl_error *err)
{
    if (t->ends <= now)
        return sl_fail(err, SL_EAUTH,
                       "the token has expired: make another one with `sluice "
                       "token`");
    if (t->made > now + TLS_BEARER_SKEW_S)
        return sl_fail(
            err, SL_EAUTH,
            "the token's start time is in the future: the clock of the host "
            "that made it is ahead of the coordinator's clock");
    if (t->ends - t->made > TLS_BEARER_MAX_S)
        return sl_fail(
            err, SL_EAUTH,
            "the token is valid for more than %ld hours, which is the limit",
            TLS_BEARER_MAX_S / 3600);
    return SL_OK;
}

static X509_STORE *store_of(const char *ca)
{
    X509_STORE *store = X509_STORE_new();
    BIO *bio = BIO_new_mem_buf(ca, -1);
    X509 *cert;

    while (store != NULL && bio != NULL &&
           (cert = PEM_read_bio_X509(bio, NULL, NULL, NULL)) != NULL) {
        (void)X509_STORE_add_cert(store, cert);
        X509_free(cert);
    }
    BIO_free(bio);
    return store;
}

// As the handshake of a client would be: chain, dates, use.
static enum sl_err check_chain(const struct token *t, const char *ca,
                               time_t now, struct sl_error *err)
{
    X509_STORE *store = store_of(ca);
    X509_STORE_CTX *context = X509_STORE_CTX_new();
    enum sl_err rc = SL_ENOMEM;

    if (store != NULL && context != NULL &&
        X509_STORE_CTX_init(context, store, sk_X509_value(t->chain, 0),
                            t->chain) == 1 &&
        X509_STORE_CTX_set_purpose(context, X509_PURPOSE_SSL_CLIENT) == 1) {
        X509_STORE_CTX_set_time(context, 0, now);
        rc = X509_verify_cert(context) == 1 ? SL_OK : SL_EAUTH;
    }
    if (rc == SL_EAUTH)
        sl_fail(
            err, rc, "the certificate of the token does not hold: %s",
            X509_verify_cert_error_string(X509_STORE_CTX_get_error(context)));
    else if (rc != SL_OK)
        sl_fail(err, rc, "out of memory");
    X509_STORE_CTX_free(context);
    X509_STORE_free(store);
    return rc;
}

static enum sl_err name_peer(struct rpc_peer *out, struct tls_files *files,
                             X509 *cert, struct sl_error *err)
{
    BIO *bio = BIO_new(BIO_s_mem());
    struct tls_peer peer;
    char *pem = NULL;
    long n;

    if (bio == NULL || PEM_write_bio_X509(bio, cert) != 1 ||
        (n = BIO_get_mem_data(bio, &pem)) <= 0) {
        BIO_free(bio);
        return sl_no_memory(err);
    }
    tls_peer_read(&peer, pem, (size_t)n);
    *out = (struct rpc_peer){.way = RPC_WAY_TLS, .guarded = true};
    snprintf(out->id, sizeof(out->id), "%s", peer.id);
    out->uris = peer.uris;
    out->revoked = tls_files_revoke(files, pem, (size_t)n);
    BIO_free(bio);
    return SL_OK;
}

enum sl_err tls_bearer_read(struct rpc_peer *out, time_t *ends,
                            struct tls_files *files, const char *token,
                            time_t now, struct sl_error *err)
{
    struct token t = {.signature = BUF_INIT};
    struct tls_pem pem;
    unsigned serial;
    enum sl_err rc = tls_files_copy(files, &pem, &serial, err);

    if (rc != SL_OK)
        return rc;
    if (!tls_bearer_parse(&t, token))
        rc = sl_fail(err, SL_EAUTH,
                     "this is no token: `sluice token` prints one");
    if (rc == SL_OK)
        rc = check_dates(&t, now, err);
    if (rc == SL_OK)
        rc = check_chain(&t, pem.ca, now, err);
    if (rc == SL_OK && !tls_bearer_verify(sk_X509_value(t.chain, 0), token,
                                          t.signed_bytes, &t.signature))
        rc = sl_fail(err, SL_EAUTH,
                     "the token's signature is not of its certificate's key");
    if (rc == SL_OK)
        rc = name_peer(out, files, sk_X509_value(t.chain, 0), err);
    if (rc == SL_OK && ends != NULL)
        *ends = t.ends;
    tls_bearer_release(&t);
    tls_pem_release(&pem);
    return rc;
}
