// SPDX-License-Identifier: Apache-2.0
// proto/access.c -- the tables of methods, words and roles, and the grammar of
// the names in certificates.
#include "proto/access.h"

#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "proto/wire.h"

#define URI "spiffe://sluice/"
#define TENANT "/tenant/"

// ---- the table of methods: any other is for local callers alone

#define MAY(role) (1u << ACCESS_##role)
#define MEMBERS (MAY(WORKER) | MAY(PSSERVER))
#define ALL                                                                    \
    (MAY(ADMIN) | MAY(SUBMITTER) | MAY(VIEWER) | MEMBERS | MAY(COORDINATOR))

// Roles and audit names of our methods are options in the .proto files.
#define METHOD(METHOD_, roles, audit) {WIRE_##METHOD_, roles, audit},
static const struct access_method {
    const char *path;
    unsigned roles;
    const char *audit; // NULL: calls of it change nothing
} table[] = {
    WIRE_METHODS(METHOD) //
    {"/grpc.health.v1.Health/Check", ALL, NULL},
    {"/grpc.health.v1.Health/Watch", ALL, NULL},
    {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", MAY(ADMIN),
     NULL},
    {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
     MAY(ADMIN), NULL},
};

static const struct access_method *access_find_method(const char *path)
{
    for (size_t i = 0; i < SL_COUNT(table); i++)
        if (strcmp(table[i].path, path) == 0)
            return &table[i];
    return NULL;
}

const char *access_audit_name(const char *path)
{
    const struct access_method *m = access_find_method(path);

    return m != NULL ? m->audit : NULL;
}

// ---- names

static const char *const role_names[ACCESS_ROLES] = {
    [ACCESS_NOBODY] = "nobody",     [ACCESS_LOCAL] = "local",
    [ACCESS_ADMIN] = "admin",       [ACCESS_SUBMITTER] = "submitter",
    [ACCESS_VIEWER] = "viewer",     [ACCESS_WORKER] = "worker",
    [ACCESS_PSSERVER] = "psserver", [ACCESS_COORDINATOR] = "coordinator",
};

const char *access_role_name(enum access_role role)
{
    return role_names[role];
}

enum access_role access_role_of(const char *word)
{
    if (strcmp(word, "client") == 0)
        return ACCESS_ADMIN;
    for (int i = ACCESS_ADMIN; i < ACCESS_ROLES; i++)
        if (strcmp(role_names[i], word) == 0)
            return (enum access_role)i;
    return ACCESS_NOBODY;
}

static size_t word_length(const char *text)
{
    return strspn(text, "abcdefghijklmnopqrstuvwxyz"
                        "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_");
}

static bool access_is_word(const char *text, size_t size)
{
    size_t n = word_length(text);

    return n > 0 && n < size && text[n] == '\0';
}

static bool access_is_name(const char *text)
{
    return strcmp(text, ACCESS_ANY) == 0 || access_is_word(text, ACCESS_NAME);
}

// One word off the front of *text; false if there is none or it is too long.
static bool access_read_word(char *out, size_t size, const char **text)
{
    size_t n = **text == '*' ? 1 : word_length(*text);

    if (n == 0 || n >= size)
        return false;
    memcpy(out, *text, n);
    out[n] = '\0';
    *text += n;
    return true;
}

// Returns true if a name comes next, and no tenant: "tenant" may be one.
static bool name_follows(const char *uri)
{
    return *uri == '/' &&
           (strncmp(uri, TENANT, strlen(TENANT)) != 0 ||
            strncmp(uri + strlen(TENANT) - 1, TENANT, strlen(TENANT)) == 0);
}

