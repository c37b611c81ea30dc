// SPDX-License-Identifier: Apache-2.0
// coordinator/dashboard/lists.c -- see lists.h.
#include "coordinator/dashboard/lists.h"

#include <string.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "coordinator/core/coord_inner.h"
#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"
#include "coordinator/dashboard/answer.h"
#include "coordinator/dashboard/dashboard.h"
#include "coordinator/service/status.h"

#define MAP_US 500000

// Returns the coord; NULL: there is none now, and the request is answered.
static struct coord *coord_of(void *arg, struct http_answer *a)
{
    const struct dashboard *d = arg;

    if (d->server->coord == NULL)
        answer_error(a, SL_EUNAVAIL, d->server->waits);
    return d->server->coord;
}

static bool is_set(const struct http_request *q, const char *name,
                   bool otherwise)
{
    const char *text = http_query(q, name);

    return text == NULL ? otherwise : strcmp(text, "0") != 0;
}

static void answer(struct http_answer *a, enum sl_err rc,
                   const struct sl_error *err, void *message)
{
    if (rc == SL_OK)
        answer_message(a, message);
    else
        answer_error(a, rc, err->text);
}

// ---- in numbers

static json_t *job_numbers(const struct coord *c)
{
    uint64_t count[JOB_STATES] = {0};
    json_t *out = json_object();
    size_t at = 0;
    void *value;

    list_for(n, &c->jobs.active)
    {
        count[list_entry(n, struct job, on_active)->state]++;
    }
    list_for(n, &c->jobs.ending)
    {
        count[list_entry(n, struct job, on_active)->state]++;
    }
    while (map_next(&c->jobs.ended, &at, NULL, &value))
        count[((const struct ended_job *)value)->state]++;
    for (int i = 0; i < JOB_STATES; i++)
        (void)json_object_set_new(out, job_state_name((enum job_state)i),
                                  json_integer((json_int_t)count[i]));
    return out;
}

static json_t *member_numbers(const struct coord *c, enum member_role role)
{
    uint64_t count[MEMBER_STATES] = {0};
    json_t *out = json_object();

    list_for(n, &c->members.all)
    {
        const struct member *m = list_entry(n, struct member, node);

        if (m->role == role)
            count[m->state]++;
    }
    for (int i = 0; i < MEMBER_STATES; i++)
        (void)json_object_set_new(out, member_state_name((enum member_state)i),
                                  json_integer((json_int_t)count[i]));
    return out;
}

void lists_overview(void *arg, const struct http_request *q,
                    struct http_answer *a)
{
    struct coord *c = coord_of(arg, a);
    const struct dashboard *d = arg;
    const struct figures *f;
    uint64_t retries = 0;

    if (c == NULL)
        return;
    f = &c->figures;
    for (int i = 0; i < WORK_WHYS; i++)
        retries += f->retries[i];
    answer_json(
        a,
        json_pack(
            "{s:s, s:I, s:I, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:b}",
            "version", SLUICE_VERSION, "term", (json_int_t)coord_term(c),
            "unix_us", (json_int_t)feed_wall_us(d->server->feed), "jobs",
            job_numbers(c), "workers", member_numbers(c, MEMBER_WORKER),
            "psservers", member_numbers(c, MEMBER_PSSERVER), "samples",
            (json_int_t)f->samples, "closures", (json_int_t)f->counted,
            "retries", (json_int_t)retries, "workers_lost",
            (json_int_t)f->lost[MEMBER_WORKER], "cuts",
            (json_int_t)f->cuts[FIGURES_PUBLISHED], "last_event",
            (json_int_t)feed_events(d->server->feed)->last_id, "tls",
            daemon_tls(d->server->daemon) != NULL));
}

// ---- the pace

#define PACE_US 1000000

void lists_pace_take(struct dashboard *d)
{
    const struct coord *c = d->server->coord;
    uint64_t now = feed_wall_us(d->server->feed);
    const struct pace_point *last =
        d->pace.added == 0 ? NULL : track_at(&d->pace, d->pace.added);
    struct pace_point *to;

    if (c == NULL || (last != NULL && now - last->wall_us < PACE_US))
        return;
    to = track_add(&d->pace);
    if (to != NULL)
        *to = (struct pace_point){now, c->figures.samples, c->figures.counted};
}

