// SPDX-License-Identifier: Apache-2.0
// state/rows/row_memory.c -- one count for the process, one for each tenant,
// and their refusals.
#include "state/rows/row_memory.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/list.h"
#include "common/base/mem.h"

#define SPARE_PART 8 // one part in so many is for accounts that hold little

struct row_sum {
    struct {
        _Atomic uint64_t used, passing; // `passing` is a part of `used`
    } _shared;
};

struct row_tenant {
    struct list_node on_list;
    char *name;        // owned
    unsigned accounts; // under the lock
    _Atomic uint64_t most, disk_most;
    struct row_sum sum, disk;
};

static struct {
    uint64_t rows, process; // settings
    struct row_sum sum;
    struct {
        _Atomic uint64_t dense;
        _Atomic uint64_t accounts;
    } _shared;
} memory;

static struct {
    pthread_mutex_t lock;
    struct list list;
} tenants = {PTHREAD_MUTEX_INITIALIZER,
             {{&tenants.list.head, &tenants.list.head}}};

void row_memory_set(uint64_t rows, uint64_t process)
{
    memory.rows = rows;
    memory.process = process;
}

uint64_t row_memory_limit(void)
{
    uint64_t most = memory.process / 5 * 4;
    uint64_t dense = atomic_load(&memory._shared.dense);

    if (memory.rows != 0)
        return memory.rows;
    if (memory.process == 0)
        return UINT64_MAX;
    return dense < most ? most - dense : 0;
}

void row_memory_add_dense(uint64_t bytes)
{
    atomic_fetch_add(&memory._shared.dense, bytes);
}

void row_memory_drop_dense(uint64_t bytes)
{
    atomic_fetch_sub(&memory._shared.dense, bytes);
}

// ---- tenants

// Returns the tenant of a name, made if there is none; NULL: no memory. Under
// the lock.
static struct row_tenant *row_tenant_of(const char *name)
{
    struct row_tenant *t;

    list_for(n, &tenants.list)
    {
        t = list_entry(n, struct row_tenant, on_list);
        if (strcmp(t->name, name) == 0)
            return t;
    }
    t = sl_calloc(1, sizeof(*t));
    if (t == NULL)
        return NULL;
    t->name = sl_strdup(name);
    if (t->name == NULL) {
        sl_free(t);
        return NULL;
    }
    atomic_init(&t->most, ROW_TENANT_FREE);
    atomic_init(&t->disk_most, ROW_TENANT_FREE);
    list_push_back(&tenants.list, &t->on_list);
    return t;
}

// Frees a tenant that has neither accounts nor a limit. Under the lock.
static void row_tenant_drop(struct row_tenant *t)
{
    if (t->accounts > 0 || atomic_load(&t->most) != ROW_TENANT_FREE ||
        atomic_load(&t->disk_most) != ROW_TENANT_FREE)
        return;
    list_remove(&t->on_list);
    sl_free(t->name);
    sl_free(t);
}

enum sl_err row_tenant_set(const char *tenant, struct row_tenant_bytes most)
{
    struct row_tenant *t;

    pthread_mutex_lock(&tenants.lock);
    t = row_tenant_of(tenant);
    if (t != NULL) {
        atomic_store(&t->most, most.memory);
        atomic_store(&t->disk_most, most.disk);
        row_tenant_drop(t);
    }
    pthread_mutex_unlock(&tenants.lock);
    return t == NULL ? SL_ENOMEM : SL_OK;
}

// Returns a tenant as the operator writes its quota.
static const char *tenant_shown(const struct row_tenant *t)
{
    return t->name[0] == '\0' ? "-" : t->name;
}

void row_tenants_each(void (*each)(void *arg, const char *tenant,
                                   struct row_tenant_bytes used,
                                   struct row_tenant_bytes most),
                      void *arg)
{
    pthread_mutex_lock(&tenants.lock);
    list_for(n, &tenants.list)
    {
        const struct row_tenant *t = list_entry(n, struct row_tenant, on_list);

        each(arg, tenant_shown(t),
             (struct row_tenant_bytes){atomic_load(&t->sum._shared.used),
                                       atomic_load(&t->disk._shared.used)},
             (struct row_tenant_bytes){atomic_load(&t->most),
                                       atomic_load(&t->disk_most)});
    }
    pthread_mutex_unlock(&tenants.lock);
}

// ---- accounts

enum sl_err row_account_open(struct row_account *a, const char *tenant)
{
    *a = (struct row_account){0};
    if (tenant != NULL) {
        pthread_mutex_lock(&tenants.lock);
        a->tenant = row_tenant_of(tenant);
        if (a->tenant != NULL)
            a->tenant->accounts++;
        pthread_mutex_unlock(&tenants.lock);
        if (a->tenant == NULL)
            return SL_ENOMEM;
    }
    atomic_fetch_add(&memory._shared.accounts, 1);
    return SL_OK;
}

void row_account_close(struct row_account *a)
{
    assert(a->bytes == 0);
    atomic_fetch_sub(&memory._shared.accounts, 1);
    if (a->tenant == NULL)
        return;
    pthread_mutex_lock(&tenants.lock);
    a->tenant->accounts--;
    row_tenant_drop(a->tenant);
    pthread_mutex_unlock(&tenants.lock);
    a->tenant = NULL;
}

// Returns the limit for an account that asks for `more`, which stays.
static uint64_t limit_for(const struct row_account *a, uint64_t more)
{
    uint64_t limit = row_memory_limit();

    return a->bytes - a->passing + more >
                   limit / atomic_load(&memory._shared.accounts)
               ? limit - limit / SPARE_PART
               : limit;
}

