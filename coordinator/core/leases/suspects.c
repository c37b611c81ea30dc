// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/suspects.c -- see suspects.h.
#include "coordinator/core/leases/suspects.h"

#include <stdio.h>
#include <string.h>

#include "common/run/log.h"
#include "coordinator/core/happened.h"
#include "coordinator/core/job.h"
#include "coordinator/core/leases/drains.h"
#include "coordinator/core/leases/leases.h"
#include "coordinator/core/leases/tainted.h"
#include "coordinator/core/mode.h"
#include "plan/audited.h"
#include "proto/spec.h"

#define NOBODY "" // no caller has it: who drained a suspect
// Most suspects: a party that has many names cannot fill the list of drains.
#define SUSPECTS_MOST 1000

uint64_t suspects_count(const struct coord *c)
{
    uint64_t count = 0;

    list_for(n, &c->drains)
    {
        count += drain_is_audit(list_entry(n, struct drain, node));
    }
    return count;
}

void suspects_fill(Sluice__V1__JobStatus *m, const struct job *job)
{
    if (spec_audit(job->spec->train) == 0)
        return;
    m->audit = wire_new(&sluice__v1__audit_status__descriptor);
    if (m->audit == NULL)
        return;
    m->audit->compared = job->audit.compared;
    m->audit->differed = job->audit.differed;
    m->audit->decided = job->audit.decided;
}

// ---- a worker that is wrong

static void suspects_revoke(struct coord *c, struct member *m)
{
    list_for_safe(n, &m->leases)
    {
        leases_revoke(c, m, list_entry(n, struct work, on_holder),
                      "this worker is suspect: an audit found a result of it "
                      "wrong");
        if (c->dead)
            return;
    }
}

// Writes what is in doubt: all that the worker contributed since an audit found
// a result of it right.
static void suspects_doubt(const struct job *job, const char *name, char *out,
                           size_t size)
{
    const struct contributed *r = tainted_of(job, name);

    if (r == NULL || !r->audited)
        snprintf(out, size, "no audit of %s found it right before",
                 job->id_text);
    else
        snprintf(out, size,
                 "the %llu steps of %llu closures of %s that it computed since "
                 "closure %llu are in doubt; checkpoint %llu is from before",
                 (ull)contributed_total(r, true),
                 (ull)contributed_total(r, false), job->id_text,
                 (ull)r->closure, (ull)r->cut);
}

// Returns true if digests tell nothing of the proof: a kind differs (A2).
static bool suspects_by_sketch(const struct differences_proof *p)
{
    return p->wrong[0]->kind != p->right[0]->kind ||
           p->wrong[1]->kind != p->right[1]->kind;
}

// Writes what shows that the worker is wrong.
static void suspects_shown(const struct job *job,
                           const struct differences_proof *p, char *out,
                           size_t size)
{
    if (suspects_by_sketch(p))
        snprintf(out, size,
                 "its gradient of closure %llu of %s is far from those of "
                 "%.48s and %.48s, of which one at least is of another kind",
                 (ull)p->closure[0], job->id_text, p->right[0]->name,
                 p->right[1]->name);
    else if (p->wrong[0] == p->wrong[1])
        snprintf(out, size,
                 "its gradient of closure %llu of %s is %016llx; %.48s and "
                 "%.48s computed %016llx",
                 (ull)p->closure[0], job->id_text, (ull)p->wrong[0]->output,
                 p->right[0]->name, p->right[1]->name,
                 (ull)p->right[0]->output);
    else
        snprintf(out, size,
                 "its gradient of closure %llu of %s is %016llx, and %.32s "
                 "computed %016llx; that of closure %llu is %016llx, and "
                 "%.32s computed %016llx",
                 (ull)p->closure[0], job->id_text, (ull)p->wrong[0]->output,
                 p->right[0]->name, (ull)p->right[0]->output,
                 (ull)p->closure[1], (ull)p->wrong[1]->output,
                 p->right[1]->name, (ull)p->right[1]->output);
}

bool suspects_is(const struct coord *c, const char *name)
{
    const struct drain *d = drains_find(c, MEMBER_WORKER, name);

    return d != NULL && drain_is_audit(d);
}

static enum sl_err suspects_drain(struct coord *c, const char *name,
                                  const char *why, struct sl_error *err)
{
    if (suspects_count(c) >= SUSPECTS_MOST)
        return sl_fail(err, SL_EBUSY,
                       "%d workers are suspect, which is the limit",
                       SUSPECTS_MOST);
    return drains_set(c, MEMBER_WORKER, name, NOBODY, why, err);
}

