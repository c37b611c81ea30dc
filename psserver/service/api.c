// SPDX-License-Identifier: Apache-2.0
// psserver/service/api.c -- the handlers of the Shards service, from a checked
// request to one answer.
#include "psserver/service/api.h"

#include <inttypes.h>
#include <stdatomic.h>

#include "common/base/fault.h"
#include "common/base/mem.h"
#include "common/run/spans.h"
#include "proto/wire.h"
#include "state/snap/archive.h"
#include "psserver/service/acks.h"
#include "psserver/service/exchange.h"
#include "psserver/service/rounds.h"
#include "state/snap/snap.h"

struct shards_api {
    struct shards_api_setup setup;
    struct rounds rounds;
    struct acks acks;
    struct archive archive;
    struct loop_timer *sweep; // of the archive
    struct {
        // Files being opened, between I/O thread and loop.
        _Atomic unsigned opening;
        _Atomic bool stopped;
        struct shard_figures figures;
    } _shared;
};

// Finds a shard in the store. S5: a shard that is not there is not admitted
// here.
static enum sl_err api_find_shard(const struct shards_api *api, uint64_t job,
                                  uint32_t shard, struct shard **out,
                                  struct sl_error *err)
{
    struct shard *found = store_find(api->setup.store, job, shard);

    if (found == NULL)
        return sl_fail(err, SL_EUNAVAIL,
                       "job %" PRIu64 " shard %" PRIu32
                       " is not here now; take the newest map and try again",
                       job, shard);
    *out = found;
    return SL_OK;
}

static enum sl_err check_term(const struct shards_api *api,
                              struct wire_attempt attempt, struct sl_error *err)
{
    if (store_knows_term(api->setup.store, attempt.term))
        return SL_OK;
    return sl_fail(err, SL_EUNAVAIL,
                   "the attempt is of term %" PRIu64
                   ", which this psserver does not know; another cluster's "
                   "coordinator leased it, or the lease is forged",
                   attempt.term);
}

// Checks the attempts of all closures that a push counts.
static enum sl_err check_terms(const struct shards_api *api,
                               const struct wire_push *m, struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    for (size_t i = 0; rc == SL_OK && i < wire_push_keys(m); i++)
        rc = check_term(api, wire_push_key(m, i).attempt, err);
    return rc;
}

static enum sl_err
check_token(const struct shards_api *api, const struct rpc_call *call,
            const struct shard *shard, uint64_t job_incarnation,
            const struct wire_token *token, struct sl_error *err)
{
    return tokens_check(api->setup.tokens, call, shard->plan.job_uid,
                        job_incarnation, token, err);
}

// ---- Ask

static void api_answer_ask(struct rpc_call *call, void *arg)
{
    struct shards_api *api = arg;
    struct sl_error err = SL_ERROR_INIT;
    struct wire_ask_reply reply;
    struct shard *shard = NULL;
    bool waits = false;
    struct wire_ask ask;
    struct rpc_msg msg;
    enum sl_err rc;

    rpc_msg_init(&msg);
    rc = wire_read_ask(&ask, rpc_call_body(call), &err);
    if (rc == SL_OK)
        rc = check_term(api, ask.attempt, &err);
    if (rc == SL_OK)
        rc = api_find_shard(api, ask.job, ask.shard, &shard, &err);
    if (rc == SL_OK)
        rc = check_token(api, call, shard, ask.job_incarnation, &ask.token,
                         &err);
    if (rc == SL_OK)
        ask.unproven =
            !tokens_proven(api->setup.tokens, call, shard->plan.job_uid, &ask);
    if (rc == SL_OK)
        rc = shard_ask(shard, &ask, &reply, &err);
    if (rc == SL_OK)
        rc = wire_head_ask_reply(&msg, &reply);
    if (rc == SL_OK)
        waits = acks_wait(&api->acks, call, shard, &msg); // P1
    shard_unref(shard);
    if (!waits)
        rpc_answer(call, rc, &err, &msg);
}

// ---- Push and PushPull

