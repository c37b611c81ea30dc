// SPDX-License-Identifier: Apache-2.0
// tests/unit/coordinator/world.h -- members that are scripts, around the real
// coordinator: its logic, its journal (SQLite in memory), its manifests (a
// disk in memory). The clock is driven by hand; who does what next is drawn
// from the seed. So a whole life of a job, with losses, is one function call.
//
// The fake shards keep the rules of docs/protocol.md that are theirs (S2, I3,
// I4, K3), the fake workers W1 and W2. What the world checks at every step:
//   - no closure is leased to a second worker while the first one holds it and
//     nothing was heard of its loss;
//   - nothing is leased beyond the window (C5), or before JobOpen;
//   - an incarnation of a shard is given once, and only rises (I1);
//   - a shard is not admitted below the last cut (K7).
//
// Threads  one; no clock but the world's.
// Memory   the world's, until world_release. What its settings point at
//          (quotas, feed, hosts, certificates) is the test's.
// Errors   whatever fails that should not ends the test.
#ifndef TESTS_UNIT_COORDINATOR_WORLD_H
#define TESTS_UNIT_COORDINATOR_WORLD_H

#include "common/base/clock.h"
#include "plan/counted.h"
#include "plan/round.h"
#include "coordinator/core/coord.h"
#include "coordinator/rules/dispatch.h"
#include "coordinator/service/status_lists.h"
#include "tests/harness/crash_fs.h"
#include "tests/harness/t.h"

#define WORLD_MEMBERS 12
#define WORLD_SHARDS 8
#define WORLD_SNAPS 64
#define WORLD_INBOX 512
// For single situations: a world whose delays let them come about as they are
// written. What must hold whatever the delays is asked with t_seed().
#define WORLD_SITUATION 20260701u
#define WORLD_TASKS 16
#define WORLD_CLOSURES 256
#define WORLD_ROUNDS 64
#define WORLD_GENERATIONS 1024

struct fake_snap {
    struct wire_tag tag;
    struct counted counted;
};

// A shard on its psserver. Snapshots are its disk, the rest its memory.
struct fake_shard {
    bool placed, loaded, admitted;
    bool prepares;   // loaded for a move, and not to be admitted
    bool handed;     // it has stopped for its last snapshot, or is fed
    uint64_t feed;   // order of its feed; 0: none
    bool feeds;      // it is sent
    uint64_t follow; // order of the feed that it follows; 0: none
    bool whole;      // it has done that to the end
    bool bound;      // its answers wait for its replica, by `feed`
    bool follows;    // with `bound`: they do not
    bool lags;       // the replica gets nothing more, and is not missed
    bool misses;     // the replica acknowledges nothing
    bool ready;      // it has said that the replica acknowledges
    uint64_t lag;    // operations that it says the replica lacks
    uint64_t incarnation, sequence;
    struct wire_tag from; // what it loaded
    size_t sources;       // files of another job that it was told of
    size_t tables;        // tables that it was told of
    uint64_t rows_most;   // bytes that its tenant's rows may take; 0: no limit
    uint64_t rows_disk_most; // likewise, on disk
    unsigned rows_told;      // how often it was told so
    uint32_t width;          // numbers of a row of the last one
    double scale;            // of the last one's learning rate
    struct counted counted;
    uint64_t applied;
    struct wire_attempt newest[WORLD_CLOSURES];
    uint64_t want_snapshot; // request; 0: none
    unsigned lasts;         // last snapshots that it was asked for
    uint64_t rates;         // closure of the last rate that it knows; 0: none
    struct fake_snap snaps[WORLD_SNAPS];
    unsigned snaps_count;
};

struct fake_lease {
    Sluice__V1__Lease *lease; // owned
    // Evidence per shard: steps counted, and by which incarnation (W1).
    uint64_t steps[WORLD_SHARDS], incarnation[WORLD_SHARDS];
    bool revoked; // while it hung
};

// What a worker keeps of a ring. A state is the list of the generations whose
// sums were applied, round by round: two are equal if their lists are.
struct fake_state {
    struct wire_tag tag;
    struct counted counted; // all zeroes: it has none
    uint64_t by[WORLD_ROUNDS];
};

struct fake_rank {
    bool joined; // said so, on this stream, of this lease
    struct wire_attempt attempt;
    uint64_t newest; // generation it has answered last
    uint64_t going;  // generation in which it sums; 0: none
    uint64_t told;   // rounds that it has reported
    uint64_t copies; // generation whose state it is to copy; 0: none
    uint64_t request[WORLD_SHARDS], at_round[WORLD_SHARDS];
    Sluice__V1__RingBegin *begun; // to be brought into place; owned
    uint32_t ranks, self, contributions;
    bool lanes;              // of all ranks' sums
    struct wire_token token; // of the generation
    struct fake_state state;
    struct round_key last[WORLD_ROUNDS]; // of its last round
    uint32_t last_count;
};

