// SPDX-License-Identifier: Apache-2.0
// coordinator/core/shards/place.c -- the placing of a job on psservers, now or
// as if it were now.
#include "coordinator/core/shards/place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/map.h"
#include "common/base/mem.h"
#include "common/base/num.h"
#include "plan/part.h"
#include "common/run/log.h"
#include "coordinator/core/end_job.h"
#include "coordinator/core/shards/fits.h"
#include "coordinator/core/happened.h"
#include "coordinator/core/job.h"
#include "coordinator/core/shards/memory.h"
#include "coordinator/core/mode.h"
#include "coordinator/core/cuts/cut_fits.h"
#include "coordinator/core/send.h"
#include "proto/layout.h"
#include "proto/model.h"
#include "proto/spec.h"

#define PLACE_AGAIN_MS 10000

// Shards that are looked at in one turn of the loop for those to be asked for:
// a fraction of a millisecond.
#define PLACE_LOOKS 16384

// ---- psservers that may take shards

struct candidate {
    struct member *member;
    uint64_t weight; // of its shards of all jobs that have not ended
};

// Weighs the shards that lie on each candidate; each shard is looked at once.
static enum sl_err place_weigh_shards(struct coord *c, struct candidate *list,
                                      uint32_t count)
{
    struct strmap by_name;
    enum sl_err rc = SL_OK;

    strmap_init(&by_name);
    for (uint32_t i = 0; rc == SL_OK && i < count; i++)
        rc = strmap_put(&by_name, list[i].member->name, &list[i].weight);
    shards_weigh(c, &by_name);
    strmap_release(&by_name);
    return rc;
}

static int emptier(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;

    if (x->weight != y->weight)
        return x->weight < y->weight ? -1 : 1;
    return strcmp(x->member->name, y->member->name);
}

// Lists the psservers that a job may use, emptiest first; at most as many as it
// asks for.
static enum sl_err candidates(struct coord *c, const struct job *job,
                              struct candidate **out, uint32_t *count)
{
    uint32_t limit = job->spec->placement->psservers;
    struct candidate *list =
        sl_malloc_array(c->members.psservers, sizeof(*list));
    uint32_t n = 0;

    if (list == NULL)
        return SL_ENOMEM;
    list_for(node, &c->members.all)
    {
        struct member *m = list_entry(node, struct member, node);

        if (m->role == MEMBER_PSSERVER && m->state == MEMBER_READY &&
            job_shard_able(job, m))
            list[n++] = (struct candidate){.member = m};
    }
    if (place_weigh_shards(c, list, n) != SL_OK) {
        sl_free(list);
        return SL_ENOMEM;
    }
    qsort(list, n, sizeof(*list), emptier);
    *out = list;
    *count = limit == 0 || n < limit ? n : limit;
    return SL_OK;
}

// ---- cutting

// The model and shards of a spec on a number of psservers.
struct draft {
    struct model *model;
    struct part_plan plan;
};

static enum sl_err make_plan(struct part_plan *out, const struct model *model,
                             const Sluice__V1__JobSpec *spec, uint32_t servers,
                             struct sl_error *err)
{
    struct part_var *vars = NULL;
    struct part_rule rule;
    uint64_t target;
    enum sl_err rc = layout_part_vars(&vars, model);
    bool whole = spec_optim_whole(spec);

    if (rc != SL_OK)
        return sl_fail(err, rc, "no memory for the variables of the model");
    for (uint32_t i = 0; whole && i < model->variables_count; i++)
        vars[i].whole = true;
    spec_part_rule(&rule, &target, spec->placement);
    rc = part_plan_make(out, vars, model->variables_count, &rule, target,
                        servers, err);
    sl_free(vars);
    return rc;
}

static void draft_release(struct draft *d)
{
    part_plan_release(&d->plan);
    model_free(d->model);
}

// Makes a draft of a spec on `servers` servers; beside a ring, with shards for
// the rows of its tables on `psservers` of them.
static enum sl_err draft_make(struct draft *out,
                              const Sluice__V1__JobSpec *spec, uint32_t servers,
                              uint32_t psservers, struct sl_error *err)
{
    struct draft d = {.model = NULL};
    enum sl_err rc = model_make(&d.model, spec->model, err);

    if (rc != SL_OK)
        return rc;
    rc = make_plan(&d.plan, d.model, spec, servers, err);
    if (rc == SL_OK && spec_ring_rows(spec) &&
        part_plan_more(&d.plan, psservers) != SL_OK)
        rc = sl_fail(err, SL_ENOMEM, "no memory for shards of rows");
    if (rc == SL_OK)
        *out = d;
    else
        draft_release(&d);
    return rc;
}

