// SPDX-License-Identifier: Apache-2.0
// psserver/service/figures.c -- see figures.h.
#include "psserver/service/figures.h"

#include "common/net/rpc_figures.h"
#include "state/shard/shard.h"

static enum figures_push figures_push_of_refusal(enum wire_refused_why why)
{
    switch (why) {
    case WIRE_REFUSED_STALE:
        return FIGURES_STALE;
    case WIRE_REFUSED_ATTEMPT:
    case WIRE_REFUSED_INCARNATION:
    case WIRE_REFUSED_JOB_INCARNATION:
        rpc_refused(RPC_REFUSED_FENCED);
        return FIGURES_FENCED;
    default:
        return FIGURES_REFUSED;
    }
}

void figures_pushed(struct shard_figures *f,
                    const struct wire_push_reply *reply, bool skip)
{
    enum figures_push what = skip ? FIGURES_SKIPPED : FIGURES_APPLIED;

    if (reply->result == WIRE_PUSH_DUPLICATE)
        what = FIGURES_DUPLICATE;
    else if (reply->result == WIRE_PUSH_HELD)
        what = FIGURES_HELD;
    else if (reply->result == WIRE_PUSH_REFUSED)
        what = figures_push_of_refusal(reply->refused.why);
    atomic_fetch_add_explicit(&f->pushes[what], 1, memory_order_relaxed);
}

void figures_pulled(struct shard_figures *f)
{
    atomic_fetch_add_explicit(&f->pulls, 1, memory_order_relaxed);
}

void figures_write_shards(const struct shard_figures *f, struct expo *e)
{
    static const char *const names[FIGURES_PUSHES] = {
        [FIGURES_APPLIED] = "applied",
        [FIGURES_SKIPPED] = "skipped",
        [FIGURES_DUPLICATE] = "duplicate",
        [FIGURES_STALE] = "stale",
        [FIGURES_FENCED] = "fenced",
        [FIGURES_REFUSED] = "refused",
        [FIGURES_HELD] = "held"};

    expo_family(e, "sluice_pushes_total", EXPO_COUNTER,
                "Pushes of one step to one shard, by result.");
    for (int i = 0; i < FIGURES_PUSHES; i++)
        expo_value(
            e,
            (double)atomic_load_explicit(&f->pushes[i], memory_order_relaxed),
            "result", names[i], NULL);
    expo_single(e, "sluice_pulls_total", EXPO_COUNTER,
                "Pulls of a shard's parameters, without the parameters that "
                "answer a push.",
                (double)atomic_load_explicit(&f->pulls, memory_order_relaxed));
    expo_family(e, "sluice_apply_seconds", EXPO_HISTOGRAM,
                "Time of a push under the lock of its shard, from the checks "
                "to the fresh parameters.");
    expo_histogram(e, &shard_applies, NULL);
    expo_family(e, "sluice_shard_lock_wait_seconds", EXPO_HISTOGRAM,
                "Time that pushes waited for the lock of their shard.");
    expo_histogram(e, &shard_waits, NULL);
}
