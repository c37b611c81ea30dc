// SPDX-License-Identifier: Apache-2.0
// state/shard/plan.c -- the plan of a shard from its spec: ranges,
// optimizer, schedule, limits.
#include "state/shard/plan.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/num.h"
#include "proto/layout.h"
#include "proto/spec.h"
#include "state/base/initial.h"
#include "state/shard/contributions.h"

static void plan_make_twins(struct plan *p)
{
    for (size_t i = 0; i < p->group_count; i++) {
        struct plan_group *twin = &p->groups[p->group_count + i];

        *twin = p->groups[i];
        twin->optim.elementwise = true;
    }
    p->group_count *= 2;
}

// Sets the group of a piece of a variable in `group`. A variable that is
// updated as a whole is here as a whole.
static enum sl_err plan_group_piece(const struct plan *p,
                                    struct plan_piece *piece, uint32_t group,
                                    struct sl_error *err)
{
    piece->group = group;
    if (p->optim.kind == OPTIM_MUON && piece->rank != 2)
        piece->group += (uint32_t)(p->group_count / 2);
    if (!optim_is_whole(&p->groups[piece->group].optim) ||
        piece->rows == piece->of_rows)
        return SL_OK;
    return sl_fail(err, SL_EINVAL,
                   "variable %s: %" PRIu64 " of its %" PRIu64
                   " rows, and %s updates whole variables",
                   piece->name, piece->rows, piece->of_rows,
                   optim_kind_name(p->optim.kind));
}

static enum sl_err read_optim(struct plan *p,
                              const Sluice__V1__OptimizerSpec *spec,
                              struct sl_error *err)
{
    struct spec_optimizer o;
    enum sl_err rc = SL_OK;

    if (spec == NULL)
        return sl_fail(err, SL_EINVAL, "the shard's optimizer is missing");
    p->groups = sl_calloc(2 * (spec->n_groups + 1), sizeof(*p->groups));
    if (p->groups == NULL)
        return sl_no_memory(err);
    // Group 0 is read last: its schedule is that of all groups.
    for (p->group_count = spec->n_groups + 1; p->group_count > 0;) {
        struct plan_group *g = &p->groups[--p->group_count];

        rc = spec_optimizer_of(&o, &g->scale, spec, (uint32_t)p->group_count,
                               err);
        if (rc != SL_OK)
            return rc;
        g->optim = o.optim;
        rc = optim_check(&g->optim, err);
        if (rc != SL_OK)
            return rc;
    }
    p->group_count = spec->n_groups + 1;
    p->optim = p->groups[0].optim;
    if (p->optim.kind == OPTIM_MUON)
        plan_make_twins(p);
    rc = rate_check(&o.schedule, err);
    return rc != SL_OK ? rc : rate_copy(&p->rate, &o.schedule);
}

// What a spec may say was checked by proto/spec_train.c; a message may say
// anything.
static enum sl_err read_stale(struct plan *p, const Sluice__V1__Staleness *m,
                              struct sl_error *err)
{
    if (p->contributions > 0) // gradients of the present version only
        p->stale = (struct stale_rule){.max_delay = 1, .keeps = true};
    if (m == NULL || p->contributions > 0)
        return SL_OK;
    p->stale = (struct stale_rule){.max_delay = m->max_delay,
                                   .kind = (enum stale_kind)m->rule,
                                   .lambda = m->lambda};
    if ((int)m->rule < 0 || (int)m->rule >= STALE_KINDS)
        return sl_fail(err, SL_EINVAL, "there is no staleness rule %d",
                       (int)m->rule);
    if (p->stale.kind == STALE_DC &&
        (m->max_delay < 1 || m->max_delay > STALE_VERSIONS_MAX))
        return sl_fail(
            err, SL_EINVAL,
            "staleness dc wants a max_delay from 1 to %d, not %" PRIu64,
            STALE_VERSIONS_MAX, m->max_delay);
    if (!isfinite(m->lambda))
        return sl_fail(err, SL_EINVAL, "the lambda of staleness is %g",
                       m->lambda);
    return SL_OK;
}

static const Sluice__V1__Variable *
find_variable(const Sluice__V1__ShardSpec *spec, uint32_t number)
{
    for (size_t i = 0; i < spec->n_variables && i < spec->n_variable_ids; i++)
        if (spec->variable_ids[i] == number)
            return spec->variables[i];
    return NULL;
}

