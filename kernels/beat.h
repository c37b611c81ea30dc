// SPDX-License-Identifier: Apache-2.0
// kernels/beat.h -- signs of life of long calls.
//
// Making a plan may compile code and time candidates: seconds for one op. A
// caller that waits may want to know that it gets on.
//
// Threads  Each has its own listener; beats are heard on the thread that they
//          are made on.
// Memory   `arg` is borrowed until the next kern_beat_to of the thread.
// Errors   none.
#ifndef KERNELS_BEAT_H
#define KERNELS_BEAT_H

// Sets this thread's listener in place of the last one: every beat calls
// beat(arg), within the call that beats. NULL: no listener.
void kern_beat_to(void (*beat)(void *arg), void *arg);

// Calls this thread's listener, if it has one.
void kern_beat(void);

#endif
