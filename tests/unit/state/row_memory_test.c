// SPDX-License-Identifier: Apache-2.0
// The memory that rows may take: the count, its limit, and refusals.
#include "state/rows/row_memory.h"

#include "common/base/mem.h"
#include "tests/unit/state/rowset_kit.h"

static struct sl_error wrong;
static struct kit_dump before, after;

TEST(row_memory, the_limit_is_of_all_accounts)
{
    struct row_account a, b;

    row_memory_set(1000, 0);
    T_OK(row_account_open(&a, NULL));
    T_OK(row_account_open(&b, NULL));
    T_OK(row_account_take(&a, 500, false));
    T_OK(row_account_take(&b, 375, false));
    T_EQ(row_account_take(&a, 1, false), SL_ERANGE);
    T_EQ(a.bytes, 500);
    row_account_give(&b, 1, false);
    T_OK(row_account_take(&a, 1, false));
    T_OK(row_account_take(NULL, 5000, false)); // not counted
    row_account_give(&a, 501, false);
    row_account_give(&b, 374, false);
    T_OK(row_account_take(&b, 875, false));
    row_account_give(&b, 875, false);
    row_account_close(&a);
    T_EQ(row_account_take(&b, 1001, false), SL_ERANGE);
    T_OK(row_account_take(&b, 1000, false)); // alone it may take all
    row_account_give(&b, 1000, false);
    row_account_close(&b);
    row_memory_set(0, 0);
}

// The account that fills the memory is refused, and the other one goes on.
TEST(row_memory, the_last_eighth_is_for_accounts_that_hold_little)
{
    struct row_account large, small;

    row_memory_set(8000, 0);
    T_OK(row_account_open(&large, NULL));
    T_OK(row_account_open(&small, NULL));
    T_OK(row_account_take(&large, 7000, false));
    T_EQ(row_account_take(&large, 1, false), SL_ERANGE);
    T_OK(row_account_take(&small, 1000, false));
    T_EQ(row_account_take(&small, 1, false), SL_ERANGE);
    row_account_give(&large, 7000, false);
    row_account_give(&small, 1000, false);
    row_account_close(&large);
    row_account_close(&small);
    row_memory_set(0, 0);
}

TEST(row_memory, a_snapshot_s_copies_are_waited_for)
{
    struct row_account a;

    row_memory_set(1000, 0);
    T_OK(row_account_open(&a, NULL));
    T_OK(row_account_take(&a, 700, false));
    T_OK(row_account_take(&a, 200, true));
    T_EQ(row_account_take(&a, 300, false), SL_EBUSY);
    T_EQ(row_account_take(&a, 301, false), SL_ERANGE); // nor without them
    T_EQ(row_account_take(&a, 5000, true), SL_EBUSY);
    row_account_give(&a, 200, true);
    T_EQ(row_account_take(&a, 301, false), SL_ERANGE);
    T_OK(row_account_take(&a, 300, false));
    row_account_give(&a, 1000, false);
    row_account_close(&a);
    row_memory_set(0, 0);
}

static void sum_tenants(void *arg, const char *tenant,
                        struct row_tenant_bytes used,
                        struct row_tenant_bytes most)
{
    uint64_t *sum = arg;

    T_TRUE(most.memory == 1000 || most.memory == ROW_TENANT_FREE);
    *sum += used.memory * (tenant[0] == 'a' ? 1 : 10000);
}

// Limits the memory of a tenant's rows alone.
static enum sl_err memory_of(const char *tenant, uint64_t most)
{
    return row_tenant_set(tenant,
                          (struct row_tenant_bytes){most, ROW_TENANT_FREE});
}

static uint64_t tenants_sum(void)
{
    uint64_t sum = 0;

    row_tenants_each(sum_tenants, &sum);
    return sum;
}