// Makes the message of variables and pieces, which manifests and clients see
// too.
static enum sl_err place_make_layout(Sluice__V1__CheckpointsReply **out,
                                     const struct draft *d)
{
    Sluice__V1__CheckpointsReply *l = sl_malloc(sizeof(*l));

    if (l == NULL)
        return SL_ENOMEM;
    *l = (Sluice__V1__CheckpointsReply)SLUICE__V1__CHECKPOINTS_REPLY__INIT;
    if (layout_variables(&l->variables, d->model) != SL_OK) {
        wire_free(&l->base);
        return SL_ENOMEM;
    }
    l->n_variables = d->model->variables_count;
    if (layout_pieces(&l->pieces, &d->plan) != SL_OK) {
        wire_free(&l->base);
        return SL_ENOMEM;
    }
    l->n_pieces = d->plan.piece_count;
    l->rows_shards = part_plan_empty(&d->plan);
    *out = l;
    return SL_OK;
}

// Returns how many psservers a job may use now; at most `limit` (0: all).
static uint32_t place_count_ready(const struct coord *c, uint32_t limit)
{
    uint32_t ready = 0;

    list_for(n, &c->members.all)
    {
        const struct member *m = list_entry(n, struct member, node);

        ready += m->role == MEMBER_PSSERVER && m->state == MEMBER_READY;
    }
    return limit == 0 || ready < limit ? ready : limit;
}

// Drafts the placing of a spec as of now; on one psserver if none is attached.
// *servers: the number of those attached.
static enum sl_err draft_now(struct draft *out, uint32_t *servers,
                             struct coord *c, const Sluice__V1__JobSpec *spec,
                             struct sl_error *err)
{
    const struct mode *mode = mode_of(c, spec);
    uint32_t psservers = place_count_ready(c, spec->placement->psservers);

    *servers = mode->parts != NULL ? mode->parts(c, spec) : psservers;
    return draft_make(out, spec, *servers == 0 ? 1 : *servers,
                      psservers == 0 ? 1 : psservers, err);
}

// Returns the fewest shards that any number of psservers makes of the model.
// More psservers mean more shards; but with one for each shard of the target's
// size, large variables are not cut by themselves.
static uint32_t fewest_shards(const Sluice__V1__JobSpec *spec,
                              const struct part_plan *on_one)
{
    uint32_t most = spec->placement->psservers;
    struct part_rule rule;
    uint64_t target, even;

    spec_part_rule(&rule, &target, spec->placement);
    target = part_target(on_one->elements, target);
    even = sl_ceil_div(on_one->elements * PART_ELEMENT_BYTES, target);
    if (rule.kind != PART_AUTO || even == 0 || (most != 0 && most < even) ||
        on_one->shard_count < even)
        return on_one->shard_count;
    return (uint32_t)even;
}

// Without psservers it is checked when the job is placed.
static enum sl_err place_fits_now(struct coord *c,
                                  const Sluice__V1__JobSpec *spec,
                                  struct sl_error *err)
{
    uint32_t servers = 0;
    struct draft draft;
    enum sl_err rc = draft_now(&draft, &servers, c, spec, err);

    if (rc != SL_OK)
        return rc;
    if (servers > 0)
        rc = fits_shards(spec, &draft.plan, err);
    draft_release(&draft);
    return rc;
}

enum sl_err place_possible(struct coord *c, const Sluice__V1__JobSpec *spec,
                           struct sl_error *err)
{
    Sluice__V1__CheckpointsReply *layout = NULL;
    struct draft on_one;
    uint32_t shards;
    enum sl_err rc = draft_make(&on_one, spec, 1, 1, err);

    if (rc != SL_OK)
        return rc;
    shards = fewest_shards(spec, &on_one.plan);
    rc = fits_counts(spec, shards, err);
    if (rc == SL_OK && shards == on_one.plan.shard_count) {
        rc = place_make_layout(&layout, &on_one);
        rc = rc == SL_OK ? fits_layout(spec, layout, shards, err)
                         : sl_fail(err, rc, "a layout");
    }
    wire_free((ProtobufCMessage *)layout);
    draft_release(&on_one);
    return rc == SL_OK ? place_fits_now(c, spec, err) : rc;
}

// Places the job: first in the journal, then in memory.
static enum sl_err place_commit(struct coord *c, struct job *job,
                                Sluice__V1__CheckpointsReply *layout,
                                const char *const *names, uint32_t shards,
                                struct sl_error *err)
{
    struct buf packed = BUF_INIT;
    enum sl_err rc = wire_pack(&layout->base, &packed);

