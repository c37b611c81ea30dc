// SPDX-License-Identifier: Apache-2.0
// coordinator/core/mode.c -- the row of a spec's mode, by its name and its
// rounds.
#include "coordinator/core/mode.h"

#include <string.h>

#include "proto/spec.h"

const struct mode *mode_of(const struct coord *c,
                           const Sluice__V1__JobSpec *spec)
{
    const char *name = spec->train == NULL ? NULL : spec->train->mode;

    for (size_t i = 0; name != NULL && c->modes[i] != NULL; i++)
        if (strcmp(c->modes[i]->name, name) == 0)
            return c->modes[i]->open != NULL && spec_open(spec->train)
                       ? c->modes[i]->open
                       : c->modes[i];
    return c->modes[0];
}

bool mode_wants_psservers(const struct mode *mode,
                          const Sluice__V1__JobSpec *spec)
{
    return mode->parts == NULL || spec_ring_rows(spec);
}
