// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/admit.h -- may this shard serve? One decision, by the
// rules.
//
// On a ShardHello (docs/protocol.md): K5; live and newest: renew; else K7,
// commit a new incarnation, admit. What a shard shows above the journal means
// that the journal is not the newest one (I7).
//
// Threads  pure; nothing fails. No pointer is NULL.
#ifndef COORDINATOR_RULES_ADMIT_H
#define COORDINATOR_RULES_ADMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/wire.h"

enum admit_verdict {
    // admit: the shard kept its memory and keeps its incarnation (I1)
    ADMIT_RENEW,
    // admit: the shard loaded a file or the seed and gets a new one (I1)
    ADMIT_NEW,
    // K5: a manifest is being written; judge again when that is over
    ADMIT_WAIT,
    // refuse: the memory is older, or less than the last cut; the psserver has
    // to load that cut, or the seed if there is none, and to say hello again
    ADMIT_RELOAD,
    // refuse: the psserver cannot load what is needed; an operator must help
    ADMIT_STUCK,
    // I7: the shard shows more than the journal knows, so that is an old copy
    ADMIT_BEHIND,
};

struct admit_case {
    bool writing;  // a manifest of the job is being written
    bool failed;   // the shard says it could load nothing new enough
    uint64_t live; // incarnation that its memory is of; 0: it loaded a file
    struct wire_tag loaded; // (0, 0): the seed
    uint64_t newest;        // incarnation in the journal; 0: never admitted
    // the shard's tag in the last cut; (0, 0): no cut exists
    struct wire_tag cut;
};

// Returns what to answer to one ShardHello, by the case *c, which is only read.
// I7 (ADMIT_BEHIND), K5 (ADMIT_WAIT) and c->failed (ADMIT_STUCK) are checked
// before all else, in this order.
enum admit_verdict admit_judge(const struct admit_case *c);

#endif
