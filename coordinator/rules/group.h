// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/group.h -- the groups of a hybrid job: their members, and
// which of them leads.
//
// A group has `size` places. A worker takes a place in a group of its host, or
// in any group; groups with members come first, so that groups fill up. Each
// group is a ring (ring.h) of ranks without state; its first member leads.
// The generations of all groups of a job are numbered together, so that a
// message of one is never taken for another's.
//
// Threads  the loop.
// Memory   groups_release frees; all zeroes is allowed. A host is copied. A
//          pointer to a group holds until groups_release. No pointer is NULL.
// Units    a place is group * size + the place in it.
// Errors   SL_ENOMEM: nothing has changed.
#ifndef COORDINATOR_RULES_GROUP_H
#define COORDINATOR_RULES_GROUP_H

#include "coordinator/rules/ring.h"

struct group {
    struct ring ring;
    uint64_t taken;                 // a bit per place
    char host[WIRE_NAME_BYTES + 1]; // the host of its members, with by_host
};

struct groups {
    struct group **group;  // owned
    uint32_t count, space; // groups; and how many fit into the array
    uint32_t size;         // places per group, at most 64
    bool by_host;
    uint64_t generation; // the newest number; 0: none yet
};

// Sets *g to no groups, of `size` places each (1 to 64; asserted). by_host: all
// members of a group are to be of one host.
void groups_init(struct groups *g, uint32_t size, bool by_host);

// Frees all groups with their rings, and leaves *g all zeroes: groups_init
// makes it usable again.
void groups_release(struct groups *g);

// Returns a free place for a worker of `host`, which groups_take then takes: in
// the group with the most members that has one (with by_host: in an empty group
// or one of that host), or the first place of a group that is to be made.
// Changes nothing; cannot fail.
uint64_t groups_place(const struct groups *g, const char *host);

// Marks a place that groups_place returned for this host, and that was not
// taken since, as taken; makes its group if there is none. The first worker of
// an empty group gives it its host. The caller adds the rank to the group's
// ring (ring_join). SL_ENOMEM: nothing has changed.
enum sl_err groups_take(struct groups *g, uint64_t place, const char *host);

// Frees the place and takes `member` (struct member.id) out of its group's
// ring; a generation that the member was in is torn by that. The group stays,
// even if it is empty. Does nothing if there is no such group.
void groups_leave(struct groups *g, uint64_t place, uint64_t member);

// Returns the group that `place` is in, free or taken; NULL if it does not
// exist.
struct group *groups_at(const struct groups *g, uint64_t place);

// Returns a running group that had better be given up: its members all have
// space in another running group, which is no smaller (with by_host: and of the
// same host). NULL: there is none. A group counts here if its generation is not
// torn and has every worker with a place in the group. Changes nothing.
struct group *groups_spare(const struct groups *g);

// Returns how many places of the group are taken.
static inline uint32_t group_places_taken(const struct group *g)
{
    return (uint32_t)__builtin_popcountll(g->taken);
}

// Returns true if the group runs, with a generation that is not torn, and
// `member` (struct member.id) is its first member.
bool group_leads(const struct group *g, uint64_t member);

#endif
