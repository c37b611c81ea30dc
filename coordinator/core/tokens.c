// SPDX-License-Identifier: Apache-2.0
// coordinator/core/tokens.c -- the key of the tokens, and the token of a job.
#include "coordinator/core/tokens.h"
#include "coordinator/core/job.h"

#include <string.h>

bool tokens_key(const struct coord *c, uint8_t out[TOKEN_KEY_BYTES])
{
    const uint64_t *key = c->cluster.key;

    for (int i = 0; i < TOKEN_KEY_BYTES; i++)
        out[i] = (uint8_t)(key[i / 8] >> 8 * (i % 8));
    return (key[0] | key[1] | key[2] | key[3]) != 0;
}

bool tokens_required(const struct coord *c)
{
    return c->options.tokens == COORD_TOKENS_AUTO
               ? c->cluster.required != 0
               : c->options.tokens == COORD_TOKENS_REQUIRE;
}

// Wipes the key and hands out the token. Returns false if `made` is NULL: there
// is no token.
static bool tokens_hand_out(Sluice__V1__JobToken *out,
                            const struct wire_token *made,
                            uint8_t key[TOKEN_KEY_BYTES])
{
    explicit_bzero(key, TOKEN_KEY_BYTES);
    if (made != NULL)
        (void)wire_token_msg(out, made);
    return made != NULL;
}

bool tokens_prove(const struct coord *c, const struct work *w,
                  Sluice__V1__JobToken *out)
{
    uint8_t key[TOKEN_KEY_BYTES];
    struct wire_token proof;
    bool made =
        c->options.proofs && tokens_key(c, key) &&
        token_make_lease(&proof, key, w->job->uid, w->job->incarnation,
                         w->closure.id,
                         (struct wire_attempt){w->closure.attempt.term,
                                               w->closure.attempt.n}) == SL_OK;

    return tokens_hand_out(out, made ? &proof : NULL, key);
}

bool tokens_make(const struct coord *c, const struct job *job,
                 Sluice__V1__JobToken *out)
{
    uint8_t key[TOKEN_KEY_BYTES];
    struct wire_token token;
    bool made = tokens_key(c, key) &&
                token_make(&token, key, job->uid, job->incarnation) == SL_OK;

    return tokens_hand_out(out, made ? &token : NULL, key);
}

bool tokens_make_ring(const struct coord *c, const struct job *job,
                      uint64_t generation, Sluice__V1__JobToken *out)
{
    uint8_t key[TOKEN_KEY_BYTES];
    struct wire_token token;
    bool made = tokens_key(c, key) &&
                token_make_ring(&token, key, job->uid, job->incarnation,
                                generation) == SL_OK;

    return tokens_hand_out(out, made ? &token : NULL, key);
}
