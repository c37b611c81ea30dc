// SPDX-License-Identifier: Apache-2.0
// Tokens of certificates: what holds, for how long, and what does not.
#include "common/net/tls_bearer.h"

#include <string.h>

#include "common/net/tls.h"
#include "tests/harness/certs.h"

// An authority, one below it, another one; keys of three kinds.
static const char make_certs[] =
    "set -e; umask 077; exec >/dev/null 2>&1\n"
    "ec='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes'\n"
    "ca() { openssl req -x509 $ec -days 2 -subj /CN=$1 -keyout $1.key"
    " -out $1.pem; }\n"
    "leaf() { openssl req $4 -subj /CN=$2 -keyout $2.key -out $2.csr\n"
    " printf \"$3\" > $2.ext\n"
    " openssl x509 -req -in $2.csr -CA $1.pem -CAkey $1.key -CAcreateserial"
    " -days ${5:-2} -extfile $2.ext -out $2.pem; }\n"
    "uri=subjectAltName=URI:spiffe://sluice\n"
    "ca good; ca evil\n"
    "leaf good ann $uri/admin/ann \"$ec\"\n"
    "leaf good rsa $uri/admin/rsa '-newkey rsa:2048 -nodes'\n"
    "leaf good ed $uri/admin/ed '-newkey ed25519 -nodes'\n"
    "leaf good serves \"$uri/admin/s\\nextendedKeyUsage=serverAuth\" \"$ec\"\n"
    "leaf evil thief $uri/admin/ann \"$ec\"\n"
    "leaf good mid basicConstraints=critical,CA:true \"$ec\"\n"
    "leaf mid low $uri/admin/low \"$ec\"; cat mid.pem >> low.pem\n"
    // Chains of eight and nine certificates, and a certificate of 10 KB.
    "leaf good most $uri/admin/most \"$ec\"\n"
    "for i in 1 2 3 4 5 6 7; do cat mid.pem; done >> most.pem\n"
    "cp most.key many.key; cat most.pem mid.pem > many.pem\n"
    "leaf good big \"$uri/admin/b\\nnsComment=$(printf %010000d 0)\" \"$ec\"\n";

static struct tls_files *begin(void)
{
    struct tls_files *files;
    struct rpc_tls tls;

    certs_make(make_certs);
    tls = certs_of("good", "ann");
    T_OK(tls_files_open(&files, &tls, t_err()));
    return files;
}

// The token is the caller's: buf_release.
static struct buf made(const char *ca, const char *name, time_t now)
{
    struct rpc_tls tls = certs_of(ca, name);
    struct buf token = BUF_INIT;

    T_OK(tls_bearer_make(&token, &tls, now, 3600, t_err()));
    return token;
}

static void refused(struct tls_files *files, const char *token, time_t now,
                    const char *words)
{
    struct rpc_peer peer = {.uris = 77};
    struct sl_error err = SL_ERROR_INIT;

    T_EQ(tls_bearer_read(&peer, NULL, files, token, now, &err), SL_EAUTH);
    T_HAS(err.text, words);
    T_EQ(peer.uris, 77); // untouched
}

TEST(bearer, a_token_says_who_its_certificate_is_of)
{
    static const char *const names[] = {"ann", "rsa", "ed", "low", "most"};
    struct tls_files *files = begin();
    time_t now = time(NULL), ends;

    for (size_t i = 0; i < SL_COUNT(names); i++) {
        struct buf token = made("good", names[i], now);
        struct rpc_peer peer;
        char id[80];

        snprintf(id, sizeof(id), "spiffe://sluice/admin/%s", names[i]);
        T_OK(tls_bearer_read(&peer, &ends, files, buf_text(&token), now,
                             t_err()));
        T_STR(peer.id, id);
        T_EQ(peer.way, RPC_WAY_TLS);
        T_EQ(peer.uris, 1);
        T_FALSE(peer.revoked);
        T_EQ(ends, now + 3600);
        buf_release(&token);
    }
    tls_files_close(files);
}