// Refuses a push by shared memory, as if it had not come: the worker sends
// bytes instead.
static enum sl_err refuse_region(struct shard *shard, struct rpc_msg *msg)
{
    struct wire_push_reply reply = {.result = WIRE_PUSH_REFUSED,
                                    .refused.why = WIRE_REFUSED_REGION};
    struct shard_brief brief;

    shard_brief(shard, true, &brief);
    reply.incarnation = brief.incarnation;
    return wire_head_push_reply(msg, &reply, 0);
}

// Applies and counts a push, and makes the answer.
static enum sl_err push_shard(struct shards_api *api, struct shard *shard,
                              const struct wire_push *m, struct exchange *x,
                              struct rpc_msg *msg,
                              enum wire_push_result *result,
                              struct sl_error *err)
{
    struct wire_push_reply reply;
    size_t bytes = 0;
    enum sl_err rc;

    rc = x->finite ? shard_push_finite(shard, m, &reply, x->values, err)
                   : shard_push(shard, m, &reply, x->values, err);
    if (rc == SL_OK && FAULT_ERR("api.ack") != SL_OK) // the answer is lost
        rc = sl_fail(err, SL_EUNAVAIL, "api.ack: injected error");
    // Something here is full, or a file of rows is damaged.
    if (rc == SL_ERANGE || rc == SL_EBUSY || rc == SL_ECORRUPT)
        sl_prefix(err, rc, "psserver %s", api->setup.name);
    if (rc != SL_OK)
        return rc;
    figures_pushed(&api->_shared.figures, &reply, m->skip);
    if (x->values != NULL && reply.result != WIRE_PUSH_REFUSED &&
        reply.result != WIRE_PUSH_HELD) {
        reply.in_shm = exchange_in_shm(x);
        bytes = reply.in_shm ? 0 : plan_wire_bytes(&shard->plan, m->wire);
    }
    *result = reply.result;
    rc = wire_head_push_reply(msg, &reply, bytes);
    if (rc == SL_OK)
        exchange_reply(x, msg, bytes);
    return rc;
}

// Handles a push. `fresh`: the answer has the parameters. *waits: it is
// answered when a replica has what it says.
static enum sl_err api_handle_push(struct shards_api *api,
                                   struct rpc_call *call, bool fresh,
                                   struct rpc_msg *msg, bool *waits,
                                   struct sl_error *err)
{
    enum wire_push_result result = WIRE_PUSH_REFUSED;
    struct exchange x = {.copy = NULL};
    struct shard *shard = NULL;
    uint64_t began = span_begin();
    struct wire_push m;
    enum sl_err rc;

    rc = wire_read_push(&m, rpc_call_body(call), err);
    FAULT("api.push_parsed");
    if (rc == SL_OK)
        rc = check_terms(api, &m, err);
    if (rc == SL_OK)
        rc = api_find_shard(api, m.job, m.shard, &shard, err);
    if (rc == SL_OK)
        rc = check_token(api, call, shard, m.job_incarnation, &m.token, err);
    // The Ask before showed its proof.
    m.unproven = tokens_want_proof(api->setup.tokens);
    if (rc == SL_OK) {
        rc = exchange_push(&x, api->setup.local, shard, &m, fresh, err);
        if (rc == SL_OK)
            rc = push_shard(api, shard, &m, &x, msg, &result, err);
        else if (rc == SL_ENOENT)
            rc = refuse_region(shard, msg);
        span_end(began, "apply", SPANS_IO,
                 span_of_shard(m.job, m.closure, m.step, m.shard));
    }
    exchange_end(&x);
    if (result == WIRE_PUSH_COUNTED && shard->plan.contributions > 0)
        rounds_applied(&api->rounds, shard);
    if (rc == SL_OK && result != WIRE_PUSH_REFUSED)
        *waits = acks_wait(&api->acks, call, shard, msg); // P1
    shard_unref(shard);
    return rc;
}

