// SPDX-License-Identifier: Apache-2.0
// state/shard/apply.c -- the update of parameters from a gradient's bytes,
// run by run, through the kernels.
#include "state/shard/apply.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "common/base/copy.h"
#include "common/base/fault.h"
#include "common/base/num.h"
#include "state/base/element.h"
#include "state/base/finite.h"

// Elements that are looked at, or updated, at once: they stay in the cache
// between the copy of a frozen block and the update.
#define CHUNK 16384

// Elements that are widened, or compensated, at once: they stay in the first
// cache. On the stack.
#define WIDE_CHUNK 4096

// Elements of a mean that are made while what they update is fetched.
#define AHEAD 256
#define LINE_ELEMENTS (64 / sizeof(float))

// Bytes that are looked at from their front; these parts, from the back.
#define BACK_BYTES ((size_t)128 << 10)

static enum sl_err name_element(const struct plan *plan, enum wire_type type,
                                const uint8_t *bytes, uint64_t first, size_t n,
                                struct sl_error *err)
{
    size_t i = finite_find(type, bytes, n);
    const struct plan_piece *piece;
    float value;

    piece = plan_piece_of(plan, first + i);
    element_read(type, 1, &value, bytes + i * wire_type_bytes(type));
    return sl_fail(err, SL_ENUMERIC,
                   "payload: element %" PRIu64 " of %s is %g; nothing was "
                   "applied (push it with `skip` to count the step)",
                   first + i - piece->first + piece->offset, piece->name,
                   (double)value);
}

// Names the first that is not finite.
static enum sl_err apply_refuse_nonfinite(const struct plan *plan,
                                          enum wire_type type,
                                          const struct sl_slices *payload,
                                          struct sl_error *err)
{
    struct slices_runs it;
    uint64_t first = 0;
    const void *run;
    size_t n;

    (void)slices_runs_init(&it, payload, wire_type_bytes(type));
    while ((run = slices_runs_next(&it, CHUNK, &n)) != NULL &&
           finite_all(type, run, n))
        first += n;
    return name_element(plan, type, run, first, n, err);
}

static bool apply_is_finite(enum wire_type type, const struct sl_slices *part)
{
    struct slices_runs it;
    bool finite = true;
    const void *run;
    size_t n;

    (void)slices_runs_init(&it, part, wire_type_bytes(type));
    while (finite && (run = slices_runs_next(&it, CHUNK, &n)) != NULL)
        finite = finite_all(type, run, n);
    return finite;
}

// Backwards: what came last is in the cache now, and what is looked at last
// will be when the update begins there.
enum sl_err apply_check(const struct plan *plan, enum wire_type type,
                        const struct sl_slices *payload, struct sl_error *err)
{
    size_t left = payload->bytes, n;
    struct sl_slices part;

    if (payload->bytes != plan_wire_bytes(plan, type))
        return sl_fail(err, SL_EINVAL,
                       "payload: %zu bytes, but shard %u of the job has %zu "
                       "in %s",
                       payload->bytes, plan->shard, plan_wire_bytes(plan, type),
                       wire_type_names[type]);
    for (; left > 0; left -= n) {
        n = left % BACK_BYTES != 0 ? left % BACK_BYTES : BACK_BYTES;
        (void)slices_sub(&part, payload, left - n, n);
        if (!apply_is_finite(type, &part))
            return apply_refuse_nonfinite(plan, type, payload, err);
    }
    return SL_OK;
}

// Returns the constants of `moves` moves at once: each micro-batch of a step
// moves the statistics where one process trains alone. One move has momentum
// and 1 - momentum, to the bit.
static struct optim_consts moving_consts(double momentum, uint32_t moves)
{
    double kept = moves == 1 ? momentum : pow(momentum, moves);

    return (struct optim_consts){
        .clip = INFINITY, .a = (float)kept, .b = (float)(1.0 - kept)};
}

static void move_statistic(double momentum, uint32_t moves, size_t n,
                           const uint8_t *pushed, float *w)
{
    const struct optim_consts k = moving_consts(momentum, moves);
    float keep = k.a, take = k.b, x;

    for (size_t i = 0; i < n; i++) {
        memcpy(&x, pushed + 4 * i, 4);
        w[i] = keep * w[i] + take * x;
    }
}

static void group_consts(struct optim_consts *out,
                         const struct plan_group *group, uint64_t t,
                         double rate)
{
    optim_consts(out, &group->optim, t, rate * group->scale);
}

void apply_consts(struct optim_consts *out, const struct plan *plan,
                  const struct plan_run *run, const struct apply_step *step)
{
    if (run->moving)
        *out = moving_consts(run->momentum, step->moves);
    else
        group_consts(out, &plan->groups[run->group], step->t, step->rate);
}

