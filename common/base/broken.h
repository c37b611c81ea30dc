// SPDX-License-Identifier: Apache-2.0
// common/base/broken.h -- deliberate mistakes, to prove that the tests see
// them.
//
// `if (BROKEN(skip_dedupe))` is false and costs nothing, except in a build
// with SLUICE_FAULTS whose environment says SLUICE_BREAK=skip_dedupe. The list
// below is complete. A mistake goes beside the line whose rule it breaks, and
// must be caught: by the unit test that tests/history/RULES.md names beside it
// (rules_test.py), or in a run of a whole cluster (broken_test.py), or by both.
//
// Threads  any.
// Errors   an unknown name in SLUICE_BREAK ends the process with status 2.
#ifndef COMMON_BASE_BROKEN_H
#define COMMON_BASE_BROKEN_H

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
    X(crash_on_keep)    /* an abort() when old snapshots may go */             \
    X(change_value)     /* a parameter changes after its update */             \
    X(lose_slots)       /* a loaded shard lacks the optimizer's memory */      \
    X(tear_snapshot)    /* S1: a snapshot has values of later updates */       \
    X(rule_I1)          /* an incarnation that is not in the journal */        \
    X(rule_I1_falls)    /* an incarnation falls */                             \
    X(rule_I1_same)     /* what was loaded keeps its incarnation */            \
    X(rule_I2)          /* an admission in place without a new map */          \
    X(rule_I4)          /* a lease whose attempt is not newer */               \
    X(rule_I4_adopts)   /* a refused worker takes a newer attempt */           \
    X(rule_I5)          /* coordinators of older terms are heard */            \
    X(rule_I5_push)     /* a push is refused for its term */                   \
    X(rule_I6)          /* a push of another incarnation of the job */         \
    X(rule_I6_file)     /* a snapshot of another incarnation of the job */     \
    X(merge_sets)       /* I6: rows of different sets share one */             \
    X(rule_I7)          /* a shard above the journal is admitted */            \
    X(rule_I7_manifest) /* a manifest above the journal is passed over */      \
    X(rule_S4)          /* a part of a push is applied */                      \
    X(rule_S5)          /* an answer before the admission */                   \
    X(rule_W1)          /* an answer of another incarnation counts */          \
    X(rule_W1_map)      /* evidence outlives a map of another incarnation */   \
    X(rule_W1_resume)   /* resumes where the first shard stands */             \
    X(rule_W2)          /* a completion names the map in force */              \
    X(rule_C2)          /* evidence survives an admission */                   \
    X(rule_C3)          /* nothing below the highest is issued again */        \
    X(rule_C4)          /* the watermark of the best file */                   \
    X(rule_C5)          /* issued without a window */                          \
    X(rule_K1)          /* a snapshot is overwritten */                        \
    X(rule_K2)          /* a file counts as durable and is not synced */       \
    X(rule_K3)          /* a Keep of an older term deletes */                  \
    X(rule_K3_keep)     /* only the last cut is kept */                        \
    X(rule_K3_own)      /* a Keep deletes what it names */                     \
    X(rule_K4)          /* a manifest without an intent */                     \
    X(rule_K5)          /* an admission while a manifest is written */         \
    X(rule_K6)          /* an open intent is aborted, also if it exists */     \
    X(rule_K6_invents)  /* an open intent is published without a file */       \
    X(rule_K7)          /* an admission before the last cut */                 \
    X(rule_K7_load)     /* the seed is loaded although a cut exists */         \
    X(rule_E1)          /* a cut counts as full whatever its files hold */     \
    X(rule_E1_back)     /* finishing goes on when a shard has less */          \
    X(rule_E2)          /* the end is told before it is committed */           \
    X(rule_E3)          /* a cut promises what its best file holds */

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
