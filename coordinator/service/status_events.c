// SPDX-License-Identifier: Apache-2.0
// coordinator/service/status_events.c -- the contents of the feed, as clients
// may see it: a tenant's callers see their own jobs alone.
#include "coordinator/service/status_lists.h"

#include "common/base/mem.h"
#include "common/base/num.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/tenants.h"
#include "coordinator/feed/feed.h"

#define TIMELINE_MOST 10000

// Finds the uid of the job that `id` names.
static enum sl_err status_find_job_uid(struct coord *c, const char *id,
                                       struct job **job, uint64_t *uid,
                                       struct sl_error *err)
{
    uint64_t number = 0;
    enum sl_err rc = coord_find(c, id, &number, err);

    if (rc != SL_OK)
        return rc;
    *job = jobs_get(c, number);
    *uid = *job != NULL ? (*job)->uid : jobs_ended(c, number)->uid;
    return SL_OK;
}

// Adds a new message to a list, which is made with room for `most`. NULL: no
// memory.
static void *status_append_message(void ***list, size_t *count, size_t most,
                                   const ProtobufCMessageDescriptor *of)
{
    void *m;

    if (*list == NULL)
        *list = sl_calloc(most, sizeof(**list));
    m = *list == NULL ? NULL : wire_new(of);
    if (m != NULL)
        (*list)[(*count)++] = m;
    return m;
}

static Sluice__V1__Attempt *status_new_attempt(uint64_t term, uint64_t n)
{
    Sluice__V1__Attempt *a = wire_new(&sluice__v1__attempt__descriptor);

    if (a != NULL) {
        a->term = term;
        a->n = n;
    }
    return a;
}

// ---- events

// The result of the last check, since many events of one job follow each other.
struct last_seen {
    uint64_t job;
    bool hidden;
};

static bool hides(const struct coord *c, const struct event *e,
                  struct last_seen *last)
{
    if (!c->asker.only)
        return false;
    if (e->job != last->job)
        *last = (struct last_seen){e->job, tenants_hide(c, e->job)};
    return e->job == 0 || last->hidden;
}

static bool fill_event(Sluice__V1__Event *to, const struct event *e)
{
    to->id = e->id;
    to->unix_us = e->wall_us;
    to->job = e->job;
    to->closure = e->closure;
    to->kind = sl_strdup(event_word(e->kind));
    to->level = sl_strdup(event_level(e->kind));
    to->text = sl_strdup(e->text);
    to->member = sl_strdup(e->member);
    if (e->term != 0)
        to->attempt = status_new_attempt(e->term, e->n);
    return to->kind != NULL && to->level != NULL && to->text != NULL &&
           to->member != NULL && (e->term == 0 || to->attempt != NULL);
}

// Returns where the last `most` events that the caller may see begin; NULL:
// there is none.
static const struct event *first_of_newest(const struct coord *c, uint64_t uid,
                                           size_t most)
{
    const struct events *es = feed_events(c->options.feed);
    const struct event *first = events_after(es, uid, 0), *e;
    struct last_seen last = {0};
    size_t seen = 0;

    if (!c->asker.only)
        return events_last(es, uid, most);
    for (e = first; e != NULL; e = events_next(es, uid, e))
        seen += !hides(c, e, &last);
    for (e = first; seen > most; e = events_next(es, uid, e))
        seen -= !hides(c, e, &last);
    return e;
}

static enum sl_err status_add_events(struct coord *c,
                                     Sluice__V1__EventsReply *m,
                                     const Sluice__V1__EventsRequest *request,
                                     uint64_t uid)
{
    const struct events *es = feed_events(c->options.feed);
    size_t most = request->limit == 0 ? WIRE_EVENTS_MAX : request->limit;
    const struct event *e = request->newest
                                ? first_of_newest(c, uid, most)
                                : events_after(es, uid, request->after);
    struct last_seen last = {0};

    m->last = request->after;
    for (; e != NULL; e = events_next(es, uid, e)) {
        Sluice__V1__Event *to;

        if (hides(c, e, &last))
            continue;
        m->more = m->n_events == most;
        if (m->more)
            return SL_OK;
        to = status_append_message((void ***)&m->events, &m->n_events, most,
                                   &sluice__v1__event__descriptor);
        if (to == NULL || !fill_event(to, e))
            return SL_ENOMEM;
        m->last = e->id;
    }
    if (es->last_id > m->last)
        m->last = es->last_id;
    return SL_OK;
}

