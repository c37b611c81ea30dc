// SPDX-License-Identifier: Apache-2.0
// coordinator/etcd/etcd_lease.c -- leases, and the state of a member.
#include "coordinator/etcd/etcd_inner.h"

#include <stdio.h>
#include <string.h>

#include "common/base/utf8.h"

#define METHOD_GRANT "/etcdserverpb.Lease/LeaseGrant"
#define METHOD_REVOKE "/etcdserverpb.Lease/LeaseRevoke"
#define METHOD_RENEW "/etcdserverpb.Lease/LeaseKeepAlive"
#define METHOD_STATUS "/etcdserverpb.Maintenance/Status"

enum sl_err etcd_lease_grant(struct etcd *e, int64_t ttl_s, int64_t limit_ms,
                             int64_t *id, int64_t *granted_s,
                             struct sl_error *err)
{
    Etcd__LeaseGrantRequest request = ETCD__LEASE_GRANT_REQUEST__INIT;
    const Etcd__LeaseGrantResponse *said;
    struct etcd_held *h;
    enum sl_err rc;

    request.ttl = ttl_s;
    rc = etcd_call(e, METHOD_GRANT, &request.base,
                   &etcd__lease_grant_response__descriptor, limit_ms, &h, err);
    if (rc != SL_OK)
        return rc;
    said = (const Etcd__LeaseGrantResponse *)h->message;
    if (said->id == 0 || said->ttl <= 0) {
        rc = sl_fail(err, SL_ECORRUPT, "etcd: a lease without a number or end");
    } else {
        *id = said->id;
        *granted_s = said->ttl;
    }
    etcd_held_free(h);
    return rc;
}

// The method is a stream. One request and one answer of it are on the wire what
// a call is, and a call has a limit and goes to the next member when it fails.
enum sl_err etcd_lease_renew(struct etcd *e, int64_t id, int64_t limit_ms,
                             int64_t *granted_s, struct sl_error *err)
{
    Etcd__LeaseKeepAliveRequest request = ETCD__LEASE_KEEP_ALIVE_REQUEST__INIT;
    struct etcd_held *h;
    enum sl_err rc;
    int64_t ttl;

    request.id = id;
    rc = etcd_call(e, METHOD_RENEW, &request.base,
                   &etcd__lease_keep_alive_response__descriptor, limit_ms, &h,
                   err);
    if (rc != SL_OK)
        return rc;
    ttl = ((const Etcd__LeaseKeepAliveResponse *)h->message)->ttl;
    etcd_held_free(h);
    if (ttl <= 0)
        return sl_fail(err, SL_ENOENT, "etcd: the lease has ended");
    *granted_s = ttl;
    return SL_OK;
}

enum sl_err etcd_lease_revoke(struct etcd *e, int64_t id, int64_t limit_ms,
                              struct sl_error *err)
{
    Etcd__LeaseRevokeRequest request = ETCD__LEASE_REVOKE_REQUEST__INIT;
    struct etcd_held *h;
    enum sl_err rc;

    request.id = id;
    rc = etcd_call(e, METHOD_REVOKE, &request.base, &etcd__empty__descriptor,
                   limit_ms, &h, err);
    if (rc == SL_OK)
        etcd_held_free(h);
    return rc;
}

static void etcd_status_read(const Etcd__StatusResponse *said,
                             struct etcd_status *out)
{
    *out = (struct etcd_status){
        .led = said->leader != 0,
        .bytes = said->db_size < 0 ? 0 : (uint64_t)said->db_size,
        .used = said->db_size_in_use < 0 ? 0 : (uint64_t)said->db_size_in_use,
    };
    snprintf(out->version, sizeof(out->version), "%s", said->version);
    utf8_line(out->version, sizeof(out->version), out->version);
    for (size_t i = 0; i < said->n_errors; i++)
        out->full = out->full || strstr(said->errors[i], "NOSPACE") != NULL;
}

enum sl_err etcd_status(struct etcd *e, int64_t limit_ms,
                        struct etcd_status *out, struct sl_error *err)
{
    Etcd__StatusRequest request = ETCD__STATUS_REQUEST__INIT;
    struct etcd_held *h;
    enum sl_err rc =
        etcd_call(e, METHOD_STATUS, &request.base,
                  &etcd__status_response__descriptor, limit_ms, &h, err);

    if (rc != SL_OK)
        return rc;
    etcd_status_read((const Etcd__StatusResponse *)h->message, out);
    etcd_held_free(h);
    return SL_OK;
}
