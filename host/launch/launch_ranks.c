// SPDX-License-Identifier: Apache-2.0
// host/launch/launch_ranks.c -- sources that count their processes: Slurm,
// torchrun, MPI, SkyPilot.
#include "host/launch/launch_inner.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "common/base/num.h"
#include "host/launch/hostlist.h"

#define RANKS_MAX 1000000

// One process of `count`.
struct launch_rank {
    const char *source; // for errors
    unsigned rank, count;
    const char *first; // host of rank 0; NULL: unknown
    const char *host;  // host of this process
    unsigned job;      // distinguishes workers of several jobs, or NULL
};

static void launch_rank_set_role(struct launch_plan *plan,
                                 const struct launch_asked *asked,
                                 const struct launch_rank *r)
{
    plan->role = asked->role;
    plan->index = r->rank;
    if (asked->role == LAUNCH_NO_ROLE && r->rank == 0) {
        plan->role = LAUNCH_COORDINATOR;
    } else if (asked->role == LAUNCH_NO_ROLE && r->rank <= asked->psservers) {
        plan->role = LAUNCH_PSSERVER;
        plan->index = r->rank - 1;
    } else if (asked->role == LAUNCH_NO_ROLE) {
        plan->role = LAUNCH_WORKER;
        plan->index = r->rank - 1 - asked->psservers;
    }
    if (asked->role == LAUNCH_NO_ROLE) {
        plan->psservers = asked->psservers;
        plan->workers = r->count - 1 - asked->psservers;
    } else {
        plan->psservers = asked->role == LAUNCH_PSSERVER ? r->count : 0;
        plan->workers = asked->role == LAUNCH_WORKER ? r->count : 0;
    }
}

static void launch_rank_set_name(struct launch_plan *plan,
                                 const struct launch_rank *r)
{
    if (plan->role == LAUNCH_COORDINATOR)
        snprintf(plan->name, sizeof(plan->name), "coordinator");
    else if (plan->role == LAUNCH_PSSERVER)
        snprintf(plan->name, sizeof(plan->name), "ps-%u", plan->index);
    else if (r->job != 0)
        snprintf(plan->name, sizeof(plan->name), "worker-%u-%u", r->job,
                 plan->index);
    else
        snprintf(plan->name, sizeof(plan->name), "worker-%u", plan->index);
}

static enum sl_err launch_rank_set_coordinator(struct launch_plan *plan,
                                               const struct launch_asked *asked,
                                               const struct launch_rank *r,
                                               struct sl_error *err)
{
    if (asked->coordinator != NULL)
        return launch_take_coordinator(plan, asked, err);
    if (r->first == NULL)
        return sl_fail(err, SL_ENOENT,
                       "%s names no hosts: say where the coordinator is with "
                       "--coordinator",
                       r->source);
    return launch_address(plan->coordinator, r->source, r->first, asked->port,
                          err);
}

static enum sl_err launch_rank_set_listen(struct launch_plan *plan,
                                          const struct launch_asked *asked,
                                          const struct launch_rank *r,
                                          struct sl_error *err)
{
    enum sl_err rc;

    if (plan->role == LAUNCH_COORDINATOR) {
        launch_listen(plan->listen, plan->coordinator);
        return SL_OK;
    }
    if (plan->role == LAUNCH_WORKER)
        return launch_listen_worker(plan->listen, r->source, r->host, err);
    rc = launch_address(plan->advertise, r->source, r->host,
                        asked->port + 1 + plan->index, err);
    if (rc == SL_OK)
        launch_listen(plan->listen, plan->advertise);
    return rc;
}

static enum sl_err launch_rank_make_plan(struct launch_plan *plan,
                                         const struct launch_asked *asked,
                                         const struct launch_rank *r,
                                         struct sl_error *err)
{
    enum sl_err rc;

