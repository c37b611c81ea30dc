// SPDX-License-Identifier: Apache-2.0
// host/store/credentials_key.c -- one set of keys.
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "host/store/credentials_inner.h"

const char *environment(const char *name)
{
    const char *value = getenv(name);

    return value == NULL || *value == '\0' ? NULL : value;
}

void credential_wipe(struct buf *b)
{
    if (b->data != NULL)
        explicit_bzero(b->data, b->len);
    buf_release(b);
}

void credential_release(struct credential *key)
{
    if (key->secret != NULL)
        explicit_bzero(key->secret, strlen(key->secret));
    if (key->token != NULL)
        explicit_bzero(key->token, strlen(key->token));
    sl_free(key->id);
    sl_free(key->secret);
    sl_free(key->token);
    *key = (struct credential){NULL, NULL, NULL, 0};
}

// Returns true if `text` may stand in a line of a request's header.
static bool credential_is_word(const char *text)
{
    for (; *text != '\0'; text++)
        if (*text <= ' ' || *text > '~')
            return false;
    return true;
}

enum sl_err credential_set(struct credential *out, const char *id,
                           const char *secret, const char *token,
                           struct sl_error *err)
{
    bool tokened = token != NULL && *token != '\0';

    if (!credential_is_word(id) || !credential_is_word(secret) ||
        (tokened && !credential_is_word(token)))
        return sl_fail(
            err, SL_EAUTH,
            "the key holds a blank or a character that is not allowed in keys");
    out->id = sl_strdup(id);
    out->secret = sl_strdup(secret);
    out->token = tokened ? sl_strdup(token) : NULL;
    out->expires_s = 0;
    if (out->id != NULL && out->secret != NULL &&
        (out->token != NULL || !tokened))
        return SL_OK;
    credential_release(out);
    return sl_fail(err, SL_ENOMEM, "out of memory for keys");
}
