// SPDX-License-Identifier: Apache-2.0
// client/show/progress.c -- the line that tells how a running job gets on.
#include "client/show/progress.h"

#include <string.h>

#include "client/cli/out.h"
#include "proto/spec.h"
#include "proto/wire.h"

const char *progress_state(Sluice__V1__JobState state)
{
    // As pbjson spells them; a test compares.
    switch (state) {
    case SLUICE__V1__JOB_STATE__JOB_PLACING:
        return "placing";
    case SLUICE__V1__JOB_STATE__JOB_RUNNING:
        return "running";
    case SLUICE__V1__JOB_STATE__JOB_FINISHING:
        return "finishing";
    case SLUICE__V1__JOB_STATE__JOB_FINISHED:
        return "finished";
    case SLUICE__V1__JOB_STATE__JOB_FAILED:
        return "failed";
    case SLUICE__V1__JOB_STATE__JOB_STOPPED:
        return "stopped";
    default:
        return "unknown";
    }
}

const char *progress_word(const Sluice__V1__JobStatus *s)
{
    if (s->unreadable)
        return "unreadable";
    if (!progress_ended(s->state) &&
        (s->paused || (s->pause != NULL && s->pause->holds)))
        return "paused";
    if (s->queued_before > 0)
        return "queued";
    return progress_state(s->state);
}

bool progress_ended(Sluice__V1__JobState state)
{
    return state == SLUICE__V1__JOB_STATE__JOB_FINISHED ||
           state == SLUICE__V1__JOB_STATE__JOB_FAILED ||
           state == SLUICE__V1__JOB_STATE__JOB_STOPPED;
}

bool progress_has_accuracy(const Sluice__V1__JobStatus *s)
{
    return s->spec == NULL || spec_loss_counts(spec_loss(s->spec));
}

// The time that is left, at the rate of now; 0 where that means nothing: at the
// beginning, and where the job as a whole has gone at another rate.
static double time_left(const Sluice__V1__JobStatus *s)
{
    double counted = (double)s->steps_counted - (double)s->resumed_steps;
    double active = s->elapsed_seconds - s->paused_seconds, usual;

    if (s->remaining_seconds <= 0 || counted <= 0 ||
        counted * 50 < (double)s->steps_asked)
        return 0;
    usual = active * (double)(s->steps_asked - s->steps_counted) / counted;
    if (usual <= 0)
        return s->remaining_seconds;
    return s->remaining_seconds < 3 * usual && usual < 3 * s->remaining_seconds
               ? s->remaining_seconds
               : 0;
}

static enum sl_err progress_append_counts(struct buf *out,
                                          const Sluice__V1__JobStatus *s,
                                          bool moves)
{
    char counted[OUT_NUMBER], asked[OUT_NUMBER], left[OUT_NUMBER];
    double seconds = moves && !progress_ended(s->state) ? time_left(s) : 0;
    bool runs = seconds > 0;
    double share = s->steps_asked > 0
                       ? 100 * (double)s->steps_counted / (double)s->steps_asked
                       : 0;

    return buf_appendf(out, "epoch %u/%u  step %s/%s (%d %%%s%s%s)", s->epoch,
                       s->epochs, out_count(counted, s->steps_counted),
                       out_count(asked, s->steps_asked), (int)share,
                       runs ? ", " : "", runs ? out_time(left, seconds) : "",
                       runs ? " left" : "");
}

// Of workers that sum their gradients.
static enum sl_err sums(struct buf *out, const Sluice__V1__JobStatus *s)
{
    char bytes[OUT_NUMBER];
    enum sl_err rc = SL_OK;

    if (s->steps_redone > 0)
        rc = buf_appendf(out, "  redone %llu",
                         (unsigned long long)s->steps_redone);
    if (rc == SL_OK && s->sum_wait_ms > 0)
        rc = buf_appendf(out, "  wait %.1f ms", s->sum_wait_ms);
    if (rc == SL_OK && s->sum_bytes > 0)
        rc = buf_appendf(out, "  %s/sum", out_bytes(bytes, s->sum_bytes));
    return rc;
}

static enum sl_err rates(struct buf *out, const Sluice__V1__JobStatus *s)
{
    char rate[OUT_NUMBER];
    enum sl_err rc = SL_OK;

    if (s->steps_counted > 0)
        rc = buf_appendf(out, "  loss %s", out_mean(rate, WIRE_KNOWN(s, loss)));
    if (rc == SL_OK && s->known_accuracy_case != 0 && progress_has_accuracy(s))
        rc = buf_appendf(out, "  acc %.4f", s->accuracy);
    if (rc == SL_OK)
        rc = buf_appendf(out, "  %s samples/s  %u worker%s",
                         out_count(rate, (uint64_t)s->images_per_second),
                         s->workers, s->workers == 1 ? "" : "s");
    if (rc == SL_OK && s->ring_generation > 0)
        rc = buf_appendf(out, "  generation %llu",
                         (unsigned long long)s->ring_generation);
    else if (rc == SL_OK)
        rc = buf_appendf(out, "  staleness %u", s->staleness_p50);
    if (rc == SL_OK && s->n_groups > 0)
        rc = buf_appendf(out, "  %zu group%s", s->n_groups,
                         s->n_groups == 1 ? "" : "s");
    if (rc == SL_OK)
        rc = sums(out, s);
    return rc;
}

