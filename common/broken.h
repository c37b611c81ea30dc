// SPDX-License-Identifier: Apache-2.0
// common/broken.h -- deliberate mistakes, to prove that the tests see them.
//
// `if (BROKEN(skip_dedupe))` is false and costs nothing, except in a build
// with SLUICE_FAULTS whose environment says SLUICE_BREAK=skip_dedupe. The list
// below is complete; tests/history/broken_test.py demands that each of them is
// caught. A mistake goes beside the line whose rule it breaks.
//
// Threads  any.
// Errors   an unknown name in SLUICE_BREAK ends the process with status 2.
#ifndef COMMON_BROKEN_H
#define COMMON_BROKEN_H

#include <stdbool.h>

// name, and the rule that it breaks
#define BROKEN_LIST(X)                                                         \
    X(skip_dedupe)      /* S2: a counted key is applied again */               \
    X(forget_counted)   /* S1: the snapshot lacks the counted set */           \
    X(skip_incarnation) /* I3: a push for another incarnation is taken */      \
    X(skip_attempt)     /* I4: an older attempt is applied */                  \
    X(count_refused)    /* S2: a refused step is counted */                    \
    X(early_report)     /* K2: reported before it is durable */                \
    X(low_from_outside) /* S3: all below the loaded low is done */             \
    X(believe_old)      /* C1: completions of old incarnations */              \
    X(lose_closure)     /* C3: what a lost worker had is never issued */       \
    X(hole_in_cut)      /* K4: a cut lacks a shard */                          \
    X(publish_old)      /* K4: a snapshot of an ended incarnation */           \
    X(early_manifest)   /* K4: published before the manifest is durable */     \
    X(finish_early)     /* E1: finished when counted, without a cut */         \
    X(skip_term)        /* I5: the term does not rise over a restart */        \
    X(keep_leases)      /* leases of an ended job stay in the books */         \
    X(apply_rejected)   /* a payload that was rejected is applied */           \
    X(leak_snapshots)   /* snapshots that nobody names stay */                 \
    X(wrong_report)     /* a count in the status that no shard has */          \
    X(hang_call)        /* a call that is never answered */                    \
    X(crash_on_keep)    /* an abort() when old snapshots may go */

#ifdef SLUICE_FAULTS

enum broken {
#define BROKEN_NAME(name) BROKEN_##name,
    BROKEN_LIST(BROKEN_NAME)
#undef BROKEN_NAME
};

bool broken(enum broken which);
#define BROKEN(name) broken(BROKEN_##name)

// Only the n-th time, from 1: for what would stop everything.
bool broken_nth(enum broken which, unsigned n);
#define BROKEN_NTH(name, n) broken_nth(BROKEN_##name, n)

#else

#define BROKEN(name) false
#define BROKEN_NTH(name, n) false

#endif

// Writes the names to stdout, one per line; false if this build has none.
bool broken_list(void);

#endif
