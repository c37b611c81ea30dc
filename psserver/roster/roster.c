// SPDX-License-Identifier: Apache-2.0
// psserver/roster/roster.c -- the life of each hosted shard: loading, hello,
// admission, refusal, end.
#include "psserver/roster/roster.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/fault.h"
#include "common/base/history.h"
#include "common/run/log.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/base/moves.h"
#include "psserver/roster/roster_inner.h"
#include "state/rows/row_memory.h"
#include "state/shard/counts.h"

#define RETRY_MS 10000 // pause before a failed shard is loaded again

// ---- lifetimes

enum sl_err roster_new(struct roster **out, const struct roster_setup *setup)
{
    struct roster *r = sl_calloc(1, sizeof(*r));

    if (r == NULL)
        return SL_ENOMEM;
    r->setup = *setup;
    list_init(&r->writing);
    list_init(&r->deleting);
    r->took = (struct histogram)HISTOGRAM_DURATIONS;
    r->pushes_before = histogram_count(&shard_waits);
    r->setup.folder = sl_strdup(setup->folder);
    if (r->setup.folder == NULL) {
        sl_free(r);
        return SL_ENOMEM;
    }
    feed_links_init(&r->links, setup->loop, setup->io, setup->tls);
    *out = r;
    return SL_OK;
}

enum sl_err roster_work(struct roster *r, loop_fn work, loop_fn done, void *arg)
{
    enum sl_err rc = loop_work(r->setup.loop, work, done, arg);

    if (rc == SL_OK)
        r->working++;
    return rc;
}

enum sl_err roster_store(const struct roster *r, struct sl_error *err)
{
    return r->setup.membership == NULL
               ? SL_OK
               : membership_check(r->setup.membership, err);
}

void roster_worked(struct roster *r)
{
    r->working--;
    if (r->ending && r->working == 0)
        loop_stop(r->setup.loop);
}

void hosted_pin(struct hosted *h)
{
    h->pins++;
}

static void hosted_free(struct hosted *h)
{
    shard_unref(h->shard);
    if (h->spec != NULL)
        wire_free(&h->spec->base);
    sl_free(h->folder);
    sl_free(h->tables);
    sl_free(h);
}

void hosted_unpin(struct hosted *h)
{
    if (--h->pins == 0 && h->gone)
        hosted_free(h);
}

// Takes the shard out of the store; its memory goes when the last call is done.
static void hosted_empty(struct hosted *h)
{
    hosted_feed_drop(h);
    store_remove(h->roster->setup.store, h->spec->job, h->spec->shard);
    shard_unref(h->shard);
    h->shard = NULL;
}

void hosted_drop(struct hosted *h)
{
    if (h->stop_load != NULL)
        atomic_store(h->stop_load, true);
    pairmap_remove(&h->roster->hosted, h->spec->job, h->spec->shard);
    hosted_empty(h);
    h->gone = true;
    if (h->pins == 0)
        hosted_free(h);
}

void roster_free(struct roster *r)
{
    struct pairmap_at at = {0};
    struct hosted *h;

    if (r == NULL)
        return;
    while ((h = pairmap_next(&r->hosted, &at)) != NULL) {
        hosted_drop(h);
        at = (struct pairmap_at){0};
    }
    r->ending = true;
    feed_links_release(&r->links);
    // A stop meant for an earlier run may end a run early.
    while (r->working > 0)
        loop_run(r->setup.loop);
    pairmap_release(&r->hosted);
    sl_free((char *)r->setup.folder);
    sl_free(r);
}

bool roster_term(struct roster *r, uint64_t term)
{
    if (term < r->term)
        return false;
    r->term = term;
    store_note_term(r->setup.store, term);
    return true;
}

bool roster_term_holds(struct roster *r, uint64_t term, const char *what)
{
    if (roster_term(r, term))
        return true;
    LOG(WARN, "message of an older term ignored (I5)",
        "what=%s term=%" PRIu64 " newest=%" PRIu64, what, term, r->term);
    return false;
}

static size_t roster_count_in_state(const struct roster *r,
                                    enum hosted_state state)
{
    struct pairmap_at at = {0};
    const struct hosted *h;
    size_t n = 0;

