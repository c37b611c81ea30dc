// SPDX-License-Identifier: Apache-2.0
// client/doctor/doctor_net.c -- certificates, and what the coordinator says.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/call/api.h"
#include "client/cli/command.h"
#include "client/doctor/findings.h"
#include "client/cli/listing.h"

#define OPENSSL_MS 10000
#define EXPIRY_SECONDS "1209600" // 14 days
#define LOST_TEXT 384            // of one lost member

// ---- TLS

static void check_expiry(struct findings *f, const char *cert)
{
    const char *const date[] = {"openssl", "x509", "-noout", "-enddate",
                                "-in",     cert,   NULL};
    const char *const soon[] = {"openssl",      "x509", "-noout", "-checkend",
                                EXPIRY_SECONDS, "-in",  cert,     NULL};
    struct buf text = BUF_INIT;
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc = command_run(date, OPENSSL_MS, &text, &err);

    if (rc != SL_OK) {
        finding(f, FINDING_BAD, "tls", "%s: %s", cert, err.text);
    } else {
        int n = (int)strcspn(buf_text(&text), "\n");

        rc = command_run(soon, OPENSSL_MS, NULL, &err);
        finding(f, rc == SL_OK ? FINDING_OK : FINDING_WARN, "tls", "%s: %.*s%s",
                cert, n, buf_text(&text),
                rc == SL_OK ? ""
                            : "; it expires soon, or has expired: renew it");
    }
    buf_release(&text);
}

void doctor_tls(struct findings *f, const struct conf *conf)
{
    const char *ca = conf_str(conf, "tls-ca");
    const char *cert = conf_str(conf, "tls-cert");
    const char *const verify[] = {"openssl", "verify", "-CAfile",
                                  ca,        cert,     NULL};
    struct sl_error err = SL_ERROR_INIT;

    if (ca == NULL || cert == NULL) {
        finding(f, FINDING_NOTE, "tls",
                "off: fine on one machine; 'sluice cert init' for more");
        return;
    }
    check_expiry(f, ca);
    check_expiry(f, cert);
    if (command_run(verify, OPENSSL_MS, NULL, &err) == SL_OK)
        finding(f, FINDING_OK, "tls", "%s is signed by %s", cert, ca);
    else
        finding(f, FINDING_BAD, "tls", "%s is not of %s: %s", cert, ca,
                err.text);
}

// ---- coordinator and members

// "psserver ps-1 of host h", and when and how it was lost, if that is known.
static const char *lost_text(char out[LOST_TEXT],
                             const Sluice__V1__MemberStatus *m)
{
    char ago[OUT_NUMBER];
    int n = snprintf(out, LOST_TEXT, "%s %.64s%s%.64s", m->role, m->name,
                     m->host[0] != '\0' ? " of host " : "", m->host);

    if (m->reason[0] != '\0')
        snprintf(out + n, LOST_TEXT - (size_t)n, ", %s ago: %.100s",
                 out_time(ago, m->heartbeat_age_ms / 1000), m->reason);
    return out;
}

// No job waits for one without shards. (Coordinators of before count none and
// say no reason.)
static void check_lost_server(struct findings *f,
                              const Sluice__V1__MemberStatus *m)
{
    char text[LOST_TEXT];

    if (m->shards == 0 && m->reason[0] != '\0')
        finding(f, FINDING_NOTE, "member", "lost: %s; no job waits for it",
                lost_text(text, m));
    else
        finding(f, FINDING_WARN, "member",
                "lost: %s; jobs wait for its shards: start it again%s%.64s "
                "under this name, with its state folder or the store",
                lost_text(text, m), m->host[0] != '\0' ? " on " : "", m->host);
}

// Workers come and go: one line for all, of which the newest is the first.
static void check_lost_workers(struct findings *f,
                               const Sluice__V1__ClusterReply *reply)
{
    const Sluice__V1__MemberStatus *newest = NULL;
    char text[LOST_TEXT];
    size_t lost = 0;

    for (size_t i = 0; i < reply->n_members; i++) {
        const Sluice__V1__MemberStatus *m = reply->members[i];

        if (!list_is_lost(m) || strcmp(m->role, "worker") != 0)
            continue;
        newest = lost == 0 ? m : newest;
        lost++;
    }
    if (lost > 0)
        finding(f, FINDING_NOTE, "members",
                "lost lately: %zu worker%s (sluice workers); other workers do "
                "their work; the last was %s",
                lost, lost == 1 ? "" : "s", lost_text(text, newest));
}

static void doctor_report_absent(struct findings *f,
                                 const Sluice__V1__MemberStatus *m)
{
    finding(f, FINDING_WARN, "member", "%s %s%s%s is %s", m->role, m->name,
            m->host[0] != '\0' ? " on " : "", m->host, m->state);
}

// The store, where it is a folder of this host too.
static void check_store(struct findings *f,
                        const Sluice__V1__ClusterReply *reply)
{
    if (reply->store_dir[0] == '/' && access(reply->store_dir, F_OK) == 0)
        doctor_space(f, reply->store_dir);
}

static void check_members(struct findings *f,
                          const Sluice__V1__ClusterReply *reply)
{
    size_t workers = 0, servers = 0;

    for (size_t i = 0; i < reply->n_members; i++) {
        const Sluice__V1__MemberStatus *m = reply->members[i];
        bool ready = strcmp(m->state, "ready") == 0;

        workers += ready && strcmp(m->role, "worker") == 0;
        servers += ready && strcmp(m->role, "psserver") == 0;
        if (list_is_lost(m)) {
            if (strcmp(m->role, "psserver") == 0)
                check_lost_server(f, m);
            continue;
        }
        if (!ready)
            doctor_report_absent(f, m);
        if (m->version[0] != '\0' && strcmp(m->version, reply->version) != 0)
            finding(f, FINDING_WARN, "member",
                    "%s %s has version %s, the coordinator %s", m->role,
                    m->name, m->version, reply->version);
    }
    check_lost_workers(f, reply);
    finding(f, workers > 0 && servers > 0 ? FINDING_OK : FINDING_WARN,
            "members", "%zu psservers and %zu workers are ready%s", servers,
            workers,
            workers > 0 && servers > 0
                ? ""
                : "; jobs wait until a psserver and a worker are attached");
}

void doctor_coordinator(struct findings *f, const struct conf *conf)
{
    Sluice__V1__ClusterRequest request = SLUICE__V1__CLUSTER_REQUEST__INIT;
    Sluice__V1__ClusterReply *reply;
    struct sl_error err = SL_ERROR_INIT;
    struct api_client *api = NULL;
    enum sl_err rc = api_open(&api, conf, &err);

    if (rc == SL_OK)
        rc = api_cluster(api, &request, &reply, &err);
    if (rc != SL_OK) {
        finding(f, FINDING_BAD, "coordinator", "%s", err.text);
    } else {
        finding(f, FINDING_OK, "coordinator",
                "%s answers: version %s, term %llu", api_answered(api),
                reply->version, (unsigned long long)reply->term);
        check_members(f, reply);
        check_store(f, reply);
        doctor_dial(f, api, reply);
        for (size_t i = 0; i < reply->n_warnings; i++)
            finding(f, FINDING_WARN, "cluster", "%s", reply->warnings[i]);
    }
    api_close(api);
}
