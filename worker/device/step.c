// SPDX-License-Identifier: Apache-2.0
// worker/device/step.c -- in host memory, or by device.h, and with the mates of
// a team; see step.h.
#include "worker/device/step.h"

#include "trainer/base/grad.h"

// Gives back a batch that was lent to be staged and that no step began with.
static void step_return_lent(struct step *s)
{
    struct batch batch;
    struct input *lender =
        s->team == NULL ? NULL : team_lender(s->team, &batch);

    if (lender != NULL)
        step_put(s, lender, &batch);
}

static enum sl_err begin_mates(struct step *s, struct team_program *mates,
                               const struct batch *batch, struct sl_error *err)
{
    const struct team_step t = {.front = s->program,
                                .batch = batch,
                                .params = s->params,
                                .pulse = s->pulse,
                                .held = s->held};

    return s->team == NULL ? SL_OK : team_begin(s->team, mates, &t, err);
}

static enum device_way step_device_way(const struct step *s)
{
    if (s->held)
        return DEVICE_HOLDS;
    if (s->team != NULL)
        return team_sums(s->team) ? DEVICE_SUMS : DEVICE_GIVES;
    return s->kept ? DEVICE_KEEPS : DEVICE_GIVES;
}

struct program *step_member(const struct step_program *p, unsigned k)
{
    if (k == 0)
        return p->program;
    return p->mates == NULL ? NULL : team_member(p->mates, k - 1);
}

enum sl_err step_begin(struct step *s, const struct step_program *p,
                       const struct batch *batch, struct sl_error *err)
{
    enum sl_err rc;

    s->program = p->program;
    if (s->team != NULL && !team_took(s->team, batch))
        step_return_lent(s);
    rc = begin_mates(s, p->mates, batch, err);
    if (rc != SL_OK)
        return rc;
    if (s->device != NULL)
        return device_begin(s->device, p->placed, batch, step_device_way(s),
                            err);
    s->io = (struct program_io){.params = s->params,
                                .grads = s->grads,
                                .x = batch->x,
                                .labels = batch->y,
                                .pulse = s->pulse};
    return SL_OK;
}

enum sl_err step_fresh(struct step *s, uint32_t range, struct sl_error *err)
{
    if (s->team != NULL)
        team_fresh(s->team, range);
    if (s->device == NULL)
        return SL_OK;
    return s->resident != NULL ? resident_come_back(s->resident, err)
                               : device_fresh(s->device, s->params, range, err);
}

enum sl_err step_vector(struct step *s, uint64_t name, struct sl_error *err)
{
    if (s->team != NULL)
        team_vector(s->team, name);
    return s->device == NULL ? SL_OK
                             : device_vector(s->device, s->params, name, err);
}

void step_read_from(struct step *s, float *params)
{
    s->params = params;
    s->io.params = params;
}

enum sl_err step_run(struct step *s, uint32_t first, uint32_t end,
                     struct sl_error *err)
{
    enum sl_err rc;

    if (s->team != NULL) // the mates compute while the first member does
        team_run(s->team, end == s->program->count);
    if (s->device == NULL)
        return program_run(s->program, &s->io, first, end, err);
    rc = device_run(s->device, s->grads, first, end, s->pulse, err);
    if (rc == SL_OK && s->team != NULL && end == s->program->count &&
        team_sums(s->team))
        rc = team_sum(s->team, s->grads, err);
    return rc;
}

// Returns true if the sum must be whole before it is clipped: its norms are
// those of all parts.
static bool keeps_sum(const struct step *s)
{
    return s->team != NULL && s->kept && !s->held;
}

enum sl_err step_stats(struct step *s, struct sl_error *err)
{
    enum sl_err rc =
        s->device == NULL ? SL_OK : device_take_stats(s->device, err);

    if (rc == SL_OK && s->team != NULL)
        rc = team_stats(s->team, s->program, err);
    for (uint32_t i = 0; keeps_sum(s) && i < team_ranges(s->team); i++) {
        if (rc == SL_OK)
            rc = step_take(s, i, err);
    }
    return rc;
}

const struct program *step_part(const struct step *s, unsigned k)
{
    if (k == 0)
        return s->program;
    return s->team == NULL ? NULL : team_outputs(s->team, k - 1);
}