    while ((h = pairmap_next(&r->hosted, &at)) != NULL)
        n += h->state == state;
    return n;
}

size_t roster_admitted(const struct roster *r)
{
    return roster_count_in_state(r, HOSTED_ADMITTED);
}

size_t roster_failed(const struct roster *r)
{
    return roster_count_in_state(r, HOSTED_FAILED);
}

static void roster_tell_replicas(struct roster *r)
{
    struct pairmap_at at = {0};
    struct hosted *h;

    while ((h = pairmap_next(&r->hosted, &at)) != NULL)
        hosted_tell_replica(h);
}

void roster_attached(struct roster *r)
{
    struct pairmap_at at = {0};
    struct hosted *h;

    while ((h = pairmap_next(&r->hosted, &at)) != NULL) {
        h->feeds.told = false;
        if (h->state != HOSTED_LOADING)
            hosted_send_hello(h);
    }
    roster_tell_replicas(r);
}

// ---- loading

struct load {
    struct hosted *hosted;
    struct plan plan; // moves into the shard
    struct wire_tag at_least;
    bool exact;
    bool beside; // another psserver serves the shard
    struct shard *shard;
    _Atomic bool stop; // the load is to end early
    enum sl_err rc;
    struct sl_error err;
    struct sl_error secret; // text for the log alone; may be empty
};

static void start_load(struct hosted *h);

static void passed_over(void *arg, const char *file, const struct sl_error *why)
{
    const struct hosted *h = arg;

    // spec and folder do not change while the shard is LOADING.
    LOG(WARN, "snapshot passed over", "file=%s/%s reason=%s", h->folder, file,
        why->text);
}

// Returns true if the shard starts from another job's files. They stand where
// the seed stood: below every snapshot of its own (K7), and for as long as no
// cut of its own exists.
static bool from_sources(const struct shard *s)
{
    return s->from.incarnation == 0 && s->from.sequence == 0 &&
           s->plan.source_count > 0;
}

static bool roster_load_is_stopped(void *arg)
{
    struct load *load = arg;

    return atomic_load(&load->stop);
}

// Loads a shard's memory; on a pool thread.
static void load_work(void *arg)
{
    struct load *load = arg;
    struct hosted *h = load->hosted;
    const struct roster_setup *setup = &h->roster->setup;
    const struct snap_from from = {
        .fs = setup->fs,
        .store = setup->folder,
        .weights = setup->weights,
        .stopped = roster_load_is_stopped,
        .arg = load,
        .secret = setup->weights_secret ? &load->secret : NULL};

    // A store that is not mounted has no snapshots, but the seed must not be
    // taken for that.
    load->rc = roster_store(h->roster, &load->err);
    if (load->rc == SL_OK &&
        (load->rc = shard_new(&load->shard, &load->plan)) != SL_OK)
        sl_fail(&load->err, load->rc,
                "no memory for its values, slots and empty tables; give this "
                "psserver more (--rows-memory limits its tables, coordinator "
                "--quota TENANT:rows= those of a tenant)");
    if (load->rc == SL_OK)
        load->shard->chain.most = setup->deltas;
    if (load->rc == SL_OK)
        load->rc =
            load->beside
                ? snap_load_beside(setup->fs, h->folder, load->at_least,
                                   load->exact, load->shard, passed_over, h,
                                   &load->err)
                : snap_load(setup->fs, h->folder, load->at_least, load->exact,
                            load->shard, passed_over, h, &load->err);
    if (load->rc == SL_OK && from_sources(load->shard))
        load->rc = snap_sources(&from, load->shard, &load->err);
    // Counts too large for a message would end the stream, and that of all
    // other shards.
    if (load->rc == SL_OK)
        load->rc = counts_fit(&load->shard->once, &load->err);
}

static const unsigned moves[] = {
    [HOSTED_LOADING] = MOVES_TO(HOSTED_LOADED) | MOVES_TO(HOSTED_FAILED) |
                       MOVES_TO(HOSTED_LOADING),
    [HOSTED_LOADED] = MOVES_TO(HOSTED_ADMITTED) | MOVES_TO(HOSTED_LOADING),
    [HOSTED_ADMITTED] = MOVES_TO(HOSTED_LOADING),
    [HOSTED_FAILED] = MOVES_TO(HOSTED_LOADING),
};

