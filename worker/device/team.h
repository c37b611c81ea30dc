// SPDX-License-Identifier: Apache-2.0
// worker/device/team.h -- several devices of this host that compute a step
// together.
//
// The first of them is the worker's own, on the compute thread, as if there
// were no other. Each of the others, a mate, has a thread of its own that opens
// it, does what is posted to it in order, and closes it. team_work.h has what
// that is.
//
// After a failure a mate drops what else it is given, until somebody waits for
// it and takes the failure.
//
// Threads  the compute thread, but for what a mate does on its own.
// Memory   What is posted is copied; what that points at is borrowed until the
//          mate was waited for. A post allocates nothing.
// Units    mates count from 0; members from 0, which is the first device.
// Errors   those of opening a device; of what a mate did.
#ifndef WORKER_DEVICE_TEAM_H
#define WORKER_DEVICE_TEAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kern.h"

#define TEAM_MOST 16 // devices
#define TEAM_NAME 48 // of one, as kern_open has it

struct team;

// What a worker is told to compute with, "cuda:0,cuda:1".
struct team_names {
    unsigned count;
    char name[TEAM_MOST][TEAM_NAME];
};

// SL_EINVAL: no list, too long a one, "auto" with others, devices of two
// backends, or one GPU twice. On failure *out is untouched.
enum sl_err team_names_read(struct team_names *out, const char *list,
                            struct sl_error *err);

// Opens all devices but the first, which is `first`, one after the other. *out
// is NULL if there is only one.
enum sl_err team_new(struct team **out, struct kern_dev *first,
                     const struct team_names *names, const char *options,
                     struct sl_error *err);
// Closes them; what was made on them is gone. NULL is allowed.
void team_free(struct team *t);

// 0 of NULL.
unsigned team_mates(const struct team *t);
// The memory that they have; 0 of those that compute in the host's.
uint64_t team_bytes(const struct team *t);

// By what their gradients meet, for people: "host memory", or what the backend
// says of devices that reach each other.
const char *team_by(const struct team *t);
// True if they do.
bool team_joined(const struct team *t);

// One of them is lost: what the others wait for from it ends. A mate that loses
// its device does it by itself. Any thread.
void team_sever(struct team *t);

// Mates that have lost their device: why, of the first of them; "" if none has.
// Nothing is under way.
const char *team_lost(struct team *t);

// The samples [*first, *first + count) of n that a member computes: runs that
// differ by one at most, the larger ones first. Returns the count, which may be
// 0, but not of member 0.
uint32_t team_part(const struct team *t, unsigned member, uint32_t n,
                   uint32_t *first);

// What a mate does, on its thread and with its device.
typedef enum sl_err (*team_fn)(struct kern_dev *dev, const void *args,
                               struct sl_error *err);

#define TEAM_ARGS 256 // bytes, at most

// Behind what the mate has been given before; waits only if that is a lot.
void team_post(struct team *t, unsigned mate, team_fn fn, const void *args,
               size_t bytes);

// Until the mate has done all. Returns its failure, once.
enum sl_err team_wait(struct team *t, unsigned mate, struct sl_error *err);
// Until all have; the failure of the first that has one.
enum sl_err team_wait_all(struct team *t, struct sl_error *err);

#endif