// `first` is where the piece begins in the shard.
static enum sl_err read_piece(struct plan_piece *out,
                              const Sluice__V1__Piece *m,
                              const Sluice__V1__Variable *v, uint64_t first,
                              struct sl_error *err)
{
    uint64_t rows, row_elements;
    enum sl_err rc = layout_rows(v, &rows, &row_elements, err);

    if (rc != SL_OK)
        return rc;
    if (m->rows == 0 || m->first_row > rows || m->rows > rows - m->first_row ||
        m->elements != m->rows * row_elements)
        return sl_fail(err, SL_EINVAL,
                       "variable %s: rows %" PRIu64 ":%" PRIu64 " with %" PRIu64
                       " elements do not fit its shape",
                       v->name, m->first_row, m->rows, m->elements);
    *out = (struct plan_piece){
        .variable = m->variable,
        .rank = (unsigned)v->n_shape,
        .first_row = m->first_row,
        .rows = m->rows,
        .first = first,
        .elements = m->elements,
        .offset = m->first_row * row_elements,
        .of_rows = rows,
        .moving = v->kind == SLUICE__V1__VARIABLE_KIND__VARIABLE_MOVING,
        .momentum = v->momentum,
        .init = v->init,
        .init_a = v->init_a,
        .init_b = v->init_b,
    };
    for (size_t i = 0; i < v->n_shape; i++)
        out->shape[i] = i == 0 ? m->rows : v->shape[i];
    out->keras_rank = (unsigned)v->n_keras_order;
    for (size_t i = 0; i < v->n_keras_order; i++)
        out->keras_order[i] = v->keras_order[i];
    out->name = sl_strdup(v->name);
    return out->name == NULL ? SL_ENOMEM : SL_OK;
}

static enum sl_err read_pieces(struct plan *p,
                               const Sluice__V1__ShardSpec *spec,
                               struct sl_error *err)
{
    const Sluice__V1__Variable *v;
    enum sl_err rc;

    if (spec->n_pieces + spec->n_tables == 0)
        return sl_fail(err, SL_EINVAL, "the shard has no pieces");
    p->pieces = sl_calloc(spec->n_pieces, sizeof(*p->pieces));
    if (p->pieces == NULL)
        return sl_no_memory(err);
    for (size_t i = 0; i < spec->n_pieces; i++) {
        v = find_variable(spec, spec->pieces[i]->variable);
        if (v == NULL || v->n_shape > WIRE_RANK_MAX)
            return sl_fail(err, SL_EINVAL,
                           "piece %zu names variable %u, which is not there", i,
                           spec->pieces[i]->variable);
        rc = read_piece(&p->pieces[i], spec->pieces[i], v, p->elements, err);
        if (rc != SL_OK)
            return rc;
        p->piece_count++;
        if (!p->pieces[i].moving)
            rc = plan_group_piece(
                p, &p->pieces[i],
                spec_optimizer_group(spec->optimizer, v->name), err);
        if (rc != SL_OK)
            return rc;
        p->elements += p->pieces[i].elements;
        if (p->elements > PLAN_MAX_BYTES / sizeof(float))
            return sl_fail(err, SL_EINVAL,
                           "more than %zu bytes, which is more than one "
                           "message holds; place the job with more shards",
                           PLAN_MAX_BYTES);
    }
    return SL_OK;
}

static enum sl_err make_runs(struct plan *p)
{
    const struct plan_piece *piece;
    struct plan_run *last = NULL;

    p->runs = sl_calloc(p->piece_count, sizeof(*p->runs));
    if (p->runs == NULL)
        return SL_ENOMEM;
    for (size_t i = 0; i < p->piece_count; i++) {
        piece = &p->pieces[i];
        if (last != NULL && last->moving == piece->moving &&
            last->group == piece->group &&
            (!piece->moving || last->momentum == piece->momentum)) {
            last->elements += piece->elements;
            continue;
        }
        last = &p->runs[p->run_count++];
        *last = plan_run_of(piece);
    }
    return SL_OK;
}

static enum sl_err read_schedule(struct plan *p,
                                 const Sluice__V1__ShardSpec *spec,
                                 struct sl_error *err)
{
    uint32_t most = p->open > 0 ? p->open : p->contributions;

