// SPDX-License-Identifier: Apache-2.0
// common/run/prompt.c -- a short slice for the calling thread.
#include "common/run/prompt.h"

#include <sched.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

// As the kernel has it in its first version; glibc of Debian 12 has neither
// this nor the calls.
struct attr {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

// On cores that all compute, an I/O thread with microseconds of work waited
// milliseconds for the computing thread's slice to end. Linux 6.12 and later
// runs a thread of shorter slices first, within its fair share.
void prompt_begin(void)
{
    struct attr a = {.size = sizeof(a)};

    // A thread that an operator has given another policy keeps it.
    if (syscall(SYS_sched_getattr, 0, &a, sizeof(a), 0) != 0 ||
        a.policy != SCHED_OTHER)
        return;
    a.runtime = PROMPT_SLICE_NS;
    (void)syscall(SYS_sched_setattr, 0, &a, 0);
}
