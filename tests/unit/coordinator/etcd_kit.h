// SPDX-License-Identifier: Apache-2.0
// tests/unit/coordinator/etcd_kit.h -- a real member of etcd on loopback, with
// a folder of its own, for one test at a time.
//
// Where Debian's etcd-server is not installed (tools/install-packages --tests),
// a test that asks for one is skipped.
//
// Threads  the test's.
// Memory   the member ends with the next kit_etcd, or with the program.
// Errors   a test that cannot have its member fails.
#ifndef TESTS_UNIT_COORDINATOR_ETCD_KIT_H
#define TESTS_UNIT_COORDINATOR_ETCD_KIT_H

#include "coordinator/journal/journal_etcd.h"

// Starts a new, empty member, waits until it answers, and returns a client of
// it, whose prefix is "test"; the client is the kit's. `quota` limits its
// database in bytes; 0: as etcd has it.
struct etcd *kit_etcd(uint64_t quota);

// Returns one more client of the member, which the caller frees.
struct etcd *kit_etcd_client(void);

// Kills the member and waits for its end. Its folder stays.
void kit_etcd_kill(void);

// Starts the killed member again, at its address and with its folder, and waits
// until it answers.
void kit_etcd_restart(void);

// Stops the member (`on`), as SIGSTOP does, and waits until it stands, or lets
// it go on.
void kit_etcd_pause(bool on);

// Runs etcdctl with the words of `line`, at most 12, and fails unless it
// succeeds.
void kit_etcdctl(const char *line);

// Makes the key "leader", as a coordinator that is chosen does; returns its
// create revision. An earlier one is replaced.
int64_t kit_etcd_lead(struct etcd *e);

// Opens the journal below the client's prefix, as the leader of that term,
// which is the create revision of the key "leader"; for journal_close.
struct journal *kit_journal(struct etcd *e, int64_t term);

#endif
