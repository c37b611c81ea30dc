// SPDX-License-Identifier: Apache-2.0
// kernels/beat.c -- the listener of each thread.
#include "kernels/beat.h"

#include <stddef.h>

static _Thread_local struct {
    void (*beat)(void *arg);
    void *arg;
} listener;

void kern_beat_to(void (*beat)(void *arg), void *arg)
{
    listener.beat = beat;
    listener.arg = arg;
}

void kern_beat(void)
{
    if (listener.beat != NULL)
        listener.beat(listener.arg);
}
