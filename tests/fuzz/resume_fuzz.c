// SPDX-License-Identifier: Apache-2.0
// A cut's manifest, as the coordinator reads it to start a job from.
#include "coordinator/core/cuts/cut_fits.h"

#include "common/base/hash.h"
#include "common/base/mem.h"
#include "tests/fuzz/fuzz.h"

#define UNTOUCHED 0xa5

// What is relied on later: every shard has a file with a checksum, and its
// rows are found in exactly the files that hold them.
static void check_accepted(const struct manifest_found *m)
{
    const Sluice__V1__CheckpointsReply *layout = m->source->cut;
    const Sluice__V1__Checkpoint *cut = layout->checkpoints[0];
    char apart[RESUME_APART_BYTES];
    bool needed[WIRE_SHARDS_MAX];

    FUZZ_TRUE(layout->n_checkpoints == 1 && cut->n_shards == m->shards);
    FUZZ_TRUE(m->shards > 0 && m->shards <= WIRE_SHARDS_MAX);
    for (uint32_t s = 0; s < m->shards; s++) {
        FUZZ_TRUE(cut->shards[s]->sha256.len == SHA256_BYTES);
        FUZZ_TRUE(cut->shards[s]->file[0] != '\0');
        FUZZ_TRUE(strchr(cut->shards[s]->file, '/') == NULL);
        FUZZ_TRUE(m->counts[s] != NULL);
        resume_needs(m->source, layout, s, needed);
        for (uint32_t other = 0; other < m->shards; other++)
            FUZZ_TRUE(needed[other] == (other == s));
    }
    m->source->even = resume_even(m->counts, m->shards, apart);
    FUZZ_TRUE(m->source->even == (apart[0] == '\0'));
    FUZZ_TRUE(resume_fits(m->source, layout, m->source->geometry->samples,
                          NULL) == SL_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_file("cut-1.json", data, size);
    struct sl_error err = SL_ERROR_INIT;
    struct manifest_found m;
    enum sl_err rc;

    memset(&m, UNTOUCHED, sizeof(m));
    fuzz_budget(((size_t)1 << 20) + 256 * size);
    rc = manifest_load(&m, fs_posix(), path, &err);
    fuzz_budget(SIZE_MAX);
    if (rc == SL_OK) {
        check_accepted(&m);
        manifest_found_release(&m);
    } else {
        fuzz_refused(rc, &err);
        FUZZ_TRUE(fuzz_all(&m, UNTOUCHED, sizeof(m)));
    }
    return 0;
}
