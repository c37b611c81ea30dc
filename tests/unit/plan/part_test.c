// SPDX-License-Identifier: Apache-2.0
#include "plan/part.h"

#include "common/base/buf.h"
#include "common/base/mem.h"
#include "tests/harness/t.h"

static const struct part_rule automatic = {.kind = PART_AUTO};

static uint64_t count_of(struct part_rule rule, uint64_t rows, uint64_t width)
{
    struct part_var v = {rows, width, false};
    uint64_t n = 0;

    T_OK(part_count(&n, &rule, &v, t_err()));
    return n;
}

static struct part_rule fixed(uint64_t n)
{
    return (struct part_rule){.kind = PART_FIXED, .count = n};
}

static struct part_rule min_size(uint64_t bytes, uint64_t max)
{
    return (struct part_rule){PART_MIN_SIZE, 0, bytes, max};
}

static struct part_rule max_size(uint64_t bytes, uint64_t max)
{
    return (struct part_rule){PART_MAX_SIZE, 0, bytes, max};
}

// The examples of TensorFlow's own tests and pages.
TEST(part, tensorflows_partitioners)
{
    T_EQ(count_of(fixed(2), 10, 3), 2);
    T_EQ(count_of(fixed(5), 3, 4), 3);
    T_EQ(count_of(min_size(4, 2), 6, 1), 2);
    T_EQ(count_of(min_size(4, 10), 6, 1), 6);
    T_EQ(count_of(min_size(262144, 16), 1024, 1024), 16);
    T_EQ(count_of(min_size(262144, 8), 75, 1024), 2);
    T_EQ(count_of(min_size(PART_MIN_SIZE_BYTES, 1), 100000, 1024), 1);
    T_EQ(count_of(max_size(4, 0), 6, 1), 6);
    T_EQ(count_of(max_size(4, 2), 6, 1), 2);
    T_EQ(count_of(max_size(1024, 0), 6, 1), 1);
    T_EQ(count_of(max_size(4, 0), 6, 8), 6);
}

TEST(part, arguments_below_one_are_refused)
{
    const struct part_rule bad[] = {fixed(0), min_size(0, 1), min_size(1, 0),
                                    max_size(0, 1)};
    struct part_var v = {10, 1, false};
    uint64_t n = 77;

    for (size_t i = 0; i < SL_COUNT(bad); i++)
        T_FAILS(SL_EINVAL, part_count(&n, &bad[i], &v, t_err()));
    T_EQ(n, 77);
}

static void check_div(uint64_t rows, uint64_t n, const uint64_t *want)
{
    uint64_t at = 0, first, count;

    for (uint64_t k = 0; k < n; k++) {
        part_div(rows, n, k, &first, &count);
        T_EQ(first, at);
        T_EQ(count, want[k]);
        at += count;
    }
    part_div(rows, n, n, &first, &count);
    T_EQ(first, rows);
    T_EQ(count, 0);
}

TEST(part, div_gives_the_first_parts_one_row_more)
{
    check_div(10, 4, (uint64_t[]){3, 3, 2, 2});
    check_div(13, 5, (uint64_t[]){3, 3, 3, 2, 2});
    check_div(3, 3, (uint64_t[]){1, 1, 1});
}

// Every row of every variable lies in exactly one piece, pieces and shards are
// contiguous and in order, a variable has one piece per shard.
static void check_cover(const struct part_plan *p, const struct part_var *vars,
                        size_t count)
{
    uint64_t row = 0, at = 0;
    uint32_t var = 0;

    for (uint32_t i = 0; i < p->piece_count; i++) {
        const struct part_piece *q = &p->pieces[i];

        T_EQ(q->variable, var);
        T_EQ(q->first_row, row);
        T_GE(q->rows, 1);
        T_EQ(q->first_element, at);
        T_EQ(q->elements, q->rows * vars[var].row_elements);
        if (i > 0 && p->pieces[i - 1].variable == var)
            T_EQ(q->shard, p->pieces[i - 1].shard + 1);
        if (vars[var].whole)
            T_EQ(q->rows, vars[var].rows);
        row += q->rows;
        at += q->elements;
        T_LE(row, vars[var].rows);
        if (row == vars[var].rows) {
            var++;
            row = 0;
        }
    }
    T_EQ(var, count);
    T_EQ(at, p->elements);
}