// Whatever else is free here; and what one tenant is refused, another has.
TEST(row_memory, a_tenant_s_accounts_have_a_limit_of_their_own)
{
    struct row_account one, two, other, nobodys;

    row_memory_set(10000, 0);
    T_OK(memory_of("a", 1000));
    T_OK(row_account_open(&one, "a"));
    T_OK(row_account_open(&two, "a"));
    T_OK(row_account_open(&other, "b"));
    T_OK(row_account_open(&nobodys, NULL));
    T_OK(row_account_take(&one, 600, false));
    T_OK(row_account_take(&two, 300, false));
    T_EQ(row_account_take(&two, 101, false), SL_ERANGE);
    T_FAILS(SL_ERANGE, row_memory_refuse(&two, SL_ERANGE, &wrong));
    T_HAS(wrong.text, "rows of tenant a take 900 B of 1000 B here");
    T_HAS(wrong.text, "coordinator --quota a:rows=BYTES");
    T_OK(row_account_take(&two, 100, true));
    T_EQ(row_account_take(&one, 50, false), SL_EBUSY); // copies, as above
    T_FAILS(SL_EBUSY, row_memory_refuse(&one, SL_EBUSY, &wrong));
    T_HAS(wrong.text, "tenant a take 1000 B of 1000 B here, more is free when");
    T_OK(row_account_take(&other, 3000, false));
    T_OK(row_account_take(&nobodys, 2000, false));
    T_EQ(tenants_sum(), 1000 + 3000 * 10000);
    // What the process has not is taken of no tenant.
    T_EQ(row_account_take(&other, 9000, false), SL_ERANGE);
    T_FAILS(SL_ERANGE, row_memory_refuse(&other, SL_ERANGE, &wrong));
    T_HAS(wrong.text, "rows of all jobs take");
    T_EQ(tenants_sum(), 1000 + 3000 * 10000);
    row_account_give(&two, 100, true);
    row_account_give(&two, 300, false);
    T_OK(row_account_take(&one, 400, false));
    row_account_give(&one, 1000, false);
    row_account_close(&one);
    row_account_close(&two);
    row_account_give(&other, 3000, false);
    row_account_give(&nobodys, 2000, false);
    row_account_close(&other);
    row_account_close(&nobodys);
    row_memory_set(0, 0);
    T_OK(memory_of("a", ROW_TENANT_FREE));
}

// Beside that of memory, which it leaves alone.
TEST(row_memory, a_tenant_s_disk_has_a_limit_of_its_own)
{
    size_t live = sl_mem_live();
    struct row_account one, two, nobodys;

    T_OK(row_tenant_set("a", (struct row_tenant_bytes){ROW_TENANT_FREE, 1000}));
    T_OK(row_account_open(&one, "a"));
    T_OK(row_account_open(&two, "a"));
    T_OK(row_account_open(&nobodys, NULL));
    T_OK(row_account_take_disk(&one, 600, &wrong));
    T_OK(row_account_take_disk(&two, 400, &wrong));
    T_FAILS(SL_ERANGE, row_account_take_disk(&two, 1, &wrong));
    T_HAS(wrong.text, "rows of tenant a take 1000 B of 1000 B of the disk");
    T_HAS(wrong.text, "coordinator --quota a:rows_disk=BYTES");
    T_OK(row_account_take(&two, 5000, false));
    T_OK(row_account_take_disk(&nobodys, 5000, &wrong));
    row_account_give_disk(&one, 600);
    T_OK(row_account_take_disk(&two, 600, &wrong));
    row_account_give_disk(&two, 1000);
    row_account_give_disk(&nobodys, 5000);
    row_account_give(&two, 5000, false);
    row_account_close(&one);
    row_account_close(&two);
    row_account_close(&nobodys);
    T_OK(memory_of("a", ROW_TENANT_FREE));
    T_EQ(sl_mem_live(), live);
}

