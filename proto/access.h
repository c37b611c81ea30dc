// SPDX-License-Identifier: Apache-2.0
// proto/access.h -- access rules of calls and messages: the roles in
// certificates, one table of methods and roles, and one of a member's words and
// roles.
//
// A certificate names its role in one URI of its SAN:
//
//     spiffe://sluice/ROLE/NAME[/tenant/TENANT]
//
// Role and name are words of letters, digits, '.', '-' and '_'; the name '*' is
// any. A URI without a name (`sluice cert init` made such once) means '*', and
// `client` is another word for admin. A caller without a certificate is
// `local`: on a socket file, a socket of this host, or a loopback address of a
// server that asks for no certificates.
//
// Threads  any.
// Memory   by value; nothing is allocated. Names that are returned are static.
// Errors   SL_EAUTH: the caller is not known, or its certificate is revoked;
//          SL_EDENIED: it is known, and may not. Texts say what to do. Outputs
//          are then untouched; `err` may be NULL, no other pointer may but
//          where it is said.
#ifndef PROTO_ACCESS_H
#define PROTO_ACCESS_H

#include <stdbool.h>

#include "common/base/status.h"
#include "common/net/rpc.h"
#include "proto/wire.h"

enum access_role {
    ACCESS_NOBODY,
    ACCESS_LOCAL, // every call that a user of this host may make
    ACCESS_ADMIN,
    ACCESS_SUBMITTER, // changes jobs of its tenant alone
    ACCESS_VIEWER,    // reads its tenant's jobs, or all without a tenant
    ACCESS_WORKER,
    ACCESS_PSSERVER,
    ACCESS_COORDINATOR,
    ACCESS_ROLES
};

#define ACCESS_NAME 101  // bytes of a name, with the 0
#define ACCESS_TENANT 65 // bytes of a tenant's name, with the 0
#define ACCESS_ANY "*"

struct access_who {
    enum access_role role;
    char name[ACCESS_NAME];     // "" if no certificate proves one
    char tenant[ACCESS_TENANT]; // "" for none
};

// Returns the word of a role below ACCESS_ROLES, "worker"; static text.
const char *access_role_name(enum access_role role);

// Returns the role that `word` (not NULL) names in a certificate, ACCESS_ADMIN
// for "client"; ACCESS_NOBODY for any other word, "local" included.
enum access_role access_role_of(const char *word);

// Reads the caller's role, name and tenant from its certificate. A submitter
// without a tenant is a tenant of its own name, and SL_EAUTH if that is '*' or
// too long for one. A caller without a certificate is ACCESS_LOCAL, or SL_EAUTH
// if the server asks for one (peer->guarded). SL_EAUTH, too: the certificate is
// revoked, has no URI or several, or one that is none of ours.
enum sl_err access_who(struct access_who *out, const struct rpc_peer *peer,
                       struct sl_error *err);

// Returns true if the caller may see no jobs but its tenant's: a submitter, or
// a viewer with a tenant.
bool access_of_tenant(const struct access_who *who);

// Checks that `peer` may call method `path`, by the table of methods and roles;
// for rpc_server_options.allow. A local caller may call any, also a path that
// is in no table, which others may not. Returns SL_OK if it may; SL_EAUTH: the
// caller is not known; SL_EDENIED: its role may not.
enum sl_err access_allow(const char *path, const struct rpc_peer *peer,
                         struct sl_error *err);

// Returns the name of method `path` in the audit log, "Submit"; NULL: its calls
// change nothing and are not in that log, or there is no such method.
const char *access_audit_name(const char *path);

// Options of clients that accept only servers of one role, whatever their name,
// by the certificate that the server shows; calls to any other end as
// rpc_channel_options.allow says.
extern const struct rpc_channel_options access_to_coordinator;
extern const struct rpc_channel_options access_to_psserver;
extern const struct rpc_channel_options access_to_worker;
// Returns true if many callers may share the certificate of `peer`: it is not
// known (access_who fails), or has the name '*'. False for a local caller. For
// rpc_server_options.shared.
bool access_shared(const struct rpc_peer *peer);

// Checks that the caller, as access_who gave it, may attend as a member of
// `role` with the name `name`; a local caller may under any. Returns SL_OK if
// it may; SL_EDENIED: its certificate is of another role, or of another name
// than '*' and `name`.
enum sl_err access_attend(const struct access_who *who, enum access_role role,
                          const char *name, struct sl_error *err);

// Checks that a member of `role` may send all that `up`, a message of its
// stream, says: by a second table, of the roles that may set each field of
// AttendUp and Heartbeat. A field that is 0 or empty says nothing. Returns
// SL_OK if it may; SL_EDENIED names the field, also one that the table lacks,
// or says that `up` has no kind.
enum sl_err access_say(enum access_role role, const Sluice__V1__AttendUp *up,
                       struct sl_error *err);

// Writes the URI of a certificate of that role, name and tenant to `out`;
// `role` is ACCESS_ADMIN or one behind it in the enum, `tenant` NULL: it names
// none. SL_EINVAL says which word is not allowed. That a submitter has a tenant
// or a name for one (access_who) is not checked.
enum sl_err access_uri(char out[RPC_PEER_ID], enum access_role role,
                       const char *name, const char *tenant,
                       struct sl_error *err);

#endif
