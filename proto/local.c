// SPDX-License-Identifier: Apache-2.0
#include "proto/local.h"

#include <unistd.h>

_Static_assert(sizeof(struct local_note) == 40, "the same in every program");

enum sl_err local_say(int fd, struct local_note note, int pass)
{
    note.magic = LOCAL_MAGIC;
    return shm_say(fd, &note, sizeof(note), pass);
}

enum sl_err local_hear(int fd, struct local_note *out, int *passed)
{
    struct local_note note;
    enum sl_err rc = shm_hear(fd, &note, sizeof(note), passed);

    if (rc != SL_OK)
        return rc;
    // Exactly a map brings a descriptor.
    if (note.magic != LOCAL_MAGIC || note.kind < LOCAL_MAP ||
        note.kind > LOCAL_DROP || (note.kind == LOCAL_MAP) != (*passed >= 0)) {
        if (*passed >= 0)
            close(*passed);
        return SL_ECORRUPT;
    }
    *out = note;
    return SL_OK;
}