    if (spec->geometry == NULL)
        return sl_fail(err, SL_EINVAL, "the shard's geometry is missing");
    p->schedule = wire_schedule(spec->geometry);
    if (p->schedule.steps_per_closure > WIRE_CLOSURE_STEPS_MAX)
        return sl_fail(err, SL_EINVAL,
                       "the geometry has %" PRIu64
                       " steps per closure; at most %d are possible",
                       p->schedule.steps_per_closure, WIRE_CLOSURE_STEPS_MAX);
    if (p->schedule.epochs > PLAN_MAX_EPOCHS)
        return sl_fail(err, SL_EINVAL, "%" PRIu64 " epochs; at most %d",
                       p->schedule.epochs, PLAN_MAX_EPOCHS);
    if (p->contributions > 0 && p->open > 0)
        return sl_fail(err, SL_EINVAL, "rounds of two kinds");
    if (p->decided && (p->contributions == 0 || spec->n_pieces > 0))
        return sl_fail(err, SL_EINVAL,
                       "a shard beside a ring has rounds, and rows alone; this "
                       "one has %u contributions and %zu pieces",
                       p->contributions, spec->n_pieces);
    if (most > CONTRIBUTIONS_MOST ||
        (most > 0 && p->schedule.steps_per_closure != 1))
        return sl_fail(err, SL_EINVAL,
                       "%u contributions of closures with %" PRIu64
                       " steps; at most %d, of closures with one",
                       most, p->schedule.steps_per_closure, CONTRIBUTIONS_MOST);
    p->accumulate = spec->accumulate > 0 ? spec->accumulate : 1;
    if (p->schedule.batch % p->accumulate != 0)
        return sl_fail(err, SL_EINVAL,
                       "%" PRIu64 " samples of a step are not %u micro-batches",
                       p->schedule.batch, p->accumulate);
    return schedule_check(&p->schedule, err);
}

uint32_t plan_micro_batches(const struct plan *p, uint64_t samples)
{
    uint64_t n = sl_ceil_div(samples, p->schedule.batch / p->accumulate);

    return n < 1 ? 1 : (uint32_t)sl_min(n, p->accumulate);
}

static enum sl_err read_sources(struct plan *p,
                                const Sluice__V1__ShardSpec *spec,
                                struct sl_error *err)
{
    const Sluice__V1__SourceFile *from;
    struct plan_source *to;

    if (spec->n_sources == 0)
        return SL_OK;
    p->sources = sl_calloc(spec->n_sources, sizeof(*p->sources));
    if (p->sources == NULL)
        return sl_no_memory(err);
    for (size_t i = 0; i < spec->n_sources; i++) {
        from = spec->sources[i];
        to = &p->sources[p->source_count++];
        if (from->sha256.len != SHA256_BYTES)
            return sl_fail(err, SL_EINVAL, "source %s has no SHA-256",
                           from->file);
        memcpy(to->sha256, from->sha256.data, SHA256_BYTES);
        to->weights = from->weights;
        to->most_bytes = from->most_bytes;
        to->table = sl_strdup(from->table);
        to->folder = sl_strdup(from->folder);
        to->file = sl_strdup(from->file);
        if (to->table == NULL || to->folder == NULL || to->file == NULL)
            return sl_no_memory(err);
    }
    return SL_OK;
}

enum sl_err plan_rates(struct rates *out, Sluice__V1__RateStep *const *steps,
                       size_t count, struct sl_error *err)
{
    struct rates rates = {.count = 0};

    for (size_t i = 0; i < count && i < RATES_MAX; i++)
        rates_add(&rates, steps[i]->closure, steps[i]->rate);
    if (!rates_valid(&rates))
        return sl_fail(err, SL_EINVAL, "rates: closures do not rise");
    *out = rates;
    return SL_OK;
}

// Reads how workers are sent what changed, and the form of coded payloads.
static enum sl_err read_coded(struct plan *p, uint32_t down,
                              struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    if (down != WIRE_F32 && (down < WIRE_TYPES || down >= WIRE_TOPK2 ||
                             (p->contributions == 0 && p->open == 0)))
        return sl_fail(err, SL_EINVAL,
                       "down is %u with %u contributions; it is a code of "
                       "changes, of a job with rounds",
                       down, p->contributions + p->open);
    p->down = (enum wire_type)down;
    for (size_t i = 0; rc == SL_OK && i < p->run_count; i++)
        rc = coded_add(&p->coded, p->runs[i].elements, p->runs[i].moving);
    return rc;
}