// Changes a hosted shard's state; no other function does.
static void hosted_enter_state(struct hosted *h, enum hosted_state next)
{
    assert(moves_have(moves, h->state, next));
    h->state = next;
}

// Marks a load as failed. `said` goes to the log instead of `why`, if it is not
// NULL and not empty.
static void hosted_fail_load(struct hosted *h, const struct sl_error *why,
                             const struct sl_error *said)
{
    bool news = strcmp(h->failure.text, why->text) != 0;

    hosted_enter_state(h, HOSTED_FAILED);
    h->failure = *why;
    h->failed_ms = loop_now_ms(h->roster->setup.loop);
    if (!news)
        return;
    LOG(ERROR, "shard cannot be loaded", HOLD_PAIRS " error=%s reason=%s",
        HOLD_VALUES(h), sl_err_name(why->code),
        said != NULL && said->text[0] != '\0' ? said->text : why->text);
    hosted_send_hello(h);
}

// Writes the shard's plan to the history, for a replay of its updates.
static void note_plan(const struct hosted *h)
{
    struct buf packed = BUF_INIT;
    struct sl_slices bytes;
    struct sl_slice one;
    long long at;

    if (!history_on() || wire_pack(&h->spec->base, &packed) != SL_OK)
        return;
    one = (struct sl_slice){packed.data, packed.len};
    bytes = slices_one(&one);
    at = history_bytes(&bytes);
    if (at >= 0)
        HISTORY("plan", "uid=%" PRIx64 " shard=%u bytes=%zu payload=%lld",
                h->spec->job_uid, h->spec->shard, packed.len, at);
    buf_release(&packed);
}

// Takes a loaded shard; owns the reference.
static void hosted_take_loaded(struct hosted *h, struct shard *shard)
{
    struct shard_brief brief;

    note_plan(h);
    shard_brief(shard, true, &brief);
    hosted_enter_state(h, HOSTED_LOADED);
    h->shard = shard;
    hosted_follow(h);
    h->saved_steps = brief.steps;
    h->told_steps = 0;
    h->saved_ms = sl_real_ms();
    h->failure.text[0] = '\0';
    HISTORY("loaded",
            "job=%" PRIu64 " uid=%" PRIx64 " shard=%u from_i=%" PRIu64
            " from_n=%" PRIu64 " steps=%" PRIu64 " low=%" PRIu64
            " applied=%" PRIu64 " skipped=%" PRIu64,
            h->spec->job, h->spec->job_uid, h->spec->shard,
            brief.from.incarnation, brief.from.sequence, brief.steps, brief.low,
            brief.counts.applied, brief.counts.skipped);
    LOG(INFO, "shard loaded",
        HOLD_PAIRS " from=%" PRIu64 ".%" PRIu64 " steps=%" PRIu64 " bytes=%zu",
        HOLD_VALUES(h), brief.from.incarnation, brief.from.sequence,
        brief.steps, shard_bytes(shard));
    hosted_send_hello(h);
}

static void load_done(void *arg)
{
    struct load *load = arg;
    struct hosted *h = load->hosted;
    struct roster *r = h->roster;

    h->stop_load = NULL;
    if (load->rc == SL_OK && !h->gone && !h->again)
        load->rc = store_put(r->setup.store, load->shard);
    if (load->rc != SL_OK) {
        load->err.code = load->rc;
        if (load->err.text[0] == '\0')
            sl_fail(&load->err, load->rc, "%s", sl_err_text(load->rc));
    }
    if (h->gone || h->again || load->rc != SL_OK)
        shard_unref(load->shard);
    if (!h->gone && h->again)
        start_load(h);
    else if (!h->gone && load->rc != SL_OK)
        hosted_fail_load(h, &load->err, &load->secret);
    else if (!h->gone)
        hosted_take_loaded(h, load->shard);
    hosted_unpin(h);
    sl_free(load);
    roster_worked(r);
}