static void apply_freeze_touch(const struct plan *plan,
                               const struct apply_memory *to, uint64_t first,
                               size_t n)
{
    unsigned slots = optim_slots(&plan->optim);

    for (unsigned k = 0; k <= slots; k++)
        freeze_touch(to->freeze, (k * plan->elements + first) * sizeof(float),
                     n * sizeof(float));
}

// What is updated alike: a run, or, where pieces differ in what they were
// passed over by, a piece.
struct apply_part {
    struct plan_run run;
    uint64_t t;
    bool absent;
    uint64_t rows; // of a variable that is updated as a whole; else 0
};

static bool by_piece(const struct plan *plan, const struct apply_step *step)
{
    return step->absent_bytes > 0 || step->passed != NULL ||
           optim_is_whole(&plan->optim);
}

static size_t apply_part_count(const struct plan *plan,
                               const struct apply_step *step)
{
    return by_piece(plan, step) ? plan->piece_count : plan->run_count;
}

static uint64_t whole_rows(const struct plan *plan,
                           const struct plan_piece *piece)
{
    return !piece->moving && optim_is_whole(&plan->groups[piece->group].optim)
               ? piece->rows
               : 0;
}

static struct apply_part part_at(const struct plan *plan,
                                 const struct apply_step *step, size_t i)
{
    if (!by_piece(plan, step))
        return (struct apply_part){.run = plan->runs[i], .t = step->t};
    return (struct apply_part){
        .run = plan_run_of(&plan->pieces[i]),
        .t = step->t - (step->passed == NULL ? 0 : step->passed[i]),
        .absent = wire_absent(step->absent, step->absent_bytes, i),
        .rows = whole_rows(plan, &plan->pieces[i])};
}

size_t apply_space(const struct plan *plan)
{
    size_t most = 0, is;

    for (size_t i = 0; i < plan->piece_count; i++) {
        const struct plan_piece *piece = &plan->pieces[i];

        if (whole_rows(plan, piece) == 0)
            continue;
        is = piece->elements +
             optim_whole_space(&plan->groups[piece->group].optim, piece->rows,
                               piece->elements / piece->rows);
        most = is > most ? is : most;
    }
    return most;
}

// The rule is the job's, also of a group with another momentum: it keeps the
// job's slots. But where that rule is one of whole variables, what is updated
// element by element has its group's, a twin (plan.h).
static void apply_optim(const struct plan *plan, const struct apply_memory *to,
                        const struct apply_part *part, double rate, size_t n,
                        const void *pushed, float *w, float *const *slots)
{
    const struct plan_group *group = &plan->groups[part->run.group];
    struct optim_consts consts;

    group_consts(&consts, group, part->t, rate);
    if (part->rows > 0)
        optim_whole(&group->optim, &consts, part->rows, n / part->rows,
                    to->space, w, slots, to->space + n);
    else
        optim_update(optim_is_whole(&plan->optim) ? &group->optim
                                                  : &plan->optim,
                     &consts, n, pushed, w, slots);
}

// `space`: for n elements; `pushed` may lie there. Both are to->space, and all
// of a variable, if it is updated as a whole.
static void apply_update_part(const struct plan *plan,
                              const struct apply_memory *to,
                              const struct apply_step *step,
                              const struct apply_part *part, uint64_t first,
                              size_t n, const void *pushed, float *space)
{
    float *slots[OPTIM_SLOTS_MAX], *w = to->values + first;
    const struct plan_run *run = &part->run;

    if (step->keep != NULL)
        sl_copy_away(step->keep + first, w, n * sizeof(float));
    if (part->absent)
        return;
    if (to->freeze != NULL)
        apply_freeze_touch(plan, to, first, n);
    if (run->moving) {
        move_statistic(run->momentum, step->moves, n, pushed, w);
        return;
    }
    if (step->read != NULL) {
        stale_compensate(step->lambda, n, pushed, w, step->read + first, space);
        pushed = space;
    }
    for (unsigned k = 0; k < optim_slots(&plan->optim); k++)
        slots[k] = to->slots[k] + first;
    apply_optim(plan, to, part, step->rate, n, pushed, w, slots);
}

// A run of the payload as f32: as it came, or widened into `space`.
static const void *as_f32(enum wire_type type, const void *run, size_t n,
                          float *space)
{
    if (type == WIRE_F32)
        return run;
    element_read(type, n, space, run);
    return space;
}

void apply_step_init(struct apply_step *out, const struct plan *plan,
                     struct stale_versions *versions, const struct apply_of *of)
{
    uint64_t delay = stale_delay(of->version, of->based_on);
    double rate =
        rates_at(of->rates, of->closure, rate_at(&plan->rate, of->version));

