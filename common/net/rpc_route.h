// SPDX-License-Identifier: Apache-2.0
// common/net/rpc_route.h -- which of several addresses the calls of a channel
// go to: lists "a:7070,b:7070", and the choice among their addresses.
//
//   a call failed at the present address ----> the address that the server
//     named as serving (RPC_STANDBY), if it is on the list and was not tried
//     since a call succeeded; else the next on the list that was not tried
//   each was tried --------------------------> the next, and all count as
//                                              untried again
//
// A server may name any address, so none outside the list is ever used; and two
// servers that name each other do not keep a call from the third address.
//
// Threads  one at a time; the channel's lock.
// Memory   the addresses are copies that live until rpc_route_release.
// Errors   SL_EINVAL: no list of addresses, in words; SL_ENOMEM. `err` may be
//          NULL.
#ifndef COMMON_NET_RPC_ROUTE_H
#define COMMON_NET_RPC_ROUTE_H

#include <stdbool.h>

#include "common/net/rpc.h"

struct rpc_route {
    char *text; // owned: the addresses, each with its 0
    const char *address[RPC_ADDRESSES_MAX];
    unsigned count, at;
    unsigned tried; // bit i: a call to address[i] failed since one succeeded
};

// Reads `list` (rpc_addresses_check) into *r, for rpc_route_release; calls go
// to its first address then. A failure leaves nothing to release.
enum sl_err rpc_route_init(struct rpc_route *r, const char *list,
                           struct sl_error *err);
// Frees the addresses and leaves *r all zeroes, which is allowed.
void rpc_route_release(struct rpc_route *r);

// Notes that a call to address `at`, an index, ended with `code` and `text`,
// and moves r->at if that address did not serve (SL_EUNAVAIL, SL_ETIMEDOUT);
// any other code but SL_ECANCELED counts as a success. Does nothing for
// SL_ECANCELED, or if calls go to another address by now.
void rpc_route_note(struct rpc_route *r, unsigned at, enum sl_err code,
                    const char *text);

// Returns true if the last call failed and the present address was not tried
// since: a caller tries it at once, and waits otherwise.
bool rpc_route_untried(const struct rpc_route *r);

#endif
