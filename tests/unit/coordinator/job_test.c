// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/job.h"

#include "common/base/mem.h"
#include "common/base/moves.h"
#include "coordinator/core/modes/modes.h"
#include "tests/harness/t.h"

static struct job *a_job(void)
{
    Sluice__V1__JobSpec *spec = wire_new(&sluice__v1__job_spec__descriptor);
    Sluice__V1__TrainSpec *train =
        wire_new(&sluice__v1__train_spec__descriptor);

    T_TRUE(spec != NULL && train != NULL);
    spec->train = train;
    return job_new(1, 1, 1, "j", NULL, spec, &mode_async);
}

// The picture of job.c, as rows of "from: to ...".
TEST(job, states_follow_each_other_as_drawn)
{
    static const char *const drawn[JOB_STATES] = {
        [JOB_PLACING] = "running failed stopped ",
        [JOB_RUNNING] = "finishing failed stopped ",
        [JOB_FINISHING] = "running finished failed stopped ",
        [JOB_FINISHED] = "",
        [JOB_FAILED] = "",
        [JOB_STOPPED] = "",
    };

    for (unsigned from = JOB_PLACING; from < JOB_STATES; from++) {
        struct buf may = BUF_INIT;

        for (unsigned to = JOB_PLACING; to < JOB_STATES; to++) {
            struct job *job;

            if (!moves_have(job_moves, from, to))
                continue;
            job = a_job();
            job->state = (enum job_state)from;
            job_enter(job, (enum job_state)to);
            T_EQ(job->state, to);
            T_OK(buf_appendf(&may, "%s ", job_state_name(job->state)));
            job_free(job);
        }
        T_STR(buf_text(&may), drawn[from]);
        T_EQ(may.len == 0, from >= JOB_FINISHED);
        buf_release(&may);
    }
}
