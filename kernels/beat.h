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

// Sets the calling thread's listener in place of its last one: from now on each
// kern_beat on this thread calls beat(arg) before it returns. `beat` NULL: no
// listener.
void kern_beat_to(void (*beat)(void *arg), void *arg);

// Calls the calling thread's listener; does nothing if it has none.
void kern_beat(void);

#endif