static enum sl_err events_page(struct coord *c, uint64_t uid,
                               const Sluice__V1__EventsRequest *request,
                               Sluice__V1__EventsReply **reply,
                               struct sl_error *err)
{
    Sluice__V1__EventsReply *m =
        wire_new(&sluice__v1__events_reply__descriptor);
    enum sl_err rc =
        m == NULL ? SL_ENOMEM : status_add_events(c, m, request, uid);

    if (rc == SL_OK) {
        *reply = m;
        return SL_OK;
    }
    wire_free((ProtobufCMessage *)m);
    return sl_fail(err, rc, "a page of events");
}

enum sl_err status_events(struct coord *c,
                          const Sluice__V1__EventsRequest *request,
                          Sluice__V1__EventsReply **reply, struct sl_error *err)
{
    struct job *job;
    uint64_t uid = 0;
    enum sl_err rc = request->id[0] == '\0'
                         ? SL_OK
                         : status_find_job_uid(c, request->id, &job, &uid, err);

    return rc == SL_OK ? events_page(c, uid, request, reply, err) : rc;
}

enum sl_err status_cluster_events(struct coord *c,
                                  const Sluice__V1__EventsRequest *request,
                                  Sluice__V1__EventsReply **reply,
                                  struct sl_error *err)
{
    return events_page(c, EVENTS_OF_NONE, request, reply, err);
}

// ---- spans

static bool fill_span(Sluice__V1__Span *to, const struct lease_span *s,
                      const char *worker, uint64_t number)
{
    to->number = number;
    to->closure = s->closure;
    to->begun_us = s->begun_us;
    to->ended_us = s->ended_us;
    to->attempt = status_new_attempt(s->term, s->n);
    to->kind = sl_strdup(lease_span_kind(s->kind));
    to->worker = sl_strdup(worker);
    to->result = sl_strdup(lease_span_word(s->end));
    return to->attempt != NULL && to->kind != NULL && to->worker != NULL &&
           to->result != NULL;
}

static enum sl_err status_add_span(Sluice__V1__TimelineReply *m,
                                   const struct lease_span *s,
                                   const char *worker, uint64_t number)
{
    Sluice__V1__Span *to;

    if (m->n_spans == WIRE_SPANS_MAX)
        return SL_OK;
    to = status_append_message((void ***)&m->spans, &m->n_spans, WIRE_SPANS_MAX,
                               &sluice__v1__span__descriptor);
    return to != NULL && fill_span(to, s, worker, number) ? SL_OK : SL_ENOMEM;
}

static enum sl_err status_add_ended_spans(Sluice__V1__TimelineReply *m,
                                          const struct track *spans,
                                          uint64_t after, uint64_t most)
{
    uint64_t from = spans == NULL ? 0 : track_first(spans);
    enum sl_err rc = SL_OK;

    if (spans == NULL)
        return SL_OK;
    // `after` may lie behind all spans that are kept.
    from = after >= from ? sl_min(after, spans->added) + 1 : from;
    if (spans->added >= most && from < spans->added - most + 1)
        from = spans->added - most + 1;
    for (uint64_t i = from; rc == SL_OK && i <= spans->added; i++) {
        const struct lease_span *s = track_at(spans, i);

        rc = status_add_span(m, s, s->worker->text, i);
    }
    m->last = spans->added;
    return rc;
}

