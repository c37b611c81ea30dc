// SPDX-License-Identifier: Apache-2.0
// host/launch/launch.h -- the role of this process, as its launcher tells it.
//
// A launcher of many processes tells each in its environment which of them it
// is. A source reads one such environment and makes a plan of it: role, name,
// the address to dial, the address to listen on.
//
//   tf_config  TF_CONFIG of a TensorFlow cluster: roles and addresses of all
//   torchrun   RANK, WORLD_SIZE, MASTER_ADDR
//   mpi        OMPI_COMM_WORLD_RANK and _SIZE, or PMI_RANK and PMI_SIZE; the
//              address is a setting
//   skypilot   SKYPILOT_NODE_RANK, SKYPILOT_NUM_NODES, SKYPILOT_NODE_IPS
//   slurm      SLURM_PROCID, SLURM_NTASKS, SLURM_JOB_ID, SLURM_NODEID, and
//              SLURM_STEP_NODELIST or without it SLURM_JOB_NODELIST
//   dns        HOSTNAME of a pod, and the coordinator's headless service
//   static     role and address are settings; the environment is not read
//   auto       the first of these (dns and static last) that has all its
//              variables; two that disagree are an error, and so is a wrong
//              variable of one that is at hand
//
// Where a source counts ranks, rank 0 is the coordinator, the next `psservers`
// ranks are psservers and the rest workers; or all have the role asked for. Too
// few ranks for that, or a rank beyond their count, are SL_EINVAL.
// TF_CONFIG has roles of its own.
//
//   launch_find -> launch_settings: settings for the daemon of that role
//               -> launch_text, launch_json: for people and programs
//
// Threads  any; no state is kept. launch_resolve may wait for a name server.
// Memory   a plan is a value; the environment is borrowed during a call.
// Errors   SL_ENOENT: a source lacks a variable, or no source has any, or no
//          role or coordinator is said; SL_EINVAL: a variable is wrong; both
//          name the variable, its value and a cure. SL_ERANGE: a list of names
//          is too long. SL_EUNAVAIL: a name does not resolve (yet). SL_ENOMEM.
//          A failure leaves *out as it was; `err` may be NULL. The functions
//          that append fail with SL_ENOMEM alone, and may leave a part.
#ifndef HOST_LAUNCH_LAUNCH_H
#define HOST_LAUNCH_LAUNCH_H

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
    // TF_CONFIG and dns have it: no daemon, as workers evaluate. A plan of it
    // has no addresses.
    LAUNCH_EVALUATOR,
};

#define LAUNCH_HOST 254    // bytes of a host's name, and the 0
#define LAUNCH_ADDRESS 264 // bytes of host:port, and the 0
#define LAUNCH_ADDRESSES (8 * LAUNCH_ADDRESS) // of a list (rpc_addresses_check)
#define LAUNCH_PSSERVERS_MAX 1024

// Addresses of a host's name.
struct launch_host {
    unsigned count;         // number of addresses
    bool loopback;          // first address is a loopback address
    char full[LAUNCH_HOST]; // full name, as the resolver has it
};

// Fills *out with the addresses of the host `name`. SL_EUNAVAIL: it does not
// resolve (yet).
typedef enum sl_err (*launch_resolver)(struct launch_host *out,
                                       const char *name, struct sl_error *err);

// Resolves `name` by the system's resolver.
enum sl_err launch_resolve(struct launch_host *out, const char *name,
                           struct sl_error *err);

struct launch_asked {
    enum launch_source source;
    enum launch_role role;   // LAUNCH_NO_ROLE: as the source says
    const char *coordinator; // address; NULL: as the source says
    unsigned psservers;      // how many ranks are psservers
    unsigned port;           // coordinator's; psserver i has port + 1 + i
    const char *service;     // dns: name of the coordinator
    const char *host;        // name of this machine
    char *const *env;        // environment to read, like environ
    launch_resolver resolve; // launch_resolve, or a test's
};

struct launch_plan {
    enum launch_source source;          // never LAUNCH_AUTO
    enum launch_role role;              // never LAUNCH_NO_ROLE
    unsigned index;                     // number among processes of its role
    char name[LAUNCH_HOST];             // name of this process
    char coordinator[LAUNCH_ADDRESSES]; // address to dial, or a list
    char listen[LAUNCH_ADDRESS];        // "": the daemon's default
    char advertise[LAUNCH_ADDRESS];     // "": the address it listens on
    char serve[LAUNCH_ADDRESS];  // address of the coordinator that this process
                                 // starts beside its worker; "": none
    unsigned psservers, workers; // numbers of them, as the source says
    unsigned restarts;           // earlier lives, as the launcher counts them
    char resume[65]; // word that all lives of one submission share, or ""
    char from[300];  // variables that were read
    char notes[500]; // oddities, one sentence each, or ""
};

// Makes a plan of asked->source and writes it to *out; LAUNCH_AUTO tries all,
// and two that disagree are SL_EINVAL. So is a list of addresses for a
// coordinator, and a role that TF_CONFIG does not give this process.
// asked->host, env and resolve are not NULL, nor is `service` where dns may be
// tried. Nothing of *asked is kept.
enum sl_err launch_find(struct launch_plan *out,
                        const struct launch_asked *asked, struct sl_error *err);

// Settings of the role's daemon. Their values lie in the plan and live with it.
#define LAUNCH_SETTINGS 4
struct launch_setting {
    const char *key, *value;
};

// Writes the settings of `plan` to `out` and returns their number: `listen`
// alone for a coordinator, else those that are not "", but no name of a static
// plan.
unsigned launch_settings(struct launch_setting out[LAUNCH_SETTINGS],
                         const struct launch_plan *plan);

// Returns the word of LAUNCH_SOURCES for a source, "slurm", or "auto" for any
// other; static text.
const char *launch_source_name(enum launch_source source);
// Returns the word of LAUNCH_ROLES for a role ("auto" for LAUNCH_NO_ROLE), or
// "evaluator"; static text. No other number is allowed. It is also the name of
// the role's daemon.
const char *launch_role_name(enum launch_role role);
// Returns the source that a word of LAUNCH_SOURCES names; LAUNCH_AUTO for other
// words.
enum launch_source launch_source_of(const char *name);
// Returns the role that a word of LAUNCH_ROLES, or "evaluator", names;
// LAUNCH_NO_ROLE for other words.
enum launch_role launch_role_of(const char *name);

// Appends the plan in one line, without a line break: "slurm: psserver 1,
// coordinator at h1:7070 (...)".
enum sl_err launch_line(struct buf *out, const struct launch_plan *plan);

// Appends the plan as text, with one line for each field that is not empty, and
// ended by a line break.
enum sl_err launch_text(struct buf *out, const struct launch_plan *plan);

// Returns the plan as an object with one member for each field, for the caller
// to free (json_decref); NULL when out of memory.
json_t *launch_json(const struct launch_plan *plan);

#endif