static bool read_uri(struct access_who *out, const char *uri)
{
    char role[32];

    if (strncmp(uri, URI, strlen(URI)) != 0)
        return false;
    uri += strlen(URI);
    if (!access_read_word(role, sizeof(role), &uri))
        return false;
    out->role = access_role_of(role);
    snprintf(out->name, sizeof(out->name), ACCESS_ANY);
    if (name_follows(uri)) {
        uri++;
        if (!access_read_word(out->name, sizeof(out->name), &uri))
            return false;
    }
    if (strncmp(uri, TENANT, strlen(TENANT)) == 0) {
        uri += strlen(TENANT);
        if (!access_read_word(out->tenant, sizeof(out->tenant), &uri) ||
            !access_is_word(out->tenant, sizeof(out->tenant)))
            return false;
    }
    return *uri == '\0' && out->role != ACCESS_NOBODY;
}

static enum sl_err no_role(const struct rpc_peer *peer, const char *what,
                           struct sl_error *err)
{
    return sl_fail(err, SL_EAUTH,
                   "the certificate '%.120s' %s: make one with `sluice cert "
                   "issue DIR --role ROLE --name NAME` and give it with "
                   "--tls-cert and --tls-key",
                   peer->id, what);
}

static enum sl_err read_certificate(struct access_who *out,
                                    const struct rpc_peer *peer,
                                    struct sl_error *err)
{
    struct access_who who = {.role = ACCESS_NOBODY};

    if (peer->revoked)
        return sl_fail(err, SL_EAUTH,
                       "the certificate '%.120s' has been revoked (--tls-crl)",
                       peer->id);
    if (peer->uris > 1)
        return no_role(peer, "names more than one URI", err);
    if (peer->uris == 0 || !read_uri(&who, peer->id))
        return no_role(peer, "names no role", err);
    if (who.role == ACCESS_SUBMITTER && who.tenant[0] == '\0') {
        if (!access_is_word(who.name, sizeof(who.tenant)))
            return no_role(peer, "is a submitter's without a tenant", err);
        snprintf(who.tenant, sizeof(who.tenant), "%.64s", who.name);
    }
    *out = who;
    return SL_OK;
}

enum sl_err access_who(struct access_who *out, const struct rpc_peer *peer,
                       struct sl_error *err)
{
    if (peer->way == RPC_WAY_TLS)
        return read_certificate(out, peer, err);
    if (peer->way == RPC_WAY_PLAIN && peer->guarded)
        return sl_fail(err, SL_EAUTH,
                       "this daemon asks for certificates (--tls-ca, "
                       "--tls-cert, --tls-key)");
    *out = (struct access_who){.role = ACCESS_LOCAL};
    return SL_OK;
}

bool access_of_tenant(const struct access_who *who)
{
    return who->role == ACCESS_SUBMITTER ||
           (who->role == ACCESS_VIEWER && who->tenant[0] != '\0');
}

// ---- decisions

// "admin, submitter".
static const char *list_roles(char out[160], unsigned roles)
{
    size_t n = 0;

    snprintf(out, 160, "nobody");
    for (int i = ACCESS_ADMIN; i < ACCESS_ROLES; i++)
        if (roles & 1u << i)
            n += (size_t)snprintf(out + n, 160 - n, "%s%s", n > 0 ? ", " : "",
                                  role_names[i]);
    return out;
}

enum sl_err access_allow(const char *path, const struct rpc_peer *peer,
                         struct sl_error *err)
{
    const struct access_method *method;
    struct access_who who;
    char list[160];
    unsigned roles;
    enum sl_err rc = access_who(&who, peer, err);

    if (rc != SL_OK || who.role == ACCESS_LOCAL)
        return rc;
    method = access_find_method(path);
    roles = method != NULL ? method->roles : 0;
    if (roles & 1u << who.role)
        return SL_OK;
    return sl_fail(err, SL_EDENIED,
                   "a certificate of role %s ('%.120s') may not call %s; of "
                   "these roles one may: %s",
                   role_names[who.role], peer->id, path,
                   list_roles(list, roles));
}

// ---- what members say