    if (rc != SL_OK)
        return sl_fail(err, rc, "the layout of job %s", job->id_text);
    rc = fits_counts(job->spec, shards, err);
    if (rc == SL_OK)
        rc = fits_layout(job->spec, layout, shards, err);
    if (rc == SL_OK)
        rc = job_place(job, layout, names, shards, err);
    if (rc == SL_OK) {
        coord_wrote(
            c, journal_job_place(c->journal, job->id,
                                 (struct journal_blob){packed.data, packed.len},
                                 names, shards, &c->err));
    }
    buf_release(&packed);
    return rc;
}

// Names the psservers that the shards lay on, if they stay as they were cut and
// all of those are attached: with disks of their own, no other psserver has the
// files.
static void name_as_before(struct coord *c, const struct job *job,
                           const Sluice__V1__CheckpointsReply *layout,
                           const char **names, uint32_t first, uint32_t shards)
{
    const Sluice__V1__Checkpoint *cut;
    const struct member *m;

    if (job->resume == NULL || !resume_same_shards(job->resume, layout))
        return;
    cut = job->resume->cut->checkpoints[0];
    for (uint32_t i = first; i < shards; i++) {
        m = members_psserver(&c->members, cut->shards[i]->psserver);
        if (m == NULL || m->state != MEMBER_READY)
            return;
    }
    for (uint32_t i = first; i < shards; i++)
        names[i] = cut->shards[i]->psserver;
}

// Names the psserver of each shard; "" for parts that lie on workers.
static void place_name_servers(struct coord *c, const struct job *job,
                               const struct candidate *on,
                               const struct part_plan *plan,
                               const Sluice__V1__CheckpointsReply *layout,
                               const char **names)
{
    uint32_t count = plan->shard_count;
    uint32_t parts = job->mode->on_workers ? count - part_plan_empty(plan) : 0;

    for (uint32_t i = 0; i < count; i++)
        names[i] = i < parts ? "" : on[plan->shards[i].server].member->name;
    if (parts < count)
        name_as_before(c, job, layout, names, parts, count);
}

static enum sl_err place_on(struct coord *c, struct job *job,
                            const struct candidate *on, uint32_t servers,
                            uint32_t psservers, struct sl_error *err)
{
    Sluice__V1__CheckpointsReply *layout = NULL;
    const struct part_plan *plan;
    const char **names = NULL;
    struct draft draft;
    enum sl_err rc = draft_make(&draft, job->spec, servers, psservers, err);

    if (rc != SL_OK)
        return rc;
    plan = &draft.plan;
    rc = fits_shards(job->spec, plan, err);
    if (rc == SL_OK)
        rc = place_make_layout(&layout, &draft);
    if (rc == SL_OK && job->resume != NULL)
        rc = resume_fits(job->resume, layout, job_samples(job), err);
    if (rc == SL_OK && job->resume != NULL && job->mode->resumes != NULL)
        rc = job->mode->resumes(job->resume, err);
    if (rc == SL_OK) {
        names = sl_malloc_array(plan->shard_count, sizeof(*names));
        rc = names == NULL ? SL_ENOMEM : SL_OK;
    }
    if (rc == SL_OK)
        place_name_servers(c, job, on, plan, layout, names);
    if (rc == SL_OK)
        rc = place_commit(c, job, layout, names, plan->shard_count, err);
    if (rc != SL_OK && layout != NULL)
        wire_free(&layout->base);
    sl_free(names);
    draft_release(&draft);
    return rc;
}

void place_note_psservers(struct coord *c)
{
    if (c->members.psservers == 0)
        c->first_psserver_ms = 0;
    else if (c->first_psserver_ms == 0)
        c->first_psserver_ms = coord_now(c) + 1; // never 0
}

// Says whether psservers had time to attach: with two that start together, a
// job should not end up on the quicker one.
static bool place_is_settled(struct coord *c, const struct job *job,
                             uint32_t servers)
{
    uint32_t wanted = job->spec->placement->psservers;

    if (servers == 0)
        return false;
    if (wanted != 0 && servers >= wanted)
        return true;
    return c->first_psserver_ms != 0 &&
           coord_now(c) + 1 >= c->first_psserver_ms + c->options.settle_ms;
}