static void answer_push(struct rpc_call *call, struct shards_api *api,
                        bool fresh)
{
    struct sl_error err = SL_ERROR_INIT;
    bool waits = false;
    struct rpc_msg msg;
    enum sl_err rc;

    rpc_msg_init(&msg);
    rc = api_handle_push(api, call, fresh, &msg, &waits, &err);
    if (waits)
        return;
    rpc_answer(call, rc, &err, &msg);
    FAULT("api.acked");
}

static void api_push(struct rpc_call *call, void *arg)
{
    answer_push(call, arg, false);
}

static void api_push_pull(struct rpc_call *call, void *arg)
{
    answer_push(call, arg, true);
}

// ---- Pull

static enum sl_err pull_now(const struct shards_api *api, struct shard *shard,
                            const struct wire_pull *m, struct rpc_msg *msg,
                            struct sl_error *err)
{
    size_t bytes = 0;
    struct exchange x = {.copy = NULL};
    struct wire_pull_reply reply;
    uint64_t began = span_begin();
    enum sl_err rc = exchange_pull(&x, api->setup.local, shard, m, &reply, err);

    if (rc == SL_OK) {
        reply.in_shm = exchange_in_shm(&x);
        bytes = reply.in_shm ? 0 : x.bytes;
        rc = wire_head_pull_reply(msg, &reply, bytes);
    }
    if (rc == SL_OK)
        exchange_reply(&x, msg, bytes);
    exchange_end(&x);
    span_end(began, "answer", SPANS_IO,
             (struct span_of){.of = m->job, .shard = m->shard + 1});
    return rc;
}

// ---- rows of tables

// Limit of answers with rows that are on their way from one shard.
#define ROWS_ANSWERS_MOST POOL_MAX

struct rows_answer {
    struct shard *shard;         // a reference; its rows_answers counts this
    uint8_t *bytes;              // owned
    struct moments_set *moments; // a reference; NULL: of rows
};

static void rows_answer_free(void *arg)
{
    struct rows_answer *a = arg;

    atomic_fetch_sub(&a->shard->rows_answers, 1);
    shard_unref(a->shard);
    moments_unref(a->moments);
    sl_free(a->bytes);
    sl_free(a);
}

// Makes the answer to a pull of rows; their memory lives as long as the answer
// is on its way.
static enum sl_err api_answer_rows(struct rows_answer *a,
                                   const struct wire_pull *m, const char *name,
                                   struct rpc_msg *msg, struct sl_error *err)
{
    struct wire_pull_reply reply;
    size_t bytes = 0;
    enum sl_err rc =
        shard_pull_rows(a->shard, m, &reply, &a->bytes, &bytes, err);

    if (rc == SL_ECORRUPT)
        sl_prefix(err, rc, "psserver %s", name);
    if (rc == SL_OK)
        rc = wire_head_pull_reply(msg, &reply, bytes);
    if (rc == SL_OK)
        rpc_msg_part(msg, a->bytes, bytes);
    return rc;
}

// Makes an answer without rows, unless too many are on their way.
static enum sl_err rows_answer_new(struct rows_answer **out,
                                   struct shard *shard, struct sl_error *err)
{
    struct rows_answer *a = sl_calloc(1, sizeof(*a));

    if (a == NULL)
        return sl_no_memory(err);
    a->shard = shard_ref(shard);
    if (atomic_fetch_add(&shard->rows_answers, 1) >= ROWS_ANSWERS_MOST) {
        rows_answer_free(a);
        return sl_fail(err, SL_EBUSY,
                       "%d answers with rows are on their way from one shard; "
                       "try again later",
                       ROWS_ANSWERS_MOST);
    }
    *out = a;
    return SL_OK;
}

// Makes the answer to a pull of moments (L9), of which there may be none.
static enum sl_err api_answer_moments(struct rows_answer *a,
                                      const struct wire_pull *m,
                                      struct rpc_msg *msg, struct sl_error *err)
{
    struct wire_pull_reply reply;
    enum sl_err rc = shard_pull_moments(a->shard, m, &reply, &a->moments, err);

