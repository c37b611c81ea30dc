// SPDX-License-Identifier: Apache-2.0
// Pushes and pulls through memory that is shared, over the real interface.
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "kernels/half.h"
#include "proto/local.h"
#include "state/shard/copyin.h"
#include "tests/unit/psserver/stage.h"

enum { ALL = 47, KERNEL = 35, MOVING = 3, HALF = 256 };

static struct stage stage;

// A worker that shares one region: a gradient at 0, an answer at HALF.
struct near {
    int fd;
    struct shm memory;
    uint64_t region;
};

static void near_open(struct near *n)
{
    struct local_note note = {.kind = LOCAL_MAP, .bytes = 2 * HALF};
    Sluice__V1__LocalReply about;
    enum sl_err rc;
    int fd;

    local_about(stage.local, &about);
    note.token = about.token;
    T_OK(shm_connect(&n->fd, about.path, t_err()));
    T_OK(shm_new(&n->memory, &fd, 2 * HALF, t_err()));
    T_OK(local_send(n->fd, note, fd));
    close(fd);
    while ((rc = local_receive(n->fd, &note, &fd)) == SL_EBUSY)
        stage_expect(&stage, SLUICE__V1__ATTEND_UP__KIND_HEARTBEAT);
    T_OK(rc);
    T_EQ(note.kind, LOCAL_MAPPED);
    n->region = note.region;
}

static void near_close(struct near *n)
{
    close(n->fd);
    shm_release(&n->memory);
}

static float *gradient(struct near *n)
{
    return (float *)(void *)n->memory.at;
}

static float *answer(struct near *n)
{
    return (float *)(void *)(n->memory.at + HALF);
}

static void fill(struct near *n, float value)
{
    for (int i = 0; i < ALL; i++)
        gradient(n)[i] = value;
}

static struct wire_push push_of(const struct near *n, uint32_t step)
{
    struct wire_push push = kit_push(step / 4, step % 4, NULL);

    push.skip = false;
    push.has_shm = push.has_answer = true;
    push.shm = (struct wire_shm){n->region, 0, ALL * sizeof(float)};
    push.answer = (struct wire_shm){n->region, HALF, ALL * sizeof(float)};
    return push;
}

static void open_both(struct near *n, struct kit *k)
{
    kit_init(k);
    stage_open(&stage);
    stage_serve(&stage, k);
    near_open(n);
}

static void close_both(struct near *n)
{
    near_close(n);
    stage_close(&stage);
}

TEST(exchange, a_gradient_comes_and_parameters_go)
{
    struct wire_push_reply reply;
    struct wire_push push;
    struct near n;
    struct kit k;

    open_both(&n, &k);
    push = push_of(&n, 0);
    for (int i = 0; i < 2; i++) { // the second time it is a duplicate
        fill(&n, i == 0 ? -1 : -100);
        memset(answer(&n), 0xee, HALF);
        T_OK(stage_push(&stage, WIRE_PUSH_PULL, &push, &reply));
        T_EQ(reply.result, i == 0 ? WIRE_PUSH_COUNTED : WIRE_PUSH_DUPLICATE);
        T_EQ(reply.version, 1);
        T_TRUE(reply.in_shm);
        T_EQ(reply.payload.bytes, 0);
        T_EQ(answer(&n)[0], 1);
        T_TRUE(answer(&n)[KERNEL] == -0.5f); // a moving mean
        T_EQ(answer(&n)[ALL - 1], 1);
        T_EQ(n.memory.at[HALF + ALL * 4], 0xee); // and no more than that
    }
    close_both(&n);
}

