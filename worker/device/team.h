// SPDX-License-Identifier: Apache-2.0
// worker/device/team.h -- several devices of this host that compute a step
// together.
//
// The first device is the worker's own, on the compute thread, as if there were
// no other. Each other device, a mate, has a thread of its own that opens it,
// runs the commands that are posted in order, and closes it. team_work.h has
// the commands.
//
// After a failure a mate drops all further commands, until the compute thread
// waits for it and takes the failure.
//
// Threads  the compute thread, but for what a mate does on its own.
// Memory   What is posted is copied; what that points at is borrowed until the
//          mate was waited for. A post allocates nothing.
// Units    mates count from 0; members from 0, which is the first device.
// Errors   those of opening a device; of what a mate did. `err` may be NULL.
#ifndef WORKER_DEVICE_TEAM_H
#define WORKER_DEVICE_TEAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kern.h"

#define TEAM_MOST 16 // most devices
#define TEAM_NAME 48 // most bytes of a device's name (kern_open)

struct team;

// The devices that a worker is told to compute with, "cuda:0,cuda:1".
struct team_names {
    unsigned count;
    char name[TEAM_MOST][TEAM_NAME];
};

// Reads a list of names of devices with commas between them, without blanks;
// one of the host ("cpu", "ref") may stand there several times. SL_EINVAL: an
// empty or too long name, over TEAM_MOST of them, "auto" with others, devices
// of two backends, or one GPU twice. Whether they exist is left to kern_open.
// On failure *out is untouched.
enum sl_err team_names_read(struct team_names *out, const char *list,
                            struct sl_error *err);

// Opens all devices but the first, which is `first`, one after the other, and
// waits for them. *out is NULL if `names` holds only one, and untouched on
// failure. `options` as for kern_open. Only `first` is borrowed, until
// team_free.
enum sl_err team_new(struct team **out, struct kern_dev *first,
                     const struct team_names *names, const char *options,
                     struct sl_error *err);
// Closes the mates' devices; what was made on them is gone. NULL is allowed.
// Waits for the commands that were posted. `first` stays open.
void team_free(struct team *t);

// Returns the number of mates; 0 for NULL.
unsigned team_mates(const struct team *t);
// Returns the bytes of the mates' device memory; 0 if they compute in the
// host's.
uint64_t team_bytes(const struct team *t);

// Returns where gradients are summed, for people: "host memory", or what the
// backend says of devices that reach each other. It belongs to the team, which
// is not NULL here and in the next two.
const char *team_by(const struct team *t);
// Returns true if the devices reach each other: false from team_sever on, which
// a mate may call at any time.
bool team_joined(const struct team *t);

// Ends the waits of all devices for each other, as one of them is lost. A mate
// that loses its device calls it itself. Any thread. Does nothing if the
// devices do not reach each other, or were severed before.
void team_sever(struct team *t);

// Returns why the first mate that has lost its device did so; "" if none has.
// No command may be under way. The text belongs to the mate's device, and is
// valid until its next call.
const char *team_lost(struct team *t);

// Returns how many of `n` samples member `member` computes, and sets *first to
// the first of them. The counts differ by one at most, the larger ones first;
// only member 0 always has some. `t` may be NULL: then member 0 has all.
uint32_t team_part(const struct team *t, unsigned member, uint32_t n,
                   uint32_t *first);

// A command, run on the mate's thread with its device.
typedef enum sl_err (*team_fn)(struct kern_dev *dev, const void *args,
                               struct sl_error *err);

#define TEAM_ARGS 256 // most bytes of a command's arguments

// Posts a command to a mate, behind those before; waits only if its queue is
// full. `mate` is below team_mates. `args` may be NULL if `bytes` is 0; at most
// TEAM_ARGS bytes are copied.
void team_post(struct team *t, unsigned mate, team_fn fn, const void *args,
               size_t bytes);

// Waits until the mate, below team_mates, has run or dropped all its commands.
// Returns SL_OK, or its failure, once: from then on it runs commands again.
enum sl_err team_wait(struct team *t, unsigned mate, struct sl_error *err);
// Waits for all mates as team_wait does. Returns SL_OK, or the failure of the
// first mate that has one; all failures are forgotten then.
enum sl_err team_wait_all(struct team *t, struct sl_error *err);

#endif