    *out = (struct apply_step){
        .t = of->version + 1,
        .rate = stale_scale(&plan->stale, delay) * rate,
        .lambda = plan->stale.lambda,
        .read = delay > 0 ? stale_find(versions, of->based_on) : NULL,
        .moves = plan_micro_batches(plan, of->samples),
    };
    // After the look for the version that was read: below the limit they have
    // different places.
    out->keep = stale_keep(versions, of->version);
}

void apply_front(const struct plan *plan, const struct apply_memory *to,
                 const float *gradient, uint64_t elements,
                 const struct apply_step *step)
{
    uint64_t n;

    for (uint64_t at = 0, i = 0; at < elements; at += n, i++) {
        const struct apply_part part = part_at(plan, step, i);

        n = sl_min(part.run.elements, elements - at);
        apply_update_part(plan, to, step, &part, at, (size_t)n, gradient + at,
                          NULL);
    }
    sl_copy_settle();
}

// Reads n elements of the payload, however they are cut, into `space`.
static const float *apply_gather(struct slices_runs *it, enum wire_type type,
                                 size_t n, float *space)
{
    const void *run;
    size_t some;

    for (size_t at = 0; at < n; at += some) {
        run = slices_runs_next(it, n - at, &some);
        assert(run != NULL);
        element_read(type, some, space + at, run);
    }
    return space;
}

void apply_update(const struct plan *plan, const struct apply_memory *to,
                  enum wire_type type, const struct sl_slices *payload,
                  const struct apply_step *step, void *fresh)
{
    bool straight = type == WIRE_F32 && step->read == NULL;
    size_t chunk = straight ? CHUNK : WIDE_CHUNK;
    float here[WIDE_CHUNK], *space;
    struct slices_runs it;
    const void *pushed = NULL;
    uint64_t first;
    size_t n, max;

    if (slices_runs_init(&it, payload, wire_type_bytes(type)) != SL_OK)
        assert(!"apply_check has passed it");
    for (size_t i = 0; i < apply_part_count(plan, step); i++) {
        const struct apply_part part = part_at(plan, step, i);
        bool whole = part.rows > 0 && !part.absent;

        space = whole ? to->space : here;
        for (uint64_t at = 0; at < part.run.elements; at += n) {
            first = part.run.first + at;
            max = n = whole ? part.run.elements
                            : sl_min(part.run.elements - at, chunk);
            if (whole)
                pushed = apply_gather(&it, type, n, space);
            else if (payload->bytes > 0)
                pushed = slices_runs_next(&it, max, &n);
            assert(pushed != NULL || part.absent);
            if (!whole && !part.absent)
                pushed = as_f32(type, pushed, n, space);
            apply_update_part(plan, to, step, &part, first, n,
                              part.absent ? NULL : pushed, space);
            FAULT("apply.half");
            if (fresh != NULL)
                element_write(type, n,
                              (uint8_t *)fresh + first * wire_type_bytes(type),
                              to->values + first);
        }
    }
    sl_copy_settle();
}

// Begins to fetch what an update of these elements reads.
static void apply_fetch(const struct plan *plan, const struct apply_memory *to,
                        uint64_t first, size_t n)
{
    unsigned slots = optim_slots(&plan->optim);

    for (size_t i = 0; i < n; i += LINE_ELEMENTS) {
        __builtin_prefetch(to->values + first + i, 1);
        for (unsigned k = 0; k < slots; k++)
            __builtin_prefetch(to->slots[k] + first + i, 1);
    }
}

// Takes n elements of the mean. To make them is computing, and to update with
// them is waiting for memory: one by one they would take the sum of both.
static void apply_take_mean(const struct plan *plan,
                            const struct apply_memory *to, struct mean *mean,
                            uint64_t first, size_t n, float *pushed)
{
    size_t some;

    for (size_t at = 0; at < n; at += some) {
        some = (size_t)sl_min(n - at, AHEAD);
        apply_fetch(plan, to, first + at, some);
        mean_take(mean, some, pushed + at);
    }
}

void apply_mean(const struct plan *plan, const struct apply_memory *to,
                struct mean *mean, const struct apply_step *step)
{
    float here[WIDE_CHUNK], *pushed;
    size_t n;

    mean_begin(mean);
    for (size_t i = 0; i < apply_part_count(plan, step); i++) {
        const struct apply_part part = part_at(plan, step, i);
        bool whole = part.rows > 0;

        pushed = whole ? to->space : here;
        for (uint64_t at = 0; at < part.run.elements; at += n) {
            n = whole ? part.run.elements
                      : (size_t)sl_min(part.run.elements - at, WIDE_CHUNK);
            apply_take_mean(plan, to, mean, part.run.first + at, n, pushed);
            apply_update_part(plan, to, step, &part, part.run.first + at, n,
                              pushed, pushed);
            FAULT("apply.half");
        }
    }
    sl_copy_settle();
}
