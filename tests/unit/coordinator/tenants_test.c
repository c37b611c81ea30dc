// SPDX-License-Identifier: Apache-2.0
// Whose a job is: what another tenant finds of it, which is nothing.
#include "coordinator/core/job.h"
#include "coordinator/core/tenants.h"

#include <string.h>

#include "common/base/json.h"
#include "coordinator/service/status_lists.h"
#include "proto/pbjson.h"
#include "proto/spec.h"
#include "tests/unit/coordinator/world.h"
#include "tests/unit/coordinator/world_members.h"

enum { LIMIT = 60000 };

static struct sl_error err; // of the call that a test looks at

static struct world *begin(void)
{
    static struct world w;

    world_init(&w, WORLD_SITUATION);
    world_people(&w, 1, 2);
    return &w;
}

// j-1 is a's, j-2 is b's, j-3 is nobody's; all have the same name.
static struct world *three_jobs(void)
{
    struct world *w = begin();

    coord_ask_as(w->coord, "a", true);
    T_OK(world_try_submit(w, "r-1", "", NULL, &err));
    coord_ask_as(w->coord, "b", true);
    T_OK(world_try_submit(w, "r-2", "", NULL, &err));
    coord_ask_as(w->coord, "", false);
    T_OK(world_try_submit(w, "r-3", "", NULL, &err));
    return w;
}

static enum sl_err get(struct world *w, const char *id, char tenant[65])
{
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__JobStatus *status = NULL;
    enum sl_err rc;

    request.id = (char *)id;
    rc = coord_get(w->coord, &request, &status, &err);
    if (rc != SL_OK)
        return rc;
    snprintf(tenant, 65, "%s", status->tenant);
    wire_free(&status->base);
    return SL_OK;
}

static unsigned listed(struct world *w)
{
    Sluice__V1__ListRequest request = SLUICE__V1__LIST_REQUEST__INIT;
    Sluice__V1__ListReply *reply = NULL;
    unsigned count;

    T_OK(status_list(w->coord, &request, &reply, t_err()));
    count = (unsigned)reply->n_jobs;
    wire_free(&reply->base);
    return count;
}

static void check_nothing_is_there(struct world *w, const char *id)
{
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__StopRequest stop = SLUICE__V1__STOP_REQUEST__INIT;
    Sluice__V1__CheckpointsReply *checkpoints = NULL;
    Sluice__V1__DeleteReply *deleted = NULL;
    Sluice__V1__JobStatus *status = NULL;
    char tenant[65];
    uint64_t number;

    request.id = stop.id = (char *)id;
    T_FAILS(SL_ENOENT, get(w, id, tenant));
    T_FAILS(SL_ENOENT, coord_find(w->coord, id, &number, &err));
    T_FAILS(SL_ENOENT, coord_stop(w->coord, &stop, &status, &err));
    T_FAILS(SL_ENOENT, coord_delete(w->coord, &request, &deleted, &err));
    T_FAILS(SL_ENOENT,
            status_checkpoints(w->coord, &request, &checkpoints, &err));
    T_FAILS(SL_ENOENT, world_try_submit(w, "r-9", id, NULL, &err));
}

// It would walk over them for days.
TEST(tenants, a_list_costs_no_numbers_that_were_never_given)
{
    struct world *w = three_jobs();

    T_OK(journal_jobs_skip(w->journal, 4, UINT64_C(1) << 50, t_err()));
    world_stop_coord(w);
    world_start_coord(w);
    coord_ask_as(w->coord, "a", true);
    T_EQ(listed(w), 1);
    coord_ask_as(w->coord, "", false);
    T_EQ(listed(w), 3);
    world_release(w);
}

TEST(tenants, another_ones_jobs_are_not_there)
{
    struct world *w = three_jobs();
    char tenant[65];

    coord_ask_as(w->coord, "b", true);
    check_nothing_is_there(w, "j-1");
    check_nothing_is_there(w, "j-3");
    T_OK(get(w, "j-2", tenant));
    T_STR(tenant, "b");
    T_OK(get(w, "life", tenant)); // the only one of this name, to b
    T_STR(tenant, "b");
    T_EQ(listed(w), 1);
    coord_ask_as(w->coord, "c", true);
    check_nothing_is_there(w, "life");
    T_EQ(listed(w), 0);
    coord_ask_as(w->coord, "", true); // no tenant's are nobody's
    check_nothing_is_there(w, "j-3");
    coord_ask_as(w->coord, "", false);
    T_EQ(listed(w), 3);
    T_OK(get(w, "j-1", tenant));
    T_STR(tenant, "a");
    T_OK(get(w, "j-3", tenant));
    T_STR(tenant, "");
    T_FAILS(SL_ESTATE, get(w, "life", tenant));
    world_release(w);
}

TEST(tenants, a_request_of_another_one_says_nothing_of_its_job)
{
    struct world *w = three_jobs();

    coord_ask_as(w->coord, "b", true);
    T_OK(world_try_submit(w, "r-2", "", NULL, &err));
    T_FAILS(SL_EEXIST, world_try_submit(w, "r-1", "", NULL, &err));
    T_TRUE(strstr(err.text, "j-1") == NULL);
    T_EQ(listed(w), 1);
    world_release(w);
}

TEST(tenants, a_restart_knows_whose_a_job_is_and_a_deleted_one_is_nobodys)
{
    Sluice__V1__StopRequest stop = SLUICE__V1__STOP_REQUEST__INIT;
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__DeleteReply *deleted = NULL;
    Sluice__V1__JobStatus *status = NULL;
    struct world *w = three_jobs();
    char tenant[65];

    world_stop_coord(w);
    world_start_coord(w);
    coord_ask_as(w->coord, "b", true);
    T_EQ(listed(w), 1);
    check_nothing_is_there(w, "j-1");
    stop.id = request.id = "j-2";
    T_OK(coord_stop(w->coord, &stop, &status, t_err()));
    wire_free(&status->base);
    T_OK(get(w, "j-2", tenant)); // its last status says it, too
    T_STR(tenant, "b");
    T_OK(coord_delete(w->coord, &request, &deleted, t_err()));
    wire_free(&deleted->base);
    T_OK(journal_job_tenant(w->journal, 2, tenant, t_err()));
    T_STR(tenant, "");
    world_release(w);
}

// A manifest's path is no way around.
TEST(tenants, another_ones_checkpoint_is_not_resumed_from)
{
    Sluice__V1__JobStatus *s;
    struct world *w = begin();
    char path[400];

    coord_ask_as(w->coord, "a", true);
    w->job = world_submit(w, world_graph_job);
    coord_ask_as(w->coord, "", false);
    T_TRUE(world_run(w, 4, LIMIT));
    s = world_status(w);
    snprintf(path, sizeof(path), "%s", s->checkpoint);
    wire_free(&s->base);
    coord_ask_as(w->coord, "b", true);
    T_FAILS(SL_ENOENT, world_try_submit(w, "r-2", path, NULL, &err));
    coord_ask_as(w->coord, "a", true);
    T_OK(world_try_submit(w, "r-3", path, NULL, &err));
    world_release(w);
}