static enum sl_err take_own(struct step *s, uint32_t range,
                            struct sl_error *err)
{
    return s->device == NULL ? SL_OK : device_take(s->device, range, err);
}

enum sl_err step_take(struct step *s, uint32_t range, struct sl_error *err)
{
    enum sl_err rc = take_own(s, range, err);

    if (rc == SL_OK && s->team != NULL)
        rc = team_take(s->team, s->grads, range, err);
    if (s->device != NULL || s->team != NULL)
        pulse_beat(s->pulse);
    return rc;
}

enum sl_err step_take_rows(struct step *s, struct sl_error *err)
{
    enum sl_err rc =
        s->device == NULL ? SL_OK : device_take_rows(s->device, err);

    return rc == SL_OK && s->team != NULL ? team_take_rows(s->team, err) : rc;
}

bool step_finite(const struct step *s, uint32_t range, const struct elements *r)
{
    if (s->team != NULL)
        return team_finite(s->team, s->grads, range);
    return s->device != NULL
               ? device_finite(s->device, range)
               : grad_finite(s->grads + r->first, (size_t)r->count);
}

enum sl_err step_clip(struct step *s, const struct model *model,
                      double clipnorm, double global_clipnorm,
                      struct sl_error *err)
{
    if (s->device != NULL && s->team == NULL)
        return device_clip(s->device, s->grads, clipnorm, global_clipnorm, err);
    grad_clipnorm(s->grads, model, clipnorm);
    grad_global_clipnorm(s->grads, model, global_clipnorm);
    return SL_OK;
}

// Ends a step. If the device is lost, no op is under way any more.
void step_stop(struct step *s)
{
    enum sl_err rc = s->device == NULL ? SL_OK : device_settle(s->device, NULL);

    if (s->team != NULL && rc == SL_ELOST)
        team_break(s->team);
    if (s->team != NULL)
        team_stop(s->team);
    step_return_lent(s);
    if (s->team != NULL)
        team_unstage(s->team);
    if (s->device != NULL)
        device_unstage(s->device);
}

enum sl_err step_stage(struct step *s, const struct input_run *run,
                       struct input *in, const struct batch *batch,
                       struct sl_error *err)
{
    enum sl_err rc;

    if (s->device == NULL)
        return SL_OK;
    if (s->team == NULL)
        return device_stage(s->device, run, in, batch, batch->n, err);
    step_return_lent(s);
    rc = team_stage(s->team, run, in, batch, err);
    if (rc == SL_OK)
        rc = device_stage(s->device, run, NULL, batch,
                          team_own(s->team, batch->n), err);
    if (rc != SL_OK) // the caller gives it back, and nobody a second time
        (void)team_took(s->team, batch);
    return rc;
}

bool step_staged(struct step *s, const struct input_run *run, uint32_t step,
                 struct batch *out)
{
    return s->device != NULL && device_staged(s->device, run, step, out);
}

enum sl_err step_get(struct step *s, struct input *in, struct input_run *run,
                     uint32_t step, struct batch *out, struct sl_error *err)
{
    if (step_staged(s, run, step, out))
        return SL_OK;
    return input_get(in, run, step, out, err);
}

// Puts a batch back when no device reads it; a device that is lost reads no
// more.
void step_put(struct step *s, struct input *in, const struct batch *batch)
{
    if (batch->x == NULL)
        return;
    if (s->team != NULL)
        team_free_batch(s->team, batch);
    if (s->device != NULL)
        (void)device_free_batch(s->device, batch);
    input_put(in, batch);
}

enum sl_err step_look_ahead(struct step *s, struct input *in,
                            struct input_run *run, uint32_t step,
                            struct sl_error *err)
{
    struct batch batch;
    enum sl_err rc;

    if (s->device == NULL || (s->team != NULL && !team_is_whole(s->team)) ||
        step >= input_run_steps(run) || step_staged(s, run, step, &batch) ||
        !input_ready(in, run, step))
        return SL_OK;
    if (input_get(in, run, step, &batch, NULL) != SL_OK)
        return SL_OK; // the step meets the error again in its turn
    // The ids of a batch that is given back are gone.
    rc = batch.ids != NULL && !batch.pinned
             ? SL_OK
             : step_stage(s, run, in, &batch, err);
    if (rc != SL_OK || !batch.pinned)
        step_put(s, in, &batch);
    return rc;
}
