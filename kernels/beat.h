// SPDX-License-Identifier: Apache-2.0
// kernels/beat.h -- signs of life of what takes long.
//
// Making a plan may compile code and time candidates: seconds for one op. Who
// waits for it may want to know that it gets on.
//
// Threads  Each has its own listener; beats are heard on the thread that they
//          are made on.
#ifndef KERNELS_BEAT_H
#define KERNELS_BEAT_H

// From now on every beat of this thread calls beat(arg); NULL: nobody listens.
void kern_beat_to(void (*beat)(void *arg), void *arg);

void kern_beat(void);

#endif
