// SPDX-License-Identifier: Apache-2.0
// tests/sim/sim.h -- a cluster in one process, whose luck is a number.
//
// The coordinator is the real one: its logic, its journal, its manifests. The
// shards are the psserver's own: roster, store, shard, once, snapshots. Workers
// are the real trainer. Around them: a clock that events move, a network that
// loses, repeats and reorders, disks that fail and tear, and a nemesis that
// kills, pauses, replaces and cuts off. All of it is drawn from one seed, so a
// run is a function of the seed: same seed, same trace.
//
//   sim_new -> sim_run until done or healed -> sim_heal -> sim_run ->
//   sim_check_end
//
//   agenda.c   what happens when; the trace
//   knobs.c    what the seed decides: the cluster, the job, the rates
//   net.c      calls between workers and shards: loss, repeats, delay
//   session.c  Attend streams: in order until they break, on both ends or one
//   disk.c     a struct fs per process over the host's crash_fs
//   pool.c     common/run/loop.h by hand: pool threads, posts and timers become
//              events
//   fiber.c    other threads as coroutines: where the product waits, the world
//              goes on
//   boss.c     the coordinator's process; checks what it says
//   books.c    its journal, read beside it
//   server.c   a psserver's process
//   hand.c     a worker's process; work.c: its compute thread
//   channel.c  its calls, as common/net/rpc.h makes them; calls.c: those of
//              ranks to each other; wrong.c: the one that computes wrongly
//   ranker.c   the contributions of a rank of a job in allreduce
//   grouper.c  the shares of a member of a group, in hybrid
//   truth.c    what was counted, by who saw it happen; all that must hold
//   rounds.c   what must hold of the rounds of a job in sync
//   rings.c    what must hold of ranks, their generations and files
//   groups.c   what must hold of the groups of a job in hybrid
//   cuts.c     what a published cut promises, held against the disks
//   end.c      what must hold of a job that has finished
//   nemesis.c  bad luck
//   soak.c     a month of it, on the whole without truth.c
//
// Threads  one. Nothing here, or under it, reads a real clock or a real disk.
// Memory   sim_free frees all; a failed check leaves it (see t.h).
// Units    *_us of the world's clock; rates in permille.
#ifndef TESTS_SIM_SIM_H
#define TESTS_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/clock.h"
#include "common/base/fs.h"
#include "common/base/list.h"
#include "plan/schedule.h"
#include "proto/wire.h"
#include "tests/harness/crash_fs.h"
#include "tests/harness/t.h"

#define SIM_HOSTS 12 // 0: the coordinator's; then psservers, then workers
#define SIM_SLOTS 96
#define SIM_SHARDS 16
#define SIM_CLOSURES 128
#define SIM_STEPS 256 // of a job, in all its epochs
#define SIM_SESSIONS 16384
#define SIM_LOST 256
#define SIM_ECHOES 32
#define SIM_FIELDS 4 // of a gradient: see truth.h
#define SIM_SECOND UINT64_C(1000000)

struct sim;
struct proc;

// ---- agenda.c

enum sim_kind {
    SIM_REQUEST = 1, // a call reaches a server
    SIM_REPLY,
    SIM_DEADLINE,
    SIM_UP, // a message of a session, or its end
    SIM_DOWN,
    SIM_DIAL,
    SIM_TIMER,
    SIM_POOL,
    SIM_COMPUTED,
    SIM_START,
    SIM_EXIT,
    SIM_NEMESIS,
    SIM_FIBER,  // a thread goes on: fiber.h
    SIM_POSTED, // to a loop: pool.c
    SIM_CALL,   // a call of a worker's to a shard: channel.c
};

struct sim_event {
    uint64_t at_us, order; // order breaks ties: first said, first done
    enum sim_kind kind;
    uint32_t proc; // must be alive, else the event is dropped; 0: nobody's
    uint64_t a, b;
    void *data; // freed by drop
    void (*run)(struct sim *s, struct sim_event *e);
    void (*drop)(void *data); // NULL: nothing to free
};

struct agenda {
    struct sim_event **heap;
    size_t count, cap;
    uint64_t said, done;
};