    if (rc == SL_OK)
        rc = wire_head_pull_reply(msg, &reply,
                                  a->moments == NULL ? 0 : a->moments->bytes);
    if (rc == SL_OK && a->moments != NULL)
        rpc_msg_part(msg, a->moments->data, a->moments->bytes);
    return rc;
}

// Answers a pull of rows, or of moments.
static enum sl_err api_pull_rows(struct shard *shard, const struct wire_pull *m,
                                 const char *name, struct rpc_msg *msg,
                                 struct sl_error *err)
{
    uint64_t began = span_begin();
    struct rows_answer *a = NULL;
    enum sl_err rc = rows_answer_new(&a, shard, err);

    if (rc != SL_OK)
        return rc;
    rc = m->moments ? api_answer_moments(a, m, msg, err)
                    : api_answer_rows(a, m, name, msg, err);
    if (rc == SL_OK)
        rpc_msg_on_release(msg, rows_answer_free, a);
    else
        rows_answer_free(a);
    span_end(began, "answer", SPANS_IO,
             (struct span_of){.of = m->job, .shard = m->shard + 1});
    return rc;
}

// Answers a pull that waited for a round.
static void answer_round(void *arg, struct rpc_call *call, struct shard *shard,
                         const struct wire_pull *m)
{
    struct sl_error err = SL_ERROR_INIT;
    struct rpc_msg msg;
    enum sl_err rc;

    rpc_msg_init(&msg);
    rc = pull_now(arg, shard, m, &msg, &err);
    rpc_answer(call, rc, &err, &msg);
}

// A pull of rows of a snapshot. A pool thread makes the answer, which takes the
// time to read all rows.
struct tagged_rows_pull {
    struct loop_task task;
    struct shards_api *api;
    struct rpc_call *call;
    struct rows_answer *answer; // owned until it is on its way
    struct tagged_file *file;   // a reference
    struct wire_pull pull;      // of the call's body
};

static void opening_over(struct shards_api *api);

static void tagged_rows_work(void *arg)
{
    struct tagged_rows_pull *p = arg;
    struct rows_answer *a = p->answer;
    const struct tagged_file *f = p->file;
    struct wire_pull_reply reply = {.incarnation = f->tag.incarnation,
                                    .version = f->version,
                                    .wire = WIRE_F32};
    struct sl_error err = SL_ERROR_INIT;
    size_t bytes = 0;
    struct rpc_msg msg;
    enum sl_err rc =
        shard_pull_tagged_rows(a->shard, f, &p->pull, &a->bytes, &bytes, &err);

    rpc_msg_init(&msg);
    if (rc == SL_OK)
        rc = wire_head_pull_reply(&msg, &reply, bytes);
    if (rc == SL_OK)
        rpc_msg_part(&msg, a->bytes, bytes);
    rpc_msg_on_release(&msg, rows_answer_free, a);
    p->answer = NULL;
    rpc_answer(p->call, rc, &err, &msg);
}

static void tagged_rows_end(void *arg)
{
    struct tagged_rows_pull *p = arg;
    struct shards_api *api = p->api;

    if (p->answer != NULL)
        rows_answer_free(p->answer);
    tagged_file_unref(p->file);
    sl_free(p);
    opening_over(api);
}

static void tagged_rows_start(void *arg)
{
    struct tagged_rows_pull *p = arg;

    if (loop_work(p->api->setup.loop, tagged_rows_work, tagged_rows_end, p) ==
        SL_OK)
        return;
    rpc_answer(p->call, SL_ENOMEM, NULL, NULL);
    tagged_rows_end(p);
}

