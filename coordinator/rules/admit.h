// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/admit.h -- may this shard serve? One decision, by the
// rules.
//
// On a ShardHello (docs/protocol.md): K5; live and newest: renew; else K7,
// commit a new incarnation, admit. What a shard shows above the journal means
// that the journal is not the newest one (I7).
//
// Threads  pure; nothing fails.
#ifndef COORDINATOR_RULES_ADMIT_H
#define COORDINATOR_RULES_ADMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/wire.h"

enum admit_verdict {
    ADMIT_RENEW, // it kept its memory: the same incarnation (I1)
    ADMIT_NEW,   // it loaded something: a new incarnation (I1)
    ADMIT_WAIT,  // K5: ask again when the manifest is settled
    // older memory, or less than the last cut: load that cut, or the seed if
    // there is none
    ADMIT_RELOAD,
    // the psserver cannot load what is needed: an operator must help
    ADMIT_STUCK,
    ADMIT_BEHIND, // I7: the journal is older than what the shard shows
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

// Returns the verdict on one ShardHello. I7 and K5 are checked before all else.
enum admit_verdict admit_judge(const struct admit_case *c);

#endif
