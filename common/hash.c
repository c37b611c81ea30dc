// SPDX-License-Identifier: Apache-2.0
#include "common/hash.h"

#include <openssl/evp.h>
#include <string.h>

enum sl_err sha256_init(struct sha256 *h)
{
    h->ctx = EVP_MD_CTX_new();
    if (h->ctx == NULL)
        return SL_ENOMEM;
    if (EVP_DigestInit_ex(h->ctx, EVP_sha256(), NULL) != 1) {
        sha256_release(h);
        return SL_ENOTSUP;
    }
    return SL_OK;
}

enum sl_err sha256_update(struct sha256 *h, const void *bytes, size_t n)
{
    return EVP_DigestUpdate(h->ctx, bytes, n) == 1 ? SL_OK : SL_EINTERNAL;
}

enum sl_err sha256_final(struct sha256 *h, uint8_t out[SHA256_BYTES])
{
    unsigned n = 0;
    bool ok = EVP_DigestFinal_ex(h->ctx, out, &n) == 1 && n == SHA256_BYTES;

    sha256_release(h);
    return ok ? SL_OK : SL_EINTERNAL;
}

void sha256_release(struct sha256 *h)
{
    EVP_MD_CTX_free(h->ctx);
    h->ctx = NULL;
}

enum sl_err sha256_hex(char out[SHA256_HEX], const void *bytes, size_t n)
{
    uint8_t digest[SHA256_BYTES];
    struct sha256 h;
    enum sl_err rc = sha256_init(&h);

    if (rc != SL_OK)
        return rc;
    rc = sha256_update(&h, bytes, n);
    if (rc != SL_OK) {
        sha256_release(&h);
        return rc;
    }
    rc = sha256_final(&h, digest);
    if (rc == SL_OK)
        hex_encode(out, digest, sizeof(digest));
    return rc;
}

void hex_encode(char *out, const void *bytes, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *at = bytes;

    for (size_t i = 0; i < n; i++) {
        *out++ = digits[at[i] >> 4];
        *out++ = digits[at[i] & 15];
    }
    *out = '\0';
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

enum sl_err hex_decode(void *out, size_t n, const char *text)
{
    uint8_t *to = out;

    if (strlen(text) != 2 * n ||
        strspn(text, "0123456789abcdefABCDEF") != 2 * n)
        return SL_EINVAL;
    for (size_t i = 0; i < n; i++)
        to[i] = (uint8_t)(digit(text[2 * i]) << 4 | digit(text[2 * i + 1]));
    return SL_OK;
}