// A limit comes again with each coordinator, and may be another by then.
TEST(row_memory, a_tenant_s_limit_may_change_while_it_has_rows)
{
    size_t live = sl_mem_live();
    struct row_account a;

    T_OK(row_account_open(&a, ""));
    T_OK(row_account_take(&a, 5000, false)); // no limit yet
    T_OK(memory_of("", 1000));
    T_EQ(row_account_take(&a, 1, false), SL_ERANGE);
    T_FAILS(SL_ERANGE, row_memory_refuse(&a, SL_ERANGE, &wrong));
    T_HAS(wrong.text, "tenant - take 4.883 KiB of 1000 B here");
    row_account_give(&a, 4500, false);
    T_OK(row_account_take(&a, 500, false));
    T_OK(memory_of("", ROW_TENANT_FREE));
    T_OK(row_account_take(&a, 5000, false));
    row_account_give(&a, 6000, false);
    row_account_close(&a);
    T_EQ(sl_mem_live(), live);
    T_OK(memory_of("c", 1000)); // before it has any
    T_GT(sl_mem_live(), live);
    T_OK(row_account_open(&a, "c"));
    T_EQ(row_account_take(&a, 1001, false), SL_ERANGE);
    row_account_close(&a);
    T_OK(memory_of("c", ROW_TENANT_FREE));
    T_EQ(sl_mem_live(), live);
}

// Of a limit below 1 MiB, too.
TEST(row_memory, a_refusal_names_the_figures_as_they_are)
{
    struct row_account a;

    row_memory_set(600 << 10, 0);
    T_OK(row_account_open(&a, NULL));
    T_OK(row_account_take(&a, 512 << 10, false));
    T_EQ(row_account_take(&a, 512 << 10, false), SL_ERANGE);
    T_FAILS(SL_ERANGE, row_memory_refuse(&a, SL_ERANGE, &wrong));
    T_HAS(wrong.text, "rows of all jobs take 512 KiB of 600 KiB; submit");
    row_account_give(&a, 512 << 10, false);
    row_account_close(&a);
    row_memory_set(0, 0);
}

TEST(row_memory, the_limit_follows_the_process_and_other_memory)
{
    T_EQ(row_memory_limit(), UINT64_MAX);
    row_memory_set(0, 10000);
    T_EQ(row_memory_limit(), 8000);
    row_memory_add_dense(3000);
    T_EQ(row_memory_limit(), 5000);
    row_memory_set(900, 10000); // as was said
    T_EQ(row_memory_limit(), 900);
    row_memory_set(0, 10000);
    row_memory_add_dense(6000);
    T_EQ(row_memory_limit(), 0);
    row_memory_drop_dense(9000);
    T_EQ(row_memory_limit(), 8000);
    row_memory_set(0, 0);
}

// ---- sets of rows

static struct rowset *counted_set(struct row_account *a, uint32_t min_count)
{
    struct rowset_spec spec = kit_spec(2);

    T_OK(row_account_open(a, NULL));
    spec.account = a;
    spec.min_count = min_count;
    return kit_new(&spec);
}

// All that is taken is given back, whatever comes and goes meanwhile.
TEST(row_memory, a_set_gives_back_what_it_took)
{
    struct rowset_counts counts;
    struct row_account a;
    struct rowset *r = counted_set(&a, 2);
    uint64_t calm = 0;

    for (uint32_t version = 1; version < 60; version++) {
        if (version % 3 == 0) {
            calm = a.bytes;
            rowset_freeze(r, version - 1);
        }
        kit_push_range(r, version, version * 100, version * 100 + 1999);
        rowset_counts(r, &counts);
        T_GE(a.bytes, counts.bytes);
        if (version % 3 != 0)
            continue;
        memset(&after, 0, sizeof(after));
        (void)kit_walk(r, &after, 7);
        T_GT(a.bytes, calm);
        rowset_thaw(r);
        rowset_counts(r, &counts);
        // A push's ids are paid for before they have rows.
        T_GE(counts.bytes + 2000 * (KIT_RECORD + 16), a.bytes);
    }
    rowset_free(r);
    T_EQ(a.bytes, 0);
    row_account_close(&a);
}

static enum sl_err reserve_range(struct rowset *r, uint64_t first, size_t n)
{
    static uint64_t ids[KIT_IDS];

    for (size_t i = 0; i < n; i++)
        ids[i] = first + i;
    qsort(ids, n, sizeof(*ids), kit_by_hash);
    return rowset_reserve(r, n, ids);
}