// Adds the spans that run: the leases that workers hold of the job.
static enum sl_err add_running(struct coord *c, Sluice__V1__TimelineReply *m,
                               const struct job *job)
{
    enum sl_err rc = SL_OK;

    list_for(n, &c->members.all)
    {
        const struct member *who = list_entry(n, struct member, node);

        if (who->role != MEMBER_WORKER)
            continue;
        list_for(l, &who->leases)
        {
            const struct work *w = list_entry(l, struct work, on_holder);
            const struct lease_span s = {
                .closure = w->closure.id,
                .term = w->closure.attempt.term,
                .n = w->closure.attempt.n,
                .begun_us = w->leased_us,
                .kind = w->kind,
            };

            if (rc == SL_OK && w->job == job)
                rc = status_add_span(m, &s, who->name, 0);
        }
    }
    return rc;
}

enum sl_err status_timeline(struct coord *c,
                            const Sluice__V1__TimelineRequest *request,
                            Sluice__V1__TimelineReply **reply,
                            struct sl_error *err)
{
    Sluice__V1__TimelineReply *m;
    struct job *job = NULL;
    uint64_t uid = 0;
    enum sl_err rc = status_find_job_uid(c, request->id, &job, &uid, err);

    if (rc != SL_OK)
        return rc;
    m = wire_new(&sluice__v1__timeline_reply__descriptor);
    rc = m == NULL ? SL_ENOMEM
                   : status_add_ended_spans(
                         m, traces_spans(feed_traces(c->options.feed), uid),
                         request->after,
                         request->limit == 0 ? TIMELINE_MOST : request->limit);
    if (rc == SL_OK && job != NULL)
        rc = add_running(c, m, job);
    if (rc == SL_OK) {
        m->unix_us = feed_wall_us(c->options.feed);
        *reply = m;
        return SL_OK;
    }
    wire_free((ProtobufCMessage *)m);
    return sl_fail(err, rc, "a timeline");
}

// ---- curves

static enum sl_err add_points(Sluice__V1__HistoryReply *m,
                              const struct track *curve, uint64_t after_us)
{
    for (uint64_t i = curve == NULL ? 1 : track_first(curve);
         curve != NULL && i <= curve->added; i++) {
        const struct curve_point *p = track_at(curve, i);
        Sluice__V1__HistoryPoint *to;

        if (p->wall_us <= after_us)
            continue;
        to = status_append_message((void ***)&m->points, &m->n_points,
                                   WIRE_POINTS_MAX,
                                   &sluice__v1__history_point__descriptor);
        if (to == NULL)
            return SL_ENOMEM;
        to->unix_us = p->wall_us;
        to->steps = p->steps;
        to->epoch = p->epoch;
        WIRE_SET_KNOWN(to, loss, SLUICE__V1__HISTORY_POINT__KNOWN_LOSS_LOSS,
                       p->loss);
        WIRE_SET_KNOWN(to, accuracy,
                       SLUICE__V1__HISTORY_POINT__KNOWN_ACCURACY_ACCURACY,
                       p->accuracy);
        to->samples = p->samples;
        to->images_per_second = p->rate;
        to->staleness_p50 = p->staleness_p50;
        to->workers = p->workers;
    }
    return SL_OK;
}

enum sl_err status_history(struct coord *c,
                           const Sluice__V1__HistoryRequest *request,
                           Sluice__V1__HistoryReply **reply,
                           struct sl_error *err)
{
    const struct traces *traces = feed_traces(c->options.feed);
    Sluice__V1__HistoryReply *m;
    struct job *job = NULL;
    uint64_t uid = 0;
    enum sl_err rc = status_find_job_uid(c, request->id, &job, &uid, err);

    if (rc != SL_OK)
        return rc;
    m = wire_new(&sluice__v1__history_reply__descriptor);
    rc = m == NULL ? SL_ENOMEM
                   : add_points(m, traces_curve(traces, uid, request->minutes),
                                request->after_us);
    if (rc == SL_OK) {
        *reply = m;
        return SL_OK;
    }
    wire_free((ProtobufCMessage *)m);
    return sl_fail(err, rc, "a history");
}