void lists_pace(void *arg, const struct http_request *q, struct http_answer *a)
{
    const struct dashboard *d = arg;
    json_t *list = json_array();
    uint64_t after;

    if (!answer_number(&after, q, a, "after_us", 0, INT64_MAX)) {
        json_decref(list);
        return;
    }
    for (uint64_t i = track_first(&d->pace); i <= d->pace.added; i++) {
        const struct pace_point *p = track_at(&d->pace, i);

        if (p->wall_us > after)
            (void)json_array_append_new(
                list,
                json_pack("[I, I, I]", (json_int_t)p->wall_us,
                          (json_int_t)p->samples, (json_int_t)p->closures));
    }
    answer_json(a, json_pack("{s:o}", "points", list));
}

// ---- jobs

void lists_jobs(void *arg, const struct http_request *q, struct http_answer *a)
{
    struct coord *c = coord_of(arg, a);
    Sluice__V1__ListRequest request = SLUICE__V1__LIST_REQUEST__INIT;
    Sluice__V1__ListReply *reply = NULL;
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc;
    uint64_t limit;

    if (c == NULL ||
        !answer_number(&limit, q, a, "limit", LISTS_PAGE, LISTS_PAGE_MAX) ||
        !answer_number(&request.before, q, a, "before", 0, INT64_MAX))
        return;
    request.limit = (uint32_t)limit;
    rc = status_list(c, &request, &reply, &err);
    answer(a, rc, &err, reply);
}

static void job_status(struct coord *c, char *id, const struct http_request *q,
                       struct http_answer *a)
{
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__JobStatus *reply = NULL;
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc;

    request.id = id;
    request.shards = is_set(q, "shards", true);
    request.spec = is_set(q, "spec", true);
    rc = coord_get(c, &request, &reply, &err);
    answer(a, rc, &err, reply);
}

// Returns the messages [from, from + limit) of `count` as a list.
static json_t *page_of(ProtobufCMessage *const *items, size_t count,
                       uint64_t from, uint64_t limit)
{
    json_t *list = json_array();

    for (size_t i = from; i < count && i - from < limit; i++) {
        json_t *one = NULL;

        if (pbjson_write(&one, items[i]) == SL_OK)
            (void)json_array_append_new(list, one);
    }
    return list;
}

static bool page_numbers(const struct http_request *q, struct http_answer *a,
                         uint64_t *from, uint64_t *limit)
{
    return answer_number(from, q, a, "from", 0, UINT32_MAX) &&
           answer_number(limit, q, a, "limit", LISTS_PAGE, LISTS_PAGE_MAX);
}

static void job_shards(struct coord *c, char *id, const struct http_request *q,
                       struct http_answer *a)
{
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__JobStatus *reply = NULL;
    struct sl_error err = SL_ERROR_INIT;
    uint64_t from, limit;
    enum sl_err rc;

    if (!page_numbers(q, a, &from, &limit))
        return;
    request.id = id;
    request.shards = true;
    rc = coord_get(c, &request, &reply, &err);
    if (rc != SL_OK) {
        answer_error(a, rc, err.text);
        return;
    }
    answer_json(a, json_pack("{s:o, s:I}", "shards",
                             page_of((ProtobufCMessage *const *)reply->shards,
                                     reply->n_shards, from, limit),
                             "total", (json_int_t)reply->n_shards));
    wire_free(&reply->base);
}

static void answer_events(struct coord *c, char *id,
                          const struct http_request *q, struct http_answer *a)
{
    Sluice__V1__EventsRequest request = SLUICE__V1__EVENTS_REQUEST__INIT;
    Sluice__V1__EventsReply *reply = NULL;
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc;
    uint64_t limit;

    if (!answer_number(&request.after, q, a, "after", 0, INT64_MAX) ||
        !answer_number(&limit, q, a, "limit", 0, WIRE_EVENTS_MAX))
        return;
    request.id = id;
    request.limit = (uint32_t)limit;
    request.newest = is_set(q, "newest", false);
    rc = id[0] == '\0' && is_set(q, "cluster", false)
             ? status_cluster_events(c, &request, &reply, &err)
             : status_events(c, &request, &reply, &err);
    answer(a, rc, &err, reply);
}

