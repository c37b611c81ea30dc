// SPDX-License-Identifier: Apache-2.0
// common/launch/launch.h -- who this process is, as whoever started it says.
//
// Whatever starts many processes at once tells each in its environment which
// of them it is. A source reads one such environment and makes a plan of it:
// role, name, whom to dial, where to listen.
//
//   tf_config  TF_CONFIG of a TensorFlow cluster: roles and addresses of all
//   torchrun   RANK, WORLD_SIZE, MASTER_ADDR
//   mpi        OMPI_COMM_WORLD_RANK, or PMI_RANK; the address is asked for
//   skypilot   SKYPILOT_NODE_RANK, SKYPILOT_NODE_IPS
//   slurm      SLURM_PROCID, SLURM_NTASKS, SLURM_NODEID, SLURM_JOB_NODELIST
//   dns        HOSTNAME of a pod, and the coordinator's headless service
//   static     role and address are asked for; nothing is looked for
//   auto       the first of these (dns and static last) that has all it
//              needs; two that disagree are an error
//
// Where a source counts ranks, rank 0 is the coordinator, as many as asked for
// are psservers, the rest workers; or all are what is asked for. TF_CONFIG has
// roles of its own.
//
//   launch_find -> launch_settings: what the daemon of that role is told
//               -> launch_text, launch_json: for people and programs
//
// Threads  any; nothing is kept. launch_resolve may wait for a name server.
// Memory   a plan is a value; the environment is borrowed during a call.
// Errors   SL_ENOENT: a source lacks a variable, or there is none; SL_EINVAL:
//          what is there is wrong; both name the variable, what it says and
//          what to do. SL_EUNAVAIL: a name does not resolve (yet).
#ifndef COMMON_LAUNCH_LAUNCH_H
#define COMMON_LAUNCH_LAUNCH_H

#include <stdbool.h>

#include "common/base/json.h"
#include "common/base/status.h"

struct buf;

#define LAUNCH_SOURCES "auto|static|tf_config|slurm|torchrun|mpi|skypilot|dns"
#define LAUNCH_ROLES "auto|coordinator|psserver|worker"

enum launch_source {
    LAUNCH_AUTO,
    LAUNCH_STATIC,
    LAUNCH_TF_CONFIG,
    LAUNCH_SLURM,
    LAUNCH_TORCHRUN,
    LAUNCH_MPI,
    LAUNCH_SKYPILOT,
    LAUNCH_DNS,
};

enum launch_role {
    LAUNCH_NO_ROLE,
    LAUNCH_COORDINATOR,
    LAUNCH_PSSERVER,
    LAUNCH_WORKER,
    LAUNCH_EVALUATOR, // of TF_CONFIG: nothing to start, workers evaluate
};

#define LAUNCH_HOST 254    // bytes of a host's name, and the 0
#define LAUNCH_ADDRESS 264 // of host:port
#define LAUNCH_PSSERVERS_MAX 1024

// What a name stands for.
struct launch_host {
    unsigned count; // addresses
    bool loopback;  // the first of them is this host's alone
    char full[LAUNCH_HOST];
};

typedef enum sl_err (*launch_resolver)(struct launch_host *out,
                                       const char *name, struct sl_error *err);

// By the system's resolver.
enum sl_err launch_resolve(struct launch_host *out, const char *name,
                           struct sl_error *err);

struct launch_asked {
    enum launch_source source;
    enum launch_role role;   // LAUNCH_NO_ROLE: as the source says
    const char *coordinator; // address; NULL: as the source says
    unsigned psservers;      // how many ranks are psservers
    unsigned port;           // of the coordinator; psserver i has port + 1 + i
    const char *service;     // dns: name of the coordinator
    const char *host;        // of this machine
    char *const *env;        // like environ
    launch_resolver resolve;
};

struct launch_plan {
    enum launch_source source;        // never LAUNCH_AUTO
    enum launch_role role;            // never LAUNCH_NO_ROLE
    unsigned index;                   // among those of its role
    char name[LAUNCH_HOST];           // of this process
    char coordinator[LAUNCH_ADDRESS]; // that is dialled
    char listen[LAUNCH_ADDRESS];      // "": the daemon's default
    char advertise[LAUNCH_ADDRESS];   // "": what it listens on
    char serve[LAUNCH_ADDRESS];  // where this process starts the coordinator
                                 // beside its worker; "": it does not
    unsigned psservers, workers; // that the source knows of
    unsigned restarts;
    char resume[65]; // the same word in each life of one submission, or ""
    char from[300];  // what was read
    char notes[500]; // what was odd, or ""; a sentence each
};

enum sl_err launch_find(struct launch_plan *out,
                        const struct launch_asked *asked, struct sl_error *err);

// Keys of the role's daemon. The values lie in the plan.
#define LAUNCH_SETTINGS 4
struct launch_setting {
    const char *key, *value;
};
unsigned launch_settings(struct launch_setting out[LAUNCH_SETTINGS],
                         const struct launch_plan *plan);

const char *launch_source_name(enum launch_source source);
const char *launch_role_name(enum launch_role role);   // the daemon's, too
enum launch_source launch_source_of(const char *name); // of LAUNCH_SOURCES
enum launch_role launch_role_of(const char *name);     // of LAUNCH_ROLES

// "psserver 1 of slurm (...)": the plan in one line.
enum sl_err launch_line(struct buf *out, const struct launch_plan *plan);

// The plan, a line or a member each. NULL when out of memory.
enum sl_err launch_text(struct buf *out, const struct launch_plan *plan);
json_t *launch_json(const struct launch_plan *plan);

#endif
