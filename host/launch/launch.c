// SPDX-License-Identifier: Apache-2.0
// host/launch/launch.c -- which source is believed, and what its plan means
// for a daemon.
#include "host/launch/launch_inner.h"

#include <stdio.h>
#include <string.h>

#include "common/base/buf.h"

static enum sl_err launch_static(struct launch_plan *plan,
                                 const struct launch_asked *asked,
                                 struct sl_error *err);

// In the order in which auto looks; `marks` are variables of which one is set
// where the source is at hand.
static const struct launch_finder {
    enum launch_source source;
    const char *name;
    const char *marks[2];
    launch_source_fn find;
} sources[] = {
    {LAUNCH_TF_CONFIG, "tf_config", {"TF_CONFIG"}, launch_tf_config},
    {LAUNCH_TORCHRUN,
     "torchrun",
     {"TORCHELASTIC_RUN_ID", "RANK"},
     launch_torchrun},
    {LAUNCH_MPI, "mpi", {"OMPI_COMM_WORLD_RANK", "PMI_RANK"}, launch_mpi},
    {LAUNCH_SKYPILOT, "skypilot", {"SKYPILOT_NODE_RANK"}, launch_skypilot},
    {LAUNCH_SLURM, "slurm", {"SLURM_JOB_ID"}, launch_slurm},
    {LAUNCH_DNS, "dns", {"KUBERNETES_SERVICE_HOST"}, launch_dns},
    {LAUNCH_STATIC, "static", {NULL}, launch_static},
};

// ---- names

const char *launch_source_name(enum launch_source source)
{
    for (size_t i = 0; i < SL_COUNT(sources); i++)
        if (sources[i].source == source)
            return sources[i].name;
    return "auto";
}

enum launch_source launch_source_of(const char *name)
{
    for (size_t i = 0; i < SL_COUNT(sources); i++)
        if (strcmp(sources[i].name, name) == 0)
            return sources[i].source;
    return LAUNCH_AUTO;
}

// ---- static

static enum sl_err launch_static(struct launch_plan *plan,
                                 const struct launch_asked *asked,
                                 struct sl_error *err)
{
    enum sl_err rc;

    if (asked->role == LAUNCH_NO_ROLE)
        return sl_fail(err, SL_ENOENT,
                       "which daemon to start is not said; say --role");
    if (asked->coordinator == NULL && asked->role != LAUNCH_COORDINATOR)
        return sl_fail(err, SL_ENOENT,
                       "where the coordinator is is not said; say "
                       "--coordinator host:port");
    plan->role = asked->role;
    launch_from(plan, "--role %s", launch_role_name(asked->role));
    if (asked->coordinator != NULL)
        rc = launch_take_coordinator(plan, asked, err);
    else
        rc = launch_address(plan->coordinator, "--role", "127.0.0.1",
                            asked->port, err);
    if (rc == SL_OK && plan->role == LAUNCH_COORDINATOR)
        launch_listen(plan->listen, plan->coordinator);
    // The name of a worker is its own choice, that of a psserver its folder's.
    snprintf(plan->name, sizeof(plan->name), "%s",
             launch_role_name(plan->role));
    return rc;
}

// ---- auto

static enum sl_err try_source(struct launch_plan *out,
                              const struct launch_finder *s,
                              const struct launch_asked *asked,
                              struct sl_error *err)
{
    struct launch_plan plan = {.source = s->source};
    enum sl_err rc = s->find(&plan, asked, err);

    if (rc == SL_OK && plan.role == LAUNCH_COORDINATOR &&
        strchr(plan.coordinator, ',') != NULL)
        return sl_fail(err, SL_EINVAL,
                       "--coordinator lists several addresses, and the "
                       "coordinator to be started listens at one; say its own");
    if (rc == SL_OK)
        *out = plan;
    return rc;
}

static bool at_hand(const struct launch_finder *s,
                    const struct launch_asked *asked)
{
    for (size_t i = 0; i < SL_COUNT(s->marks) && s->marks[i] != NULL; i++)
        if (launch_env(asked, s->marks[i]) != NULL)
            return true;
    return false;
}

// Returns true if two sources tell the same role, index and coordinator.
static bool agree(const struct launch_plan *a, const struct launch_plan *b)
{
    return a->role == b->role && a->index == b->index &&
           strcmp(a->coordinator, b->coordinator) == 0;
}

static enum sl_err disagree(const struct launch_plan *a,
                            const struct launch_plan *b, struct sl_error *err)
{
    return sl_fail(err, SL_EINVAL,
                   "%s says that this is %s %u with the coordinator at %s, but "
                   "%s says %s %u and %s; say which holds: --discover %s or "
                   "--discover %s",
                   launch_source_name(a->source), launch_role_name(a->role),
                   a->index, a->coordinator, launch_source_name(b->source),
                   launch_role_name(b->role), b->index, b->coordinator,
                   launch_source_name(a->source),
                   launch_source_name(b->source));
}

// Collects why nothing was found, for the error of a host where nothing is.
static enum sl_err launch_nothing_found(struct buf *why, struct sl_error *err)
{
    return sl_fail(err, SL_ENOENT,
                   "no launcher's environment is complete%s; set one "
                   "(docs/launchers.md), or say --role and --coordinator",
                   buf_text(why));
}