// Adds a copy of *e to the agenda, for after_us from now; at_us and order are
// set here. It is dropped if its process is dead by then, and put off while
// that is stopped. `run` may take `data` by clearing it; else `drop` frees it,
// also where the event is not run.
void sim_after(struct sim *s, uint64_t after_us, const struct sim_event *e);

// Moves the clock to the next event, if there is one before `until_us`, and
// runs, puts off or drops it. Returns false if there is none; the clock stays.
bool sim_turn(struct sim *s, uint64_t until_us);

// Runs up to three calls to shards that are next in the agenda, at chance,
// without moving the clock: while a pool thread of a psserver is at its disk,
// I/O threads go on. Does nothing within itself.
void sim_meanwhile(struct sim *s);

// Drops all events and leaves the agenda empty.
void agenda_release(struct agenda *a);

// Mixes a number into the trace.
void sim_note(struct sim *s, uint64_t value);

// Mixes a message into the trace; not in a soak.
void sim_note_msg(struct sim *s, const ProtobufCMessage *msg);

// ---- chance: each call draws a number, but sim_chance of 0

// Returns a number below n, which is not 0.
uint64_t sim_below(struct sim *s, uint64_t n);

// Returns true `permille` times in a thousand.
bool sim_chance(struct sim *s, unsigned permille);

// Returns a number from `low` to `high`, both included.
uint64_t sim_between(struct sim *s, uint64_t low, uint64_t high);

// ---- knobs.c

enum sim_mode { SIM_ASYNC, SIM_SYNC, SIM_RING, SIM_HYBRID, SIM_OPEN };

// How the first worker is wrong (wrong.c): a bit flips now and then; a lane of
// its vector unit is stuck; one of its cores rounds wrongly.
enum sim_wrong { SIM_FLIP, SIM_LANE, SIM_FMA };

struct knobs {
    enum sim_mode mode;
    unsigned psservers, workers;
    unsigned pieces;   // that each variable is cut into
    bool shared_store; // one folder for all psservers (K2)
    // rates, permille
    unsigned lose, replay, clog, partition, read_fault, write_fault, torn;
    uint64_t delay_us, jitter_us, compute_us;
    unsigned sick;      // psservers whose newest files cannot be read at first
    unsigned tempted;   // by a process that is about to write or load
    uint64_t gap_us;    // between strokes of the nemesis; 0: it sleeps
    uint64_t faults_us; // it sleeps for good after that
    unsigned rubbish;   // pushes that somebody sends with rubbish in them
    unsigned skips;     // steps that are pushed to be skipped, permille
    uint64_t weights;   // which strokes it likes, a byte each
    struct schedule schedule;
    unsigned contributions; // of a round; 0: not sync. A ring: 0: its ranks
    unsigned open;   // most contributions of a round without slots; 0: not so
    unsigned quorum; // with `open`: fewest of a round that waits for no more
    unsigned group;  // members of one, in hybrid
    bool by_host;    // they are of one host
    unsigned ranks_min; // that a ring waits for
    unsigned backup;    // slots that are leased a second time at once
    unsigned audit;     // rounds that are audited, permille
    // results of the first worker that may be wrong, permille; 0: it is right
    unsigned flips;
    enum sim_wrong wrong;
    unsigned kinds; // of hosts that workers have in turn; 0: all are alike
    unsigned late;  // workers, the last ones, that come after seconds
    unsigned window, keep, cut_every_ms, evaluate_every;
    unsigned attempts; // train.max_attempts
    bool every_epoch;
    bool tables; // its model has one: see truth.h
    uint64_t heartbeat_us, lease_us, tick_us;
    struct soak *soak; // soak.c: of so long a life that truth.c does not look
};

// Sets *k to what the seed decides for a job of this mode.
void knobs_draw(struct sim *s, struct knobs *k, enum sim_mode mode);

// Changes drawn knobs to those of sim_new_wrong.
void knobs_wrong(const struct sim *s, struct knobs *k);

// Writes the spec of the knobs' job to `out` as JSON; one that does not fit
// into `size` ends the test.
void knobs_job(const struct knobs *k, char *out, size_t size);

// ---- processes

enum sim_role { SIM_BOSS, SIM_SERVER, SIM_WORKER };