static void check_shards(const struct part_plan *p)
{
    uint64_t at = 0;
    uint32_t piece = 0;

    for (uint32_t s = 0; s < p->shard_count; s++) {
        const struct part_shard *h = &p->shards[s];
        uint64_t elements = 0;

        T_EQ(h->first_element, at);
        T_EQ(h->first_piece, piece);
        T_GE(h->pieces, 1);
        T_LT(h->server, p->servers);
        for (uint32_t i = 0; i < h->pieces; i++) {
            T_EQ(p->pieces[piece + i].shard, s);
            elements += p->pieces[piece + i].elements;
        }
        T_EQ(h->elements, elements);
        at += elements;
        piece += h->pieces;
    }
    T_EQ(at, p->elements);
    T_EQ(piece, p->piece_count);
}

// Boundaries of parts, if the rule is a user's: each first row is one.
static void check_bounds(const struct part_plan *p, const struct part_var *vars,
                         const struct part_rule *rule)
{
    for (uint32_t i = 0; i < p->piece_count; i++) {
        const struct part_piece *q = &p->pieces[i];
        const struct part_var *v = &vars[q->variable];
        uint64_t n = 1, first, count;
        bool found = false;

        if (!v->whole)
            T_OK(part_count(&n, rule, v, t_err()));
        for (uint64_t k = 0; k < n && !found; k++) {
            part_div(v->rows, n, k, &first, &count);
            found = first == q->first_row;
        }
        T_TRUE(found);
    }
}

static uint64_t units_of(const struct part_var *vars, size_t count,
                         const struct part_rule *rule)
{
    uint64_t units = 0, n;

    for (size_t i = 0; i < count; i++) {
        n = 1;
        if (!vars[i].whole)
            T_OK(part_count(&n, rule, &vars[i], t_err()));
        units += n;
    }
    return units;
}

static struct part_rule random_rule(void)
{
    switch (t_below(4)) {
    case 0:
        return fixed(1 + t_below(8));
    case 1:
        return min_size(1 + t_below(500), 1 + t_below(10));
    case 2:
        return max_size(1 + t_below(500), t_below(10));
    default:
        return automatic;
    }
}

TEST(part, covers_all_rows_once)
{
    struct part_var vars[20];

    for (int round = 0; round < 3000; round++) {
        size_t count = 1 + t_below(20);
        uint32_t servers = 1 + (uint32_t)t_below(9);
        struct part_rule rule = random_rule();
        struct part_plan p;
        uint64_t units;

        for (size_t i = 0; i < count; i++)
            vars[i] = (struct part_var){1 + t_below(50), 1 + t_below(40),
                                        t_below(5) == 0};
        T_OK(part_plan_make(&p, vars, count, &rule, 4 + t_below(4000), servers,
                            t_err()));
        check_cover(&p, vars, count);
        check_shards(&p);
        check_bounds(&p, vars, &rule);
        units = units_of(vars, count, &rule);
        T_GE(p.shard_count, servers < units ? servers : units);
        part_plan_release(&p);
    }
}

// When rows are small, the shards of a variable differ by a row or so, and
// servers by at most one shard.
TEST(part, is_balanced_by_bytes)
{
    const struct part_var vars[] = {
        {100000, 64, false}, {64, 1, false}, {1000, 1000, false}, {10, 1, 0}};
    struct part_plan p;
    uint64_t load[3] = {0}, most = 0, least = UINT64_MAX;

    T_OK(part_plan_make(&p, vars, 4, &automatic, 1 << 20, 3, t_err()));
    T_EQ(p.shard_count, 29);
    for (uint32_t s = 0; s < p.shard_count; s++) {
        T_NEAR(p.shards[s].elements, s < 25 ? 256000 : 250018, 1001);
        load[p.shards[s].server] += p.shards[s].elements;
    }
    for (int i = 0; i < 3; i++) {
        most = load[i] > most ? load[i] : most;
        least = load[i] < least ? load[i] : least;
    }
    T_LE(most - least, (1 << 20) / 4 + 3000);
    part_plan_release(&p);
}

// The early layers, which the next step wants first, do not wait for the bytes
// of the large one behind them.
TEST(part, a_large_variable_keeps_to_itself)
{
    const struct part_var vars[] = {
        {32, 25, false},     {32, 1, false},   {64, 800, false}, {64, 1, false},
        {1024, 3136, false}, {1024, 1, false}, {10, 1024, false}};
    struct part_plan p;

    T_OK(part_plan_make(&p, vars, 7, &automatic, 0, 2, t_err()));
    T_EQ(p.shard_count, 14); // of about PART_LEAST_BYTES
    T_EQ(p.shards[0].elements, 32 * 25 + 32 + 64 * 800 + 64);
    for (uint32_t s = 1; s < p.shard_count; s++)
        T_NEAR(p.shards[s].elements, (1024 * 3137 + 10240) / 13, 3136);
    T_EQ(p.shards[13].pieces, 3); // what follows is next to nothing
    part_plan_release(&p);
}

