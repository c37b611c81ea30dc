// SPDX-License-Identifier: Apache-2.0
// client/doctor/doctor_certs.c -- which members would be refused: what
// certificates say, and whether members are reached under the names in theirs.
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "client/cli/command.h"
#include "client/doctor/findings.h"
#include "client/cli/listing.h"
#include "common/base/fs.h"
#include "common/base/mem.h"
#include "common/net/tls_peer.h"
#include "proto/access.h"

#define OPENSSL_MS 5000
#define PEM_BYTES ((size_t)1 << 20)
#define CHECK_MS 3000
#define MEMBERS_MAX 256 // that are dialled

// "worker w7 of tenant a".
static void bearer_text(char out[300], const struct access_who *who)
{
    snprintf(out, 300, "%s %s%s%s", access_role_name(who->role), who->name,
             who->tenant[0] != '\0' ? " of tenant " : "", who->tenant);
}

static void doctor_cert_check_access(struct findings *f, const char *path,
                                     const struct tls_peer *peer, bool revoked)
{
    struct rpc_peer caller = {.way = RPC_WAY_TLS,
                              .guarded = true,
                              .revoked = revoked,
                              .uris = peer->uris};
    long long days = (long long)(peer->ends - time(NULL)) / TLS_DAY_S;
    struct sl_error err = SL_ERROR_INIT;
    struct access_who who;
    char bearer[300];

    snprintf(caller.id, sizeof(caller.id), "%s", peer->id);
    if (access_who(&who, &caller, &err) != SL_OK) {
        finding(f, FINDING_BAD, "certificate", "%s would be refused: %s", path,
                err.text);
        return;
    }
    bearer_text(bearer, &who);
    if (peer->ends <= time(NULL))
        finding(f, FINDING_BAD, "certificate",
                "%s (%s) would be refused: it expired %lld days ago; sluice "
                "cert renew",
                path, bearer, -days);
    else
        finding(f, days < TLS_SOON_DAYS ? FINDING_WARN : FINDING_OK,
                "certificate", "%s: %s, %lld days left%s", path, bearer, days,
                days < TLS_SOON_DAYS ? "; sluice cert renew" : "");
}

// doctor_cert_check_access looks at its dates. NULL: it is not known of which
// authority it should be.
static bool doctor_cert_is_of_ca(const char *ca, const char *path,
                                 struct sl_error *err)
{
    const char *const verify[] = {
        "openssl", "verify", "-no_check_time", "-CAfile", ca, path, NULL};

    return ca == NULL || command_run(verify, OPENSSL_MS, NULL, err) == SL_OK;
}

static void doctor_cert_check_file(struct findings *f, const char *path,
                                   const char *ca, const char *crl)
{
    struct sl_error err = SL_ERROR_INIT;
    struct buf pem = BUF_INIT;
    struct tls_peer peer;

    if (fs_read_all(fs_posix(), path, PEM_BYTES, &pem, &err) != SL_OK) {
        finding(f, FINDING_BAD, "certificate", "%s", err.text);
    } else if (!doctor_cert_is_of_ca(ca, path, &err)) {
        finding(f, FINDING_BAD, "certificate",
                "%s would be refused: %s did not sign it: %s", path, ca,
                err.text);
    } else {
        tls_peer_read(&peer, buf_text(&pem), pem.len);
        doctor_cert_check_access(
            f, path, &peer, tls_peer_revoked(crl, buf_text(&pem), pem.len));
    }
    buf_release(&pem);
}

// A copy for etcd, or any other certificate without a role: its dates alone. A
// file that is none, such as a key, is gone past.
static void doctor_cert_check_pem(struct findings *f, const char *path)
{
    struct sl_error err = SL_ERROR_INIT;
    struct buf pem = BUF_INIT;
    struct tls_peer peer = {0};
    long long days;

    if (fs_read_all(fs_posix(), path, PEM_BYTES, &pem, &err) == SL_OK)
        tls_peer_read(&peer, buf_text(&pem), pem.len);
    buf_release(&pem);
    days = (long long)(peer.ends - time(NULL)) / TLS_DAY_S;
    if (peer.ends == 0)
        return;
    if (peer.ends <= time(NULL))
        finding(f, FINDING_BAD, "certificate", "%s expired %lld days ago", path,
                -days);
    else
        finding(f, days < TLS_SOON_DAYS ? FINDING_WARN : FINDING_OK,
                "certificate", "%s: %lld days left%s", path, days,
                days < TLS_SOON_DAYS ? "; replace it" : "");
}

