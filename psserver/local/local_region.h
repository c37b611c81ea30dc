// SPDX-License-Identifier: Apache-2.0
// psserver/local/local_region.h -- shared by local*.c only.
#ifndef PSSERVER_LOCAL_LOCAL_REGION_H
#define PSSERVER_LOCAL_LOCAL_REGION_H

#include <pthread.h>
#include <stdatomic.h>

#include "common/base/list.h"
#include "common/base/map.h"
#include "common/net/local/shm.h"
#include "psserver/local/local.h"

// Which regions there are. Calls find them here, on any thread.
struct local_table {
    pthread_mutex_t lock; // of the map
    struct map regions;   // number -> struct local_region
    _Atomic size_t bytes; // mapped, also what only calls still use
};

struct local_region {
    struct local_table *table;
    struct shm memory;
    uint64_t number;
    _Atomic unsigned refs; // the table's one, and one per use
    struct list_node node; // in its peer; the loop's
};

void local_table_init(struct local_table *t);
void local_table_release(struct local_table *t); // it is empty

// Maps what came over the socket and makes it known. SL_EBUSY: too much.
enum sl_err local_table_add(struct local_table *t, int fd, size_t bytes,
                            struct local_region **out, struct sl_error *err);

// Nobody finds it any more; unmapped when its last use ends.
void local_table_drop(struct local_region *r);

enum sl_err local_table_take(struct local_table *t, const struct wire_shm *ref,
                             struct local_use *out, struct sl_error *err);

#endif
