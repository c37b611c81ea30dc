// SPDX-License-Identifier: Apache-2.0
// proto/wire_coord.c -- the Attend stream: what must hold between fields, and
// the two functions that decode it.
#include "proto/wire_check.h"

#include <math.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/num.h"
#include "common/base/usage.h"
#include "proto/layout.h"
#include "proto/model.h"

#define TRACE_US_MAX (UINT64_C(1) << 53) // a number that JSON has, too

// ---- ordered pairs

static int wire_compare_u64(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

int wire_attempt_cmp(struct wire_attempt a, struct wire_attempt b)
{
    return a.term != b.term ? wire_compare_u64(a.term, b.term)
                            : wire_compare_u64(a.n, b.n);
}

int wire_tag_cmp(struct wire_tag a, struct wire_tag b)
{
    return a.incarnation != b.incarnation
               ? wire_compare_u64(a.incarnation, b.incarnation)
               : wire_compare_u64(a.sequence, b.sequence);
}

struct wire_attempt wire_attempt_of(const Sluice__V1__Attempt *m)
{
    return m != NULL ? (struct wire_attempt){m->term, m->n}
                     : (struct wire_attempt){0, 0};
}

struct wire_tag wire_tag_of(const Sluice__V1__Tag *m)
{
    return m != NULL ? (struct wire_tag){m->incarnation, m->sequence}
                     : (struct wire_tag){0, 0};
}

struct wire_token wire_token_of(const Sluice__V1__JobToken *m)
{
    return m != NULL ? (struct wire_token){m->low, m->high}
                     : (struct wire_token){0, 0};
}

Sluice__V1__JobToken *wire_token_msg(Sluice__V1__JobToken *out,
                                     const struct wire_token *t)
{
    *out = (Sluice__V1__JobToken)SLUICE__V1__JOB_TOKEN__INIT;
    out->low = t->low;
    out->high = t->high;
    return t->low == 0 && t->high == 0 ? NULL : out;
}

void wire_usage(Sluice__V1__Heartbeat *beat)
{
    struct usage used = usage_read();

    beat->resident_bytes = used.resident_bytes;
    beat->cpu_us = used.cpu_us;
    beat->host_sent_bytes = used.sent_bytes;
    beat->host_received_bytes = used.received_bytes;
}

Sluice__V1__Attempt wire_attempt_msg(struct wire_attempt a)
{
    Sluice__V1__Attempt m = SLUICE__V1__ATTEMPT__INIT;

    m.term = a.term;
    m.n = a.n;
    return m;
}

Sluice__V1__Tag wire_tag_msg(struct wire_tag t)
{
    Sluice__V1__Tag m = SLUICE__V1__TAG__INIT;

    m.incarnation = t.incarnation;
    m.sequence = t.sequence;
    return m;
}

// ---- geometry and counted sets

struct schedule wire_schedule(const Sluice__V1__Geometry *g)
{
    return (struct schedule){
        .samples = g->samples,
        .batch = g->batch,
        .epochs = g->epochs,
        .steps_per_closure = g->steps_per_closure,
    };
}

Sluice__V1__Geometry wire_geometry(const struct schedule *s)
{
    Sluice__V1__Geometry g = SLUICE__V1__GEOMETRY__INIT;

    g.samples = s->samples;
    g.batch = (uint32_t)s->batch;
    g.epochs = (uint32_t)s->epochs;
    g.steps_per_closure = (uint32_t)s->steps_per_closure;
    return g;
}

enum sl_err check_geometry(const ProtobufCMessage *m, struct sl_error *err)
{
    struct schedule s = wire_schedule((const Sluice__V1__Geometry *)m);

    return schedule_check(&s, err);
}

enum sl_err wire_counted_init(struct wire_counted *w, const struct counted *c)
{
    struct wire_counted new = {.msg = SLUICE__V1__COUNTED_SET__INIT};
    enum sl_err rc = counted_encode(c, &new.plain);

    if (rc != SL_OK)
        return rc;
    new.items = sl_malloc_array(new.plain.count, sizeof(*new.items));
    new.list = sl_malloc_array(new.plain.count, sizeof(*new.list));
    if (new.items == NULL || new.list == NULL) {
        wire_counted_release(&new);
        return SL_ENOMEM;
    }
    for (size_t i = 0; i < new.plain.count; i++) {
        const struct counted_closure *from = &new.plain.sparse[i];
        Sluice__V1__CountedClosure *to = &new.items[i];

        sluice__v1__counted_closure__init(to);
        to->closure = from->closure;
        to->steps.data = (uint8_t *)from->bits;
        to->steps.len = (from->nbits + 7) / 8;
        new.list[i] = to;
    }
    new.msg.low = new.plain.low;
    new.msg.n_sparse = new.plain.count;
    new.msg.sparse = new.list;
    *w = new;
    return SL_OK;
}

void wire_counted_release(struct wire_counted *w)
{
    counted_plain_release(&w->plain);
    sl_free(w->items);
    sl_free(w->list);
    memset(w, 0, sizeof(*w));
}

#define SET_BYTES_MAX ((uint64_t)3 << 20) // of a control message of 4 MiB
#define SET_ENTRY_BYTES 16                // a closure's number, and lengths
#define SET_ENTRY_FIELDS 3
#define EPOCH_BYTES 40
#define EPOCH_FIELDS 5
#define OTHER_BYTES ((uint64_t)256 << 10) // of a hello, or a snapshot's report
#define OTHER_FIELDS 1024

// What the lines of epochs leave; a quarter at least, as a spec has it.
static uint64_t left_of(uint64_t all, uint64_t epochs, uint64_t each)
{
    return all - sl_min(epochs * each, all / 4 * 3);
}

uint64_t wire_window_most(uint64_t steps_per_closure, uint64_t epochs)
{
    uint64_t each = SET_ENTRY_BYTES + (steps_per_closure + 7) / 8;
    uint64_t bytes =
        left_of(RPC_CONTROL_BYTES - OTHER_BYTES, epochs, EPOCH_BYTES);
    uint64_t fields =
        left_of(WIRE_MAX_FIELDS - OTHER_FIELDS, epochs, EPOCH_FIELDS);
    uint64_t most = sl_min(bytes, SET_BYTES_MAX) / each;

    return sl_min(sl_min(most, fields / SET_ENTRY_FIELDS), WIRE_SPARSE_MAX);
}

enum sl_err wire_counted_fits(const Sluice__V1__CountedSet *set,
                              const Sluice__V1__ShardCounts *counts,
                              struct sl_error *err)
{
    size_t bytes = protobuf_c_message_get_packed_size(&set->base) +
                   protobuf_c_message_get_packed_size(&counts->base);
    size_t fields = set->n_sparse * SET_ENTRY_FIELDS +
                    counts->n_epochs * EPOCH_FIELDS + OTHER_FIELDS;

    if (set->n_sparse <= WIRE_SPARSE_MAX && fields <= WIRE_MAX_FIELDS &&
        bytes <= RPC_CONTROL_BYTES - OTHER_BYTES)
        return SL_OK;
    return sl_fail(err, SL_ERANGE,
                   "the set of what is counted is larger than a message may "
                   "be: %zu closures behind the watermark, %zu bytes",
                   set->n_sparse, bytes);
}

enum sl_err wire_counted_read(struct counted *out, const struct schedule *s,
                              const Sluice__V1__CountedSet *set,
                              struct sl_error *err)
{
    struct counted_plain plain = {0, 0, NULL};
    struct counted_closure *items;
    uint64_t closures = schedule_closures(s);
    enum sl_err rc = SL_OK;

    if (set == NULL)
        return counted_init(out, s);
    items = sl_malloc_array(set->n_sparse, sizeof(*items));
    if (items == NULL)
        return sl_fail(err, SL_ENOMEM, "out of memory for a counted set");
    for (size_t i = 0; i < set->n_sparse && rc == SL_OK; i++) {
        const Sluice__V1__CountedClosure *c = set->sparse[i];
        uint32_t steps =
            c->closure < closures ? schedule_closure_steps(s, c->closure) : 0;

        items[i] = (struct counted_closure){c->closure, steps, c->steps.data};
        if (steps == 0 || c->steps.len != (steps + 7) / 8)
            rc = sl_fail(err, SL_ECORRUPT,
                         "counted set: closure %llu has %zu bytes of steps; "
                         "the job's closure has %u steps",
                         (unsigned long long)c->closure, c->steps.len, steps);
    }
    plain.low = set->low;
    plain.count = set->n_sparse;
    plain.sparse = items;
    if (rc == SL_OK)
        rc = counted_decode(out, s, &plain, err);
    sl_free(items);
    return rc;
}

enum sl_err check_counted_set(const ProtobufCMessage *m, struct sl_error *err)
{
    const Sluice__V1__CountedSet *set = (const Sluice__V1__CountedSet *)m;
    uint64_t last = set->low;

    for (size_t i = 0; i < set->n_sparse; i++) {
        uint64_t closure = set->sparse[i]->closure;

        if (closure < last || (i > 0 && closure == last))
            return sl_fail(err, SL_EINVAL,
                           "CountedSet.sparse: closure %llu is out of order",
                           (unsigned long long)closure);
        last = closure;
    }
    return SL_OK;
}

// ---- variables and pieces

// An orthogonal matrix is the whole variable, and is made by one thread.
static enum sl_err check_initial(const Sluice__V1__Variable *v, uint64_t rows,
                                 uint64_t row_elements, struct sl_error *err)
{
    double all = (double)rows * (double)row_elements;

    if (v->init != SLUICE__V1__INIT_KIND__INIT_ORTHOGONAL)
        return SL_OK;
    if (!(v->init_a >= 1) || !(v->init_b >= 1) ||
        v->init_a != floor(v->init_a) || v->init_b != floor(v->init_b) ||
        v->init_a * v->init_b != all ||
        all * fmin(v->init_a, v->init_b) > (double)MODEL_ORTHOGONAL_MOST)
        return sl_fail(err, SL_EINVAL,
                       "Variable '%s': no orthogonal matrix of %g x %g",
                       v->name, v->init_a, v->init_b);
    return SL_OK;
}

static enum sl_err check_keras_order(const Sluice__V1__Variable *v,
                                     struct sl_error *err)
{
    uint32_t seen = 0;

    if (v->n_keras_order == 0)
        return SL_OK;
    for (size_t i = 0; i < v->n_keras_order; i++)
        if (v->keras_order[i] < WIRE_RANK_MAX)
            seen |= 1u << v->keras_order[i];
    if (v->n_keras_order != v->n_shape || seen != (1u << v->n_shape) - 1)
        return sl_fail(err, SL_EINVAL,
                       "Variable '%s': keras_order is no order of its %zu axes",
                       v->name, v->n_shape);
    return SL_OK;
}

enum sl_err check_variable(const ProtobufCMessage *m, struct sl_error *err)
{
    const Sluice__V1__Variable *v = (const Sluice__V1__Variable *)m;
    uint64_t rows, row_elements;
    enum sl_err rc = layout_rows(v, &rows, &row_elements, err);

    if (rc != SL_OK)
        return rc;
    if (!(v->momentum >= 0 && v->momentum <= 1))
        return sl_fail(err, SL_EINVAL,
                       "Variable '%s': momentum is %g, not in [0, 1]", v->name,
                       v->momentum);
    rc = check_initial(v, rows, row_elements, err);
    return rc == SL_OK ? check_keras_order(v, err) : rc;
}

// `*hint` is where the last one was found: both lists are in model order.
static const Sluice__V1__Variable *
shard_variable(const Sluice__V1__ShardSpec *s, uint32_t number, size_t *hint)
{
    for (size_t i = *hint; i < s->n_variable_ids; i++)
        if (s->variable_ids[i] == number) {
            *hint = i;
            return s->variables[i];
        }
    return NULL;
}

static enum sl_err check_piece(const Sluice__V1__ShardSpec *s,
                               const Sluice__V1__Piece *p, size_t *hint,
                               struct sl_error *err)
{
    const Sluice__V1__Variable *v = shard_variable(s, p->variable, hint);
    uint64_t rows, row_elements;
    enum sl_err rc;

    if (v == NULL || p->shard != s->shard)
        return sl_fail(err, SL_EINVAL,
                       "ShardSpec: a piece names variable %u of shard %u, "
                       "which is not here",
                       p->variable, p->shard);
    rc = layout_rows(v, &rows, &row_elements, err);
    if (rc != SL_OK)
        return rc;
    // Row counts and row elements are at most 2^40, checked one by one.
    if (p->first_row > rows || p->rows > rows - p->first_row ||
        p->elements != p->rows * row_elements)
        return sl_fail(err, SL_EINVAL,
                       "ShardSpec: a piece holds rows [%llu, +%llu) of '%s', "
                       "which has %llu",
                       (unsigned long long)p->first_row,
                       (unsigned long long)p->rows, v->name,
                       (unsigned long long)rows);
    return SL_OK;
}

enum sl_err check_shard_spec(const ProtobufCMessage *m, struct sl_error *err)
{
    const Sluice__V1__ShardSpec *s = (const Sluice__V1__ShardSpec *)m;
    size_t hint = 0;

    if (s->n_variables != s->n_variable_ids)
        return sl_fail(err, SL_EINVAL,
                       "ShardSpec has %zu variables and %zu numbers for them",
                       s->n_variables, s->n_variable_ids);
    for (size_t i = 0; i < s->n_pieces; i++) {
        enum sl_err rc = check_piece(s, s->pieces[i], &hint, err);

        if (rc != SL_OK)
            return rc;
        if (i > 0 && s->pieces[i]->variable <= s->pieces[i - 1]->variable)
            return sl_fail(err, SL_EINVAL,
                           "ShardSpec: pieces are not in model order");
    }
    return SL_OK;
}

// ---- the rest of the stream

enum sl_err check_hello(const ProtobufCMessage *m, struct sl_error *err)
{
    const Sluice__V1__Hello *h = (const Sluice__V1__Hello *)m;

    if (h->process == 0)
        return sl_fail(err, SL_EINVAL, "Hello.process is missing");
    if (h->role == SLUICE__V1__ROLE__ROLE_PSSERVER && h->address[0] == '\0')
        return sl_fail(err, SL_EINVAL,
                       "Hello.address is missing: workers dial a psserver");
    return SL_OK;
}

enum sl_err check_snapshot(const ProtobufCMessage *m, struct sl_error *err)
{
    const Sluice__V1__SnapshotReport *s = (const Sluice__V1__SnapshotReport *)m;

    if (s->failure[0] != '\0')
        return SL_OK;
    if (s->file[0] == '\0')
        return sl_fail(err, SL_EINVAL, "SnapshotReport.file is missing");
    if (s->sha256.len != 32)
        return sl_fail(err, SL_EINVAL,
                       "SnapshotReport.sha256 has %zu bytes, not 32",
                       s->sha256.len);
    return SL_OK;
}

enum sl_err check_job_open(const ProtobufCMessage *m, struct sl_error *err)
{
    const Sluice__V1__JobSpec *spec = ((const Sluice__V1__JobOpen *)m)->spec;

    return spec->model != NULL && spec->train != NULL
               ? SL_OK
               : sl_fail(err, SL_EINVAL, "JobOpen.spec has no %s",
                         spec->model == NULL ? "model" : "train");
}

enum sl_err check_job_map(const ProtobufCMessage *m, struct sl_error *err)
{
    const Sluice__V1__JobMap *map = (const Sluice__V1__JobMap *)m;

    for (size_t i = 0; i < map->n_shards; i++) {
        const Sluice__V1__MapEntry *e = map->shards[i];

        if (map->since == 0 ? e->shard != i
                            : i > 0 && e->shard <= map->shards[i - 1]->shard)
            return sl_fail(err, SL_EINVAL,
                           "JobMap.shards[%zu] is shard %u: not in order", i,
                           e->shard);
        if (e->incarnation != 0 && e->address[0] == '\0')
            return sl_fail(err, SL_EINVAL,
                           "JobMap.shards[%zu] is admitted but has no address",
                           i);
    }
    return SL_OK;
}

enum sl_err check_lease(const ProtobufCMessage *m, struct sl_error *err)
{
    const Sluice__V1__Lease *l = (const Sluice__V1__Lease *)m;

    if (l->kind == SLUICE__V1__LEASE_KIND__LEASE_PROBE ||
        l->kind == SLUICE__V1__LEASE_KIND__LEASE_RING)
        return SL_OK;
    if (l->count == 0)
        return sl_fail(err, SL_EINVAL, "Lease.count is missing");
    if (l->kind == SLUICE__V1__LEASE_KIND__LEASE_TRAIN && l->steps == 0)
        return sl_fail(err, SL_EINVAL, "Lease.steps is missing");
    return SL_OK;
}

enum sl_err check_ring_begin(const ProtobufCMessage *m, struct sl_error *err)
{
    const Sluice__V1__RingBegin *b = (const Sluice__V1__RingBegin *)m;

    if (b->self >= b->n_ranks)
        return sl_fail(err, SL_EINVAL, "RingBegin.self is %u of %zu ranks",
                       b->self, b->n_ranks);
    for (size_t i = 0; i < b->n_holders; i++) {
        if (b->holders[i] >= b->n_ranks)
            return sl_fail(err, SL_EINVAL,
                           "RingBegin.holders[%zu] is %u of %zu ranks", i,
                           b->holders[i], b->n_ranks);
    }
    return SL_OK;
}

// A rank that cannot sum by itself says so of itself.
enum sl_err check_ring_broken(const ProtobufCMessage *m, struct sl_error *err)
{
    const Sluice__V1__RingBroken *b = (const Sluice__V1__RingBroken *)m;

    if (b->suspect < WIRE_RANKS_MAX || b->suspect == UINT32_MAX)
        return SL_OK;
    return sl_fail(err, SL_EINVAL,
                   "RingBroken.suspect is %u; 0 to %d are allowed", b->suspect,
                   WIRE_RANKS_MAX - 1);
}

static enum sl_err unknown_kind(const ProtobufCMessage *m, struct sl_error *err)
{
    return sl_fail(err, SL_ENOTSUP,
                   "%s holds no kind of message that this version knows",
                   m->descriptor->short_name);
}

// Both kinds of message have the same names and spans.
static enum sl_err check_spans(char *const *names, size_t n_names,
                               Sluice__V1__TraceSpan *const *spans,
                               size_t n_spans, struct sl_error *err)
{
    for (size_t i = 0; i < n_names; i++) {
        size_t n = strlen(names[i]);

        if (n == 0 || n > WIRE_TRACE_NAMES_MAX)
            return sl_fail(err, SL_EINVAL,
                           "trace: name %zu has %zu bytes; wants 1 to %d", i, n,
                           WIRE_TRACE_NAMES_MAX);
    }
    for (size_t i = 0; i < n_spans; i++) {
        const Sluice__V1__TraceSpan *s = spans[i];

        if (s->name >= n_names)
            return sl_fail(err, SL_EINVAL, "trace: span %zu has name %u of %zu",
                           i, s->name, n_names);
        if (s->start_us > TRACE_US_MAX || s->us > TRACE_US_MAX)
            return sl_fail(err, SL_EINVAL, "trace: span %zu has no time", i);
    }
    return SL_OK;
}

enum sl_err check_trace_piece(const ProtobufCMessage *m, struct sl_error *err)
{
    const Sluice__V1__TracePiece *p = (const Sluice__V1__TracePiece *)m;

    return check_spans(p->names, p->n_names, p->spans, p->n_spans, err);
}

enum sl_err check_trace_reply(const ProtobufCMessage *m, struct sl_error *err)
{
    const Sluice__V1__TraceReply *r = (const Sluice__V1__TraceReply *)m;

    return check_spans(r->names, r->n_names, r->spans, r->n_spans, err);
}

enum sl_err check_attend_up(const ProtobufCMessage *m, struct sl_error *err)
{
    const Sluice__V1__AttendUp *up = (const Sluice__V1__AttendUp *)m;

    return up->kind_case == SLUICE__V1__ATTEND_UP__KIND__NOT_SET
               ? unknown_kind(m, err)
               : SL_OK;
}

enum sl_err check_attend_down(const ProtobufCMessage *m, struct sl_error *err)
{
    const Sluice__V1__AttendDown *down = (const Sluice__V1__AttendDown *)m;

    return down->kind_case == SLUICE__V1__ATTEND_DOWN__KIND__NOT_SET
               ? unknown_kind(m, err)
               : SL_OK;
}

enum sl_err check_resume_source(const ProtobufCMessage *m, struct sl_error *err)
{
    const Sluice__V1__ResumeSource *s = (const Sluice__V1__ResumeSource *)m;
    bool cut = s->cut != NULL && s->geometry != NULL;
    bool files = s->weights != NULL || s->n_tables > 0;

    if (files ? s->cut == NULL : cut)
        return SL_OK;
    return sl_fail(err, SL_EINVAL,
                   "ResumeSource is either a cut with its geometry or files of "
                   "weights");
}
