// SPDX-License-Identifier: Apache-2.0
// tests/sim/knobs.c -- what the seed decides.
//
// The rates are those of TigerBeetle's simulator. Each is 0 in some seeds, so
// that one kind of bad luck does not always hide behind another; and each seed
// likes some strokes of the nemesis more than others.
#include "tests/sim/truth.h"

static unsigned rate(struct sim *s, unsigned most)
{
    return sim_chance(s, 350) ? 0 : (unsigned)sim_between(s, 1, most);
}

static void draw_job(struct sim *s, struct knobs *k)
{
    k->schedule = (struct schedule){
        .samples = sim_between(s, 8, 60),
        .batch = sim_between(s, 2, 5),
        .epochs = sim_between(s, 1, 4),
        .steps_per_closure = sim_between(s, 1, 5),
    };
    k->window = (unsigned)sim_between(s, 2, 10);
    k->keep = (unsigned)sim_between(s, 1, 3);
    k->cut_every_ms = (unsigned)sim_between(s, 200, 3000);
    k->every_epoch = sim_chance(s, 700);
    k->evaluate_every = (unsigned)sim_below(s, 3);
    k->skips = rate(s, 60);
    T_LE(schedule_steps(&k->schedule), SIM_STEPS);
    T_LE(schedule_closures(&k->schedule), SIM_CLOSURES);
}

// A closure is one contribution. Whatever a mean over samples is divided by is
// a power of two, so that no bit is lost: see truth.h.
static void draw_rounds(struct sim *s, struct knobs *k)
{
    uint64_t closures = sim_between(s, 2, 30);

    k->contributions = 1u << sim_below(s, 3);
    k->backup = (unsigned)sim_below(s, k->contributions == 1 ? 2 : 3);
    if (k->contributions == 4 && closures % 4 == 3)
        closures--;
    k->schedule.batch = UINT64_C(1) << sim_between(s, 1, 2);
    k->schedule.samples = closures * k->schedule.batch;
    k->schedule.steps_per_closure = 1;
    T_LE(schedule_closures(&k->schedule), SIM_CLOSURES);
}

// A closure is one contribution, and all have the same samples: so the mean of
// any number of them has no fraction (truth.h). The window lets a round be
// full, or the job is refused.
static void draw_open(struct sim *s, struct knobs *k)
{
    uint64_t closures = sim_between(s, 2, 30);

    k->open = (unsigned)sim_between(s, 2, TRUTH_OPEN_MOST);
    k->quorum = (unsigned)sim_between(s, 1, k->open - 1);
    if (k->window < k->open)
        k->window = k->open;
    k->schedule.batch = UINT64_C(1) << sim_between(s, 1, 2);
    k->schedule.samples = closures * k->schedule.batch;
    k->schedule.steps_per_closure = 1;
    T_LE(schedule_closures(&k->schedule), SIM_CLOSURES);
}

// Rounds of several sizes, or of as many as there are ranks. All that is on a
// disk is files of cuts, of which a fault leaves nothing: few, or no cut is.
static void draw_ring(struct sim *s, struct knobs *k)
{
    k->read_fault = (k->read_fault + 1) / 2;
    k->write_fault = (k->write_fault + 1) / 2;
    k->psservers = 0;
    k->workers = (unsigned)sim_between(s, 1, 5);
    k->contributions = (unsigned)sim_below(s, 7);
    k->ranks_min = (unsigned)sim_between(s, 1, k->workers > 1 ? 2 : 1);
    k->skips = 0;
}

// A step of a group has so many batches; the schedule is of such steps.
static void draw_groups(struct sim *s, struct knobs *k)
{
    k->workers = (unsigned)sim_between(s, 1, 5);
    k->group = (unsigned)sim_between(s, 2, 3);
    k->by_host = sim_chance(s, 300);
    k->schedule.samples = sim_between(s, 8, 60) * k->group;
    k->schedule.batch *= k->group;
}