// By the number of each field of AttendUp and Heartbeat; fields that are
// not here are refused.
static const unsigned access_kinds[] = {
    [1] = MEMBERS,        // hello
    [2] = MEMBERS,        // heartbeat: see below
    [3] = MAY(PSSERVER),  // shard_hello
    [4] = MEMBERS,        // snapshot: a worker's is of a rank
    [5] = MAY(WORKER),    // complete
    [6] = MAY(WORKER),    // failed
    [7] = MAY(WORKER),    // hand_back
    [8] = MAY(WORKER),    // map_wanted
    [9] = MAY(WORKER),    // completes
    [11] = MAY(PSSERVER), // deleted
    [20] = MAY(WORKER),   // ring_join
    [21] = MAY(WORKER),   // ring_answer
    [22] = MAY(WORKER),   // ring_ready
    [23] = MAY(WORKER),   // ring_step
    [24] = MAY(WORKER),   // ring_broken
    [25] = MAY(WORKER),   // ring_copied
    [40] = MAY(PSSERVER), // rates_taken
    [41] = MAY(PSSERVER), // feed_ended
    [45] = MAY(PSSERVER), // replica
    [60] = MEMBERS,       // trace_piece
    [61] = MEMBERS,       // log_piece
};

static const unsigned beats[] = {
    [1] = MEMBERS,        // seq
    [2] = MAY(WORKER),    // leases
    [3] = MAY(PSSERVER),  // shards
    [4] = MEMBERS,        // draining
    [5] = MEMBERS,        // resident_bytes
    [6] = MEMBERS,        // why
    [7] = MAY(WORKER),    // device
    [50] = MEMBERS,       // sent_us
    [51] = MEMBERS,       // heard_seq
    [52] = MEMBERS,       // heard_us
    [80] = MEMBERS,       // cpu_us
    [81] = MEMBERS,       // host_sent_bytes
    [82] = MEMBERS,       // host_received_bytes
    [83] = MAY(WORKER),   // left_out
    [84] = MAY(PSSERVER), // empties
    [85] = MAY(PSSERVER), // pushes
};

// Whether a message says anything in a field.
static bool access_field_is_set(const ProtobufCMessage *m,
                                const ProtobufCFieldDescriptor *f)
{
    const char *at = (const char *)m + f->offset;

    if (f->label == PROTOBUF_C_LABEL_REPEATED)
        return *(const size_t *)((const char *)m + f->quantifier_offset) > 0;
    if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
        return *(const uint32_t *)((const char *)m + f->quantifier_offset) ==
               f->id;
    switch (f->type) {
    case PROTOBUF_C_TYPE_BOOL:
        return *(const protobuf_c_boolean *)at;
    case PROTOBUF_C_TYPE_STRING:
        return (*(char *const *)at)[0] != '\0';
    default: // numbers, of 64 bits
        return *(const uint64_t *)at != 0;
    }
}

static enum sl_err access_check_field(const unsigned *may, size_t count,
                                      const ProtobufCFieldDescriptor *f,
                                      enum access_role role,
                                      struct sl_error *err)
{
    char list[160];
    unsigned roles = f->id < count ? may[f->id] : 0;

    if (roles & 1u << role)
        return SL_OK;
    return sl_fail(err, SL_EDENIED,
                   "a member of role %s may not say '%s'; of these roles one "
                   "may: %s",
                   role_names[role], f->name, list_roles(list, roles));
}

static enum sl_err may_beat(enum access_role role,
                            const Sluice__V1__Heartbeat *beat,
                            struct sl_error *err)
{
    const ProtobufCMessageDescriptor *of = beat->base.descriptor;
    enum sl_err rc = SL_OK;

    for (unsigned i = 0; i < of->n_fields && rc == SL_OK; i++)
        if (access_field_is_set(&beat->base, &of->fields[i]))
            rc = access_check_field(beats, SL_COUNT(beats), &of->fields[i],
                                    role, err);
    return rc;
}

enum sl_err access_say(enum access_role role, const Sluice__V1__AttendUp *up,
                       struct sl_error *err)
{
    const ProtobufCFieldDescriptor *kind =
        protobuf_c_message_descriptor_get_field(up->base.descriptor,
                                                (unsigned)up->kind_case);
    enum sl_err rc;