static void say_placed(struct coord *c, const struct job *job, uint32_t servers)
{
    char what[40] = "rows"; // of a job of tables alone

    if (job->shards.parameters > 0)
        snprintf(what, sizeof(what), "%llu parameters",
                 (ull)job->shards.parameters);
    LOG(INFO, "job placed", "job=%s shards=%u psservers=%u closures=%llu",
        job->id_text, job->shards.count, servers,
        (ull)job->shards.evidence.closures);
    happened_job(c, EVENT_JOB_PLACED, job, NULL,
                 "the %s of %s lie in %u %s on %u %s", what, job->name,
                 job->shards.parts > 0 ? job->shards.parts : job->shards.count,
                 job->shards.parts > 0 ? "parts" : "shards", servers,
                 job->shards.parts > 0 ? "workers" : "psservers");
}

void place_job(struct coord *c, struct job *job)
{
    struct sl_error err = SL_ERROR_INIT;
    struct candidate *on = NULL;
    uint32_t psservers = 0, servers;
    enum sl_err rc;

    if (job->shards.placed || job_samples(job) == 0)
        return;
    if (candidates(c, job, &on, &psservers) != SL_OK)
        return; // the next tick tries again
    servers =
        job->mode->parts != NULL ? job->mode->parts(c, job->spec) : psservers;
    if (!mode_wants_psservers(job->mode, job->spec) ||
        place_is_settled(c, job, psservers)) {
        rc = place_on(c, job, on, servers, psservers, &err);
        if (rc == SL_OK && !c->dead)
            say_placed(c, job, servers);
        else if (rc != SL_OK && rc != SL_ENOMEM)
            end_fail(c, job, "it cannot be placed: %s", err.text);
    }
    sl_free(on);
    if (!job->shards.placed || c->dead)
        return;
    memory_placed(c, job);
    for (uint32_t i = 0; i < job->shards.count; i++)
        job->shards.list[i].since_ms = coord_now(c);
    place_more(c, 0);
}

// ---- sending

static bool may_place(const struct job *job)
{
    return !job->behind.paused && !memory_holds(job);
}

// Of one job, among its next `looks` shards. (Parts of a ring lie on no
// psserver.) What of these is left is the next job's.
static void place_ask_shards(struct coord *c, struct job *job, uint32_t *looks)
{
    while (job->shards.looked < job->shards.count && c->places > 0 &&
           *looks > 0 && may_place(job)) {
        uint32_t i = job->shards.looked++;
        const struct job_shard *s = &job->shards.list[i];
        const struct member *m = members_psserver(&c->members, s->psserver);

        --*looks;
        if (m == NULL || s->asked == m->id || !job_shard_able(job, m))
            continue; // asked already, or to be asked at its attach
        c->places--;
        send_place(c, m, job, i);
    }
}

// A psserver with 20,000 shards would otherwise be sent as many messages in one
// turn of the loop. Each shard remembers which member was asked, so what is not
// asked yet is found by looking, whatever happens between two turns.
void place_more(struct coord *c, uint32_t more)
{
    uint32_t looks = PLACE_LOOKS;

    c->places = sl_min(c->places + more, PLACE_AHEAD);
    list_for(n, &c->jobs.active)
    {
        place_ask_shards(c, list_entry(n, struct job, on_active), &looks);
    }
}

void place_look(struct coord *c)
{
    list_for(n, &c->jobs.active)
    {
        list_entry(n, struct job, on_active)->shards.looked = 0;
    }
    place_more(c, 0);
}

static enum sl_err place_close_deleted(void *arg, uint64_t job, uint64_t uid,
                                       const char *psserver,
                                       struct sl_error *err)
{
    struct coord *c = arg;

    send_close(c, members_find(&c->members, MEMBER_PSSERVER, psserver), job,
               uid, true);
    return SL_OK;
}

void place_member(struct coord *c, struct member *m)
{
    if (!coord_wrote(c, journal_each_deleted(c->journal, m->name,
                                             place_close_deleted, c, &c->err)))
        return;
    memory_came(c, m);
    if (!c->dead)
        place_look(c);
}

// The shard is asked for once more, when its turn comes.
static void place_reset_asked(struct job *job, uint32_t shard)
{
    job->shards.list[shard].asked = 0;
    if (shard < job->shards.looked)
        job->shards.looked = shard;
}

void place_moved(struct coord *c, struct job *job, uint32_t shard)
{
    place_reset_asked(job, shard);
    place_more(c, 1);
}

void place_missing(struct coord *c, struct job *job)
{
    for (uint32_t i = 0; i < job->shards.count; i++) {
        if (job->shards.list[i].server == 0)
            place_reset_asked(job, i);
    }
    place_more(c, 0);
}

void place_again(struct coord *c, struct job *job)
{
    uint64_t now = coord_now(c);

    for (uint32_t i = 0; i < job->shards.count && may_place(job); i++) {
        const struct job_shard *s = &job->shards.list[i];

        if (s->failure != NULL && s->asked != 0 &&
            now - s->place_ms >= PLACE_AGAIN_MS)
            place_reset_asked(job, i);
    }
}