static void draw_luck(struct sim *s, struct knobs *k)
{
    k->lose = rate(s, 300);
    k->replay = rate(s, 500);
    k->rubbish = rate(s, 200);
    k->clog = rate(s, 20);
    k->partition = rate(s, 30);
    k->read_fault = rate(s, 100);
    k->write_fault = rate(s, 100);
    k->torn = (unsigned)sim_between(s, 800, 1000);
    k->sick = rate(s, 400);
    k->tempted = rate(s, 150);
    k->gap_us = sim_between(s, 50, 1200) * 1000;
    k->faults_us = sim_between(s, 3, 60) * SIM_SECOND;
    for (unsigned i = 0; i < 8; i++)
        k->weights |= (sim_chance(s, 300) ? 0 : sim_between(s, 1, 16)) << 8 * i;
}

// A group computes one step after the other, and each share of it thrice.
static void take_time(struct knobs *k)
{
    if (k->mode == SIM_HYBRID && k->audit > 0)
        k->compute_us /= 3;
}

// Audits, and a worker that computes wrongly now and then; in async, where its
// own word makes it suspect, only if there is another one. Not drawn: what
// other knobs are does not depend on it.
static void choose_audit(const struct sim *s, struct knobs *k)
{
    uint64_t luck = sl_mix64(s->seed ^ 0xa0d17);

    if (k->mode == SIM_OPEN)
        return; // what many steps change is not compared
    k->audit = luck % 2 == 0 ? (unsigned)(luck >> 8) % 1001 : 0;
    // All ranks, and members of a group, take the time: less else would happen.
    if (k->mode == SIM_RING || k->mode == SIM_HYBRID)
        k->audit /= 2;
    if (k->audit > 0 && luck >> 32 & 1 &&
        (k->mode == SIM_SYNC || k->workers > 1))
        k->flips = 1 + (unsigned)(luck >> 33) % 300;
    k->wrong = (enum sim_wrong)((luck >> 50) % 3);
    k->kinds = (unsigned)(sl_mix64(luck) % 4); // 0 and 1: all are of one kind
    take_time(k);
}

// At least three workers, of which some come when the job is under way.
void knobs_wrong(const struct sim *s, struct knobs *k)
{
    uint64_t luck = sl_mix64(s->seed ^ 0x3a0d17);

    if (k->workers < 3)
        k->workers = 3 + (unsigned)(luck % 2);
    if (k->audit == 0) {
        k->audit = 100 + (unsigned)(luck >> 8) % 901;
        take_time(k);
    }
    k->flips = 1 + (unsigned)(luck >> 33) % 300;
    k->late = (unsigned)(luck >> 20) % k->workers;
}

void knobs_draw(struct sim *s, struct knobs *k, enum sim_mode mode)
{
    *k = (struct knobs){.mode = mode,
                        .heartbeat_us = SIM_SECOND / 2,
                        .lease_us = 2 * SIM_SECOND,
                        .tick_us = SIM_SECOND / 5,
                        .attempts = 1000};
    k->psservers = (unsigned)sim_between(s, 1, 3);
    k->workers = (unsigned)sim_between(s, 1, 4);
    k->pieces = (unsigned)sim_between(s, 1, 3);
    k->shared_store = sim_chance(s, 400);
    k->delay_us = sim_between(s, 50, 5000);
    k->jitter_us = sim_between(s, 100, sim_chance(s, 200) ? 400000 : 20000);
    k->compute_us = sim_between(s, 20, 900) * 1000;
    draw_job(s, k);
    draw_luck(s, k);
    if (mode == SIM_SYNC)
        draw_rounds(s, k);
    else if (mode == SIM_RING)
        draw_ring(s, k);
    else if (mode == SIM_HYBRID)
        draw_groups(s, k);
    else if (mode == SIM_OPEN)
        draw_open(s, k);
    choose_audit(s, k);
    k->tables = mode == SIM_ASYNC && sl_mix64(s->seed ^ 0x7ab1e) % 3 == 0;
}

#define TABLE_LAYERS                                                           \
    "{\"type\":\"embedding\",\"name\":\"rows\",\"ids\":\"user\","              \
    "\"rows\":\"dynamic\",\"output_dim\":4,\"embeddings_initializer\":"        \
    "\"zeros\"},{\"type\":\"add\",\"inputs\":[\"dense\",\"rows\"]},"