static enum sl_err row_sum_take(struct row_sum *s, uint64_t limit,
                                uint64_t bytes, bool passing)
{
    uint64_t used = atomic_load(&s->_shared.used);

    do {
        if (bytes > limit || used > limit - bytes)
            return passing || used + bytes - limit <=
                                  atomic_load(&s->_shared.passing)
                       ? SL_EBUSY
                       : SL_ERANGE;
    } while (
        !atomic_compare_exchange_weak(&s->_shared.used, &used, used + bytes));
    if (passing)
        atomic_fetch_add(&s->_shared.passing, bytes);
    return SL_OK;
}

static void row_sum_give(struct row_sum *s, uint64_t bytes, bool passing)
{
    // In this order: what was counted as passing is always a part of `used`.
    if (passing)
        atomic_fetch_sub(&s->_shared.passing, bytes);
    atomic_fetch_sub(&s->_shared.used, bytes);
}

enum sl_err row_account_try(struct row_account *a, uint64_t bytes, bool passing)
{
    enum sl_err rc = SL_OK;

    if (a == NULL || bytes == 0)
        return SL_OK;
    if (a->tenant != NULL)
        rc = row_sum_take(&a->tenant->sum, atomic_load(&a->tenant->most), bytes,
                          passing);
    a->of_tenant = rc != SL_OK;
    if (rc != SL_OK)
        return rc;
    rc = row_sum_take(&memory.sum, limit_for(a, passing ? 0 : bytes), bytes,
                      passing);
    if (rc != SL_OK) {
        if (a->tenant != NULL)
            row_sum_give(&a->tenant->sum, bytes, passing);
        return rc;
    }
    a->bytes += bytes;
    a->passing += passing ? bytes : 0;
    return SL_OK;
}

enum sl_err row_account_take(struct row_account *a, uint64_t bytes,
                             bool passing)
{
    enum sl_err rc;

    do
        rc = row_account_try(a, bytes, passing);
    while (rc != SL_OK && row_account_relieve(a, bytes));
    return rc;
}

bool row_account_relieve(struct row_account *a, uint64_t bytes)
{
    bool gave;

    a->why.code = SL_OK;
    if (a->relief == NULL || a->relieving)
        return false;
    a->relieving = true;
    gave = a->relief(a->stores, bytes);
    a->relieving = false;
    return gave;
}

void row_account_give(struct row_account *a, uint64_t bytes, bool passing)
{
    if (a == NULL)
        return;
    a->bytes -= bytes;
    a->passing -= passing ? bytes : 0;
    row_sum_give(&memory.sum, bytes, passing);
    if (a->tenant != NULL)
        row_sum_give(&a->tenant->sum, bytes, passing);
}

// ---- the disk

#define TENANT_ADVICE                                                          \
    "; submit the job with evict.max_rows or with more psservers, stop "       \
    "another job, or ask the operator for more (coordinator --quota %s:"

enum sl_err row_account_take_disk(const struct row_account *a, uint64_t bytes,
                                  struct sl_error *err)
{
    struct row_tenant *t = a->tenant;
    char used[BYTES_TEXT], most[BYTES_TEXT];

    if (t == NULL || row_sum_take(&t->disk, atomic_load(&t->disk_most), bytes,
                                  false) == SL_OK)
        return SL_OK;
    bytes_text(used, atomic_load(&t->disk._shared.used));
    bytes_text(most, atomic_load(&t->disk_most));
    return sl_fail(err, SL_ERANGE,
                   "no room for another row: rows of tenant %s take %s of %s "
                   "of the disk here" TENANT_ADVICE "rows_disk=BYTES)",
                   tenant_shown(t), used, most, tenant_shown(t));
}

void row_account_give_disk(const struct row_account *a, uint64_t bytes)
{
    if (a->tenant != NULL)
        row_sum_give(&a->tenant->disk, bytes, false);
}

// ---- refusals

#define LATER ", more is free when a snapshot is written"

static enum sl_err refuse_tenant(const struct row_tenant *t, enum sl_err rc,
                                 struct sl_error *err)
{
    char used[BYTES_TEXT], most[BYTES_TEXT];
    const char *name = tenant_shown(t);

    bytes_text(used, atomic_load(&t->sum._shared.used));
    bytes_text(most, atomic_load(&t->most));
    if (rc == SL_EBUSY)
        return sl_fail(err, rc,
                       "no memory for another row: rows of tenant %s take %s "
                       "of %s here" LATER,
                       name, used, most);
    return sl_fail(err, rc,
                   "no memory for another row: rows of tenant %s take %s of %s "
                   "here" TENANT_ADVICE "rows=BYTES)",
                   name, used, most, name);
}

enum sl_err row_memory_refuse(const struct row_account *a, enum sl_err rc,
                              struct sl_error *err)
{
    char used[BYTES_TEXT], most[BYTES_TEXT];

    if (rc == SL_ENOMEM)
        return sl_no_memory(err);
    if (a != NULL && a->why.code == rc)
        return sl_fail(err, rc, "%s", a->why.text);
    if (a != NULL && a->of_tenant)
        return refuse_tenant(a->tenant, rc, err);
    bytes_text(used, atomic_load(&memory.sum._shared.used));
    bytes_text(most, row_memory_limit());
    return sl_fail(
        err, rc, "no memory for another row: rows of all jobs take %s of %s%s",
        used, most,
        rc == SL_EBUSY ? LATER
                       : "; submit the job with evict.max_rows or with more "
                         "psservers, or give this one more (--rows-memory)");
}
