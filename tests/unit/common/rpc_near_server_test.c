// SPDX-License-Identifier: Apache-2.0
// A server over a socket of this host that says what it must not: the test
// plays it, packet by packet.
#include "tests/unit/common/rpc_near_kit.h"

#include <sched.h>

// A call over a socket of ours, and how it is asked.
static void open_raw_server(struct near *n, int *fd, struct got *g,
                            size_t max_reply_bytes, struct rpc_sock_head *head)
{
    struct rpc_call_options options = near_options;
    static uint8_t more[RPC_SOCK_PACKET];
    int both[2];
    size_t bytes;

    pair(both);
    T_OK(rpc_channel_adopt(n->channel, both[1], t_err()));
    *fd = both[0];
    options.max_reply_bytes = max_reply_bytes;
    start(n->channel, "/t.T/Echo", "hello", 5, &options, g, NULL);
    T_TRUE(hear(*fd, head, more, &bytes));
    T_EQ(head->magic, RPC_SOCK_ASKS);
    T_EQ(head->said, 9);
    T_EQ(head->total, 5);
    T_EQ(head->at, 0);
    T_EQ(head->deadline_ms, DEADLINE_MS);
    T_EQ(bytes, 9 + 5);
    T_MEM(more, "/t.T/Echohello", bytes);
}

// Its socket was closed, and that is seen.
static void await_gone(struct near *n)
{
    while (rpc_channel_adopted(n->channel))
        sched_yield();
}

static void answer_raw(int fd, uint64_t id, uint64_t total, uint64_t at,
                       size_t bytes)
{
    static uint8_t more[ROOM];
    struct rpc_sock_head head = {.magic = RPC_SOCK_ANSWERS,
                                 .said = SL_OK,
                                 .id = id,
                                 .total = total,
                                 .at = at};

    memset(more, 'y', sizeof(more));
    say(fd, &head, more, bytes, ALL);
}

#define SAYS(said, total, at)                                                  \
    {                                                                          \
        RPC_SOCK_ANSWERS, (said), 0, (total), (at), 0                          \
    }

struct bad_answer {
    const char *what;
    struct bad step[2]; // ids are filled in; magic 0: no second one
};

static const struct bad_answer bad_answers[] = {
    {"one byte", {{"", SAYS(0, 0, 0), 0, 1}}},
    {"most of a head", {{"", SAYS(0, 0, 0), 0, 39}}},
    {"a request", {{"", ASKS(9, 0, 0), 9, 0}}},
    {"another magic", {{"", {7, 0, 0, 0, 0, 0}, 0, 0}}},
    {"a place behind the end", {{"", SAYS(0, 10, 11), 0, 0}}},
    {"all of it, behind the end", {{"", SAYS(0, 5, 7), 5, 0}}},
    {"a place over the end", {{"", SAYS(0, 10, 6), 5, 0}}},
    {"more than it says", {{"", SAYS(0, 10, 0), 11, 0}}},
    {"the end of all", {{"", SAYS(0, UINT64_MAX, UINT64_MAX - 3), 5, 0}}},
    {"no such code", {{"", SAYS(SL_ERR_COUNT, 3, 0), 3, 0}}},
    {"a code below all", {{"", SAYS(UINT32_MAX, 3, 0), 3, 0}}},
    {"a long text",
     {{"", SAYS(SL_EINVAL, SL_ERROR_TEXT + 1, 0), SL_ERROR_TEXT + 1, 0}}},
    {"a text in pieces", {{"", SAYS(SL_EINVAL, 10, 0), 5, 0}}},
    {"a later piece first", {{"", SAYS(0, 10, 5), 5, 0}}},
    {"an empty piece first", {{"", SAYS(0, 10, 0), 0, 0}}},
    {"an empty piece",
     {{"", SAYS(0, 10, 0), 5, 0}, {"", SAYS(0, 10, 5), 0, 0}}},
    {"a piece that overlaps",
     {{"", SAYS(0, 10, 0), 6, 0}, {"", SAYS(0, 10, 5), 5, 0}}},
    {"a piece too far",
     {{"", SAYS(0, 10, 0), 4, 0}, {"", SAYS(0, 10, 5), 5, 0}}},
    {"a piece twice", {{"", SAYS(0, 10, 0), 5, 0}, {"", SAYS(0, 10, 0), 5, 0}}},
    {"pieces that grow",
     {{"", SAYS(0, 10, 0), 5, 0}, {"", SAYS(0, 60000, 5), 50000, 0}}},
    {"pieces that shrink",
     {{"", SAYS(0, 60000, 0), 5, 0}, {"", SAYS(0, 10, 5), 5, 0}}},
    {"a piece, then all",
     {{"", SAYS(0, 10, 0), 5, 0}, {"", SAYS(0, 60000, 0), 60000, 0}}},
    {"a piece, then nothing",
     {{"", SAYS(0, 10, 0), 5, 0}, {"", SAYS(0, 0, 0), 0, 0}}},
    {"a piece, then a text",
     {{"", SAYS(0, 10, 0), 5, 0}, {"", SAYS(SL_EINVAL, 300, 0), 300, 0}}},
    {"a packet that is cut",
     {{"", SAYS(0, RPC_SOCK_PACKET, 0), RPC_SOCK_PACKET, 0}}},
};

