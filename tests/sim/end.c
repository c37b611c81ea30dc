// SPDX-License-Identifier: Apache-2.0
// tests/sim/end.c -- what must hold of a job that has finished: E1, `cover`,
// conservation, `honest`. And for one that has not: a story.
#include <inttypes.h>

#include "common/base/storemark.h"
#include "common/base/buf.h"
#include "coordinator/core/job.h"
#include "tests/sim/boss.h"
#include "tests/sim/soak.h"
#include "tests/sim/truth_own.h"

// Each sample of each epoch once, as the shard's own report of the final
// snapshot says it; and every step once, as its file's values do (cuts_file).
static void check_cover(struct sim *s, const Sluice__V1__ShardCounts *counts)
{
    const struct schedule *sched = &s->knobs.schedule;

    T_EQ(counts->counted, schedule_steps(sched));
    T_EQ(counts->applied + counts->skipped, counts->counted);
    T_EQ(counts->low, schedule_closures(sched));
    T_EQ(counts->n_epochs, sched->epochs);
    for (size_t i = 0; i < counts->n_epochs; i++) {
        const Sluice__V1__EpochCount *e = counts->epochs[i];

        T_EQ(e->steps, schedule_steps_per_epoch(sched));
        T_EQ(e->samples, sched->samples);
        T_EQ(e->digest, schedule_epoch_digest(sched, e->epoch));
    }
}

static void check_status(struct sim *s, const Sluice__V1__JobStatus *status)
{
    const struct schedule *sched = &s->knobs.schedule;
    unsigned every = s->knobs.evaluate_every;
    uint64_t applied = 0;

    T_EQ(status->steps_asked, schedule_steps(sched));
    T_EQ(status->steps_counted, status->steps_asked);
    T_EQ(status->closures_counted, schedule_closures(sched));
    T_EQ(status->closures_asked, status->closures_counted);
    T_EQ(status->closures_running, 0);
    T_EQ(status->workers, 0);
    T_EQ(status->epoch, status->epochs);
    T_EQ(status->n_evaluations, every == 0 ? 0 : sched->epochs / every);
    for (size_t i = 0; i < status->n_evaluations; i++) {
        T_EQ(status->evaluations[i]->samples, 20);
        T_NEAR(status->evaluations[i]->accuracy, 0.5, 1e-12);
    }
    T_EQ(status->n_shards, s->shards);
    for (size_t i = 0; i < status->n_shards; i++) {
        check_cover(s, status->shards[i]->counts);
        applied += status->shards[i]->counts->applied;
    }
    T_EQ(status->state, applied > 0 ? JOB_FINISHED : JOB_FAILED);
}

void sim_check_end(struct sim *s)
{
    Sluice__V1__JobStatus *status = boss_status(s);
    const Sluice__V1__CheckpointsReply *cuts;
    const Sluice__V1__Checkpoint *last;

    T_TRUE(status != NULL);
    if (s->knobs.soak != NULL)
        s->truth->cuts = boss_cuts(s);
    cuts = s->truth->cuts;
    T_TRUE(cuts != NULL && cuts->n_checkpoints > 0);
    last = cuts->checkpoints[cuts->n_checkpoints - 1];
    T_TRUE(last->complete); // E1
    T_STR(status->checkpoint, last->manifest);
    T_EQ(last->n_shards, s->shards);
    if (s->knobs.soak == NULL)
        cuts_verify(s);
    else
        soak_check_files(s, last);
    check_status(s, status);
    wire_free(&status->base);
}

struct litter {
    struct sim *sim;
    struct crash_fs *disk;
    const char *folder;
};

// Returns true if a cut that is kept has a delta with this file below it.
static bool is_below(const struct sim *s, const char *name)
{
    const Sluice__V1__CheckpointsReply *cuts = s->truth->cuts;

    for (size_t i = 0; i < cuts->n_checkpoints; i++)
        for (size_t k = 0; k < cuts->checkpoints[i]->n_shards; k++) {
            const Sluice__V1__SnapshotChain *below =
                cuts->checkpoints[i]->shards[k]->below;

            for (size_t n = 0; below != NULL && n < below->n_files; n++)
                if (strcmp(below->files[n]->file, name) == 0)
                    return true;
        }
    return false;
}

static enum sl_err look_at_file(void *arg, const char *name)
{
    struct litter *l = arg;
    struct wire_tag tag;
    uint32_t shard;

    if (snap_file_parse(name, &shard, &tag) &&
        wire_tag_cmp(tag, cuts_oldest(l->sim, shard)) < 0 &&
        !is_below(l->sim, name))
        T_FAIL("bounded: %s/%s is left, and no cut that is kept needs it",
               l->folder, name);
    return SL_OK;
}

static enum sl_err look_at_folder(void *arg, const char *name)
{
    struct litter *l = arg, inner = *l;
    char path[512];

    if (strcmp(name, STOREMARK_FILE) == 0)
        return SL_OK;
    snprintf(path, sizeof(path), "/store/%s", name);
    inner.folder = path;
    return fs_list(crash_fs_ops(l->disk), path, look_at_file, &inner, NULL);
}

void sim_check_collected(struct sim *s)
{
    for (uint32_t h = 0; h <= SIM_HOSTS; h++) {
        struct litter l = {s, h < SIM_HOSTS ? s->hosts[h] : s->store, NULL};

        T_OK(fs_list(crash_fs_ops(l.disk), "/store", look_at_folder, &l,
                     t_err()));
    }
}

const char *sim_story(struct sim *s)
{
    static char text[1024];
    Sluice__V1__JobStatus *status = boss_status(s);
    uint64_t free_us = sim_now(s);
    int n;

    if (status == NULL) {
        snprintf(text, sizeof(text), "no coordinator, or no job");
        return text;
    }
    n = snprintf(text, sizeof(text),
                 "at %" PRIu64 " ms: state %d, %" PRIu64 " of %" PRIu64
                 " steps, reason '%s'",
                 free_us / 1000, (int)status->state, status->steps_counted,
                 status->steps_asked, status->reason);
    for (size_t i = 0; i < status->n_shards && n < (int)sizeof(text); i++)
        n += snprintf(text + n, sizeof(text) - (size_t)n,
                      "; shard %zu i%" PRIu64 " low %" PRIu64, i,
                      status->shards[i]->incarnation,
                      status->shards[i]->counts->low);
    wire_free(&status->base);
    return text;
}