static void job_timeline(struct coord *c, char *id,
                         const struct http_request *q, struct http_answer *a)
{
    Sluice__V1__TimelineRequest request = SLUICE__V1__TIMELINE_REQUEST__INIT;
    Sluice__V1__TimelineReply *reply = NULL;
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc;
    uint64_t limit;

    if (!answer_number(&request.after, q, a, "after", 0, INT64_MAX) ||
        !answer_number(&limit, q, a, "limit", 0, WIRE_SPANS_MAX))
        return;
    request.id = id;
    request.limit = (uint32_t)limit;
    rc = status_timeline(c, &request, &reply, &err);
    answer(a, rc, &err, reply);
}

static void job_history(struct coord *c, char *id, const struct http_request *q,
                        struct http_answer *a)
{
    Sluice__V1__HistoryRequest request = SLUICE__V1__HISTORY_REQUEST__INIT;
    Sluice__V1__HistoryReply *reply = NULL;
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc;

    if (!answer_number(&request.after_us, q, a, "after_us", 0, INT64_MAX))
        return;
    request.id = id;
    request.minutes = is_set(q, "minutes", false);
    rc = status_history(c, &request, &reply, &err);
    answer(a, rc, &err, reply);
}

static void job_checkpoints(struct coord *c, char *id,
                            const struct http_request *q, struct http_answer *a)
{
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__CheckpointsReply *reply = NULL;
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc;

    request.id = id;
    rc = status_checkpoints(c, &request, &reply, &err);
    answer(a, rc, &err, reply);
}

typedef void (*job_fn)(struct coord *c, char *id, const struct http_request *q,
                       struct http_answer *a);

// Splits a last word that the API knows off id, and returns its function. A
// name may have a slash: an unknown word is part of the name.
static job_fn word_of(char *id)
{
    static const struct {
        const char *word;
        job_fn fn;
    } words[] = {
        {"shards", job_shards},           {"events", answer_events},
        {"timeline", job_timeline},       {"history", job_history},
        {"checkpoints", job_checkpoints},
    };
    char *slash = strrchr(id, '/');

    for (size_t i = 0; slash != NULL && i < SL_COUNT(words); i++) {
        if (strcmp(slash + 1, words[i].word) == 0) {
            *slash = '\0';
            return words[i].fn;
        }
    }
    return job_status;
}

// Says whether id ends in /news, and cuts it off: news are kept for other
// viewers.
static bool wants_news(char *id)
{
    char *slash = strrchr(id, '/');
    bool wants = slash != NULL && strcmp(slash, "/news") == 0;

    if (wants)
        *slash = '\0';
    return wants;
}

void lists_job(void *arg, const struct http_request *q, struct http_answer *a)
{
    struct dashboard *d = arg;
    struct coord *c = coord_of(arg, a);
    char *id = c == NULL ? NULL : sl_strdup(http_rest(q));

    if (c == NULL)
        return;
    if (id == NULL)
        answer_error(a, SL_ENOMEM, "out of memory");
    else if (wants_news(id))
        news_answer(&d->news, c, id, q, a);
    else
        word_of(id)(c, id, q, a);
    sl_free(id);
}

// ---- members

static Sluice__V1__ClusterReply *cluster(struct coord *c, struct http_answer *a)
{
    Sluice__V1__ClusterRequest request = SLUICE__V1__CLUSTER_REQUEST__INIT;
    Sluice__V1__ClusterReply *reply = NULL;
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc =
        c == NULL ? SL_EUNAVAIL : status_cluster(c, &request, &reply, &err);

    if (c != NULL && rc != SL_OK)
        answer_error(a, rc, err.text);
    return reply;
}

void lists_cluster(void *arg, const struct http_request *q,
                   struct http_answer *a)
{
    Sluice__V1__ClusterReply *reply = cluster(coord_of(arg, a), a);

    if (reply != NULL)
        answer_message(a, &reply->base);
}