static void say_step(int fd, const struct bad *step, uint64_t id,
                     const uint8_t *more)
{
    struct rpc_sock_head head = step->head;

    head.id = id;
    if (head.magic != 0)
        say(fd, &head, more, step->bytes, step->cut ? step->cut : ALL);
}

TEST(rpc_near_server, a_server_that_says_nonsense_loses_its_socket)
{
    static uint8_t more[ROOM];
    struct rpc_sock_head head;
    struct near n;
    struct got g;
    int fd;

    near_open(&n, true);
    fill_x(more);
    for (size_t i = 0; i < SL_COUNT(bad_answers); i++) {
        const struct bad_answer *b = &bad_answers[i];

        fprintf(stderr, "%s\n", b->what);
        open_raw_server(&n, &fd, &g, 1 << 20, &head);
        say_step(fd, &b->step[0], head.id, more);
        say_step(fd, &b->step[1], head.id, more);
        T_FAILS(SL_EUNAVAIL, ended(&g));
        check_closed(fd);
        close(fd);
        T_FALSE(rpc_channel_adopted(n.channel));
        T_FALSE(goes_near(n.channel));
    }
    near_join(&n);
    T_TRUE(goes_near(n.channel));
    near_close(&n);
}

TEST(rpc_near_server, answers_that_nobody_waits_for_are_dropped)
{
    struct rpc_sock_head head;
    struct near n;
    struct got g;
    int fd;

    near_open(&n, false);
    open_raw_server(&n, &fd, &g, 1 << 20, &head);
    answer_raw(fd, head.id + 1, 10, 0, 10);
    answer_raw(fd, head.id + 256, 10, 0, 10); // of the same place
    answer_raw(fd, head.id - 256, 10, 0, 5);
    answer_raw(fd, 0, UINT64_MAX, 0, 5);
    answer_raw(fd, head.id, 20, 0, 15); // this one
    answer_raw(fd, head.id + 256, 20, 15, 5);
    answer_raw(fd, head.id, 20, 15, 5);
    answer_raw(fd, head.id, 20, 0, 20);
    answer_raw(fd, head.id, 20, 15, 5);
    T_OK(await(&g));
    T_EQ(g.o.bytes, 20);
    T_MEM(g.bytes, "yyyyyyyyyyyyyyyyyyyy", 20);
    got_release(&g);
    T_TRUE(rpc_channel_adopted(n.channel));
    close(fd);
    near_close(&n);
}

TEST(rpc_near_server, an_answer_in_pieces_may_come_too_late)
{
    struct rpc_call_options options = near_options;
    static uint8_t more[RPC_SOCK_PACKET];
    struct rpc_sock_head head;
    struct rpc_ticket ticket;
    struct near n;
    struct got g;
    size_t bytes;
    int fd;

    near_open(&n, false);
    open_raw_server(&n, &fd, &g, 1 << 20, &head);
    answer_raw(fd, head.id, 5, 0, 5);
    T_OK(ended(&g));
    options.deadline_ms = 1;
    for (int i = 0; i < 3; i++) { // by deadline and by cancel
        start(n.channel, "/t.T/Echo", "", 0, i ? &near_options : &options, &g,
              &ticket);
        T_TRUE(hear(fd, &head, more, &bytes));
        answer_raw(fd, head.id, 100, 0, 60);
        if (i > 0)
            rpc_cancel(n.channel, ticket);
        T_FAILS(i ? SL_ECANCELED : SL_ETIMEDOUT, ended(&g));
        answer_raw(fd, head.id, 100, 60, 40);
    }
    start(n.channel, "/t.T/Echo", "", 0, &near_options, &g, NULL);
    T_TRUE(hear(fd, &head, more, &bytes));
    answer_raw(fd, head.id, 70, 0, 60);
    answer_raw(fd, head.id, 70, 60, 10);
    T_OK(await(&g));
    T_EQ(g.o.bytes, 70);
    got_release(&g);
    close(fd);
    near_close(&n);
}