// Rows that are there still learn, and memory that comes is used.
TEST(row_memory, a_refused_push_has_changed_nothing)
{
    for (uint32_t min_count = 1; min_count < 3; min_count++) {
        struct row_account a;
        struct rowset *r = counted_set(&a, min_count);

        kit_push_range(r, 1, 0, 99);
        kit_push_range(r, 2, 0, 99);
        kit_dump(&before, r);
        row_memory_set(a.bytes, 0);
        T_EQ(reserve_range(r, 1000, 300), SL_ERANGE);
        T_EQ(rowset_expect(r, ROWSET_ROWS, 300), SL_ERANGE);
        kit_dump(&after, r);
        kit_same(&before, &after);
        kit_push_range(r, 3, 0, 99);
        rowset_freeze(r, 3);
        T_EQ(reserve_range(r, 0, 100), SL_EBUSY); // no memory for copies
        rowset_thaw(r);
        row_memory_set(a.bytes + (100 << 10), 0);
        kit_push_range(r, 4, 1000, 1299);
        row_memory_set(0, 0);
        rowset_free(r);
        T_EQ(a.bytes, 0);
        row_account_close(&a);
    }
}

// Where memory is short, updates that fit come to the same rows as ever.
TEST(row_memory, a_full_set_goes_on_in_short_memory)
{
    struct rowset_spec spec = kit_spec(2);
    struct row_account a;
    struct rowset *r, *free;
    unsigned refused = 0;

    spec.min_count = 2;
    spec.max_rows = 300;
    free = kit_new(&spec);
    T_OK(row_account_open(&a, NULL));
    spec.account = &a;
    r = kit_new(&spec);
    for (uint32_t version = 1; version < 200; version++) {
        uint64_t first = t_rand() % 1000;

        row_memory_set(version < 10 ? 0 : a.bytes + 64, 0);
        if (reserve_range(r, first, 200) != SL_OK) {
            refused++;
            continue;
        }
        kit_push_range(r, version, first, first + 199);
        kit_push_range(free, version, first, first + 199);
        kit_dump(&before, free);
        kit_dump(&after, r);
        kit_same(&before, &after);
    }
    T_GT(refused, 0);
    T_LT(refused, 100);
    row_memory_set(0, 0);
    rowset_free(r);
    rowset_free(free);
    row_account_close(&a);
}

// Empty sets take memory, too: tables and buckets may be many.
TEST(row_memory, a_set_that_does_not_fit_is_refused)
{
    struct rowset_spec spec = kit_spec(TABLE_BUCKETS_MOST);
    const struct {
        struct row_header h;
        float values[4];
    } one = {{5, 1, 1}, {1, 2, 3, 0}};
    struct row_account a;
    struct rowset *r;

    T_OK(row_account_open(&a, NULL));
    spec.account = &a;
    spec.min_count = 2;
    row_memory_set(2 << 20, 0); // for the buckets of one part
    T_FAILS(SL_ENOMEM, rowset_new(&r, &spec, &wrong));
    T_HAS(wrong.text, "table 3: no memory");
    T_HAS(wrong.text, "of 2 MiB");
    T_EQ(a.bytes, 0);
    row_memory_set(4 << 20, 0);
    r = kit_new(&spec);
    row_memory_set(a.bytes, 0);
    T_FAILS(SL_ERANGE, rowset_put(r, ROWSET_ROWS, 1, 1, &one, &wrong));
    T_HAS(wrong.text, "table 3: no memory for another row");
    row_memory_set(0, 0);
    rowset_free(r);
    T_EQ(a.bytes, 0);
    row_account_close(&a);
}

// Without memory nothing stays counted.
TEST(row_memory, what_was_not_allocated_is_not_counted)
{
    struct row_account a;
    struct rowset *r = counted_set(&a, 2);
    uint64_t taken = a.bytes;
    enum sl_err rc;

    for (uint64_t n = 1;; n++) {
        rowset_freeze(r, 1);
        sl_mem_fail_at(n);
        rc = reserve_range(r, 0, 500);
        if (!sl_mem_failed())
            break;
        T_EQ(rc, SL_ENOMEM);
        rowset_thaw(r);
    }
    T_OK(rc);
    sl_mem_fail_at(0);
    T_GT(a.bytes, taken);
    rowset_free(r);
    T_EQ(a.bytes, 0);
    row_account_close(&a);
}
