// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/admit.c -- the verdict on a shard's hello.
#include "coordinator/rules/admit.h"

enum admit_verdict admit_judge(const struct admit_case *c)
{
    // I7 first: nothing may be decided from a journal that is behind.
    if (c->live > c->newest || c->loaded.incarnation > c->newest)
        return ADMIT_BEHIND;
    if (c->writing)
        return ADMIT_WAIT; // K5
    if (c->failed)
        return ADMIT_STUCK;
    if (c->live != 0) // an older memory was replaced: it must start over
        return c->live == c->newest ? ADMIT_RENEW : ADMIT_RELOAD;

    // K7. The seed is (0, 0) and passes only while no cut exists.
    return wire_tag_cmp(c->loaded, c->cut) >= 0 ? ADMIT_NEW : ADMIT_RELOAD;
}