    if (kind == NULL)
        return sl_fail(err, SL_EDENIED, "a member's message says nothing");
    rc = access_check_field(access_kinds, SL_COUNT(access_kinds), kind, role,
                            err);
    if (rc == SL_OK && up->kind_case == SLUICE__V1__ATTEND_UP__KIND_HEARTBEAT)
        rc = may_beat(role, up->heartbeat, err);
    return rc;
}

// ---- servers that clients dial

static enum sl_err access_check_server(const struct rpc_peer *server,
                                       enum access_role role,
                                       struct sl_error *err)
{
    struct access_who who = {.role = ACCESS_NOBODY};
    const char *name = role_names[role];

    if (server->revoked)
        return sl_fail(err, SL_EAUTH,
                       "its certificate '%.120s' has been revoked (--tls-crl)",
                       server->id);
    if (server->uris != 1 || !read_uri(&who, server->id))
        return sl_fail(err, SL_EAUTH,
                       "its certificate '%.120s' names no role, and a %s was "
                       "dialled: make one with `sluice cert issue DIR --role "
                       "%s --name NAME --host HOST` and start it with that",
                       server->id, name, name);
    if (who.role != role)
        return sl_fail(err, SL_EAUTH,
                       "its certificate '%.120s' is of role %s, and a %s was "
                       "dialled",
                       server->id, role_names[who.role], name);
    return SL_OK;
}

static enum sl_err access_check_coordinator(const struct rpc_peer *server,
                                            struct sl_error *err)
{
    return access_check_server(server, ACCESS_COORDINATOR, err);
}

static enum sl_err access_check_psserver(const struct rpc_peer *server,
                                         struct sl_error *err)
{
    return access_check_server(server, ACCESS_PSSERVER, err);
}

static enum sl_err access_check_worker(const struct rpc_peer *server,
                                       struct sl_error *err)
{
    return access_check_server(server, ACCESS_WORKER, err);
}

const struct rpc_channel_options access_to_coordinator = {
    .allow = access_check_coordinator};
const struct rpc_channel_options access_to_psserver = {
    .allow = access_check_psserver};
const struct rpc_channel_options access_to_worker = {.allow =
                                                         access_check_worker};

bool access_shared(const struct rpc_peer *peer)
{
    struct access_who who;

    return access_who(&who, peer, NULL) != SL_OK ||
           strcmp(who.name, ACCESS_ANY) == 0;
}

enum sl_err access_attend(const struct access_who *who, enum access_role role,
                          const char *name, struct sl_error *err)
{
    if (who->role == ACCESS_LOCAL)
        return SL_OK;
    if (who->role != role)
        return sl_fail(err, SL_EDENIED,
                       "a certificate of role %s may not attend as a %s",
                       role_names[who->role], role_names[role]);
    if (strcmp(who->name, ACCESS_ANY) != 0 && strcmp(who->name, name) != 0)
        return sl_fail(err, SL_EDENIED,
                       "the certificate of %s %s may not attend as '%.100s': "
                       "start it with --name %s, or make a certificate of that "
                       "name",
                       role_names[role], who->name, name, who->name);
    return SL_OK;
}

enum sl_err access_uri(char out[RPC_PEER_ID], enum access_role role,
                       const char *name, const char *tenant,
                       struct sl_error *err)
{
    if (!access_is_name(name))
        return sl_fail(err, SL_EINVAL,
                       "'%.100s' is no name: letters, digits, '.', '-', '_', "
                       "up to %d, or '*'",
                       name, ACCESS_NAME - 1);
    if (tenant != NULL && !access_is_word(tenant, ACCESS_TENANT))
        return sl_fail(err, SL_EINVAL,
                       "'%.100s' is no tenant: letters, digits, '.', '-', '_', "
                       "up to %d",
                       tenant, ACCESS_TENANT - 1);
    snprintf(out, RPC_PEER_ID, URI "%s/%s%s%s", role_names[role], name,
             tenant != NULL ? TENANT : "", tenant != NULL ? tenant : "");
    return SL_OK;
}