// The drain is journalled before leases are taken back (A4).
void suspects_make(struct coord *c, const char *name, const struct job *job,
                   const char *why)
{
    struct member *m = members_find(&c->members, MEMBER_WORKER, name);
    struct sl_error err = SL_ERROR_INIT;

    LOG(WARN, "worker is suspect", "worker=%s why=%s", name, why);
    happened_job(c, EVENT_WORKER_SUSPECT, job, m, "worker %.60s is suspect: %s",
                 name, why);
    if (suspects_drain(c, name, why, &err) != SL_OK) {
        if (!c->dead)
            LOG(WARN, "a suspect worker cannot be drained", "worker=%s why=%s",
                name, err.text);
        return;
    }
    tainted_keep(c, name);
    if (m == NULL || c->dead)
        return;
    member_drain(m, true);
    suspects_revoke(c, m);
}

static void suspects_blame(struct coord *c, struct job *job,
                           const struct differences_proof *p)
{
    const char *name = p->wrong[1]->name;
    char why[EVENT_TEXT], doubt[160];
    size_t shown;

    suspects_shown(job, p, why, sizeof(why));
    suspects_doubt(job, name, doubt, sizeof(doubt));
    shown = strlen(why);
    snprintf(why + shown, sizeof(why) - shown, "; %s", doubt);
    suspects_make(c, name, job, why);
}

// ---- votes

static void suspects_differ(struct coord *c, struct member *m, struct job *job,
                            uint64_t closure, const struct votes_result *r)
{
    const char *other =
        r->against_count > 0 ? r->against[0]->name : "another worker";

    LOG(WARN, "workers computed different gradients",
        "job=%s closure=%llu worker=%s other=%s", job->id_text, (ull)closure,
        m->name, other);
    happened_job(c, EVENT_AUDIT_DIFFERS, job, m,
                 "%.60s and %.60s computed different gradients of closure %llu "
                 "from the same parameters",
                 m->name, other, (ull)closure);
}

// Counts what a vote led to, for its job and for the cluster.
static void suspects_figure(struct coord *c, uint64_t *of_job,
                            enum figures_audit what, bool it_did)
{
    if (!it_did)
        return;
    ++*of_job;
    figures_audit(c, what);
}

// Notes which votes differ from m's, and says whether a worker is wrong by them
// (A2), or by those of other rounds (A6).
static bool suspects_found(const struct coord *c, struct job *job,
                           uint64_t closure, const struct vote *vote,
                           const struct votes_result *r,
                           struct differences_proof *out)
{
    struct differences *d = &job->audit.differences;

    for (uint32_t i = 0; i < r->against_count; i++)
        if (vote->kind == r->against[i]->kind &&
            !suspects_is(c, r->against[i]->name))
            differences_note(d, closure, vote, r->against[i]);
    if (r->wrong == NULL)
        return r->against_count > 0 && differences_judge(d, out);
    *out = (struct differences_proof){
        {closure, closure}, {r->wrong, r->wrong}, {r->right[0], r->right[1]}};
    return !suspects_is(c, r->wrong->name);
}

// Returns the number of a result's slot among all of the job. The step of a
// group has one for each of its members.
static uint64_t suspects_slot(const struct job *job,
                              const Sluice__V1__Repeat *repeat)
{
    uint64_t step =
        repeat->closure * job->shards.schedule.steps_per_closure + repeat->step;

    return job->groups.size == 0 ? step
                                 : step * job->groups.size + repeat->share;
}

// Takes the sketch of a result, if it has one. Of a gradient that is not finite
// in f16 there is none: a scale of the loss may be too large for some kinds of
// host alone.
static void suspects_sketch(struct vote *vote, const struct job *job,
                            const Sluice__V1__Repeat *repeat)
{
    enum spec_precision precision = spec_precision(job->spec);

    if (repeat->n_sketch != SKETCH_NUMBERS ||
        (repeat->output == 0 && precision == SPEC_F16))
        return;
    memcpy(vote->sketch.of, repeat->sketch, sizeof(vote->sketch.of));
    vote->bound = votes_bound(precision);
}