static void start_load(struct hosted *h)
{
    struct load *load = sl_calloc(1, sizeof(*load));
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc = SL_ENOMEM;

    hosted_enter_state(h, HOSTED_LOADING);
    h->again = false;
    if (load != NULL) {
        load->hosted = h;
        load->at_least = h->at_least;
        load->exact = h->exact;
        load->beside = h->prepares;
        rc = plan_read(&load->plan, h->spec, &err);
    }
    if (rc == SL_OK) {
        sl_free(h->folder);
        h->folder = snap_folder(h->roster->setup.folder, &load->plan);
        rc = h->folder == NULL
                 ? SL_ENOMEM
                 : roster_work(h->roster, load_work, load_done, load);
        if (rc == SL_OK) {
            hosted_pin(h);
            h->stop_load = &load->stop;
            return;
        }
        plan_release(&load->plan);
    }
    sl_free(load);
    err.code = rc;
    if (err.text[0] == '\0')
        sl_fail(&err, rc, "%s", sl_err_text(rc));
    hosted_fail_load(h, &err, NULL);
}

void hosted_load_anew(struct hosted *h)
{
    hosted_empty(h);
    h->later_round = 0;
    h->wish.last = false;
    if (h->state == HOSTED_LOADING)
        h->again = true;
    else
        start_load(h);
}

void hosted_unfit(struct hosted *h, const struct sl_error *why)
{
    if (why->code == SL_ESTALE || why->code == SL_EUNAVAIL ||
        why->code == SL_EINVAL) {
        hosted_load_anew(h);
        return;
    }
    hosted_empty(h);
    h->later_round = 0;
    hosted_enter_state(h, HOSTED_LOADING);
    hosted_fail_load(h, why, NULL);
}

// ---- messages of the stream

static struct hosted *hosted_new(struct roster *r,
                                 const Sluice__V1__ShardSpec *spec)
{
    struct hosted *h = sl_calloc(1, sizeof(*h));
    ProtobufCMessage *copy;

    if (h == NULL)
        return NULL;
    h->roster = r;
    h->state = HOSTED_FAILED; // not loaded yet
    if (wire_dup(&copy, &spec->base) != SL_OK) {
        sl_free(h);
        return NULL;
    }
    h->spec = (Sluice__V1__ShardSpec *)copy;
    if (pairmap_put(&r->hosted, spec->job, spec->shard, h) != SL_OK) {
        hosted_free(h);
        return NULL;
    }
    return h;
}

// Returns a hosted shard with this spec: the known one if it is of the same
// incarnation of the same job, else a new one in its place. NULL if the spec is
// older (I6), or without memory.
static struct hosted *hosted_for(struct roster *r,
                                 const Sluice__V1__ShardSpec *spec)
{
    struct hosted *h = pairmap_get(&r->hosted, spec->job, spec->shard);

    if (h != NULL && h->spec->job_uid == spec->job_uid) {
        if (spec->job_incarnation < h->spec->job_incarnation)
            return NULL; // I6
        if (spec->job_incarnation == h->spec->job_incarnation)
            return h;
    }
    if (h != NULL)
        hosted_drop(h);
    h = hosted_new(r, spec);
    if (h == NULL)
        LOG(ERROR, "shard not taken: out of memory",
            "job=%" PRIu64 " shard=%" PRIu32, spec->job, spec->shard);
    return h;
}

// Notes what a tenant's rows may take here, before a shard of it is loaded or
// pushed to.
static void note_quota(const Sluice__V1__RowsQuota *q)
{
    struct row_tenant_bytes most = {ROW_TENANT_FREE, ROW_TENANT_FREE};

    if (q == NULL)
        return; // the coordinator is of a version that does not say it
    if (q->limited)
        most.memory = q->most;
    if (q->disk_limited)
        most.disk = q->disk_most;
    if (row_tenant_set(q->tenant, most) != SL_OK)
        LOG(ERROR, "quota of rows not kept: out of memory", "tenant=%s",
            q->tenant);
}

// Loads what is to be loaded next, whatever is there: what was prepared is no
// memory to serve from (M4), and before a preparation another psserver is the
// owner by now.
static void place_anew(struct hosted *h, const Sluice__V1__Place *m)
{
    h->prepares = m->prepare;
    h->follow = m->prepare ? m->follow : 0;
    h->follow_incarnation = m->follow_incarnation;
    h->exact = h->follow != 0;
    h->failure.text[0] = '\0';
    hosted_load_anew(h);
    FAULT("move.loads");
}