// Answers with rows of a file, later; owns the reference. Counted as in
// api_open_file.
static void answer_tagged_rows(struct shards_api *api, struct rpc_call *call,
                               struct shard *shard, struct tagged_file *file,
                               const struct wire_pull *m)
{
    struct sl_error err = SL_ERROR_INIT;
    struct rows_answer *a = NULL;
    struct tagged_rows_pull *p = NULL;
    enum sl_err rc = rows_answer_new(&a, shard, &err);

    atomic_fetch_add(&api->_shared.opening, 1);
    if (rc == SL_OK && atomic_load(&api->_shared.stopped))
        rc = sl_fail(&err, SL_EUNAVAIL, "this psserver is ending");
    if (rc == SL_OK)
        p = sl_malloc(sizeof(*p));
    if (p == NULL) {
        rpc_answer(call, rc == SL_OK ? SL_ENOMEM : rc, &err, NULL);
        if (a != NULL)
            rows_answer_free(a);
        tagged_file_unref(file);
        opening_over(api);
        return;
    }
    *p = (struct tagged_rows_pull){
        .api = api, .call = call, .answer = a, .file = file, .pull = *m};
    loop_post_task(api->setup.loop, &p->task, tagged_rows_start, p);
}

// What an answer from a file keeps until it is sent.
struct file_answer {
    struct tagged_file *file; // a reference
    void *copy;               // of records; owned
};

static void file_answer_free(void *answer)
{
    struct file_answer *a = answer;

    tagged_file_unref(a->file);
    sl_free(a->copy);
    sl_free(a);
}

// Answers with a file's values, or with records of a table; owns the reference.
static void api_answer_file(struct rpc_call *call, struct tagged_file *file,
                            const struct wire_pull *m)
{
    struct wire_pull_reply reply = {.incarnation = file->tag.incarnation,
                                    .version = file->version};
    struct tagged_records part = {.at = file->values, .bytes = file->bytes};
    struct file_answer *answer = sl_malloc(sizeof(*answer));
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc = answer == NULL ? SL_ENOMEM : SL_OK;
    struct rpc_msg msg;

    rpc_msg_init(&msg);
    if (rc == SL_OK && m->payload.bytes > 0)
        rc = tagged_file_records(file, &m->payload, m->first_record,
                                 RPC_DATA_BYTES - WIRE_HEAD_MAX, &part, &err);
    reply.records = part.records;
    reply.record_bytes = part.record_bytes;
    if (rc == SL_OK)
        rc = wire_head_pull_reply(&msg, &reply, part.bytes);
    if (rc == SL_OK)
        rpc_msg_part(&msg, part.at, part.bytes);
    if (answer == NULL) {
        tagged_file_unref(file);
    } else {
        *answer = (struct file_answer){file, part.copy};
        rpc_msg_on_release(&msg, file_answer_free, answer);
    }
    rpc_answer(call, rc, &err, &msg);
}

// A call that waits for a file; lives in its scratch.
struct waiting {
    struct tagged_waiter waiter;
    struct rpc_call *call;
    struct shards_api *api;
    struct shard *shard;   // a reference; NULL: no rows of ids are wanted
    struct wire_pull pull; // of the call's body
};

static void api_on_file_opened(struct tagged_waiter *w, enum sl_err rc,
                               const struct sl_error *err,
                               struct tagged_file *file)
{
    struct waiting *of = sl_container_of(w, struct waiting, waiter);
    struct shard *shard = of->shard;

    if (rc != SL_OK)
        rpc_answer(of->call, rc, err, NULL);
    else if (shard != NULL)
        answer_tagged_rows(of->api, of->call, shard, file, &of->pull);
    else
        api_answer_file(of->call, file, &of->pull);
    shard_unref(shard);
}

// A file being opened: I/O thread -> loop -> pool thread -> loop.
struct opening {
    struct loop_task task;
    struct shards_api *api;
    struct shard *shard; // a reference
    struct wire_tag tag;
};

// Turns errors of the store into SL_EIO. If it does not answer, or refuses our
// keys, that says nothing of us: the worker would wait for this psserver, or
// doubt its own certificate.
static enum sl_err of_store(enum sl_err rc, struct sl_error *err)
{
    if (rc != SL_EUNAVAIL && rc != SL_EAUTH && rc != SL_EDENIED)
        return rc;
    err->code = SL_EIO;
    return SL_EIO;
}