#define TABLE_SOURCE(x)                                                        \
    "{\"format\":\"csv\",\"x\":\"" x "\",\"header\":true,"                     \
    "\"label_column\":\"y\",\"columns\":[\"a\",\"b\",\"c\",\"d\"],"            \
    "\"ids\":[\"user\"]}"
#define TABLE_DATA "\"train\":" TABLE_SOURCE("a") ",\"test\":" TABLE_SOURCE("c")
#define PLAIN_DATA                                                             \
    "\"train\":{\"format\":\"idx\",\"x\":\"a\",\"y\":\"b\"},"                  \
    "\"test\":{\"format\":\"idx\",\"x\":\"c\",\"y\":\"d\"}"

// Initial values are zeroes and the rate is 1, so every value that is ever
// there is an integer that says what it is the sum of (truth.h).
void knobs_job(const struct knobs *k, char *out, size_t size)
{
    char mode[192] = "";
    size_t used;
    int n;

    if (k->mode == SIM_SYNC)
        snprintf(mode, sizeof(mode),
                 ",\"mode\":\"sync\",\"contributions\":%u,\"backup\":%u",
                 k->contributions, k->backup);
    else if (k->mode == SIM_OPEN)
        snprintf(mode, sizeof(mode),
                 ",\"mode\":\"local\",\"contributions\":%u,\"quorum\":%u,"
                 "\"inner\":{\"steps\":1},\"outer\":{\"type\":\"sgd\","
                 "\"learning_rate\":1.0}",
                 k->open, k->quorum);
    else if (k->mode == SIM_HYBRID)
        snprintf(mode, sizeof(mode),
                 ",\"mode\":\"hybrid\",\"group\":{\"by\":\"%s\",\"size\":%u}",
                 k->by_host ? "host" : "any", k->group);
    else if (k->mode == SIM_RING && k->contributions == 0)
        snprintf(mode, sizeof(mode),
                 ",\"mode\":\"allreduce\",\"on_resize\":\"scale\","
                 "\"workers\":{\"min\":%u}",
                 k->ranks_min);
    else if (k->mode == SIM_RING)
        snprintf(mode, sizeof(mode),
                 ",\"mode\":\"allreduce\",\"contributions\":%u,"
                 "\"workers\":{\"min\":%u}",
                 k->contributions, k->ranks_min);
    used = strlen(mode);
    snprintf(mode + used, sizeof(mode) - used, ",\"audit\":%u.%03u",
             k->audit / 1000, k->audit % 1000);
    n = snprintf(
        out, size,
        "{\"name\":\"life\",\"model\":{\"input_shape\":[4],\"layers\":["
        "{\"type\":\"dense\",\"units\":4,\"kernel_initializer\":\"zeros\"},"
        "%s{\"type\":\"dense\",\"units\":4,\"kernel_initializer\":\"zeros\"}]},"
        "\"loss\":\"sparse_categorical_crossentropy\","
        "\"optimizer\":{\"type\":\"sgd\",\"learning_rate\":1.0},"
        "\"data\":{%s},"
        "\"train\":{\"batch\":%u,\"epochs\":%u,\"steps_per_closure\":%u,"
        "\"shuffle\":false,\"max_attempts\":%u,\"window_closures\":%u%s},"
        "\"placement\":{\"partitioner\":\"fixed\",\"shards\":%u},"
        "\"checkpoint\":{\"keep\":%u,\"every_seconds\":%u.%03u,"
        "\"every_epoch\":%s},"
        "\"evaluate\":{\"every_epochs\":%u,\"batch\":4,"
        "\"batches_per_closure\":2}}",
        k->tables ? TABLE_LAYERS : "", k->tables ? TABLE_DATA : PLAIN_DATA,
        (unsigned)k->schedule.batch / (k->group == 0 ? 1 : k->group),
        (unsigned)k->schedule.epochs, (unsigned)k->schedule.steps_per_closure,
        k->attempts, k->window, mode, k->pieces, k->keep,
        k->cut_every_ms / 1000, k->cut_every_ms % 1000,
        k->every_epoch ? "true" : "false", k->evaluate_every);

    T_ASSERT(n > 0 && (size_t)n < size);
}