TEST(part, large_models_have_larger_shards)
{
    const struct part_var medium = {8192, 4096, false}; // 128 MiB
    const struct part_var large = {65536, 4096, false}; // 1 GiB
    struct part_plan p;

    T_OK(part_plan_make(&p, &medium, 1, &automatic, 0, 2, t_err()));
    T_EQ(p.shard_count, PART_TARGET_SHARDS);
    part_plan_release(&p);
    T_OK(part_plan_make(&p, &large, 1, &automatic, 0, 2, t_err()));
    T_EQ(p.shard_count, (1 << 30) / PART_TARGET_BYTES);
    part_plan_release(&p);
}

TEST(part, small_models_still_use_all_servers)
{
    const struct part_var vars[] = {{784, 128, false}, {128, 1, false}};
    struct part_plan p;

    T_OK(part_plan_make(&p, vars, 2, &automatic, 0, 4, t_err()));
    T_EQ(p.shard_count, 4);
    for (uint32_t s = 0; s < 4; s++)
        T_EQ(p.shards[s].server < 4, true);
    part_plan_release(&p);
}

TEST(part, a_model_without_variables_has_a_shard_on_each_server)
{
    const struct part_rule fixed = {.kind = PART_FIXED, .count = 7};
    const struct part_var v = {5, 5, false};
    struct part_plan p;

    T_OK(part_plan_make(&p, NULL, 0, &fixed, 0, 3, t_err()));
    T_EQ(p.shard_count, 3);
    T_EQ(part_plan_empty(&p), 3);
    T_EQ(p.piece_count + p.elements, 0);
    for (uint32_t s = 0; s < 3; s++) {
        T_EQ(p.shards[s].server, s);
        T_EQ(p.shards[s].elements + p.shards[s].pieces, 0);
    }
    part_plan_release(&p);
    T_OK(part_plan_make(&p, &v, 1, &automatic, 0, 3, t_err()));
    T_EQ(part_plan_empty(&p), 0);
    part_plan_release(&p);
}

TEST(part, a_new_number_of_servers)
{
    struct part_shard shards[5] = {{.elements = 10},
                                   {.elements = 30},
                                   {.elements = 20},
                                   {.elements = 20},
                                   {.elements = 10}};

    T_OK(part_assign(shards, 5, 2));
    T_EQ(shards[1].server, 0); // 30
    T_EQ(shards[2].server, 1); // 20
    T_EQ(shards[3].server, 1); // 20
    T_EQ(shards[0].server, 0); // 10
    T_EQ(shards[4].server, 0); // a tie goes to the lower number
    T_FAILS(SL_EINVAL, part_assign(shards, 5, 0));
}

TEST(part, refuses_what_it_cannot)
{
    struct part_var v = {0, 1, false};
    struct part_plan p;

    T_FAILS(SL_EINVAL, part_plan_make(&p, &v, 1, &automatic, 0, 1, t_err()));
    v = (struct part_var){UINT64_MAX, 3, false};
    T_FAILS(SL_EINVAL, part_plan_make(&p, &v, 1, &automatic, 0, 1, t_err()));
    v = (struct part_var){5, 5, false};
    T_FAILS(SL_EINVAL, part_plan_make(&p, &v, 1, &automatic, 0, 0, t_err()));
}

TEST(part, each_allocation_may_fail)
{
    const struct part_var vars[] = {{100, 10, false}, {10, 1, true}};
    uint64_t before = sl_mem_live();
    bool failed = true;

    for (uint64_t n = 1; failed; n++) {
        struct part_plan p = {0};
        enum sl_err rc;

        sl_mem_fail_at(n);
        rc = part_plan_make(&p, vars, 2, &automatic, 400, 2, t_err());
        failed = sl_mem_failed();
        T_EQ(rc, failed ? SL_ENOMEM : SL_OK);
        part_plan_release(&p);
        T_EQ(sl_mem_live(), before);
    }
}

TEST(part, explains_itself)
{
    const struct part_var vars[] = {{1024, 1024, false}, {10, 1, false}};
    const char *names[] = {"dense/kernel", "dense/bias"};
    struct buf out = BUF_INIT;
    struct part_plan p;

    T_OK(part_plan_make(&p, vars, 2, &automatic, 2 << 20, 2, t_err()));
    T_OK(part_explain(&out, &p, names));
    T_HAS(buf_text(&out), "1048586 elements, 4.000 MiB, in 3 shards on 2");
    T_HAS(buf_text(&out), "server 1: ");
    T_HAS(buf_text(&out), "    dense/kernel rows 0 to ");
    T_HAS(buf_text(&out), "    dense/bias rows 0 to 9\n");
    part_plan_release(&p);
    buf_release(&out);
}