// Opens a file on a pool thread: verifying reads all of it.
static void open_work(void *arg)
{
    struct opening *o = arg;
    struct sl_error err = SL_ERROR_INIT;
    struct tagged_file *file = NULL;
    char *folder = snap_folder(o->api->setup.folder, &o->shard->plan);
    enum sl_err rc = SL_ENOMEM;

    if (folder != NULL)
        rc = snap_values(o->api->setup.fs, folder, &o->shard->plan, o->tag,
                         &file, &err);
    sl_free(folder);
    tagged_opened(&o->shard->tagged, o->tag, of_store(rc, &err), &err, file);
}

// Counts an opening out; shards_api_stop may be running the loop until there
// are none.
static void opening_over(struct shards_api *api)
{
    atomic_fetch_sub(&api->_shared.opening, 1);
    if (atomic_load(&api->_shared.stopped))
        loop_stop(api->setup.loop);
}

static void opening_end(void *arg)
{
    struct opening *o = arg;
    struct shards_api *api = o->api;

    shard_unref(o->shard);
    sl_free(o);
    opening_over(api);
}

static void opening_start(void *arg)
{
    struct opening *o = arg;
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc = loop_work(o->api->setup.loop, open_work, opening_end, o);

    if (rc == SL_OK)
        return;
    tagged_opened(&o->shard->tagged, o->tag, rc, &err, NULL);
    opening_end(o);
}

// Opens a file for the first call that wants it. It is counted before the look
// whether we are stopping, so that shards_api_stop misses none.
static void api_open_file(struct shards_api *api, struct shard *shard,
                          struct wire_tag tag)
{
    struct sl_error err = SL_ERROR_INIT;
    struct opening *o;

    atomic_fetch_add(&api->_shared.opening, 1);
    o = atomic_load(&api->_shared.stopped) ? NULL : sl_malloc(sizeof(*o));
    if (o == NULL) {
        sl_fail(&err, SL_EUNAVAIL, "this psserver is ending, or out of memory");
        tagged_opened(&shard->tagged, tag, SL_EUNAVAIL, &err, NULL);
        opening_over(api);
        return;
    }
    *o = (struct opening){.api = api, .shard = shard_ref(shard), .tag = tag};
    loop_post_task(api->setup.loop, &o->task, opening_start, o);
}

// Answers a pull by tag, now or when the file is open.
static void pull_tag(struct shards_api *api, struct rpc_call *call,
                     struct shard *shard, const struct wire_pull *m)
{
    struct waiting *w = rpc_call_scratch(call, sizeof(*w));
    struct sl_error err = SL_ERROR_INIT;
    struct tagged_file *file;
    enum sl_err rc = SL_ENOMEM;

    if (w != NULL)
        rc = shard_pull_check(shard, m, &err);
    if (rc != SL_OK) {
        rpc_answer(call, rc, &err, NULL);
        return;
    }
    w->call = call;
    w->api = api;
    w->shard = m->ids_of_tag ? shard_ref(shard) : NULL;
    w->pull = *m;
    w->waiter.done = api_on_file_opened;
    switch (tagged_find(&shard->tagged, m->tag, &w->waiter, &file)) {
    case TAGGED_HERE:
        api_on_file_opened(&w->waiter, SL_OK, NULL, file);
        break;
    case TAGGED_OPEN:
        api_open_file(api, shard, m->tag);
        break;
    case TAGGED_WAIT:
        break;
    case TAGGED_BUSY:
        sl_fail(&err, SL_EBUSY,
                "%d other snapshots of this shard are being opened; try again "
                "later",
                TAGGED_MAX);
        api_on_file_opened(&w->waiter, SL_EBUSY, &err, NULL);
        break;
    }
}

// A pull from a file of a shard that left this server.
struct archive_pull {
    struct loop_task task;
    struct shards_api *api;
    struct rpc_call *call;
    struct wire_pull pull;
};