TEST(bearer, it_holds_from_its_making_to_its_end)
{
    struct tls_files *files = begin();
    time_t now = time(NULL);
    struct buf token = made("good", "ann", now);
    const char *text = buf_text(&token);
    struct rpc_tls tls = certs_of("good", "ann");
    struct buf none = BUF_INIT;
    struct rpc_peer peer;

    T_OK(tls_bearer_read(&peer, NULL, files, text, now + 3599, t_err()));
    refused(files, text, now + 3600, "has expired");
    buf_release(&token); // of a host whose clock is ahead
    token = made("good", "ann", now + TLS_BEARER_SKEW_S);
    T_OK(tls_bearer_read(&peer, NULL, files, buf_text(&token), now, t_err()));
    buf_release(&token);
    token = made("good", "ann", now + TLS_BEARER_SKEW_S + 1);
    refused(files, buf_text(&token), now, "clock");
    T_EQ(tls_bearer_make(&none, &tls, now, TLS_BEARER_MAX_S + 1, NULL),
         SL_EINVAL);
    T_EQ(tls_bearer_make(&none, &tls, now, 0, NULL), SL_EINVAL);
    buf_release(&token);
    // The certificate itself ends after two days.
    token = made("good", "ann", now + 3 * 86400);
    refused(files, buf_text(&token), now + 3 * 86400 + 1, "has expired");
    buf_release(&token);
    tls_files_close(files);
}

TEST(bearer, other_authorities_and_other_uses_do_not_hold)
{
    struct tls_files *files = begin();
    time_t now = time(NULL);
    struct buf thief = made("evil", "thief", now);
    struct buf serves = made("good", "serves", now);

    refused(files, buf_text(&thief), now, "does not hold");
    refused(files, buf_text(&serves), now, "does not hold");
    buf_release(&thief);
    buf_release(&serves);
    tls_files_close(files);
}

TEST(bearer, a_token_that_was_changed_anywhere_does_not_hold)
{
    struct tls_files *files = begin();
    time_t now = time(NULL);
    struct buf token = made("good", "ann", now);
    char *text = (char *)token.data;
    struct rpc_peer peer;

    for (size_t i = 0; i < token.len; i++) {
        char was = text[i];

        text[i] = was == 'A' ? 'B' : was == '.' ? 'x' : 'A';
        T_EQ(tls_bearer_read(&peer, NULL, files, text, now, NULL), SL_EAUTH);
        text[i] = was;
    }
    for (size_t i = 0; i < token.len; i++) { // and cut off
        char was = text[i];

        text[i] = '\0';
        T_EQ(tls_bearer_read(&peer, NULL, files, text, now, NULL), SL_EAUTH);
        text[i] = was;
    }
    T_OK(tls_bearer_read(&peer, NULL, files, text, now, t_err()));
    refused(files, "", now, "no token");
    refused(files, "sl1.", now, "no token");
    refused(files, "sl1....", now, "no token");
    buf_release(&token);
    tls_files_close(files);
}

// What is longer than a reader takes is not made, and leaves nothing behind.
TEST(bearer, a_chain_that_is_too_long_makes_no_token)
{
    static const char *const names[] = {"many", "big"};
    struct tls_files *files = begin();
    struct buf out = BUF_INIT;

    T_OK(buf_append_str(&out, "before"));
    for (size_t i = 0; i < SL_COUNT(names); i++) {
        struct rpc_tls tls = certs_of("good", names[i]);
        struct sl_error err = SL_ERROR_INIT;

        T_FAILS(SL_EINVAL, tls_bearer_make(&out, &tls, time(NULL), 60, &err));
        T_HAS(err.text, "too long");
        T_STR(buf_text(&out), "before");
    }
    buf_release(&out);
    tls_files_close(files);
}
