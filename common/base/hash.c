// SPDX-License-Identifier: Apache-2.0
// common/base/hash.c -- SHA-256 over libcrypto's EVP interface, and the walk
// over a file in pieces.
#include "common/base/hash.h"

#include <limits.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

#include "common/base/fs.h"
#include "common/base/mem.h"
#include "common/base/num.h"

#define READ_BYTES ((size_t)1 << 20)

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

enum sl_err hmac_sha256(uint8_t out[SHA256_BYTES], const void *key,
                        size_t key_bytes, const void *bytes, size_t n)
{
    unsigned made = 0;

    if (key_bytes > INT_MAX ||
        HMAC(EVP_sha256(), key, (int)key_bytes, bytes, n, out, &made) == NULL)
        return SL_ENOTSUP;
    return made == SHA256_BYTES ? SL_OK : SL_EINTERNAL;
}

// Piece by piece, until the file or the part ends.
static enum sl_err update_from(struct sha256 *h, struct fs_file *f,
                               const struct sha256_part *part, uint8_t *space,
                               struct sl_error *err)
{
    size_t want = READ_BYTES, got = READ_BYTES;
    enum sl_err rc = SL_OK;

    for (uint64_t at = 0; rc == SL_OK && got == want && at < part->bytes;
         at += got) {
        if (part->stopped != NULL && part->stopped(part->arg))
            return sl_fail(err, SL_ECANCELED, "SHA-256 of %s was stopped",
                           f->path);
        want = (size_t)sl_min(READ_BYTES, part->bytes - at);
        rc = fs_pread(f, at, space, want, &got, err);
        if (rc == SL_OK && sha256_update(h, space, got) != SL_OK)
            rc = sl_fail(err, SL_EINTERNAL, "SHA-256 of %s failed", f->path);
    }
    return rc;
}

static enum sl_err hash_part(struct fs_file *f, const struct sha256_part *part,
                             uint8_t out[SHA256_BYTES], struct sl_error *err)
{
    struct sha256 h = {NULL};
    uint8_t *space = sl_malloc(READ_BYTES);
    enum sl_err rc = space == NULL ? SL_ENOMEM : sha256_init(&h);

    if (rc != SL_OK)
        sl_fail(err, rc, "SHA-256 of %s: %s", f->path, sl_err_text(rc));
    else
        rc = update_from(&h, f, part, space, err);
    if (rc == SL_OK && sha256_final(&h, out) != SL_OK)
        rc = sl_fail(err, SL_EINTERNAL, "SHA-256 of %s failed", f->path);
    sha256_release(&h);
    sl_free(space);
    return rc;
}

enum sl_err sha256_bytes(uint8_t out[SHA256_BYTES], const void *bytes, size_t n)
{
    struct sha256 h;
    enum sl_err rc = sha256_init(&h);

    if (rc == SL_OK)
        rc = sha256_update(&h, bytes, n);
    if (rc == SL_OK)
        return sha256_final(&h, out);
    sha256_release(&h);
    return rc;
}

enum sl_err sha256_file(struct fs *fs, const char *path,
                        uint8_t out[SHA256_BYTES], struct sl_error *err)
{
    const struct sha256_part all = {.bytes = UINT64_MAX};
    struct fs_file *f = NULL;
    enum sl_err rc = fs_open(fs, &f, path, FS_READ, err);

    if (rc == SL_OK)
        rc = hash_part(f, &all, out, err);
    fs_close(f);
    return rc;
}

static enum sl_err must_be(const uint8_t got[SHA256_BYTES],
                           const uint8_t want[SHA256_BYTES], const char *path,
                           const char *source, struct sl_error *err)
{
    if (memcmp(got, want, SHA256_BYTES) == 0)
        return SL_OK;
    return sl_fail(err, SL_ECORRUPT,
                   "%s is not the file that the %s names (SHA-256 differs)",
                   path, source);
}

enum sl_err sha256_file_is(struct fs *fs, const char *path,
                           const uint8_t want[SHA256_BYTES], const char *source,
                           struct sl_error *err)
{
    uint8_t got[SHA256_BYTES];
    enum sl_err rc = sha256_file(fs, path, got, err);

    return rc == SL_OK ? must_be(got, want, path, source, err) : rc;
}

enum sl_err sha256_part_is(struct fs_file *f, const struct sha256_part *part,
                           const uint8_t want[SHA256_BYTES], const char *source,
                           struct sl_error *err)
{
    uint8_t got[SHA256_BYTES];
    enum sl_err rc = hash_part(f, part, got, err);

    return rc == SL_OK ? must_be(got, want, f->path, source, err) : rc;
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