struct doctor_cert_folder {
    struct findings *f;
    const char *dir, *ca, *crl; // the last two: NULL if it has none
};

static enum sl_err doctor_cert_check_listed(void *arg, const char *name)
{
    const struct doctor_cert_folder *d = arg;
    size_t n = strlen(name);
    bool pem = n >= 5 && strcmp(name + n - 4, ".pem") == 0;
    char *path;

    if (!pem && (n < 5 || strcmp(name + n - 4, ".crt") != 0 ||
                 strcmp(name, "ca.crt") == 0))
        return SL_OK;
    path = fs_join(d->dir, name);
    if (path == NULL)
        return SL_ENOMEM;
    if (pem)
        doctor_cert_check_pem(d->f, path);
    else
        doctor_cert_check_file(d->f, path, d->ca, d->crl);
    sl_free(path);
    return SL_OK;
}

static void doctor_cert_check_folder(struct findings *f, const char *dir)
{
    struct sl_error err = SL_ERROR_INIT;
    struct buf crl = BUF_INIT;
    struct doctor_cert_folder d = {.f = f, .dir = dir};
    char *path = fs_join(dir, "ca.crl"), *ca = fs_join(dir, "ca.crt");

    if (ca != NULL && fs_exists(fs_posix(), ca))
        d.ca = ca;
    if (path != NULL && fs_exists(fs_posix(), path) &&
        fs_read_all(fs_posix(), path, PEM_BYTES, &crl, &err) == SL_OK)
        d.crl = buf_text(&crl);
    if (fs_list(fs_posix(), dir, doctor_cert_check_listed, &d, &err) != SL_OK)
        finding(f, FINDING_BAD, "certificate", "%s", err.text);
    buf_release(&crl);
    sl_free(path);
    sl_free(ca);
}

void doctor_certs(struct findings *f, const struct conf *conf)
{
    const char *own = conf_str(conf, "tls-cert");
    const char *dir = conf_str(conf, "certs");

    if (own != NULL)
        doctor_cert_check_file(f, own, NULL,
                               NULL); // doctor_tls checks its issuer
    if (dir != NULL)
        doctor_cert_check_folder(f, dir);
}

// ---- members

// As a worker would dial it: the name in the address has to be in the
// certificate that is shown there.
static void doctor_dial_psserver(struct findings *f,
                                 const struct api_client *api,
                                 const Sluice__V1__MemberStatus *m)
{
    struct rpc_call_options options = {.deadline_ms = CHECK_MS};
    struct sl_error err = SL_ERROR_INIT;
    struct rpc_channel *channel = NULL;
    struct rpc_body *reply = NULL;
    enum sl_err rc = rpc_channel_new(&channel, api_io(api), m->address,
                                     api_tls(api), &access_to_psserver, &err);

    if (rc == SL_OK)
        rc = rpc_call_sync(channel, "/grpc.health.v1.Health/Check", NULL,
                           &options, &reply, &err);
    if (rc != SL_OK)
        finding(f, FINDING_BAD, "member",
                "%s %s is not reached from here at %s: %s; if workers do not "
                "reach it either, look at its --advertise and the hosts of its "
                "certificate",
                m->role, m->name, m->address, err.text);
    rpc_body_free(reply);
    rpc_channel_free(channel);
}

void doctor_dial(struct findings *f, const struct api_client *api,
                 const Sluice__V1__ClusterReply *reply)
{
    size_t dialled = 0;

    for (size_t i = 0; i < reply->n_members && dialled < MEMBERS_MAX; i++) {
        const Sluice__V1__MemberStatus *m = reply->members[i];

        if (strcmp(m->role, "psserver") != 0 || m->address[0] == '\0' ||
            list_is_lost(m) || strncmp(m->address, "unix:", 5) == 0)
            continue;
        dialled++;
        doctor_dial_psserver(f, api, m);
    }
}