void roster_place(struct roster *r, const Sluice__V1__Place *m)
{
    struct wire_tag at_least = wire_tag_of(m->at_least);
    struct hosted *h;
    bool other; // the snapshot being loaded may be too old by now

    if (!roster_term_holds(r, m->term, "Place"))
        return;
    h = hosted_for(r, m->shard);
    if (h == NULL)
        return;
    other = wire_tag_cmp(at_least, h->at_least) != 0;
    h->at_least = at_least;
    h->exact = h->exact && !other;
    note_quota(m->shard->rows);
    if (!m->prepare &&
        (hosted_followed(h) || hosted_takes_over(h, m->replica))) {
        hosted_send_hello(h);
        return;
    }
    if (m->prepare || h->prepares) {
        place_anew(h, m);
        return;
    }
    switch (h->state) {
    case HOSTED_LOADING:
        h->again = h->again || other;
        break;
    case HOSTED_FAILED:
        h->failure.text[0] = '\0'; // a new Place wants a new answer
        start_load(h);
        break;
    case HOSTED_LOADED:
        if (wire_tag_cmp(h->shard->from, at_least) < 0)
            hosted_load_anew(h);
        else
            hosted_send_hello(h);
        break;
    case HOSTED_ADMITTED:
        hosted_send_hello(h); // in service: the coordinator decides
        break;
    }
}

void hosted_applied(struct hosted *h)
{
    const struct roster_setup *setup = &h->roster->setup;

    if (setup->applied != NULL)
        setup->applied(setup->applied_arg, h->shard);
}

// Settles a shard beside a ring with the base in the message. Returns false if
// that cannot be: then its memory goes (hosted_unfit), and its hello tells.
static bool hosted_settle(struct hosted *h, const Sluice__V1__Admit *m)
{
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc =
        m->base_tag == NULL
            ? sl_fail(&err, SL_EINVAL, "it names no base")
            : shard_settle(h->shard, m->incarnation, wire_tag_of(m->base_tag),
                           m->skip, &err);

    if (rc == SL_OK) {
        h->later_round = 0; // of the generation before (R6)
        hosted_applied(h);
        return true;
    }
    LOG(ERROR, "shard does not fit the base of the ring",
        HOLD_PAIRS " generation=%" PRIu64 " error=%s reason=%s", HOLD_VALUES(h),
        m->incarnation, sl_err_name(rc), err.text);
    hosted_unfit(h, &err);
    return false;
}

void roster_admit(struct roster *r, const Sluice__V1__Admit *m)
{
    struct hosted *h = pairmap_get(&r->hosted, m->job, m->shard);

    if (!roster_term_holds(r, m->term, "Admit") || h == NULL)
        return;
    // A shard that is loading now is not the one that the coordinator admits: a
    // hello follows when it is loaded.
    if (h->state != HOSTED_LOADED && h->state != HOSTED_ADMITTED)
        return;
    if (h->prepares) // M4
        return;
    // I1: a loaded memory gets a newer incarnation than its file's, and than
    // any that this process had for the shard. A late renewal of a memory that
    // was dropped names the latter: taken, it would be credited with the counts
    // of the lost memory.
    if (h->state == HOSTED_LOADED &&
        (m->incarnation <= h->shard->from.incarnation ||
         m->incarnation <= h->bore)) {
        LOG(ERROR, "admission refused: not a new incarnation (I1)",
            HOLD_PAIRS " incarnation=%" PRIu64, HOLD_VALUES(h), m->incarnation);
        return;
    }
    note_quota(m->rows);
    HISTORY("admit_heard",
            "job=%" PRIu64 " shard=%u incarnation=%" PRIu64 " term=%" PRIu64,
            m->job, m->shard, m->incarnation, m->term);
    h->wish.last = false; // M3: it would stop what is admitted now
    if (!h->shard->plan.decided)
        shard_admit(h->shard, m->incarnation);
    else if (!hosted_settle(h, m))
        return;
    if (m->incarnation > h->bore)
        h->bore = m->incarnation;
    if (h->state == HOSTED_ADMITTED)
        return;
    LOG(INFO, "shard admitted",
        HOLD_PAIRS " incarnation=%" PRIu64 " term=%" PRIu64, HOLD_VALUES(h),
        m->incarnation, m->term);
    hosted_enter_state(h, HOSTED_ADMITTED);
}

