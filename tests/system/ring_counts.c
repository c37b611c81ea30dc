// SPDX-License-Identifier: Apache-2.0
// tests/system/ring_counts.c -- a rank whose gradients are whole numbers.
//
//     ring_counts ADDRESS NAME STORE [MS]
//
// With MS each step takes that many milliseconds, in which it does nothing.
// Of a job with two variables of one element each: the gradient of a step is
// how many samples it has and the sum of their numbers. So what is there at the
// end says what was counted, to the last bit. It prints, on one line each, who
// computed: "rank 0 of 2, 17 rounds".
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "lib/sluice.h"

static enum sl_err run(struct sluice_closure *c, long ms, struct sl_error *err)
{
    const struct timespec pause = {.tv_nsec = ms * 1000000};
    const struct sluice_info *info = sluice_closure_info(c);
    struct sluice_result result = {.loss_sum = 1};
    float *g = sluice_grads(c);
    struct sluice_step step;
    enum sl_err rc;

    for (;;) {
        rc = sluice_begin(c, &step, err);
        if (rc != SL_OK || step.none)
            break;
        printf("rank %u of %u, %llu rounds\n", info->rank, info->ranks,
               (unsigned long long)info->rounds);
        fflush(stdout);
        if (ms > 0)
            nanosleep(&pause, NULL);
        g[0] = (float)step.count;
        g[1] = 0;
        for (uint64_t p = step.first; p < step.first + step.count; p++)
            g[1] += (float)sluice_sample(c, p);
        rc = sluice_ready(c, 1, 1, err);
        if (rc == SL_OK)
            rc = sluice_end(c, &result, err);
        if (rc != SL_OK)
            break;
    }
    sluice_finish(c, NULL);
    return rc == SL_ECANCELED ? SL_OK : rc;
}

int main(int argc, char **argv)
{
    struct sluice_options options = {.size = sizeof(options),
                                     .coordinator = argc >= 4 ? argv[1] : "",
                                     .name = argc >= 4 ? argv[2] : "",
                                     .store = argc >= 4 ? argv[3] : NULL};
    long ms = argc > 4 ? strtol(argv[4], NULL, 10) : 0;
    struct sl_error err = SL_ERROR_INIT;
    struct sluice_closure *c;
    struct sluice *s = NULL;
    enum sl_err rc = sluice_open(&s, &options, &err);

    while (rc == SL_OK) {
        rc = sluice_take(s, -1, &c, &err);
        if (rc == SL_OK)
            rc = run(c, ms, &err);
    }
    sluice_close(s);
    fprintf(stderr, "ring_counts: %s\n", err.text);
    return rc == SL_ENOENT ? 0 : 1; // the job has ended
}