TEST(exchange, each_way_may_be_shared_alone)
{
    struct wire_pull pull = {.job = 7, .job_incarnation = 1, .shard = 2};
    struct wire_pull_reply pulled;
    struct wire_push_reply reply;
    struct wire_push push;
    float values[ALL];
    struct near n;
    struct kit k;

    open_both(&n, &k);
    fill(&n, -1);
    push = push_of(&n, 0);
    push.has_answer = false;
    T_OK(stage_push(&stage, WIRE_PUSH_PULL, &push, &reply));
    T_EQ(reply.result, WIRE_PUSH_COUNTED);
    T_FALSE(reply.in_shm);
    stage_floats(&reply.payload, values, ALL);
    T_EQ(values[0], 1);

    push = push_of(&n, 1);
    push.has_shm = false;
    push.skip = true;
    T_OK(stage_push(&stage, WIRE_PUSH_PULL, &push, &reply));
    T_TRUE(reply.in_shm);
    T_EQ(answer(&n)[0], 1);

    push = push_of(&n, 2); // Push never has an answer
    T_OK(stage_push(&stage, WIRE_PUSH, &push, &reply));
    T_FALSE(reply.in_shm);

    pull.has_answer = true;
    pull.answer = push.answer;
    T_OK(stage_pull(&stage, &pull, &pulled));
    T_TRUE(pulled.in_shm);
    T_EQ(pulled.version, 2);
    T_EQ(answer(&n)[0], 2);
    pull.answer.region++; // then it comes as bytes
    T_OK(stage_pull(&stage, &pull, &pulled));
    T_FALSE(pulled.in_shm);
    stage_floats(&pulled.payload, values, ALL);
    T_EQ(values[0], 2);
    close_both(&n);
}

TEST(exchange, an_unknown_region_is_refused_and_the_bytes_count_once)
{
    struct wire_push_reply reply;
    struct kit_payload payload;
    struct wire_push push;
    struct near n;
    struct kit k;

    open_both(&n, &k);
    push = push_of(&n, 0);
    push.shm.region++;
    for (int i = 0; i < 2; i++) {
        T_OK(stage_push(&stage, WIRE_PUSH_PULL, &push, &reply));
        T_EQ(reply.result, WIRE_PUSH_REFUSED);
        T_EQ(reply.refused.why, WIRE_REFUSED_REGION);
        T_EQ(reply.incarnation, 1);
        T_FALSE(reply.in_shm);
    }
    kit_payload_equal(&payload, -1, ALL, 0);
    push = kit_push(0, 0, &payload); // the same key
    T_OK(stage_push(&stage, WIRE_PUSH_PULL, &push, &reply));
    T_EQ(reply.result, WIRE_PUSH_COUNTED);
    T_EQ(reply.version, 1);
    kit_payload_release(&payload);

    near_close(&n); // dies; its region goes with it
    near_open(&n);
    fill(&n, -1);
    push = push_of(&n, 1);
    T_OK(stage_push(&stage, WIRE_PUSH_PULL, &push, &reply));
    T_EQ(reply.result, WIRE_PUSH_COUNTED);
    T_EQ(reply.version, 2);
    close_both(&n);
}

TEST(exchange, what_does_not_fit_or_is_not_finite_changes_nothing)
{
    struct wire_push_reply reply;
    struct wire_push push;
    float values[ALL];
    struct near n;
    struct kit k;

    open_both(&n, &k);
    fill(&n, -1);
    push = push_of(&n, 0);
    push.shm.bytes -= 4;
    T_FAILS(SL_EINVAL, stage_push(&stage, WIRE_PUSH_PULL, &push, &reply));
    push = push_of(&n, 0);
    push.shm.offset = 2 * HALF - 4;
    T_FAILS(SL_ERANGE, stage_push(&stage, WIRE_PUSH_PULL, &push, &reply));
    push = push_of(&n, 0);
    for (int i = 0; i < ALL; i++) {
        gradient(&n)[i] = i % 2 ? NAN : -INFINITY;
        T_FAILS(SL_ENUMERIC, stage_push(&stage, WIRE_PUSH_PULL, &push, &reply));
        T_HAS(t_err()->text, "");
        gradient(&n)[i] = -1;
    }
    push.answer.bytes -= 4; // no space: as bytes
    T_OK(stage_push(&stage, WIRE_PUSH_PULL, &push, &reply));
    T_EQ(reply.result, WIRE_PUSH_COUNTED);
    T_EQ(reply.version, 1);
    T_FALSE(reply.in_shm);
    stage_floats(&reply.payload, values, ALL);
    T_EQ(values[0], 1);
    close_both(&n);
}

// ---- 16 bits