void roster_hello(struct roster *r, const Sluice__V1__HelloWanted *m)
{
    struct hosted *h = pairmap_get(&r->hosted, m->job, m->shard);

    if (roster_term_holds(r, m->term, "HelloWanted") && h != NULL &&
        h->state == HOSTED_ADMITTED)
        hosted_send_hello(h);
}

// Taken before its admission, too: so the calls that it then answers find the
// newest rates (D1).
void roster_rates(struct roster *r, const Sluice__V1__Rates *m)
{
    struct hosted *h = pairmap_get(&r->hosted, m->job, m->shard);
    struct sl_error err = SL_ERROR_INIT;
    struct rates rates;

    if (!roster_term_holds(r, m->term, "Rates") || h == NULL ||
        h->shard == NULL || h->spec->job_uid != m->job_uid || m->n_rates == 0)
        return;
    if (plan_rates(&rates, m->rates, m->n_rates, &err) != SL_OK) {
        LOG(ERROR, "rates not taken", HOLD_PAIRS " why=%s", HOLD_VALUES(h),
            err.text);
        return;
    }
    shard_rates(h->shard, &rates);
    FAULT("rates.taken");
    LOG(INFO, "rates taken", HOLD_PAIRS " closure=%" PRIu64 " rate=%g",
        HOLD_VALUES(h), rates.step[rates.count - 1].closure,
        rates.step[rates.count - 1].rate);
    hosted_send_rates(h, rates.step[rates.count - 1].closure);
}

static bool hosted_is_new_enough(const struct hosted *h)
{
    int order = wire_tag_cmp(h->shard->from, h->at_least);

    return h->exact ? order == 0 : order >= 0;
}

void roster_refuse(struct roster *r, const Sluice__V1__Refuse *m)
{
    struct hosted *h = pairmap_get(&r->hosted, m->job, m->shard);

    if (!roster_term_holds(r, m->term, "Refuse") || h == NULL)
        return;
    LOG(WARN, "shard refused", HOLD_PAIRS " reason=%s reload=%d",
        HOLD_VALUES(h), m->why, m->load != NULL);
    if (m->load == NULL) {
        hosted_drop(h);
        return;
    }
    h->at_least = wire_tag_of(m->load);
    h->exact = m->exact;
    h->failure.text[0] = '\0';
    // A snapshot loaded meanwhile is new enough, and its hello is on its way:
    // loading once more would let the coordinator admit, and believe, a memory
    // that is gone.
    if (h->state == HOSTED_LOADED && hosted_is_new_enough(h))
        return;
    hosted_load_anew(h);
}

// ---- heartbeats

static void try_again(struct roster *r)
{
    uint64_t now = loop_now_ms(r->setup.loop);
    struct pairmap_at at = {0};
    struct hosted *h;

    while ((h = pairmap_next(&r->hosted, &at)) != NULL)
        if (h->state == HOSTED_FAILED && now - h->failed_ms >= RETRY_MS)
            start_load(h);
}

// Tells what shards with open rounds have counted, as far as it is news: no
// worker reports a contribution that was held when it came (L4).
static void roster_tell_counted(struct roster *r)
{
    struct pairmap_at at = {0};
    struct hosted *h;

    while ((h = pairmap_next(&r->hosted, &at)) != NULL)
        if (h->state == HOSTED_ADMITTED && h->shard->plan.open > 0 &&
            h->brief.steps != h->told_steps)
            hosted_send_counted(h, 0);
}

void roster_empties(struct roster *r, bool empties)
{
    r->empties = empties;
}

void roster_tick(struct roster *r, uint64_t seq, bool draining)
{
    roster_send_heartbeat(r, roster_admitted(r), seq, draining);
    roster_tell_counted(r);
    roster_tell_replicas(r);
    try_again(r);
}