// It need not be gathered to know that.
TEST(rpc_near_server, an_answer_over_the_limit_is_refused_with_its_first_piece)
{
    static const uint64_t totals[] = {101, RPC_DATA_BYTES, RPC_DATA_BYTES + 1,
                                      UINT64_MAX};
    static uint8_t more[RPC_SOCK_PACKET];
    struct rpc_call_options options = near_options;
    struct rpc_sock_head head;
    struct near n;
    struct got g;
    size_t bytes;
    int fd;

    near_open(&n, false);
    open_raw_server(&n, &fd, &g, 100, &head);
    answer_raw(fd, head.id, 100, 0, 100);
    T_OK(ended(&g));
    options.max_reply_bytes = 100;
    for (size_t i = 0; i < SL_COUNT(totals); i++) {
        start(n.channel, "/t.T/Echo", "", 0, &options, &g, NULL);
        T_TRUE(hear(fd, &head, more, &bytes));
        answer_raw(fd, head.id, totals[i], 0, 60);
        T_FAILS(SL_ERANGE, ended(&g));
        answer_raw(fd, head.id, totals[i], 60, 41);
    }
    T_TRUE(rpc_channel_adopted(n.channel));
    close(fd);
    near_close(&n);
}

TEST(rpc_near_server, texts_of_any_length_within_the_limit)
{
    static uint8_t more[ROOM];
    struct rpc_sock_head head;
    struct near n;
    struct got g;
    int fd;

    near_open(&n, false);
    memset(more, 'x', sizeof(more));
    for (size_t bytes = 0; bytes <= SL_ERROR_TEXT; bytes += SL_ERROR_TEXT / 4) {
        open_raw_server(&n, &fd, &g, 1 << 20, &head);
        head = (struct rpc_sock_head){.magic = RPC_SOCK_ANSWERS,
                                      .said = SL_EINVAL,
                                      .id = head.id,
                                      .total = bytes};
        say(fd, &head, more, bytes, ALL);
        T_FAILS(SL_EINVAL, await(&g));
        T_EQ(strspn(g.o.err.text, "x"),
             bytes < SL_ERROR_TEXT ? bytes : SL_ERROR_TEXT - 1);
        got_release(&g);
        close(fd);
        await_gone(&n);
    }
    near_close(&n);
}

TEST(rpc_near_server, a_server_that_does_not_read_gets_no_more_calls)
{
    enum { CALLS = 20, BYTES = 60000 };
    static uint8_t more[RPC_SOCK_PACKET], bytes[BYTES];
    static struct got g[CALLS];
    struct rpc_sock_head head;
    struct pollfd p;
    int both[2], unread = 0, unavail = 0;
    struct near n;
    size_t size;

    near_open(&n, true);
    pair(both);
    T_OK(rpc_channel_adopt(n.channel, both[1], t_err()));
    for (int i = 0; i < CALLS; i++)
        start(n.channel, "/t.T/Echo", bytes, BYTES, &near_options, &g[i], NULL);
    p = (struct pollfd){both[0], POLLIN, 0};
    for (; poll(&p, 1, 0) == 1; unread++)
        T_TRUE(hear(both[0], &head, more, &size));
    close(both[0]);
    for (int i = 0; i < CALLS; i++) {
        enum sl_err rc = ended(&g[i]);

        T_TRUE(rc == SL_OK || rc == SL_EUNAVAIL);
        unavail += rc == SL_EUNAVAIL;
    }
    T_EQ(unavail, unread);
    T_GT(unread, 0);
    T_LT(unread, CALLS);
    near_close(&n);
}

// Less room than one packet takes: it can never be sent.
TEST(rpc_near_server, a_socket_too_small_for_an_answer_is_given_up)
{
    struct wanted wanted = {100000, 1};
    int both[2], little = 1;
    struct near n;
    struct got g;

    near_open(&n, true);
    pair(both);
    setsockopt(both[0], SOL_SOCKET, SO_SNDBUF, &little, sizeof(little));
    T_OK(rpc_server_adopt(n.w.server, both[0], t_err()));
    T_OK(rpc_channel_adopt(n.channel, both[1], t_err()));
    T_TRUE(goes_near(n.channel));
    start(n.channel, "/t.T/Large", &wanted, sizeof(wanted), &near_options, &g,
          NULL);
    T_FAILS(SL_EUNAVAIL, ended(&g));
    T_FALSE(goes_near(n.channel));
    near_close(&n);
}

