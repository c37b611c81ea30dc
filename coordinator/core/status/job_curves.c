// SPDX-License-Identifier: Apache-2.0
// coordinator/core/status/job_curves.c -- points of curves, from the numbers of
// a status.
#include "coordinator/core/status/job_curves.h"

#include "coordinator/core/job.h"
#include "coordinator/core/status/job_status.h"
#include "coordinator/feed/feed.h"

#define EVERY_MS 1000

static void curves_append_point(struct coord *c, struct job *job, bool final)
{
    Sluice__V1__JobStatus m = SLUICE__V1__JOB_STATUS__INIT;
    struct curve_point point = {.workers = (uint32_t)job->leases.holders.len};

    m.epochs = job->spec->train->epochs;
    status_progress(c, &m, job);
    point.steps = m.steps_counted;
    point.epoch = m.epoch;
    point.loss = WIRE_KNOWN(&m, loss);
    point.accuracy = WIRE_KNOWN(&m, accuracy);
    point.samples = meter_loss(&job->reports.meter, m.epoch - 1).samples;
    point.rate = m.images_per_second;
    point.staleness_p50 = m.staleness_p50;
    wire_free((ProtobufCMessage *)m.audit); // all else lies in m
    feed_point(c->options.feed, job->uid, &point, final);
    job->sampled_ms = coord_now(c);
}

void curves_sample(struct coord *c, struct job *job)
{
    if (c->options.feed != NULL && job->shards.placed &&
        job->state != JOB_PLACING && coord_now(c) - job->sampled_ms >= EVERY_MS)
        curves_append_point(c, job, false);
}

void curves_end(struct coord *c, struct job *job)
{
    if (c->options.feed != NULL && job->shards.placed &&
        job->state != JOB_PLACING)
        curves_append_point(c, job, true);
}
