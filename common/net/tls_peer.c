// SPDX-License-Identifier: Apache-2.0
// common/net/tls_peer.c -- the reader of peers' certificates and of revocation
// lists.
#include "common/net/tls_peer.h"

#include <limits.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

static X509 *tls_peer_parse_cert(const char *pem, size_t n)
{
    BIO *bio = n < INT_MAX ? BIO_new_mem_buf(pem, (int)n) : NULL;
    X509 *cert = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;

    BIO_free(bio);
    return cert;
}

// A text with a NUL inside, or one that does not fit, is nobody's name.
static void tls_peer_set_id(char out[TLS_PEER_ID], const ASN1_STRING *text)
{
    int n = ASN1_STRING_length(text);
    const char *at = (const char *)ASN1_STRING_get0_data(text);

    if (n <= 0 || n >= TLS_PEER_ID || memchr(at, '\0', (size_t)n) != NULL)
        return;
    memcpy(out, at, (size_t)n);
    out[n] = '\0';
}

static void read_uris(struct tls_peer *out, const X509 *cert)
{
    GENERAL_NAMES *names =
        X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);

    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);

        if (name->type != GEN_URI)
            continue;
        if (out->uris++ == 0)
            tls_peer_set_id(out->id, name->d.uniformResourceIdentifier);
    }
    GENERAL_NAMES_free(names);
}

static void read_common_name(struct tls_peer *out, const X509 *cert)
{
    const X509_NAME *subject = X509_get_subject_name(cert);
    int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);

    if (at >= 0)
        tls_peer_set_id(out->id, X509_NAME_ENTRY_get_data(
                                     X509_NAME_get_entry(subject, at)));
}

time_t tls_time_seconds(const ASN1_TIME *t)
{
    struct tm tm;

    return t != NULL && ASN1_TIME_to_tm(t, &tm) == 1 ? timegm(&tm) : 0;
}

void tls_peer_read(struct tls_peer *out, const char *pem, size_t n)
{
    X509 *cert = tls_peer_parse_cert(pem, n);

    *out = (struct tls_peer){.uris = 0};
    if (cert != NULL) {
        out->ends = tls_time_seconds(X509_get0_notAfter(cert));
        read_uris(out, cert);
        if (out->uris == 0)
            read_common_name(out, cert);
    }
    X509_free(cert);
    ERR_clear_error();
}

// ---- revocation lists

static bool names(X509_CRL *crl, X509 *cert)
{
    X509_REVOKED *entry;

    return X509_NAME_cmp(X509_CRL_get_issuer(crl),
                         X509_get_issuer_name(cert)) == 0 &&
           X509_CRL_get0_by_cert(crl, &entry, cert) == 1;
}

bool tls_peer_revoked(const char *text, const char *pem, size_t n)
{
    BIO *bio = text != NULL ? BIO_new_mem_buf(text, -1) : NULL;
    X509 *cert = bio != NULL ? tls_peer_parse_cert(pem, n) : NULL;
    bool found = false;
    X509_CRL *crl;

    while (cert != NULL && !found &&
           (crl = PEM_read_bio_X509_CRL(bio, NULL, NULL, NULL)) != NULL) {
        found = names(crl, cert);
        X509_CRL_free(crl);
    }
    X509_free(cert);
    BIO_free(bio);
    ERR_clear_error();
    return found;
}

static bool signed_by(X509_CRL *crl, X509 *authority)
{
    EVP_PKEY *key = X509_get0_pubkey(authority);

    return X509_NAME_cmp(X509_CRL_get_issuer(crl),
                         X509_get_subject_name(authority)) == 0 &&
           key != NULL && X509_CRL_verify(crl, key) == 1;
}

static bool signed_by_one(X509_CRL *crl, const char *ca)
{
    BIO *bio = BIO_new_mem_buf(ca, -1);
    bool found = false;
    X509 *cert;

    while (bio != NULL && !found &&
           (cert = PEM_read_bio_X509(bio, NULL, NULL, NULL)) != NULL) {
        found = signed_by(crl, cert);
        X509_free(cert);
    }
    BIO_free(bio);
    return found;
}

static void earliest(time_t *ends, const X509_CRL *crl)
{
    time_t at = tls_time_seconds(X509_CRL_get0_nextUpdate(crl));

    if (at != 0 && (*ends == 0 || at < *ends))
        *ends = at;
}

enum sl_err tls_check_crl(const char *text, const char *ca, const char *file,
                          time_t *ends, struct sl_error *err)
{
    BIO *bio = BIO_new_mem_buf(text, -1);
    enum sl_err rc =
        sl_fail(err, SL_EINVAL, "%s holds no revocation list in PEM", file);
    unsigned long last;
    X509_CRL *crl;

    *ends = 0;
    ERR_clear_error();
    while (bio != NULL &&
           (crl = PEM_read_bio_X509_CRL(bio, NULL, NULL, NULL)) != NULL) {
        bool holds = signed_by_one(crl, ca);

        earliest(ends, crl);
        X509_CRL_free(crl);
        rc = holds ? SL_OK
                   : sl_fail(err, SL_EINVAL,
                             "%s is of no authority of --tls-ca: make it with "
                             "`sluice cert revoke`",
                             file);
        if (!holds)
            break;
        ERR_clear_error();
    }
    // What follows would not be looked at: a certificate that it revokes would
    // be let in. At the end of the text no line starts a list.
    last = ERR_peek_last_error();
    if (rc == SL_OK && (ERR_GET_LIB(last) != ERR_LIB_PEM ||
                        ERR_GET_REASON(last) != PEM_R_NO_START_LINE))
        rc = sl_fail(err, SL_EINVAL,
                     "%s: a revocation list in it is malformed, so those "
                     "behind it would not be read",
                     file);
    BIO_free(bio);
    ERR_clear_error();
    if (rc == SL_OK && err != NULL)
        *err = (struct sl_error)SL_ERROR_INIT;
    return rc;
}
