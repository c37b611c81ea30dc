// SPDX-License-Identifier: Apache-2.0
// common/launch/launch_inner.h -- what the sources share.
//
// Threads  any.
// Memory   what an environment says is borrowed from it.
// Errors   as in launch.h: SL_ENOENT for a variable that is missing, so that
//          auto can go on to the next source.
#ifndef COMMON_LAUNCH_LAUNCH_INNER_H
#define COMMON_LAUNCH_LAUNCH_INNER_H

#include "common/launch/launch.h"

// What a variable says; NULL if it is not set.
const char *launch_env(const struct launch_asked *asked, const char *name);

// The same, which must be there; and as a number from 0 to max.
enum sl_err launch_need(const char **out, const struct launch_asked *asked,
                        const char *name, struct sl_error *err);
enum sl_err launch_need_number(unsigned *out, const struct launch_asked *asked,
                               const char *name, unsigned max,
                               struct sl_error *err);

// Whether n bytes may be a host's name or number.
enum sl_err launch_check_host(const char *what, const char *host, size_t n,
                              struct sl_error *err);

// "host:port", with brackets where host has colons. SL_EINVAL: `what` gave a
// host that is none, or the port is too large.
enum sl_err launch_address(char out[LAUNCH_ADDRESS], const char *what,
                           const char *host, unsigned port,
                           struct sl_error *err);

// Checks "host:port" as a person or a file wrote it; the reason names `what`.
enum sl_err launch_check(const char *what, const char *address,
                         struct sl_error *err);

// The coordinator's address as it was asked for, which is not NULL.
enum sl_err launch_take_coordinator(struct launch_plan *plan,
                                    const struct launch_asked *asked,
                                    struct sl_error *err);

// Is what is at this address on this machine alone? As rpc_address_is_local.
bool launch_local(const char *address);

// Where a process listens that others know by this address: there if it is a
// loopback address, else at its port of every address of this machine.
void launch_listen(char out[LAUNCH_ADDRESS], const char *address);

// Where a worker listens, whose port nobody needs to know before.
enum sl_err launch_listen_worker(char out[LAUNCH_ADDRESS], const char *what,
                                 const char *host, struct sl_error *err);

// Adds to the plan's `from` or `notes`; what does not fit is left out.
void launch_from(struct launch_plan *plan, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void launch_note(struct launch_plan *plan, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

// A word of at most 64 bytes that stands for `text`, as `submit --request-id`
// takes it.
enum sl_err launch_resume(struct launch_plan *plan, const char *text,
                          struct sl_error *err);

// The sources. `plan` is empty but for its source, and only looked at when
// they end with SL_OK.
typedef enum sl_err (*launch_source_fn)(struct launch_plan *plan,
                                        const struct launch_asked *asked,
                                        struct sl_error *err);
enum sl_err launch_tf_config(struct launch_plan *plan,
                             const struct launch_asked *asked,
                             struct sl_error *err);
enum sl_err launch_slurm(struct launch_plan *plan,
                         const struct launch_asked *asked,
                         struct sl_error *err);
enum sl_err launch_torchrun(struct launch_plan *plan,
                            const struct launch_asked *asked,
                            struct sl_error *err);
enum sl_err launch_mpi(struct launch_plan *plan,
                       const struct launch_asked *asked, struct sl_error *err);
enum sl_err launch_skypilot(struct launch_plan *plan,
                            const struct launch_asked *asked,
                            struct sl_error *err);
enum sl_err launch_dns(struct launch_plan *plan,
                       const struct launch_asked *asked, struct sl_error *err);

#endif
