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
#include "coordinator/service/status_lists.h"

// A list of more members than this is made at most every CLUSTER_US, however
// many pages ask: a list of 1,000 workers has 260 KB.
#define CLUSTER_LARGE 1000
#define CLUSTER_US 500000

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

static void lists_answer_result(struct http_answer *a, enum sl_err rc,
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
        answer_set(&out, job_state_name((enum job_state)i),
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
        answer_set(&out, member_state_name((enum member_state)i),
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
            answer_add(&list, json_pack("[I, I, I]", (json_int_t)p->wall_us,
                                        (json_int_t)p->samples,
                                        (json_int_t)p->closures));
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
    lists_answer_result(a, rc, &err, reply);
}

static void lists_job_status(struct coord *c, char *id,
                             const struct http_request *q,
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
    lists_answer_result(a, rc, &err, reply);
}

// Returns the messages [from, from + limit) of `count` as a list.
static json_t *page_of(ProtobufCMessage *const *items, size_t count,
                       uint64_t from, uint64_t limit)
{
    json_t *list = json_array();

    for (size_t i = from; i < count && i - from < limit; i++) {
        json_t *one = NULL;

        (void)pbjson_write(&one, items[i]); // NULL: no memory
        answer_add(&list, one);
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
    lists_answer_result(a, rc, &err, reply);
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
    lists_answer_result(a, rc, &err, reply);
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
    lists_answer_result(a, rc, &err, reply);
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
    lists_answer_result(a, rc, &err, reply);
}

typedef void (*job_fn)(struct coord *c, char *id, const struct http_request *q,
                       struct http_answer *a);

// Splits a last word that the API knows off id, and returns its function. A
// name may have a slash: an unknown word is part of the name.
static job_fn lists_split_job_word(char *id)
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
    return lists_job_status;
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
        lists_split_job_word(id)(c, id, q, a);
    sl_free(id);
}

// ---- members

void lists_forget_cluster(struct dashboard *d)
{
    wire_free((ProtobufCMessage *)d->cluster);
    d->cluster = NULL;
}

// Returns the list of members; NULL: there is none, and the request is
// answered. The list is made in one turn of the loop, so that of a large
// cluster is made at most twice a second, however many viewers ask.
static const Sluice__V1__ClusterReply *cluster(struct dashboard *d,
                                               struct http_answer *a)
{
    Sluice__V1__ClusterRequest request = SLUICE__V1__CLUSTER_REQUEST__INIT;
    struct coord *c = coord_of(d, a);
    struct sl_error err = SL_ERROR_INIT;
    uint64_t now = sl_real_us();
    enum sl_err rc;

    if (c == NULL ||
        (d->cluster != NULL && d->cluster->n_members > CLUSTER_LARGE &&
         now - d->cluster_us < CLUSTER_US))
        return c == NULL ? NULL : d->cluster;
    lists_forget_cluster(d);
    rc = status_cluster(c, &request, &d->cluster, &err);
    d->cluster_us = now;
    if (rc != SL_OK)
        answer_error(a, rc, err.text);
    return d->cluster;
}

void lists_cluster(void *arg, const struct http_request *q,
                   struct http_answer *a)
{
    const Sluice__V1__ClusterReply *reply = cluster(arg, a);
    json_t *object = NULL;

    if (reply == NULL)
        return;
    (void)pbjson_write(&object, &reply->base); // NULL: no memory
    answer_json(a, object);
}

// Puts the names of the workers that hold a lease of the job into `crew`; no
// job has none. SL_ENOMEM.
static enum sl_err find_crew(struct strmap *crew, struct coord *c,
                             const struct job *job)
{
    enum sl_err rc = SL_OK;

    list_for(n, &c->members.all)
    {
        struct member *m = list_entry(n, struct member, node);

        list_for(l, &m->leases)
        {
            if (rc == SL_OK &&
                list_entry(l, struct work, on_holder)->job == job)
                rc = strmap_put(crew, m->name, m);
        }
    }
    return rc;
}

// Says whether the member is one that the request asks for; `crew` are the
// names of workers that it may be, or NULL.
static bool lists_member_matches(const Sluice__V1__MemberStatus *m,
                                 const struct strmap *crew,
                                 const struct http_request *q)
{
    const char *role = http_query(q, "role"), *state = http_query(q, "state");
    const char *name = http_query(q, "name");

    return (role == NULL || strcmp(role, m->role) == 0) &&
           (state == NULL || strcmp(state, m->state) == 0) &&
           (name == NULL || strstr(m->name, name) != NULL) &&
           (crew == NULL || (strcmp(m->role, "worker") == 0 &&
                             strmap_get(crew, m->name) != NULL));
}

// Answers with the members [from, from + limit) of those that fit.
static void answer_members(const Sluice__V1__ClusterReply *reply,
                           const struct strmap *crew,
                           const struct http_request *q, struct http_answer *a)
{
    uint64_t from, limit;
    ProtobufCMessage **found;
    size_t count = 0;

    if (!page_numbers(q, a, &from, &limit))
        return;
    found = sl_malloc_array(reply->n_members, sizeof(*found));
    if (found == NULL) {
        answer_error(a, SL_ENOMEM, "out of memory");
        return;
    }
    for (size_t i = 0; i < reply->n_members; i++) {
        if (lists_member_matches(reply->members[i], crew, q))
            found[count++] = &reply->members[i]->base;
    }
    answer_json(a, json_pack("{s:o, s:I, s:I}", "members",
                             page_of(found, count, from, limit), "found",
                             (json_int_t)count, "total",
                             (json_int_t)reply->n_members));
    sl_free(found);
}

void lists_members(void *arg, const struct http_request *q,
                   struct http_answer *a)
{
    const Sluice__V1__ClusterReply *reply = cluster(arg, a);
    const struct dashboard *d = arg;
    const char *id = http_query(q, "job");
    struct sl_error err = SL_ERROR_INIT;
    struct strmap crew;
    uint64_t number = 0;
    enum sl_err rc;

    if (reply == NULL)
        return;
    strmap_init(&crew);
    rc = id == NULL ? SL_OK : coord_find(d->server->coord, id, &number, &err);
    if (rc == SL_OK && id != NULL)
        rc = find_crew(&crew, d->server->coord,
                       jobs_get(d->server->coord, number));
    if (rc == SL_OK)
        answer_members(reply, id == NULL ? NULL : &crew, q, a);
    else
        answer_error(a, rc, rc == SL_ENOMEM ? "out of memory" : err.text);
    strmap_release(&crew);
}

// Answers with name, state, and number of leases or shards of all members.
void lists_map(void *arg, const struct http_request *q, struct http_answer *a)
{
    const Sluice__V1__ClusterReply *reply = cluster(arg, a);
    json_t *list[2] = {json_array(), json_array()};

    for (size_t i = 0; reply != NULL && i < reply->n_members; i++) {
        const Sluice__V1__MemberStatus *m = reply->members[i];
        bool worker = strcmp(m->role, "worker") == 0;

        answer_add(&list[worker],
                   json_pack("[s, s, I]", m->name, m->state,
                             (json_int_t)(worker ? m->leases : m->shards)));
    }
    if (reply != NULL)
        answer_json(a, json_pack("{s:O, s:O}", "psservers", list[0], "workers",
                                 list[1]));
    json_decref(list[0]);
    json_decref(list[1]);
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
