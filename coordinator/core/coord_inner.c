// SPDX-License-Identifier: Apache-2.0
// coordinator/core/coord_inner.c -- the end of a coordinator that cannot write
// its journal.
#include "coordinator/core/coord_inner.h"

enum sl_err coord_fatal(struct coord *c, const struct sl_error *err)
{
    if (!c->dead) {
        c->dead = true;
        c->io.fatal(c->io.arg, err);
    }
    return err->code;
}

bool coord_wrote(struct coord *c, enum sl_err rc)
{
    if (rc == SL_OK)
        return true;
    coord_fatal(c, &c->err);
    return false;
}