// What it waits for comes first: a terminal has 80 columns, and rates of one
// that does not move are those of before.
enum sl_err progress_line(struct buf *out, const Sluice__V1__JobStatus *s)
{
    bool waits = s->reason != NULL && s->reason[0] != '\0';
    enum sl_err rc = SL_OK;

    // Of a pause the reason begins with the word.
    if (s->state != SLUICE__V1__JOB_STATE__JOB_RUNNING && s->pause == NULL &&
        !s->paused && s->queued_before == 0)
        rc = buf_appendf(out, "%s  ", progress_word(s));
    if (rc == SL_OK && waits)
        rc = buf_appendf(out, "%s  ", s->reason);
    if (rc == SL_OK && s->steps_asked > 0) {
        rc = progress_append_counts(out, s, !waits);
        if (rc == SL_OK && !progress_ended(s->state) && !waits)
            rc = rates(out, s);
    }
    while (rc == SL_OK && out->len > 0 && out->data[out->len - 1] == ' ')
        out->data[--out->len] = '\0';
    return rc;
}

size_t progress_fit(const char *line, size_t columns)
{
    size_t n = strlen(line), fits = 0;

    if (out_width(line, n) <= columns)
        return n;
    for (const char *at = line; (at = strstr(at, "  ")) != NULL; at++) {
        if (out_width(line, (size_t)(at - line)) > columns)
            break;
        fits = (size_t)(at - line);
    }
    if (fits > 0)
        return fits;
    for (n = 0; out_width(line, n + 1) <= columns;) // one field: as it comes
        n++;
    return n;
}

enum sl_err progress_evaluated(struct buf *out, const Sluice__V1__JobStatus *s,
                               const Sluice__V1__Evaluation *e)
{
    bool by_steps =
        s->callbacks != NULL || (s->spec != NULL && s->spec->evaluate != NULL &&
                                 s->spec->evaluate->every_steps > 0);
    char steps[OUT_NUMBER];

    out_count(steps, e->steps);
    if (by_steps && e->steps > 0)
        return buf_appendf(out, "step %s", steps);
    if (e->steps == 0 || s->epochs == 0 ||
        e->steps == s->steps_asked / s->epochs * e->epoch)
        return buf_appendf(out, "epoch %u", e->epoch);
    return buf_appendf(out, "epoch %u at step %s", e->epoch, steps);
}

static enum sl_err tested(struct buf *out, const Sluice__V1__Evaluation *e,
                          bool accuracy)
{
    char samples[OUT_NUMBER], value[OUT_NUMBER];
    enum sl_err rc = buf_append_str(out, "test ");

    if (rc == SL_OK && accuracy)
        rc = buf_appendf(out, "accuracy %s, ",
                         out_mean(value, WIRE_KNOWN(e, accuracy)));
    if (rc == SL_OK)
        rc = buf_appendf(out, "loss %s", out_mean(value, WIRE_KNOWN(e, loss)));
    if (rc == SL_OK)
        rc = progress_metrics(out, e);
    if (rc == SL_OK)
        rc = buf_appendf(out, " (%s samples)", out_count(samples, e->samples));
    return rc;
}

enum sl_err progress_metrics(struct buf *out, const Sluice__V1__Evaluation *e)
{
    char value[OUT_NUMBER];
    enum sl_err rc = SL_OK;

    for (size_t i = 0; rc == SL_OK && i < e->n_metrics; i++)
        if (strcmp(e->metrics[i]->name, "accuracy") != 0)
            rc = buf_appendf(out, ", %s %s", e->metrics[i]->name,
                             out_mean(value, WIRE_KNOWN(e->metrics[i], value)));
    return rc;
}

enum sl_err progress_evaluation(struct buf *out, const Sluice__V1__JobStatus *s,
                                const Sluice__V1__Evaluation *e)
{
    char value[OUT_NUMBER];
    enum sl_err rc = progress_evaluated(out, s, e);

    if (rc == SL_OK)
        rc = buf_append_str(out, ": ");
    if (rc == SL_OK && e->failed)
        return buf_append_str(out, "the evaluation failed");
    if (rc == SL_OK && e->samples > 0)
        rc = tested(out, e, progress_has_accuracy(s));
    if (rc == SL_OK && (e->train_samples > 0 || e->samples == 0))
        rc = buf_appendf(out, "%strained loss %s", e->samples > 0 ? "; " : "",
                         out_mean(value, WIRE_KNOWN(e, train_loss)));
    return rc;
}

enum sl_err progress_rate(struct buf *out, const Sluice__V1__JobStatus *s,
                          size_t rate)
{
    return buf_appendf(out, "learning rate %g from closure %llu on",
                       s->callbacks->rates[rate]->rate,
                       (unsigned long long)s->callbacks->rates[rate]->closure);
}