static void archive_work(void *arg)
{
    struct archive_pull *a = arg;
    struct sl_error err = SL_ERROR_INIT;
    struct tagged_file *file = NULL;
    enum sl_err rc =
        archive_values(&a->api->archive, a->api->setup.fs, a->api->setup.folder,
                       a->pull.job, a->pull.shard, a->pull.tag, &file, &err);

    if (rc == SL_OK)
        api_answer_file(a->call, file, &a->pull);
    else
        rpc_answer(a->call, of_store(rc, &err), &err, NULL);
}

static void archive_end(void *arg)
{
    struct archive_pull *a = arg;
    struct shards_api *api = a->api;

    sl_free(a);
    opening_over(api);
}

static void archive_start(void *arg)
{
    struct archive_pull *a = arg;

    if (loop_work(a->api->setup.loop, archive_work, archive_end, a) == SL_OK)
        return;
    rpc_answer(a->call, SL_ENOMEM, NULL, NULL);
    archive_end(a);
}

// Answers a pull from the archive, later. Counted as in api_open_file.
static void pull_archive(struct shards_api *api, struct rpc_call *call,
                         const struct wire_pull *m)
{
    struct archive_pull *a;

    atomic_fetch_add(&api->_shared.opening, 1);
    a = atomic_load(&api->_shared.stopped) ? NULL : sl_malloc(sizeof(*a));
    if (a == NULL) {
        rpc_answer(call, SL_EUNAVAIL, NULL, NULL);
        opening_over(api);
        return;
    }
    *a = (struct archive_pull){.api = api, .call = call, .pull = *m};
    loop_post_task(api->setup.loop, &a->task, archive_start, a);
}

static void api_pull(struct rpc_call *call, void *arg)
{
    struct shards_api *api = arg;
    struct sl_error err = SL_ERROR_INIT;
    struct shard *shard = NULL;
    struct wire_pull m;
    struct rpc_msg msg;
    enum sl_err rc;

    rpc_msg_init(&msg);
    rc = wire_read_pull(&m, rpc_call_body(call), &err);
    if (rc == SL_OK)
        rc = api_find_shard(api, m.job, m.shard, &shard, &err);
    if (rc == SL_OK)
        rc = check_token(api, call, shard, m.job_incarnation, &m.token, &err);
    figures_pulled(&api->_shared.figures);
    if (rc == SL_OK && !m.has_tag && (m.payload.bytes > 0 || m.moments)) {
        rc = api_pull_rows(shard, &m, api->setup.name, &msg, &err);
        rpc_answer(call, rc, &err, &msg);
    } else if (rc == SL_OK && m.has_tag) {
        pull_tag(api, call, shard, &m);
    } else if (rc == SL_EUNAVAIL && m.has_tag && !m.ids_of_tag &&
               tokens_check_archive(api->setup.tokens, call, &err) == SL_OK) {
        pull_archive(api, call, &m);
    } else if (rc == SL_OK && m.after_round_of != 0 &&
               rounds_wait(&api->rounds, call, shard, &m)) {
        // answered when the round is applied
    } else {
        if (rc == SL_OK)
            rc = pull_now(api, shard, &m, &msg, &err);
        rpc_answer(call, rc, &err, &msg);
    }
    shard_unref(shard);
}

// ---- Follow

// Runs the operations to their end here, as pushes do (M5). A shard that is not
// here follows no source: that need not try again.
static void api_follow(struct rpc_call *call, void *arg)
{
    const struct shards_api *api = arg;
    struct sl_error err = SL_ERROR_INIT;
    struct wire_follow_reply reply;
    struct shard *shard = NULL;
    struct wire_follow m;
    struct rpc_msg msg;
    enum sl_err rc;

    rpc_msg_init(&msg);
    rc = wire_read_follow(&m, rpc_call_body(call), &err);
    if (rc == SL_OK)
        rc = api_find_shard(api, m.job, m.shard, &shard, &err);
    if (rc == SL_OK)
        rc = shard_follow(shard, &m, &reply, &err);
    if (rc == SL_OK)
        rc = wire_head_follow_reply(&msg, &reply);
    shard_unref(shard);
    rpc_answer(call, rc, &err, &msg);
}