static enum sl_err find_auto(struct launch_plan *out,
                             const struct launch_asked *asked,
                             struct sl_error *err)
{
    struct launch_plan found = {.role = LAUNCH_NO_ROLE}, other;
    struct buf why = BUF_INIT;
    enum sl_err rc = SL_OK;

    for (size_t i = 0; rc == SL_OK && i < SL_COUNT(sources); i++) {
        const struct launch_finder *s = &sources[i];
        bool last = s->source == LAUNCH_DNS || s->source == LAUNCH_STATIC;
        struct sl_error lacks = SL_ERROR_INIT;

        if ((last && found.role != LAUNCH_NO_ROLE) ||
            (s->marks[0] != NULL && !at_hand(s, asked)))
            continue;
        rc = try_source(&other, s, asked, &lacks);
        if (rc == SL_ENOENT)
            rc = buf_appendf(&why, "; %s: %s", s->name, lacks.text);
        else if (rc != SL_OK)
            sl_fail(err, rc, "%s", lacks.text);
        else if (found.role == LAUNCH_NO_ROLE)
            found = other;
        else if (!agree(&found, &other))
            rc = disagree(&found, &other, err);
    }
    if (rc == SL_OK && found.role == LAUNCH_NO_ROLE)
        rc = launch_nothing_found(&why, err);
    buf_release(&why);
    if (rc == SL_OK)
        *out = found;
    return rc;
}

enum sl_err launch_find(struct launch_plan *out,
                        const struct launch_asked *asked, struct sl_error *err)
{
    if (asked->source == LAUNCH_AUTO)
        return find_auto(out, asked, err);
    for (size_t i = 0; i < SL_COUNT(sources); i++)
        if (sources[i].source == asked->source)
            return try_source(out, &sources[i], asked, err);
    return sl_fail(err, SL_EINTERNAL, "launcher %d has no row in the table",
                   (int)asked->source);
}

// ---- what is told

unsigned launch_settings(struct launch_setting out[LAUNCH_SETTINGS],
                         const struct launch_plan *plan)
{
    const struct launch_setting all[LAUNCH_SETTINGS] = {
        {"coordinator", plan->coordinator},
        {"name", plan->name},
        {"listen", plan->listen},
        {"advertise", plan->advertise},
    };
    bool serves = plan->role == LAUNCH_COORDINATOR;
    bool named = plan->source != LAUNCH_STATIC;
    unsigned n = 0;

    for (size_t i = 0; i < LAUNCH_SETTINGS; i++) {
        if (all[i].value[0] == '\0' || (serves && i != 2) || (i == 1 && !named))
            continue;
        out[n++] = all[i];
    }
    return n;
}

enum sl_err launch_line(struct buf *out, const struct launch_plan *plan)
{
    enum sl_err rc =
        buf_appendf(out, "%s: %s %u", launch_source_name(plan->source),
                    launch_role_name(plan->role), plan->index);

    if (rc == SL_OK && plan->coordinator[0] != '\0')
        rc = buf_appendf(out, ", coordinator at %s", plan->coordinator);
    if (rc == SL_OK)
        rc = buf_appendf(out, " (%s)", plan->from);
    return rc;
}

enum sl_err launch_text(struct buf *out, const struct launch_plan *plan)
{
    const struct launch_setting rows[] = {
        {"source", launch_source_name(plan->source)},
        {"role", launch_role_name(plan->role)},
        {"name", plan->name},
        {"coordinator", plan->coordinator},
        {"listen", plan->listen},
        {"advertise", plan->advertise},
        {"coordinator here", plan->serve},
        {"resume key", plan->resume},
        {"from", plan->from},
        {"odd", plan->notes},
    };
    enum sl_err rc = SL_OK;

    for (size_t i = 0; rc == SL_OK && i < SL_COUNT(rows); i++)
        if (rows[i].value[0] != '\0')
            rc = buf_appendf(out, "%-17s %s\n", rows[i].key, rows[i].value);
    if (rc == SL_OK)
        rc = buf_appendf(out, "%-17s %u\n%-17s %u psservers, %u workers\n",
                         "index", plan->index, "of", plan->psservers,
                         plan->workers);
    if (rc == SL_OK && plan->restarts > 0)
        rc = buf_appendf(out, "%-17s %u\n", "restarts", plan->restarts);
    return rc;
}

json_t *launch_json(const struct launch_plan *plan)
{
    return json_pack(
        "{s:s, s:s, s:i, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:s, s:s, "
        "s:s}",
        "source", launch_source_name(plan->source), "role",
        launch_role_name(plan->role), "index", (int)plan->index, "name",
        plan->name, "coordinator", plan->coordinator, "listen", plan->listen,
        "advertise", plan->advertise, "serve", plan->serve, "psservers",
        (int)plan->psservers, "workers", (int)plan->workers, "restarts",
        (int)plan->restarts, "resume_key", plan->resume, "from", plan->from,
        "notes", plan->notes);
}