TEST(rpc_near_server, a_request_that_its_socket_cannot_take_goes_by_core)
{
    static uint8_t bytes[50000];
    int both[2], little = 1;
    struct near n;
    struct got g;

    near_open(&n, true);
    pair(both);
    setsockopt(both[1], SOL_SOCKET, SO_SNDBUF, &little, sizeof(little));
    T_OK(rpc_server_adopt(n.w.server, both[0], t_err()));
    T_OK(rpc_channel_adopt(n.channel, both[1], t_err()));
    T_OK(ask(n.channel, "/t.T/Way", bytes, sizeof(bytes), &g));
    T_EQ(g.bytes[0], false);
    got_release(&g);
    T_TRUE(goes_near(n.channel));
    near_close(&n);
}

struct eager { // answers each call before it is asked
    pthread_t thread;
    int fd;
    atomic_uint_least64_t id; // of the next one
    atomic_bool ends;
};

static void *answer_early(void *arg)
{
    struct rpc_sock_head head = {.magic = RPC_SOCK_ANSWERS, .total = 100};
    struct eager *e = arg;
    uint8_t packet[sizeof(head) + 1] = {0};

    while (!atomic_load(&e->ends)) {
        head.id = atomic_load(&e->id);
        memcpy(packet, &head, sizeof(head));
        (void)!send(e->fd, packet, sizeof(packet), MSG_NOSIGNAL);
    }
    return NULL;
}

static void ask_what_cannot_be_sent(struct near *n, struct eager *e)
{
    static uint8_t bytes[50000];
    enum sl_err rc;
    struct got g;

    for (uint64_t id = 1; id <= 50; id++) {
        start(n->channel, "/t.T/Way", bytes, sizeof(bytes), &near_options, &g,
              NULL);
        atomic_store(&e->id, id + 1); // they lie in wait for it
        rc = await(&g);
        T_TRUE(rc == SL_OK || rc == SL_EUNAVAIL);
        got_release(&g);
    }
}

// So many at once that each call object is used again.
static void check_honest(struct near *n)
{
    static uint8_t more[RPC_SOCK_PACKET];
    struct got g[5];
    struct rpc_sock_head head;
    size_t bytes;
    int fd;

    open_raw_server(n, &fd, &g[0], 1 << 20, &head);
    for (size_t i = 1; i < SL_COUNT(g); i++)
        start(n->channel, "/t.T/Echo", "", 0, &near_options, &g[i], NULL);
    answer_raw(fd, head.id, 20, 0, 20);
    for (size_t i = 1; i < SL_COUNT(g); i++) {
        T_TRUE(hear(fd, &head, more, &bytes));
        answer_raw(fd, head.id, 20, 0, 20);
    }
    for (size_t i = 0; i < SL_COUNT(g); i++)
        T_OK(ended(&g[i]));
    close(fd);
    await_gone(n);
}

TEST(rpc_near_server, an_answer_before_its_call_leaves_nothing_behind)
{
    int both[2], little = 1;
    struct eager e;
    struct near n;

    near_open(&n, true);
    for (int round = 0; round < 10; round++) {
        pair(both);
        setsockopt(both[1], SOL_SOCKET, SO_SNDBUF, &little, sizeof(little));
        T_OK(rpc_channel_adopt(n.channel, both[1], t_err()));
        memset(&e, 0, sizeof(e));
        e.fd = both[0];
        T_ASSERT(pthread_create(&e.thread, NULL, answer_early, &e) == 0);
        ask_what_cannot_be_sent(&n, &e);
        atomic_store(&e.ends, true);
        pthread_join(e.thread, NULL);
        close(both[0]);
        await_gone(&n);
        check_honest(&n);
    }
    near_close(&n);
}

TEST(rpc_near_server, any_packets_of_a_server)
{
    static uint8_t more[ROOM];
    struct rpc_sock_head head, asked;
    uint8_t packet[300];
    size_t body, size;
    struct near n;
    struct got g;
    int fd;

    near_open(&n, false);
    for (int round = 0; round < 200; round++) {
        open_raw_server(&n, &fd, &g, t_below(2) ? 1 << 20 : 60, &asked);
        for (int i = 0; i < 10; i++) {
            body = t_below(120);
            head = some_head(RPC_SOCK_ANSWERS,
                             t_below(4) ? 0 : t_below(SL_ERR_COUNT + 2), body);
            head.id = t_below(4) ? asked.id : t_rand();
            memcpy(packet, &head, sizeof(head));
            memcpy(packet + sizeof(head), more, 200);
            size = t_below(10) ? sizeof(head) + body : t_below(250);
            (void)!send(fd, packet, size, MSG_NOSIGNAL);
        }
        close(fd);
        (void)ended(&g);
        await_gone(&n);
    }
    near_close(&n);
}