struct fake_member {
    bool used, alive, external;
    bool ranks;            // external: may be a rank
    bool groups;           // external: may be a member of a group
    unsigned edition;      // of the layers, that it knows
    uint64_t memory_bytes; // that it may use; 0: it does not say
    bool one_lane;         // rank: its sums have no other, it shows no token
    bool hangs;     // is heard of, but does nothing, and lets go of nothing
    bool waits;     // the same, for shards: it lets go when it is told to
    bool skips;     // none of its steps is finite
    bool raves;     // its metrics cannot be
    bool overflows; // psserver: a value of its files is not finite
    bool old;       // psserver: it does not know reduced rates
    uint64_t test_kind, test_vector; // that it tells when it joins
    unsigned flips; // 1 in so many of its results in audits is wrong; 0: none
    uint64_t kind;  // of host, in audits; its results have sketches then
    uint64_t left_out_set; // kernels that it leaves out; 0: it does not say
    bool meddles;   // it says results in audits of slots that are not its own
    bool rereads;   // it computes a step twice, of different parameters
    unsigned lies;  // so many closures it completes without a push
    double norm;    // of its contributions in mode local; 0: it does not say
    bool shortens;  // those that are too large, and sets none aside
    double step_ms; // that it says a step of those took
    uint32_t told_steps; // that it says each of those has; 0: 3
    uint32_t closures;   // that the last lease said
    unsigned boasts;     // it tells so many steps more than a closure has
    uint64_t tests;      // samples of the test set, as it tells; 0: 20
    enum { FAKE_WORKER = 1, FAKE_PSSERVER } role;
    char name[32];
    const char *host, *certificate; // that it says and shows; NULL: none
    uint64_t process;
    uint64_t stream;      // coordinator's number for us; 0: not attached
    uint64_t stuck_until; // SIGSTOP until then
    uint64_t next_beat_ms;
    bool draining;
    // messages from the coordinator that we have not read yet, in order
    Sluice__V1__AttendDown *inbox[WORLD_INBOX];
    unsigned inbox_count;
    // messages of ours that it has not read yet
    Sluice__V1__AttendUp *outbox[WORLD_INBOX];
    unsigned outbox_count;
    // worker
    struct fake_lease leases[2 * DISPATCH_LEASES_WIDEST];
    unsigned leases_count;
    uint64_t progress;
    uint64_t opened;               // job that was opened with its layout
    double loss_scale, sent_scale; // that it reports; that JobOpen named
    uint64_t map[WORLD_SHARDS];
    uint64_t map_version; // that it has
    size_t map_entries;   // of the last map that came
    struct fake_rank rank;
    // psserver
    struct fake_shard shards[WORLD_SHARDS];
};

struct world {
    uint64_t random;
    struct clock_fake clock;
    struct crash_fs *fs;
    struct journal *journal;
    struct coord *coord; // NULL: it is down
    uint64_t streams, processes;
    struct fake_member members[WORLD_MEMBERS];
    struct {
        void (*work)(void *);
        void (*done)(void *);
        void *task;
    } tasks[WORLD_TASKS];
    unsigned tasks_count;
    uint64_t job;
    uint64_t uid; // that shards say in their hellos; 0: none
    struct schedule schedule;
    uint32_t shards, window;
    // who holds which closure of the job, by what the coordinator has sent
    uint64_t holder[WORLD_CLOSURES];
    bool copies; // a closure may have a second holder, of the same attempt
    uint64_t second[WORLD_CLOSURES];
    struct wire_attempt attempt[WORLD_CLOSURES]; // of the holder's
    unsigned copied;                             // times
    uint64_t incarnations[WORLD_SHARDS];         // highest ever admitted
    uint64_t evaluated_ranges;
    bool scores; // workers tell sums for metrics: of sample i, its number
    // Of a ring: its files, and which ranks have given to which round.
    struct fake_state files[WORLD_SNAPS];
    unsigned files_count;
    uint16_t gave[WORLD_GENERATIONS][WORLD_ROUNDS];
    unsigned copied_ahead;        // newcomers that have copied while it went on
    bool no_files;                // ranks write none, and say nothing
    uint64_t generation;          // highest that a rank has answered
    uint64_t opened, opened_term; // highest that was sent, and when (R1)
    size_t leases_at_once;        // most in one message
    unsigned completes; // every second time, all that there are at once
    enum sl_err fatal;  // io.fatal was called, and
    struct sl_error why;
    bool poison;     // a worker dies at closure 1
    bool groups;     // the job is in hybrid: a ring lease is a place in a group
    bool whole_maps; // workers do not know changes of maps
    bool ahead;      // they wait for the round of a lease, if it is not open
    bool queue;      // what is submitted is queued
    unsigned edition;   // of the layers: who knows less is leased nothing
    bool hold_tasks;    // pool threads do nothing by themselves
    bool one_store;     // psservers find the snapshots of each other
    bool feeds;         // and feed shards to each other
    uint64_t secret[4]; // as in coord_options
    enum coord_tokens tokens;
    bool proofs;
    const struct quota *quotas;
    size_t quotas_count;
    struct feed *feed;
};

