// SPDX-License-Identifier: Apache-2.0
// proto/local.c -- the notes on a psserver's local socket, checked as they
// come.
#include "proto/local.h"

#include <unistd.h>

_Static_assert(sizeof(struct local_note) == 40, "the same in every program");

enum sl_err local_send(int fd, struct local_note note, int pass)
{
    note.magic = LOCAL_MAGIC;
    return shm_send(fd, &note, sizeof(note), pass);
}

enum sl_err local_receive(int fd, struct local_note *out, int *passed)
{
    struct local_note note;
    enum sl_err rc = shm_receive(fd, &note, sizeof(note), passed);
    bool passes;

    if (rc != SL_OK)
        return rc;
    // Exactly these bring a descriptor.
    passes = note.kind == LOCAL_MAP || note.kind == LOCAL_CALLS;
    if (note.magic != LOCAL_MAGIC || note.kind < LOCAL_MAP ||
        note.kind > LOCAL_ADOPTED || passes != (*passed >= 0)) {
        if (*passed >= 0)
            close(*passed);
        return SL_ECORRUPT;
    }
    *out = note;
    return SL_OK;
}