// 47 elements are 94 bytes: both references are rounded up to 96.
TEST(exchange, sixteen_bits_come_and_go)
{
    static const struct {
        enum wire_type type;
        uint16_t minus_one, one, half, nan;
    } rows[] = {{WIRE_BF16, 0xbf80, 0x3f80, 0xbf00, 0xffc0},
                {WIRE_F16, 0xbc00, 0x3c00, 0xb800, 0x7e00}};
    struct wire_push_reply reply;
    struct wire_push push;
    uint16_t got[ALL];
    struct near n;
    struct kit k;

    for (size_t r = 0; r < SL_COUNT(rows); r++) {
        uint16_t *in, *out;

        open_both(&n, &k);
        in = (uint16_t *)(void *)n.memory.at;
        out = (uint16_t *)(void *)(n.memory.at + HALF);
        memset(out, 0xee, HALF);
        for (int i = 0; i < ALL; i++)
            in[i] = rows[r].minus_one;
        in[ALL] = rows[r].nan; // is not one of them
        push = push_of(&n, 0);
        push.wire = rows[r].type;
        T_FAILS(SL_EINVAL, stage_push(&stage, WIRE_PUSH_PULL, &push, &reply));
        push.shm.bytes = push.answer.bytes = wire_shm_bytes(push.wire, ALL);
        in[ALL - 1] = rows[r].nan;
        T_FAILS(SL_ENUMERIC, stage_push(&stage, WIRE_PUSH_PULL, &push, &reply));
        in[ALL - 1] = rows[r].minus_one;
        T_OK(stage_push(&stage, WIRE_PUSH_PULL, &push, &reply));
        T_TRUE(reply.in_shm && reply.wire == rows[r].type);
        T_EQ(out[0], rows[r].one);
        T_EQ(out[KERNEL], rows[r].half); // a moving mean
        T_EQ(out[ALL - 1], rows[r].one);
        T_EQ(out[ALL], 0xeeee);

        push = push_of(&n, 1); // as bytes, and a duplicate
        push.wire = rows[r].type;
        push.step = 0;
        push.has_shm = push.has_answer = false;
        push.skip = true;
        T_OK(stage_push(&stage, WIRE_PUSH_PULL, &push, &reply));
        T_EQ(reply.result, WIRE_PUSH_DUPLICATE);
        T_EQ(reply.wire, rows[r].type);
        T_EQ(reply.payload.bytes, sizeof(got));
        slices_copy(got, &reply.payload);
        T_MEM(got, out, sizeof(got));
        close_both(&n);
    }
}

// Each asks for what it likes, of the same version.
TEST(exchange, pulls_of_each_type_have_their_own_copy)
{
    struct wire_pull pull = {.job = 7, .job_incarnation = 1, .shard = 2};
    struct wire_pull_reply pulled;
    uint16_t narrow[ALL];
    float values[ALL];
    struct kit k;

    kit_init(&k);
    stage_open(&stage);
    stage_serve(&stage, &k);
    for (unsigned i = 0; i < 9; i++) {
        pull.wire = (enum wire_type)(i % WIRE_TYPES);
        T_OK(stage_pull(&stage, &pull, &pulled));
        T_EQ(pulled.wire, pull.wire);
        T_EQ(pulled.payload.bytes, ALL * wire_type_bytes(pull.wire));
        if (pull.wire == WIRE_F32) {
            stage_floats(&pulled.payload, values, ALL);
            continue;
        }
        slices_copy(narrow, &pulled.payload);
        for (int e = 0; e < ALL; e++)
            T_EQ(narrow[e], pull.wire == WIRE_BF16 ? half_to_bf16(values[e])
                                                   : half_to_f16(values[e]));
    }
    stage_close(&stage);
}