// ---- Local

static void api_local(struct rpc_call *call, void *arg)
{
    const struct shards_api *api = arg;
    Sluice__V1__LocalReply reply;
    struct rpc_msg msg;
    enum sl_err rc;

    rpc_msg_init(&msg);
    local_about(api->setup.local, &reply);
    rc = wire_msg(&msg, &reply.base);
    rpc_answer(call, rc, NULL, &msg);
}

// ---- the interface

static const struct rpc_method methods[] = {
    {.path = WIRE_ASK, .kind = RPC_UNARY, .unary = api_answer_ask},
    {.path = WIRE_PUSH,
     .kind = RPC_UNARY,
     .max_request_bytes = RPC_DATA_BYTES,
     .in_turn = true,
     .unary = api_push},
    {.path = WIRE_PUSH_PULL,
     .kind = RPC_UNARY,
     .max_request_bytes = RPC_DATA_BYTES,
     .in_turn = true,
     .unary = api_push_pull},
    {.path = WIRE_PULL,
     .kind = RPC_UNARY,
     .max_request_bytes = RPC_DATA_BYTES, // ids of rows
     .unary = api_pull},
    {.path = WIRE_FOLLOW,
     .kind = RPC_UNARY,
     .max_request_bytes = RPC_DATA_BYTES,
     .in_turn = true,
     .unary = api_follow},
    {.path = WIRE_LOCAL, .kind = RPC_UNARY, .unary = api_local},
};

#define SWEEP_MS 10000 // an export asks again sooner

static void sweep_archive(void *arg)
{
    struct shards_api *api = arg;

    archive_sweep(&api->archive);
}

enum sl_err shards_api_new(struct shards_api **out,
                           const struct shards_api_setup *setup)
{
    struct shards_api *api = sl_calloc(1, sizeof(*api));

    if (api == NULL)
        return SL_ENOMEM;
    api->setup = *setup;
    atomic_init(&api->_shared.opening, 0);
    atomic_init(&api->_shared.stopped, false);
    if (loop_timer_new(&api->sweep, setup->loop, sweep_archive, api) != SL_OK ||
        rounds_init(&api->rounds, setup->loop, answer_round, api) != SL_OK) {
        loop_timer_free(api->sweep);
        sl_free(api);
        return SL_ENOMEM;
    }
    if (acks_init(&api->acks, setup->loop) != SL_OK) {
        rounds_stop(&api->rounds);
        rounds_release(&api->rounds);
        loop_timer_free(api->sweep);
        sl_free(api);
        return SL_ENOMEM;
    }
    archive_init(&api->archive);
    loop_timer_start(api->sweep, SWEEP_MS, SWEEP_MS);
    *out = api;
    return SL_OK;
}

struct rpc_table shards_api_table(struct shards_api *api)
{
    return (struct rpc_table){methods, SL_COUNT(methods), api};
}

void shards_api_measure(const struct shards_api *api, struct expo *e)
{
    figures_write_shards(&api->_shared.figures, e);
}

void shards_api_stop(struct shards_api *api)
{
    atomic_store(&api->_shared.stopped, true);
    loop_timer_stop(api->sweep);
    rounds_stop(&api->rounds);
    acks_stop(&api->acks);
    // A stop meant for an earlier run may end a run early.
    while (atomic_load(&api->_shared.opening) > 0)
        loop_run(api->setup.loop);
}

void shards_api_applied(void *api, struct shard *shard)
{
    rounds_applied(&((struct shards_api *)api)->rounds, shard);
}

void shards_api_acked(void *api, struct shard *shard)
{
    acks_look(&((struct shards_api *)api)->acks, shard);
}

void shards_api_free(struct shards_api *api)
{
    if (api == NULL)
        return;
    acks_release(&api->acks);
    rounds_release(&api->rounds);
    loop_timer_free(api->sweep);
    archive_release(&api->archive);
    sl_free(api);
}
