// SPDX-License-Identifier: Apache-2.0
#include "client/files/table_delta.h"

#include "common/base/mem.h"
#include "tests/unit/client/table_world.h"

// Checks that the delta from a table to another has the rows that differ.
static void check_delta(const struct table_delta *d, const struct world *was,
                        const struct world *is)
{
    bool changed[IDS] = {false}, gone[IDS] = {false};

    for (size_t k = 0; k < d->changed_count; k++) {
        uint64_t id;

        memcpy(&id, d->changed[k] - TABLE_RECORD_HEAD, sizeof(id));
        T_TRUE(find_id(id) >= 0 && !changed[find_id(id)]);
        changed[find_id(id)] = true;
        T_MEM(d->changed[k], is->values[find_id(id)], sizeof(float) * DIM);
    }
    for (size_t k = 0; k < d->gone_count; k++) {
        T_TRUE(find_id(d->gone[k]) >= 0 && !gone[find_id(d->gone[k])]);
        gone[find_id(d->gone[k])] = true;
    }
    for (int i = 0; i < IDS; i++) {
        bool same =
            memcmp(was->values[i], is->values[i], sizeof(was->values[i])) == 0;

        T_EQ(gone[i], was->has[i] && !is->has[i]);
        T_EQ(changed[i], is->has[i] && (!was->has[i] || !same));
    }
}

TEST(table_delta, a_delta_has_just_the_rows_whose_bytes_changed)
{
    struct world was = {.has = {false}}, is = was;

    for (int step = 0; step < 100; step++) {
        struct table_export before, after;
        struct table_delta d = {.dim = 0};

        world_step(&is);
        open_cut(&before, &was);
        open_cut(&after, &is);
        T_OK(table_delta_of_cuts(&d, &before, &after, t_tmpdir(), t_err()));
        check_delta(&d, &was, &is);
        table_delta_release(&d);
        table_export_release(&before);
        table_export_release(&after);
        was = is;
    }
}

// Returns the digest of a table with these rows.
static struct table_sum sum_of(const struct world *w)
{
    struct table_delta d = {.dim = 0};
    struct table_export x;
    struct table_sum sum;

    open_cut(&x, w);
    T_OK(table_delta_of_cuts(&d, NULL, &x, t_tmpdir(), t_err()));
    sum = d.after;
    table_delta_release(&d);
    table_export_release(&x);
    return sum;
}

// Readers in other languages compute it too: the numbers never change.
TEST(table_delta, the_digest_is_that_of_the_rows_in_any_order)
{
    struct world w = {.has = {[5] = true}, .values = {[5] = {1, -2, 0.5F}}};
    uint64_t one = sum_of(&w).digest, other;

    T_EQ(one, 0x753c7bf2b89ebbeau);
    w.has[5] = false;
    w.has[6] = true;
    other = sum_of(&w).digest;
    T_TRUE(one != other);
    w.has[5] = true;
    T_EQ(sum_of(&w).digest, one + other);
    T_EQ(sum_of(&w).rows, 2);
    w.values[5][2] = 0.25F;
    T_TRUE(sum_of(&w).digest != one + other);
}

TEST(table_delta, an_id_that_stands_twice_is_refused)
{
    struct world w = {.has = {true}};
    uint32_t shard = shard_of(id_of(0));
    struct table_delta d = {.dim = 0};
    struct table_export x = {.name = NULL};
    struct sl_error why;

    T_OK(table_export_begin(&x, "users", DIM, 0, SHARDS, t_err()));
    write_shard(&w, shard, place("same"));
    for (uint32_t i = 0; i < SHARDS; i++)
        T_OK(
            table_export_file(&x, i, fs_posix(), place("same"), NULL, t_err()));
    T_FAILS(SL_ECORRUPT, table_delta_of_cuts(&d, NULL, &x, t_tmpdir(), &why));
    T_HAS(why.text, "stands twice");
    table_delta_release(&d);
    table_export_release(&x);
}

TEST(table_delta, memory_may_end_anywhere)
{
    struct world was = {.has = {true, true}}, is = {.has = {true, false, true}};
    struct table_export before, after;
    struct table_delta d = {.dim = 0};
    enum sl_err rc;

    open_cut(&before, &was);
    open_cut(&after, &is);
    for (uint64_t n = 1;; n++) {
        sl_mem_fail_at(n);
        rc = table_delta_of_cuts(&d, &before, &after, t_tmpdir(), NULL);
        if (!sl_mem_failed())
            break;
        T_EQ(rc, SL_ENOMEM);
        table_delta_release(&d);
    }
    T_OK(rc);
    check_delta(&d, &was, &is);
    table_delta_release(&d);
    table_export_release(&before);
    table_export_release(&after);
}

// Returns true if this process has the file mapped.
static bool is_mapped(const char *path)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[8192];
    bool found = false;

    T_TRUE(maps != NULL);
    while (!found && fgets(line, sizeof(line), maps) != NULL)
        found = strstr(line, path) != NULL;
    fclose(maps);
    return found;
}

// Writes a snapshot without rows that is a delta to a file which is missing.
static void write_without_base(const char *path)
{
    static const struct tensor_meta chain = {
        TABLE_CHAIN_KEY, "gone.safetensors:"
                         "0123456789abcdef0123456789abcdef"
                         "0123456789abcdef0123456789abcdef"};
    struct tensor_info t = {.name = "#rows_changed.users",
                            .dtype = TENSOR_U8,
                            .rank = 2,
                            .shape = {0, RECORD}};
    struct tensorfile_writer *file;

    T_OK(tensorfile_layout(&t, 1, t_err()));
    T_OK(tensorfile_create(&file, fs_posix(), path, &t, 1, &chain, 1, true,
                           t_err()));
    T_OK(tensorfile_finish(file, NULL, t_err()));
}

// The shard is then named again, with a psserver or another file.
TEST(table_delta, a_snapshot_without_its_base_is_not_kept)
{
    struct world w = {.has = {true, true}};
    struct table_export x = {.name = NULL};

    write_without_base(place("alone"));
    write_shard(&w, 0, place("whole"));
    T_OK(table_export_begin(&x, "users", DIM, 0, SHARDS, t_err()));
    T_FAILS(SL_ENOENT, table_export_file(&x, 0, fs_posix(), place("alone"),
                                         NULL, t_err()));
    T_TRUE(!is_mapped(place("alone")));
    T_OK(table_export_file(&x, 0, fs_posix(), place("whole"), NULL, t_err()));
    T_TRUE(is_mapped(place("whole")));
    T_EQ(table_export_records(&x, 0)->records, x.rows);
    table_export_release(&x);
    T_TRUE(!is_mapped(place("whole")));
}