enum suspects_said suspects_vote(struct coord *c, struct member *m,
                                 struct job *job, uint32_t round,
                                 const Sluice__V1__Repeat *repeat)
{
    struct vote vote = {.name = m->name,
                        .witness = m->witness,
                        .kind = repeat->kind,
                        .inputs = repeat->inputs,
                        .output = repeat->output};
    struct votes_result r;
    struct differences_proof proof;
    bool found;

    if (suspects_is(c, m->name)) // by an earlier result of this message
        return SUSPECTS_NOTHING;
    suspects_sketch(&vote, job, repeat);
    votes_take(&job->audit.votes, round, suspects_slot(job, repeat), &vote, &r);
    found = suspects_found(c, job, repeat->closure, &vote, &r, &proof);
    suspects_figure(c, &job->audit.compared, FIGURES_COMPARED, r.compared);
    suspects_figure(c, &job->audit.differed, FIGURES_DIFFERED, r.differs);
    suspects_figure(c, &job->audit.decided, FIGURES_DECIDED, found);
    if (r.differs)
        suspects_differ(c, m, job, repeat->closure, &r);
    if (found) {
        suspects_blame(c, job, &proof);
        differences_forget(&job->audit.differences, proof.wrong[1]->name);
    } else if (r.differs) {
        m->yields = true;
    }
    return found || r.against_count > 0 ? SUSPECTS_DIFFERS
           : r.agrees                   ? SUSPECTS_AGREES
                                        : SUSPECTS_NOTHING;
}

// ---- a worker's own word

static void suspects_own_blame(struct coord *c, struct member *m,
                               struct job *job,
                               const Sluice__V1__Repeat *const two[2])
{
    char why[EVENT_TEXT], doubt[160];

    suspects_doubt(job, m->name, doubt, sizeof(doubt));
    snprintf(why, sizeof(why),
             "it computed a gradient of closure %llu of %s twice from the same "
             "parameters: %016llx and %016llx; %s",
             (ull)two[0]->closure, job->id_text, (ull)two[0]->output,
             (ull)two[1]->output, doubt);
    suspects_make(c, m->name, job, why);
}

// Takes two results of one step as the word of m on itself alone (A5).
void suspects_take_own(struct coord *c, struct member *m, struct job *job,
                       uint64_t closure, Sluice__V1__Repeat *const *repeats,
                       size_t n)
{
    const Sluice__V1__Repeat *two[2];
    bool differs;

    if (n != 2 || job->mode->by_round ||
        !audited_round(job->id, closure, spec_audit(job->spec->train)))
        return;
    two[0] = repeats[0], two[1] = repeats[1];
    if (two[0]->closure != closure || two[1]->closure != closure ||
        two[0]->kind != two[1]->kind || two[0]->inputs != two[1]->inputs)
        return;
    differs = two[0]->output != two[1]->output;
    suspects_figure(c, &job->audit.compared, FIGURES_COMPARED, true);
    suspects_figure(c, &job->audit.differed, FIGURES_DIFFERED, differs);
    suspects_figure(c, &job->audit.decided, FIGURES_DECIDED, differs);
    if (differs)
        suspects_own_blame(c, m, job, two);
    else
        tainted_clean(job, m, closure);
}

// Takes results of the slots that follow from the lease alone (A1).
void suspects_take(struct coord *c, struct member *m, struct job *job,
                   const Sluice__V1__Complete *message)
{
    const struct evidence *e = &job->shards.evidence;
    uint64_t first, slots[AUDITED_WORKERS];
    bool said[] = {false, false, false}, own = false; // by suspects_said
    uint32_t n;

    if (message->n_repeats == 0)
        return;
    if (!job->mode->by_round) {
        suspects_take_own(c, m, job, message->closure, message->repeats,
                          message->n_repeats);
        return;
    }
    first = evidence_round_first(e, message->closure);
    if (!audited_round(job->id, first, spec_audit(job->spec->train)))
        return;
    n = audited_slots(
        first, (uint32_t)(evidence_round_end(e, message->closure) - first),
        message->closure, slots);
    for (uint32_t i = 0; i < n; i++)
        for (size_t k = 0; k < message->n_repeats && !c->dead; k++)
            if (message->repeats[k]->closure == slots[i]) {
                said[suspects_vote(c, m, job, e->round, message->repeats[k])] =
                    true;
                own |= i == 0 && said[SUSPECTS_AGREES];
            }
    if (c->dead || said[SUSPECTS_DIFFERS] || !said[SUSPECTS_AGREES])
        return;
    if (own) // else a third result may still say that its own is wrong
        tainted_clean(job, m, message->closure);
    else if (first > 0)
        tainted_clean(job, m, first - 1);
}
