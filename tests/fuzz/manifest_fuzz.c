// SPDX-License-Identifier: Apache-2.0
// A cut's manifest, as `sluice export` reads it.
#include "client/files/cut_manifest.h"

#include "common/base/mem.h"
#include "tests/fuzz/fuzz.h"

#define UNTOUCHED 0xa5

// Every row lies on one shard, and every shard's file has a name.
static void check_accepted(const struct checkpoint_manifest *m)
{
    const struct layout *l = &m->layout;
    uint64_t in_shards = 0;

    for (uint32_t s = 0; s < l->shards_count; s++) {
        FUZZ_TRUE(m->shards[s].path != NULL);
        FUZZ_TRUE(l->shards[s].first == in_shards);
        in_shards += l->shards[s].elements;
    }
    FUZZ_TRUE(in_shards == l->elements);
    for (uint32_t p = 0; p < l->pieces_count; p++)
        FUZZ_TRUE(l->pieces[p].first + l->pieces[p].elements <= l->elements);
    for (uint32_t v = 0; v < l->variables_count; v++) {
        FUZZ_TRUE(layout_find(l, l->variables[v].name) == v);
        FUZZ_TRUE(model_shape_elements(&l->variables[v].shape) ==
                  l->variables[v].elements);
        (void)layout_keras_shape(&l->variables[v]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_file("cut-1.json", data, size);
    struct sl_error err = SL_ERROR_INIT;
    struct checkpoint_manifest m;
    enum sl_err rc;

    memset(&m, UNTOUCHED, sizeof(m));
    fuzz_budget(((size_t)1 << 20) + 256 * size);
    rc = manifest_read(&m, fs_posix(), path, &err);
    fuzz_budget(SIZE_MAX);
    if (rc == SL_OK) {
        check_accepted(&m);
        manifest_release(&m);
    } else {
        fuzz_refused(rc, &err);
        FUZZ_TRUE(fuzz_all(&m, UNTOUCHED, sizeof(m)));
    }
    return 0;
}