// ---- explaining

static enum sl_err explain_plan(struct buf *out, const struct draft *d)
{
    const char **names =
        sl_malloc_array(d->model->variables_count, sizeof(*names));
    enum sl_err rc;

    if (names == NULL)
        return SL_ENOMEM;
    for (uint32_t i = 0; i < d->model->variables_count; i++)
        names[i] = d->model->variables[i].name;
    rc = buf_appendf(out, "%llu parameters in %u variables\n",
                     (ull)d->model->elements, d->model->variables_count);
    if (rc == SL_OK)
        rc = part_explain(out, &d->plan, names);
    sl_free(names);
    return rc;
}

// Without psservers an uneven cut is checked when the job is placed.
enum sl_err place_check(struct coord *c, const Sluice__V1__JobSpec *spec,
                        const Sluice__V1__ResumeSource *from,
                        struct sl_error *err)
{
    Sluice__V1__CheckpointsReply *layout = NULL;
    const struct mode *mode = mode_of(c, spec);
    Sluice__V1__ResumeSource as_if = *from;
    uint64_t samples = 0;
    uint32_t servers = 0;
    struct draft draft;
    enum sl_err rc = draft_now(&draft, &servers, c, spec, err);

    if (rc != SL_OK)
        return rc;
    as_if.even = from->even || servers == 0;
    if (spec->data != NULL && spec->data->train != NULL && spec_external(spec))
        samples = spec->data->train->samples;
    rc = place_make_layout(&layout, &draft);
    if (rc == SL_OK)
        rc = resume_fits(&as_if, layout, samples, err);
    if (rc == SL_OK && mode->resumes != NULL)
        rc = mode->resumes(from, err);
    if (layout != NULL)
        wire_free(&layout->base);
    draft_release(&draft);
    return rc;
}

enum sl_err place_measure(struct coord *c, const Sluice__V1__JobSpec *spec,
                          uint32_t *shards, uint64_t *elements,
                          struct sl_error *err)
{
    uint32_t servers = 0;
    struct draft draft;
    enum sl_err rc = draft_now(&draft, &servers, c, spec, err);

    if (rc != SL_OK)
        return rc;
    *shards = mode_of(c, spec)->on_workers ? part_plan_empty(&draft.plan)
                                           : draft.plan.shard_count;
    *elements = draft.plan.elements;
    draft_release(&draft);
    return SL_OK;
}

// Appends the folder of images of each output, or how that will be decided.
static enum sl_err explain_classes(struct buf *out,
                                   const Sluice__V1__DataSpec *data)
{
    enum sl_err rc;

    if (strcmp(data->train->format, "images") != 0)
        return SL_OK;
    if (data->n_classes == 0)
        return buf_append_str(out, "outputs: the folders of data.train in byte "
                                   "order of their names\n");
    rc = buf_append_str(out, "outputs:");
    for (size_t i = 0; rc == SL_OK && i < data->n_classes; i++)
        rc = buf_appendf(out, "%s %zu %s", i > 0 ? "," : "", i,
                         data->classes[i]);
    return rc == SL_OK ? buf_append_str(out, "\n") : rc;
}

enum sl_err place_explain(struct coord *c, const Sluice__V1__JobSpec *spec,
                          struct buf *out, struct sl_error *err)
{
    const struct mode *mode = mode_of(c, spec);
    uint32_t servers = 0;
    struct draft draft;
    enum sl_err rc = draft_now(&draft, &servers, c, spec, err);

    if (rc != SL_OK)
        return rc;
    if (mode->where != NULL)
        rc = buf_append_str(out, mode->where);
    else if (servers == 0)
        rc = buf_append_str(out, "no psserver is attached; shown for one\n");
    if (rc == SL_OK)
        rc = spec_rows_only(spec)
                 ? buf_appendf(
                       out, "rows of %zu tables; each psserver has one shard\n",
                       spec->model->n_tables)
                 : explain_plan(out, &draft);
    if (rc == SL_OK && spec->placement->replicas > 0)
        rc = servers == 1
                 ? buf_append_str(out, "one psserver: no shard has a replica\n")
                 : buf_appendf(out,
                               "each shard has a replica on another psserver, "
                               "on another host if there is one; a push %s\n",
                               spec_follows(spec->placement)
                                   ? "does not wait for it (follow)"
                                   : "is answered when it has it (ack)");
    if (rc == SL_OK)
        rc = explain_classes(out, spec->data);
    draft_release(&draft);
    return rc;
}