// What should run: a name, on a host. At most one process of it is `now`; one
// that was replaced while it lived is a zombie and nobody's `now`.
struct slot {
    enum sim_role role;
    char name[16];
    uint32_t host;
    uint32_t now;   // number of its process; 0: none
    uint64_t ports; // given out
};

// As the process sees the disk of its host.
struct sim_fs {
    struct fs fs;
    struct sim *sim;
    struct proc *proc;
    struct crash_fs *disk;
    bool dead;           // the process is: nothing it says reaches the disk
    uint64_t dies_after; // operations; 0: not by itself
    unsigned sick;       // files that cannot be read at first
};

struct proc {
    uint32_t number; // from 1
    uint32_t slot, host;
    enum sim_role role;
    bool alive, exiting;
    uint64_t process; // as in Hello
    uint64_t paused_until_us;
    char address[24];
    struct sim_fs files;
    struct list pool;           // jobs on its pool threads: struct pool_job
    struct list fibers;         // its other threads: fiber.c
    struct list posted, timers; // of its loop: pool.c
    uint32_t session;           // 0: none. A member's
    struct rpc_stream *stream;  // over it, a worker's: session.c; NULL: none
    bool attached, dialing, draining;
    uint64_t seen_us, backoff_us, beat_us, hello_us;
    uint64_t term;
    void *self; // struct boss, server or hand
};

// What came to pass in a run, so that a test can demand that enough did.
// clang-format off
#define SEEN_MAP(X)                                                            \
    X(calls) X(lost) X(rubbish) X(rejected) X(echoes) X(replayed)              \
    X(replayed_late) X(clogs) X(partitions) X(half_open) X(breaks)             \
    X(read_faults) X(write_faults) X(power_cuts) X(disks_lost) X(kills)        \
    X(pauses) X(zombies) X(boss_kills) X(boss_fatals) X(double_kills)          \
    X(drains) X(counted) X(duplicates) X(refused) X(skipped) X(unadmitted)     \
    X(admissions) X(renewals) X(fallbacks) X(cuts) X(intents) X(evaluations)   \
    X(completions) X(void_evidence) X(events) X(held) X(copies) X(rounds) X(backups)      \
    X(early) X(ahead) X(far) X(generations) X(ring_rounds) X(base_files) X(base_copies) \
    X(copied_ahead) X(died_copying) X(broken) X(groups) X(group_steps) X(lost_steps) X(parted) \
    X(all_skipped) X(told) X(round_waits) X(before_round) X(broken_links) X(shares) X(by_range) X(rows) \
    X(repeats) X(repeats_wrong) X(flips) X(doubtful) X(suspects) X(audits)
// clang-format on

struct seen {
#define SEEN_FIELD(name) uint64_t name;
    SEEN_MAP(SEEN_FIELD)
#undef SEEN_FIELD
};

// What a coordinator said to a psserver, to be said again in a later term.
struct echo {
    uint32_t slot;
    uint64_t term;
    Sluice__V1__AttendDown *message; // owned; NULL: none
};

struct calls;
struct net;
struct rings;
struct truth;

struct sim {
    uint64_t seed, draws, trace;
    struct clock_fake clock;
    struct agenda agenda;
    struct knobs knobs;
    struct crash_fs *hosts[SIM_HOSTS], *store; // store: shared_store
    struct crash_fs *lost[SIM_LOST];           // disks that were thrown away
    uint32_t lost_count;
    struct slot slots[SIM_SLOTS];
    uint32_t slots_count;
    struct proc **procs; // owned
    uint32_t procs_count, procs_space;
    struct net *net;
    struct calls *calls;
    struct truth *truth;
    struct rings *rings;
    uint64_t group_newest; // generation of groups that was opened
    struct journal *journal;
    uint64_t job;      // 0: not submitted yet
    uint32_t shards;   // of the job, once it is placed
    uint64_t works;    // numbers of pool jobs
    uint64_t suspects; // workers that an audit found wrong (A2)
    struct echo echoes[SIM_ECHOES];
    uint64_t echoes_count; // ever kept
    bool healed, finished; // finished: or failed, since nothing was applied
    unsigned depth;        // of sim_meanwhile
    struct seen seen;
};