// What changed goes as it is, of the versions that it leads to; to any other
// worker all goes, and to one that has the version nothing.
TEST(exchange, a_change_goes_to_who_has_the_version_before)
{
    struct wire_pull pull = {.job = 7,
                             .job_incarnation = 1,
                             .shard = 2,
                             .incarnation = 1,
                             .wire = WIRE_INT8};
    struct wire_pull_reply pulled;
    struct kit_payload payload;
    struct wire_push push;
    struct wire_push_reply pushed;
    struct kit k;

    kit_init(&k);
    k.geometry.steps_per_closure = 1;
    k.spec.contributions = 1;
    k.spec.down = WIRE_INT8;
    stage_open(&stage);
    stage_serve(&stage, &k);
    kit_payload_equal(&payload, 1, ALL, 0);
    push = kit_push(0, 0, &payload);
    T_OK(stage_push(&stage, WIRE_PUSH, &push, &pushed));
    T_EQ(pushed.result, WIRE_PUSH_COUNTED);
    for (pull.have = 0; pull.have < 4; pull.have++) {
        T_OK(stage_pull(&stage, &pull, &pulled));
        T_EQ(pulled.version, 1);
        if (pull.have == 1) // a row of 35, 3 exact, a row of 9
            T_EQ(pulled.payload.bytes, 4 + 35 + 4 * 3 + 4 + 9);
        else
            T_EQ(pulled.payload.bytes, pull.have == 2 ? 0 : 4 * ALL);
        T_EQ(pulled.wire,
             pull.have == 1 || pull.have == 2 ? WIRE_INT8 : WIRE_F32);
    }
    pull.have = 1;
    pull.wire = WIRE_E3M0; // of which the shard has none
    T_OK(stage_pull(&stage, &pull, &pulled));
    T_EQ(pulled.wire, WIRE_F32);
    // An answer to a push has no change.
    push.closure = 1;
    push.wire = WIRE_INT8;
    T_FAILS(SL_EINVAL, stage_push(&stage, WIRE_PUSH_PULL, &push, &pushed));
    kit_payload_release(&payload);
    stage_close(&stage);
}

// ---- a worker that writes while the psserver reads

static atomic_bool ending;

static void *spoil(void *arg)
{
    volatile float *at = gradient(arg);

    for (unsigned i = 0; !atomic_load(&ending); i++) {
        at[i % ALL] = NAN;
        at[i % ALL] = -1;
    }
    return NULL;
}

TEST(exchange, nothing_is_applied_that_was_not_looked_at)
{
    unsigned counted = 0;
    struct wire_push_reply reply;
    struct wire_push push;
    pthread_t thread;
    struct near n;
    struct kit k;

    open_both(&n, &k);
    fill(&n, -1);
    atomic_store(&ending, false);
    pthread_create(&thread, NULL, spoil, &n);
    for (unsigned i = 0; i < 2000 && counted < 100; i++) {
        push = push_of(&n, counted);
        if (stage_push(&stage, WIRE_PUSH_PULL, &push, &reply) != SL_OK)
            continue; // caught: the same key again
        T_EQ(reply.result, WIRE_PUSH_COUNTED);
        counted++;
        for (int e = 0; e < ALL; e++)
            T_TRUE(isfinite(answer(&n)[e]));
        T_EQ(answer(&n)[0], (float)counted); // each element was -1
    }
    atomic_store(&ending, true);
    pthread_join(thread, NULL);
    close_both(&n);
}

TEST(copyin, copies_all_and_finds_any)
{
    float from[100] = {0}, to[100];
    uint8_t *odd = (uint8_t *)to + 2;

    for (size_t n = 0; n < 90; n++) {
        for (size_t i = 0; i < n; i++)
            from[i] = (float)i - 3;
        memset(to, 0xff, sizeof(to));
        T_TRUE(copyin_finite(WIRE_F32, odd, (uint8_t *)from, n));
        T_MEM(odd, from, n * sizeof(float));
        T_EQ(odd[n * sizeof(float)], 0xff);
        for (size_t bad = 0; bad < n; bad++) {
            from[bad] = bad % 2 ? NAN : -INFINITY;
            T_FALSE(copyin_finite(WIRE_F32, to, from, n));
            T_MEM(to, from, n * sizeof(float));
            from[bad] = 1;
        }
    }
}

TEST(copyin, copies_all_of_16_bits_and_finds_any)
{
    static const uint16_t bad[] = {0, 0xff80, 0x7c01};
    uint16_t from[150] = {0}, to[150];
    uint8_t *odd = (uint8_t *)to + 1;

    for (unsigned t = WIRE_BF16; t <= WIRE_F16; t++) {
        for (size_t n = 0; n < 140; n++) {
            for (size_t i = 0; i < n; i++)
                from[i] = (uint16_t)(0x3c00 + i);
            from[n] = bad[t]; // is not looked at
            memset(to, 0xff, sizeof(to));
            T_TRUE(copyin_finite(t, odd, from, n));
            T_MEM(odd, from, n * 2);
            T_EQ(odd[n * 2], 0xff);
            for (size_t i = 0; i < n; i++) {
                from[i] = bad[t];
                T_FALSE(copyin_finite(t, to, from, n));
                T_MEM(to, from, n * 2);
                from[i] = 1;
            }
        }
    }
}