// Reads which moments of workers are kept. A push brings them all.
static enum sl_err read_moments(struct plan *p,
                                const Sluice__V1__ShardSpec *spec,
                                struct sl_error *err)
{
    if (spec->moments > OPTIM_SLOTS_MAX || spec->moments_wire >= WIRE_TYPES)
        return sl_fail(err, SL_EINVAL,
                       "moments are %u vectors of type %u; at most %d, of f32, "
                       "bf16 or f16",
                       spec->moments, spec->moments_wire, OPTIM_SLOTS_MAX);
    p->moments = spec->moments;
    p->moments_wire = (enum wire_type)spec->moments_wire;
    if (p->moments * plan_wire_bytes(p, p->moments_wire) +
            plan_values_bytes(p) >
        PLAN_MAX_BYTES)
        return sl_fail(err, SL_EINVAL,
                       "a push and its moments have more than %zu bytes, which "
                       "is more than one message holds; place the job with "
                       "more shards, or set train.inner.moments: keep",
                       PLAN_MAX_BYTES);
    return SL_OK;
}

enum sl_err plan_read(struct plan *out, const Sluice__V1__ShardSpec *spec,
                      struct sl_error *err)
{
    struct plan p = {
        .job = spec->job,
        .job_incarnation = spec->job_incarnation,
        .job_uid = spec->job_uid,
        .seed = spec->seed,
        .shard = spec->shard,
        .contributions = spec->contributions,
        .decided = spec->decided,
        .open = spec->open_contributions,
        .directions = spec->directions,
        .aged = spec->aged,
    };
    enum sl_err rc = SL_ENOMEM;

    p.job_name = sl_strdup(spec->job_name);
    if (p.job_name != NULL)
        rc = read_schedule(&p, spec, err);
    if (rc == SL_OK)
        rc = read_optim(&p, spec->optimizer, err);
    if (rc == SL_OK)
        rc = plan_rates(&p.rates, spec->rates, spec->n_rates, err);
    if (rc == SL_OK)
        rc = read_stale(&p, spec->staleness, err);
    if (rc == SL_OK)
        rc = read_pieces(&p, spec, err);
    if (rc == SL_OK)
        rc = make_runs(&p);
    if (rc == SL_OK)
        rc = read_coded(&p, spec->down, err);
    if (rc == SL_OK)
        rc = read_moments(&p, spec, err);
    if (rc == SL_OK && p.directions && p.contributions == 0 && p.open == 0)
        rc = sl_fail(err, SL_EINVAL,
                     "directions of contributions are averaged, but the job "
                     "has no rounds");
    if (rc == SL_OK)
        rc = read_sources(&p, spec, err);
    if (rc == SL_OK)
        rc = plan_read_tables(&p, spec, err);
    if (rc == SL_OK) {
        *out = p;
        return SL_OK;
    }
    plan_release(&p);
    return sl_prefix(err, rc, "job %" PRIu64 " shard %u", spec->job,
                     spec->shard);
}

void plan_release(struct plan *p)
{
    for (size_t i = 0; i < p->piece_count; i++)
        sl_free(p->pieces[i].name);
    for (size_t i = 0; i < p->source_count; i++) {
        sl_free(p->sources[i].table);
        sl_free(p->sources[i].folder);
        sl_free(p->sources[i].file);
    }
    sl_free(p->pieces);
    sl_free(p->groups);
    sl_free(p->runs);
    coded_release(&p->coded);
    sl_free(p->sources);
    plan_release_tables(p);
    sl_free(p->job_name);
    rate_release(&p->rate);
    *p = (struct plan){0};
}

const struct plan_piece *plan_piece_of(const struct plan *p, uint64_t element)
{
    size_t low = 0, high = p->piece_count;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (p->pieces[middle].first <= element)
            low = middle;
        else
            high = middle;
    }
    return &p->pieces[low];
}

// Streams of the generator that no other use of the job's seed may share.
static uint64_t seed_stream(uint32_t variable)
{
    return (UINT64_C(0x77) << 56) | variable;
}

static enum sl_err seed_piece(const struct plan *p,
                              const struct plan_piece *piece, float *out)
{
    const struct initial initial = {piece->init, piece->init_a, piece->init_b};

    if (initial.kind == SLUICE__V1__INIT_KIND__INIT_ORTHOGONAL)
        return initial_orthogonal(out, &initial, p->seed,
                                  seed_stream(piece->variable), piece->offset,
                                  piece->elements);
    initial_fill(out, &initial, p->seed, seed_stream(piece->variable),
                 piece->offset, piece->elements);
    return SL_OK;
}

enum sl_err plan_seed(const struct plan *p, float *values)
{
    enum sl_err rc = SL_OK;

    for (size_t i = 0; rc == SL_OK && i < p->piece_count; i++)
        rc = seed_piece(p, &p->pieces[i], values + p->pieces[i].first);
    return rc;
}