// Sets *w up, all zeroes but for its clock, disk and journal, which are in
// memory, and starts a coordinator. What is drawn later depends on `seed`.
void world_init(struct world *w, uint64_t seed);

// Stops the coordinator, if it runs, and frees the members, the journal and the
// disk. *w is not to be used any more.
void world_release(struct world *w);

// Draws a number from 0 to n - 1; n is not 0.
uint64_t world_below(struct world *w, uint64_t n);

// Starts a coordinator on the journal and the disk as they are, with w->tokens,
// proofs, secret, quotas and feed. There is none: w->coord is overwritten.
void world_start_coord(struct world *w);

// Ends the coordinator as kill -9 does: all tasks of its pool are done or none,
// streams break, and what the disk has not synced may be lost. Does nothing if
// it is down.
void world_stop_coord(struct world *w);

// Makes a member, which is not attached yet: FAKE_WORKER or FAKE_PSSERVER, with
// a process of its own. There is room for WORLD_MEMBERS. `name` is copied.
struct fake_member *world_add(struct world *w, int role, const char *name);

// Opens a stream for m and says hello by its fields; a psserver then says which
// shards it has in memory. Does nothing if the coordinator is down, or m is
// dead or attached. A member that is refused is not attached.
void world_attach(struct world *w, struct fake_member *m);

// Makes and attaches members in this order: ps-0, ps-1, ..., then w-0, w-1, ...
void world_people(struct world *w, unsigned psservers, unsigned workers);

// Kills m: its stream breaks, and its memory is gone; snapshots survive.
void world_kill(struct world *w, struct fake_member *m);

// Has m live as a new process, no longer draining or stuck, and attaches it.
// What a member that was not killed had in memory stays.
void world_restart(struct world *w, struct fake_member *m);

// Breaks m's stream: what is unread on both sides is lost, and the coordinator
// is told. Does nothing without a stream.
void world_break(struct world *w, struct fake_member *m);

// Submits a job from JSON and returns its number, which w->job and w->schedule
// are of from then on. Its request id is its name; "r-1" for the name "life".
uint64_t world_submit(struct world *w, const char *json);

// Submits one of the jobs below under another name, with a priority, as
// world_submit does.
uint64_t world_submit_as(struct world *w, const char *json, const char *name,
                         int priority);

// Submits world_graph_job and returns the result of the call; *job is set on
// SL_OK, and may be NULL. w->job stays. `resume` "": it starts from nothing.
enum sl_err world_try_submit(struct world *w, const char *request_id,
                             const char *resume, uint64_t *job,
                             struct sl_error *err);

// Returns the status of w->job, with its shards, for wire_free. The coordinator
// runs.
Sluice__V1__JobStatus *world_status(struct world *w);

// Returns the state of w->job; 0 if the coordinator is down.
int world_state(struct world *w);

// Returns the reason of the state of w->job, valid until the next call. The
// coordinator runs.
const char *world_reason(struct world *w);

// Sets jobs[] and kinds[] to those of the leases that lie in m's inbox, unread,
// and returns how many there are; more than `most` fail the test.
unsigned world_leases(const struct fake_member *m, uint64_t *jobs,
                      Sluice__V1__LeaseKind *kinds, unsigned most);

// Returns true if m has leases and the first is a training one.
bool world_trains(const struct fake_member *m);

// Moves the clock by 1 to 20 ms, sends the heartbeats that are due, and has a
// drawn member, which may be none, do one thing: attach, say or hear a message,
// or work. At chance the coordinator ticks, and a task of its pool is done
// (unless w->hold_tasks).
void world_step(struct world *w);

// Does the pool task that came last, and its end; nothing if there is none.
void world_task(struct world *w);

// Steps until w->job is in `state`, which is looked at every 16 steps, and
// returns true; false after `steps` steps, or once w->fatal is set.
bool world_run(struct world *w, int state, unsigned steps);

// Notes that the stream does not hold the closure any more; a number that is no
// closure's is passed over.
void world_let_go(struct world *w, uint64_t closure, uint64_t stream);

// Lets `ms` pass, by 50 ms at a time: all heartbeats and what members have said
// are heard, and the coordinator ticks. Members read nothing and do no work.
void world_pass(struct world *w, uint64_t ms);

// Submits world_graph_job with 8 epochs and these callbacks, a JSON list, as
// world_submit does.
uint64_t world_submit_callbacks(struct world *w, const char *callbacks);

// Writes world_sync_job in mode local to `out`, cut to `size`: `words` for what
// its train says of rounds, with a comma behind them.
void world_local_job(char *out, size_t size, const char *words);

// Jobs in JSON: 40 samples, as fake workers find them.
extern const char world_sync_job[], world_silu_job[], world_scored_job[];
extern const char world_graph_job[], world_external_job[], world_ring_job[],
    world_group_job[];

#endif
