// SPDX-License-Identifier: Apache-2.0
// common/run/prompt.h -- a thread that runs soon after it is woken.
//
// If all cores of a machine compute, a thread that is woken waits until the
// one that computes has had its slice, some milliseconds, although it wants
// microseconds. Since 6.12 Linux lets a thread ask for slices of its own: one
// with shorter slices than the thread that runs comes before that, at once, as
// long as it has not had more than its share. Shares stay what they are, and no
// privilege is needed.
//
// Threads  any, each for itself. Threads that it starts inherit the slices.
// Units    nanoseconds.
// Errors   none: an older kernel, or one that forbids it, wakes it as before.
#ifndef COMMON_RUN_PROMPT_H
#define COMMON_RUN_PROMPT_H

#define PROMPT_SLICE_NS 100000 // the shortest that Linux knows

// Asks for slices of PROMPT_SLICE_NS for the calling thread, to its end. A
// thread whose policy is not the usual one (SCHED_OTHER) keeps what it has.
void prompt_begin(void);

#endif