    if (r->rank >= r->count)
        return sl_fail(
            err, SL_EINVAL,
            "%s: rank %u is out of range: the launcher started %u processes",
            r->source, r->rank, r->count);
    if (asked->role == LAUNCH_NO_ROLE && r->count < 1 + asked->psservers)
        return sl_fail(err, SL_EINVAL,
                       "%s: %u processes are too few for a coordinator and %u "
                       "psservers; start more, or lower --psservers",
                       r->source, r->count, asked->psservers);
    launch_rank_set_role(plan, asked, r);
    launch_rank_set_name(plan, r);
    rc = launch_rank_set_coordinator(plan, asked, r, err);
    if (rc == SL_OK)
        rc = launch_rank_set_listen(plan, asked, r, err);
    if (rc == SL_OK && asked->role == LAUNCH_NO_ROLE)
        launch_from(plan, "--psservers %u", asked->psservers);
    else if (rc == SL_OK)
        launch_from(plan, "--role %s", launch_role_name(asked->role));
    return rc;
}

// A rank and a count of the two variables.
static enum sl_err read_rank(struct launch_plan *plan, struct launch_rank *r,
                             const struct launch_asked *asked, const char *rank,
                             const char *count, struct sl_error *err)
{
    enum sl_err rc = launch_need_number(&r->rank, asked, rank, RANKS_MAX, err);

    if (rc == SL_OK)
        rc = launch_need_number(&r->count, asked, count, RANKS_MAX, err);
    if (rc == SL_OK)
        launch_from(plan, "%s=%u, %s=%u", rank, r->rank, count, r->count);
    return rc;
}

// How often it was started before; where it is not said, never.
static enum sl_err read_restarts(struct launch_plan *plan,
                                 const struct launch_asked *asked,
                                 const char *name, struct sl_error *err)
{
    if (launch_env(asked, name) == NULL)
        return SL_OK;
    return launch_need_number(&plan->restarts, asked, name, RANKS_MAX, err);
}

// ---- Slurm

// Reads the nodes of the step: in a step on some of the job's nodes,
// SLURM_NODEID counts the step's nodes.
static enum sl_err slurm_nodes(struct hostlist *out, struct launch_plan *plan,
                               const struct launch_asked *asked, unsigned *node,
                               struct sl_error *err)
{
    const char *name = "SLURM_STEP_NODELIST", *text = NULL;
    enum sl_err rc;

    if (launch_env(asked, name) == NULL)
        name = "SLURM_JOB_NODELIST";
    rc = launch_need(&text, asked, name, err);
    if (rc == SL_OK)
        rc = hostlist_read(out, name, text, err);
    if (rc == SL_OK)
        rc = launch_need_number(node, asked, "SLURM_NODEID", RANKS_MAX, err);
    if (rc == SL_OK && *node >= out->count)
        rc = sl_fail(err, SL_EINVAL, "SLURM_NODEID=%u, but %s has %zu hosts",
                     *node, name, out->count);
    if (rc == SL_OK)
        launch_from(plan, "SLURM_NODEID=%u, %s=%.100s", *node, name, text);
    return rc;
}

enum sl_err launch_slurm(struct launch_plan *plan,
                         const struct launch_asked *asked, struct sl_error *err)
{
    struct launch_rank r = {.source = "Slurm"};
    struct hostlist nodes = HOSTLIST_INIT;
    char key[64];
    unsigned node = 0;
    enum sl_err rc =
        read_rank(plan, &r, asked, "SLURM_PROCID", "SLURM_NTASKS", err);

    if (rc == SL_OK)
        rc = launch_need_number(&r.job, asked, "SLURM_JOB_ID", UINT_MAX - 1,
                                err);
    if (rc == SL_OK)
        rc = slurm_nodes(&nodes, plan, asked, &node, err);
    if (rc == SL_OK)
        rc = read_restarts(plan, asked, "SLURM_RESTART_COUNT", err);
    if (rc == SL_OK) {
        snprintf(key, sizeof(key), "slurm-%u", r.job);
        rc = launch_resume(plan, key, err);
    }
    if (rc == SL_OK) {
        r.first = hostlist_at(&nodes, 0);
        r.host = hostlist_at(&nodes, node);
        rc = launch_rank_make_plan(plan, asked, &r, err);
    }
    hostlist_release(&nodes);
    return rc;
}

// ---- torchrun