// Makes a cluster, whose processes start within the first 0.3 s of its clock;
// for sim_free. There is one at a time.
struct sim *sim_new(uint64_t seed, enum sim_mode mode);

// Makes a cluster that has no bad luck at all, as sim_new does.
struct sim *sim_new_quiet(uint64_t seed, enum sim_mode mode);

// What a cluster of sim_new_audited is like.
struct sim_audited {
    enum sim_mode mode; // allreduce and hybrid: SIM_FLIP in a short one
    bool by_host;       // hybrid: members of one host, who are no witnesses
    enum sim_wrong wrong;
    unsigned flips;         // SIM_FLIP: permille, not 0
    unsigned contributions; // sync and allreduce
    unsigned kinds;         // of hosts; 0: all are alike
    struct soak *soak;      // of one that takes `closures`; NULL: a short one
    uint64_t closures;
};

// Makes a cluster of four workers without bad luck, of which the first computes
// wrongly; all of it is audited.
struct sim *sim_new_audited(uint64_t seed, const struct sim_audited *how);

// Makes a cluster with audits, a worker that is wrong now and then, workers of
// several kinds, workers that join late, and all the bad luck there is.
struct sim *sim_new_wrong(uint64_t seed, enum sim_mode mode);

// Makes a cluster for a long life (soak.h), without bad luck of the network and
// the disks; `soak` is borrowed until sim_free.
struct sim *sim_new_soak(uint64_t seed, struct soak *soak);

// Kills all processes and frees the cluster.
void sim_free(struct sim *s);

// Returns the time on the world's clock, in microseconds.
static inline uint64_t sim_now(const struct sim *s)
{
    return sl_now_us(&s->clock.clock);
}

// Runs for `us`, or until the job finishes, and returns true if it has, now or
// before; one that had finished before the call runs for `us`.
bool sim_run(struct sim *s, uint64_t us);

// Ends all bad luck: nothing is lost or cut from here on, stopped processes go
// on, and whatever is down comes up again; zombies are killed, at chance.
void sim_heal(struct sim *s);

// Checks all that must hold when the job has finished, and fails the test if it
// does not. The coordinator is up.
void sim_check_end(struct sim *s);

// Checks that no snapshot is left that no kept cut needs; some time after
// sim_heal.
void sim_check_collected(struct sim *s);

// Returns what there is to say of a job that stands still, valid until the next
// call.
const char *sim_story(struct sim *s);

// Starts a process of the slot on that host, at once; it is the slot's `now`,
// and one that was there lives on. It is freed by sim_free.
struct proc *proc_start(struct sim *s, uint32_t slot, uint32_t host);

// Returns the process of this number, if it is alive; else NULL, as for 0.
struct proc *proc_get(struct sim *s, uint32_t number);

// Returns the process that lives at this address, the newest of its slot first;
// NULL: none does.
struct proc *proc_at(struct sim *s, const char *address);

// Returns the process with this number in its Hello, if it is alive; else NULL.
struct proc *proc_of(struct sim *s, uint64_t process);

// Returns the name of one of two machines, on which workers may think they are.
// Not to be written to.
char *proc_host_name(const struct proc *p);

// Returns true if `name` is that of the worker that computes wrongly now and
// then.
bool sim_is_wrong(const struct sim *s, const char *name);

// Returns the kind of host of the worker `name`, from 1.
uint64_t sim_kind(const struct sim *s, const char *name);

// Makes a right result that of a kind of host: other bits, by a millionth; kind
// 1 changes nothing.
void sim_round(uint64_t kind, float *result, size_t n);

// Spoils a result of the wrong worker as it does, now and then; returns true if
// anything of it changed.
bool sim_spoil(struct sim *s, float *result, size_t n);

// Kills a process, as kill -9 does: what it had in memory is freed. `quietly`:
// its host went with it, so its peers are not told.
void proc_kill(struct sim *s, struct proc *p, bool quietly);

// Has the slot's next process start after `us`, if none is there by then.
void proc_restart_after(struct sim *s, uint32_t slot, uint64_t us);

// Ends a process by itself, behind what happens now, and has its slot's next
// one start soon.
void proc_exit(struct sim *s, const struct proc *p);

#endif
