// SPDX-License-Identifier: Apache-2.0
// coordinator/core/status/status_pause.c -- the client that paused a job, and
// its reason.
#include "coordinator/core/status/status_pause.h"
#include "coordinator/core/job.h"

#include <stdio.h>

#include "common/base/mem.h"
#include "coordinator/core/cuts/cuts.h"

bool status_pause_reason(const struct job *job, char *out, size_t size)
{
    const struct journal_pause *row = &job->pause.row;
    char cut[200];

    if (row->state == JOURNAL_PAUSE_NONE)
        return false;
    cuts_trouble(job, cut, sizeof(cut));
    if (row->state == JOURNAL_PAUSE_WANTED)
        snprintf(out, size,
                 "is being paused by %.100s: a checkpoint is made first%s%s",
                 row->who, cut[0] == '\0' ? "" : "; ", cut);
    else
        snprintf(out, size,
                 "paused by %.100s%s%.200s%s%.200s; `sluice resume %s` sets it "
                 "going again",
                 row->who, row->why[0] == '\0' ? "" : ": ", row->why,
                 row->note[0] == '\0' ? "" : "; ", row->note, job->id_text);
    return true;
}

bool status_pause(const struct coord *c, const struct job *job,
                  Sluice__V1__JobStatus *to)
{
    const struct journal_pause *row = &job->pause.row;
    Sluice__V1__JobPause view = SLUICE__V1__JOB_PAUSE__INIT;
    ProtobufCMessage *copy = NULL;

    to->paused_seconds = (double)job_paused_ms(job, coord_now(c)) / 1000.0;
    if (row->state == JOURNAL_PAUSE_NONE || job_ended(job))
        return true;
    // A field and no job state: a client refuses a status with a state that it
    // does not know, and with it a whole list of jobs.
    view.holds = row->state == JOURNAL_PAUSE_HOLDS;
    view.who = (char *)row->who;
    view.why = (char *)row->why;
    view.note = (char *)row->note;
    view.since_unix = (double)row->since_us / 1e6;
    if (wire_dup(&copy, &view.base) != SL_OK)
        return false;
    to->pause = (Sluice__V1__JobPause *)copy;
    return true;
}