static bool on_this_machine(const char *host)
{
    char address[LAUNCH_ADDRESS];

    return launch_address(address, "", host, 0, NULL) == SL_OK &&
           launch_local(address);
}

enum sl_err launch_torchrun(struct launch_plan *plan,
                            const struct launch_asked *asked,
                            struct sl_error *err)
{
    const char *run = launch_env(asked, "TORCHELASTIC_RUN_ID");
    struct launch_rank r = {.source = "torchrun", .host = asked->host};
    enum sl_err rc = read_rank(plan, &r, asked, "RANK", "WORLD_SIZE", err);

    if (rc == SL_OK)
        rc = launch_need(&r.first, asked, "MASTER_ADDR", err);
    if (rc == SL_OK)
        rc = read_restarts(plan, asked, "TORCHELASTIC_RESTART_COUNT", err);
    // torchrun sets "none" if the user gave no id.
    if (rc == SL_OK && run != NULL && strcmp(run, "none") != 0)
        rc = launch_resume(plan, run, err);
    if (rc != SL_OK)
        return rc;
    launch_from(plan, "MASTER_ADDR=%.100s", r.first);
    if (r.rank == 0 || on_this_machine(r.first))
        r.host = r.first;
    return launch_rank_make_plan(plan, asked, &r, err);
}

// ---- MPI

enum sl_err launch_mpi(struct launch_plan *plan,
                       const struct launch_asked *asked, struct sl_error *err)
{
    bool open_mpi = launch_env(asked, "OMPI_COMM_WORLD_RANK") != NULL ||
                    launch_env(asked, "PMI_RANK") == NULL;
    struct launch_rank r = {.source = "MPI", .host = asked->host};
    enum sl_err rc =
        open_mpi ? read_rank(plan, &r, asked, "OMPI_COMM_WORLD_RANK",
                             "OMPI_COMM_WORLD_SIZE", err)
                 : read_rank(plan, &r, asked, "PMI_RANK", "PMI_SIZE", err);

    if (rc != SL_OK)
        return rc;
    if (asked->coordinator != NULL && launch_local(asked->coordinator))
        r.host = "127.0.0.1"; // all ranks run on this machine
    return launch_rank_make_plan(plan, asked, &r, err);
}

// ---- SkyPilot

#define SKY_SPACE " \t\r\n"

// The n-th word, copied; how many there are.
static unsigned launch_rank_nth_word(char out[LAUNCH_HOST], const char *text,
                                     unsigned n)
{
    unsigned count = 0;

    while (*(text += strspn(text, SKY_SPACE)) != '\0') {
        size_t len = strcspn(text, SKY_SPACE);

        if (count++ == n)
            snprintf(out, LAUNCH_HOST, "%.*s", (int)sl_min(len, LAUNCH_HOST),
                     text);
        text += len;
    }
    return count;
}

enum sl_err launch_skypilot(struct launch_plan *plan,
                            const struct launch_asked *asked,
                            struct sl_error *err)
{
    const char *task = launch_env(asked, "SKYPILOT_TASK_ID"), *ips = NULL;
    char first[LAUNCH_HOST] = "", own[LAUNCH_HOST] = "";
    struct launch_rank r = {.source = "SkyPilot", .first = first, .host = own};
    unsigned found;
    enum sl_err rc = read_rank(plan, &r, asked, "SKYPILOT_NODE_RANK",
                               "SKYPILOT_NUM_NODES", err);

    if (rc == SL_OK)
        rc = launch_need(&ips, asked, "SKYPILOT_NODE_IPS", err);
    if (rc == SL_OK && task != NULL)
        rc = launch_resume(plan, task, err);
    if (rc != SL_OK)
        return rc;
    found = launch_rank_nth_word(first, ips, 0);
    (void)launch_rank_nth_word(own, ips, r.rank);
    if (found != r.count)
        return sl_fail(err, SL_EINVAL,
                       "SKYPILOT_NODE_IPS has %u addresses, but "
                       "SKYPILOT_NUM_NODES=%u",
                       found, r.count);
    launch_from(plan, "SKYPILOT_NODE_IPS (%s is the first)", first);
    return launch_rank_make_plan(plan, asked, &r, err);
}