// True if the member is a worker that holds a lease of the job.
static bool works_at(struct coord *c, const Sluice__V1__MemberStatus *m,
                     const struct job *job)
{
    const struct member *who =
        strcmp(m->role, "worker") != 0
            ? NULL
            : members_find(&c->members, MEMBER_WORKER, m->name);

    if (who == NULL)
        return false;
    list_for(n, &who->leases)
    {
        if (list_entry(n, struct work, on_holder)->job == job)
            return true;
    }
    return false;
}

static bool fits(const Sluice__V1__MemberStatus *m,
                 const struct http_request *q)
{
    const char *role = http_query(q, "role"), *state = http_query(q, "state");
    const char *name = http_query(q, "name");

    return (role == NULL || strcmp(role, m->role) == 0) &&
           (state == NULL || strcmp(state, m->state) == 0) &&
           (name == NULL || strstr(m->name, name) != NULL);
}

void lists_members(void *arg, const struct http_request *q,
                   struct http_answer *a)
{
    struct coord *c = coord_of(arg, a);
    const char *id = http_query(q, "job");
    struct sl_error err = SL_ERROR_INIT;
    Sluice__V1__ClusterReply *reply;
    uint64_t from, limit, number = 0;
    const struct job *job;
    size_t found = 0;
    enum sl_err rc;

    if (c == NULL || !page_numbers(q, a, &from, &limit))
        return;
    rc = id == NULL ? SL_OK : coord_find(c, id, &number, &err);
    if (rc != SL_OK) {
        answer_error(a, rc, err.text);
        return;
    }
    job = jobs_get(c, number); // NULL: the job has ended
    reply = cluster(c, a);
    if (reply == NULL)
        return;
    // moves the members that fit to the front
    for (size_t i = 0; i < reply->n_members; i++) {
        Sluice__V1__MemberStatus *m = reply->members[i];

        if (!fits(m, q) ||
            (id != NULL && (job == NULL || !works_at(c, m, job))))
            continue;
        reply->members[i] = reply->members[found];
        reply->members[found++] = m;
    }
    answer_json(a, json_pack("{s:o, s:I, s:I}", "members",
                             page_of((ProtobufCMessage *const *)reply->members,
                                     found, from, limit),
                             "found", (json_int_t)found, "total",
                             (json_int_t)reply->n_members));
    wire_free(&reply->base);
}

static void make_map(const Sluice__V1__ClusterReply *reply,
                     struct http_answer *a)
{
    json_t *list[2] = {json_array(), json_array()};

    for (size_t i = 0; i < reply->n_members; i++) {
        const Sluice__V1__MemberStatus *m = reply->members[i];
        bool worker = strcmp(m->role, "worker") == 0;

        (void)json_array_append_new(
            list[worker],
            json_pack("[s, s, I]", m->name, m->state,
                      (json_int_t)(worker ? m->leases : m->shards)));
    }
    answer_json(
        a, json_pack("{s:o, s:o}", "psservers", list[0], "workers", list[1]));
}

// Answers with name, state, and number of leases or shards of all members. The
// text is made at most twice a second, however many viewers ask.
void lists_map(void *arg, const struct http_request *q, struct http_answer *a)
{
    struct coord *c = coord_of(arg, a);
    struct dashboard *d = arg;
    uint64_t now = sl_now_us(sl_clock_real());
    Sluice__V1__ClusterReply *reply;

    if (c == NULL)
        return;
    if (d->map.len > 0 && now - d->map_us < MAP_US) {
        if (buf_append(&a->body, d->map.data, d->map.len) == SL_OK)
            a->type = "application/json";
        else
            http_say(a, 503, "out of memory");
        return;
    }
    reply = cluster(c, a);
    if (reply == NULL)
        return;
    make_map(reply, a);
    wire_free(&reply->base);
    buf_reset(&d->map);
    if (a->status == 200 &&
        buf_append(&d->map, a->body.data, a->body.len) == SL_OK)
        d->map_us = now;
    else
        buf_reset(&d->map);
}

// ---- events

void lists_events(void *arg, const struct http_request *q,
                  struct http_answer *a)
{
    const char *accept = http_header(q, "Accept");
    struct coord *c = coord_of(arg, a);

    if (c == NULL)
        return;
    if (accept != NULL && strstr(accept, "text/event-stream") != NULL)
        dashboard_stream(arg, q, a);
    else
        answer_events(c, "", q, a);
}
