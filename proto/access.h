// SPDX-License-Identifier: Apache-2.0
// proto/access.h -- who may call and say what: the roles in certificates, one
// table of methods and roles, and one of a member's words and roles.
//
// A certificate names its role in one URI of its SAN:
//
//     spiffe://sluice/ROLE/NAME[/tenant/TENANT]
//
// Role and name are words of letters, digits, '.', '-' and '_'; the name '*' is
// any. A URI without a name (`sluice cert init` made such once) means '*', and
// `client` is another word for admin. Whoever calls without a certificate is
// `local`: on a socket file, a socket of this host, or a loopback address of a
// server that asks nobody for certificates.
//
// Threads  any.
// Memory   by value.
// Errors   SL_EAUTH: it is not known who calls, or its certificate is revoked;
//          SL_EDENIED: it is known, and may not. Texts say what to do.
#ifndef PROTO_ACCESS_H
#define PROTO_ACCESS_H

#include <stdbool.h>

#include "common/base/status.h"
#include "common/net/rpc.h"
#include "proto/wire.h"

enum access_role {
    ACCESS_NOBODY,
    ACCESS_LOCAL, // all that a user of this host may
    ACCESS_ADMIN,
    ACCESS_SUBMITTER, // of its tenant's jobs alone
    ACCESS_VIEWER,    // of its tenant's jobs, or of all without one
    ACCESS_WORKER,
    ACCESS_PSSERVER,
    ACCESS_COORDINATOR,
    ACCESS_ROLES
};

#define ACCESS_NAME 101  // bytes of a name, with the 0
#define ACCESS_TENANT 65 // of a tenant's
#define ACCESS_ANY "*"

struct access_who {
    enum access_role role;
    char name[ACCESS_NAME];     // "" where nobody has proved one
    char tenant[ACCESS_TENANT]; // "" for none
};

// "worker".
const char *access_role_name(enum access_role role);

// ACCESS_NOBODY for a word that certificates may not have.
enum access_role access_role_of(const char *word);

// Who a caller is. A submitter without a tenant is a tenant of its own name.
enum sl_err access_who(struct access_who *out, const struct rpc_peer *peer,
                       struct sl_error *err);

// Whether it may see no jobs but its tenant's.
bool access_of_tenant(const struct access_who *who);

// The table; for rpc_server_options.allow.
enum sl_err access_allow(const char *path, const struct rpc_peer *peer,
                         struct sl_error *err);

// Whom a client may dial, by the role in the certificate that is shown to it.
extern const struct rpc_channel_options access_to_coordinator;
extern const struct rpc_channel_options access_to_psserver;
extern const struct rpc_channel_options access_to_worker;
// Whether many may show this certificate: it names nobody, or anybody. For
// rpc_server_options.shared.
bool access_shared(const struct rpc_peer *peer);

// That somebody may attend under this role and name.
enum sl_err access_attend(const struct access_who *who, enum access_role role,
                          const char *name, struct sl_error *err);

// That a member of this role may say all that is in a message of its stream: a
// second table, of AttendUp's and Heartbeat's fields and roles. SL_EDENIED
// names the field.
enum sl_err access_say(enum access_role role, const Sluice__V1__AttendUp *up,
                       struct sl_error *err);

// The URI of a certificate; `tenant` may be NULL. SL_EINVAL says which word is
// none.
enum sl_err access_uri(char out[RPC_PEER_ID], enum access_role role,
                       const char *name, const char *tenant,
                       struct sl_error *err);

#endif
