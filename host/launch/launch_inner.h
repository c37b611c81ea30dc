// SPDX-License-Identifier: Apache-2.0
// host/launch/launch_inner.h -- what the sources share.
//
// Threads  any.
// Memory   values of variables are borrowed from the environment.
// Errors   as in launch.h: SL_ENOENT for a variable that is missing, so that
//          auto can go on to the next source. An address that is refused may
//          have been written to `out`.
#ifndef HOST_LAUNCH_LAUNCH_INNER_H
#define HOST_LAUNCH_LAUNCH_INNER_H

#include "host/launch/launch.h"

// Returns the value of variable `name` in asked->env; NULL if it is not set
// there.
const char *launch_env(const struct launch_asked *asked, const char *name);

// Sets *out to the value of the variable `name`. SL_ENOENT: it is not set.
// SL_EINVAL: it is empty.
enum sl_err launch_need(const char **out, const struct launch_asked *asked,
                        const char *name, struct sl_error *err);

// Sets *out to the value of the variable `name`, a number from 0 to `max` in
// decimal digits. SL_ENOENT: it is not set. SL_EINVAL: it is no such number.
enum sl_err launch_need_number(unsigned *out, const struct launch_asked *asked,
                               const char *name, unsigned max,
                               struct sl_error *err);

// Checks that the `n` bytes of `host`, a part of a text that a 0 ends, may be a
// host's name or number; else SL_EINVAL, with a text that begins with `what`.
enum sl_err launch_check_host(const char *what, const char *host, size_t n,
                              struct sl_error *err);

// Writes "host:port" to `out`, with brackets if `host` has colons. SL_EINVAL:
// `host`, which variable `what` gave, is no host, or the port is too large.
enum sl_err launch_address(char out[LAUNCH_ADDRESS], const char *what,
                           const char *host, unsigned port,
                           struct sl_error *err);

// Checks that `address`, which a person or a file gave, is "host:port" with a
// port from 1 to 65535; else SL_EINVAL, with a text that names `what`.
enum sl_err launch_check(const char *what, const char *address,
                         struct sl_error *err);

// Copies asked->coordinator, which is not NULL, to plan->coordinator, and
// appends it to plan->from. SL_EINVAL: it is neither an address nor a list of
// some (rpc_addresses_check), or too long; SL_ENOMEM.
enum sl_err launch_take_coordinator(struct launch_plan *plan,
                                    const struct launch_asked *asked,
                                    struct sl_error *err);

// Returns true for a loopback address or a socket file (rpc_address_is_local).
bool launch_local(const char *address);

// Writes the address on which a process listens that others reach at `address`,
// which launch_check accepts or is a socket file: the same if it is local
// (launch_local), else its port on all addresses.
void launch_listen(char out[LAUNCH_ADDRESS], const char *address);

// Writes the address on which a worker of `host` listens to `out`: that host
// with any free port; "", which is the worker's default, for a loopback host.
// SL_EINVAL, with a text that names `what`: it is no host.
enum sl_err launch_listen_worker(char out[LAUNCH_ADDRESS], const char *what,
                                 const char *host, struct sl_error *err);

// Appends a variable that was read to plan->from, behind ", "; cut where it
// does not fit. What is no printable ASCII becomes '?'.
void launch_from(struct launch_plan *plan, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

// Appends one sentence about an oddity to plan->notes, behind "; ", in the same
// way.
void launch_note(struct launch_plan *plan, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

// Sets plan->resume to `text`, or if it has over 64 bytes to its beginning and
// a hash: at most 64 bytes, the same for the same text, fit for `submit
// --request-id`. What is no printable ASCII becomes '?'. Fails as sha256_init
// does.
enum sl_err launch_resume(struct launch_plan *plan, const char *text,
                          struct sl_error *err);

// Fills `plan` from one source. `plan` is empty except for its source, and used
// only if the function returns SL_OK. The variables of each source stand in
// launch.h.
typedef enum sl_err (*launch_source_fn)(struct launch_plan *plan,
                                        const struct launch_asked *asked,
                                        struct sl_error *err);

// Reads TF_CONFIG. Without asked->coordinator the chief is the coordinator; in
// a cluster with neither chief nor ps, worker 0 starts one beside itself
// (plan->serve). SL_EINVAL if that gives no address, or asked->role is not the
// role of the task.
enum sl_err launch_tf_config(struct launch_plan *plan,
                             const struct launch_asked *asked,
                             struct sl_error *err);

// Reads Slurm's variables. Without asked->coordinator the first node of the
// step, or of the job, is the coordinator's. plan->resume is of the job's
// number, plan->restarts of SLURM_RESTART_COUNT where it is set.
enum sl_err launch_slurm(struct launch_plan *plan,
                         const struct launch_asked *asked,
                         struct sl_error *err);

// Reads torchrun's variables. Without asked->coordinator the host MASTER_ADDR
// is the coordinator's. plan->resume is of TORCHELASTIC_RUN_ID, unless that is
// "none", plan->restarts of TORCHELASTIC_RESTART_COUNT, where they are set. The
// process is on asked->host; on MASTER_ADDR if it is rank 0 or that is a local
// address.
enum sl_err launch_torchrun(struct launch_plan *plan,
                            const struct launch_asked *asked,
                            struct sl_error *err);

// Reads the variables of Open MPI or, without them, of PMI: rank and size.
// Neither names a host: SL_ENOENT without asked->coordinator. If that is an
// address of this host, all ranks are taken to run here, on 127.0.0.1; else
// each is on asked->host.
enum sl_err launch_mpi(struct launch_plan *plan,
                       const struct launch_asked *asked, struct sl_error *err);

// Reads SkyPilot's variables. Without asked->coordinator the first address is
// the coordinator's. SL_EINVAL if there are not as many addresses as nodes.
// plan->resume is of SKYPILOT_TASK_ID where it is set.
enum sl_err launch_skypilot(struct launch_plan *plan,
                            const struct launch_asked *asked,
                            struct sl_error *err);

// Reads HOSTNAME, which ends in "-ROLE-N": coordinator (chief, master),
// psserver (ps), worker or evaluator; with asked->role it may end otherwise,
// but a psserver's in "-N". Without asked->coordinator the coordinator is at
// the name asked->service. May wait for a name server (asked->resolve).
// SL_ENOENT: no role; SL_EINVAL: a psserver without a number, or a service of
// several addresses; SL_EUNAVAIL: it does not resolve yet.
enum sl_err launch_dns(struct launch_plan *plan,
                       const struct launch_asked *asked, struct sl_error *err);

#endif
