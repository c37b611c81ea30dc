// SPDX-License-Identifier: Apache-2.0
// A client over a socket of this host that says what it must not: the test
// plays it, packet by packet.
#include "tests/unit/common/rpc_near_kit.h"

static void open_raw_client(struct near *n, int *fd)
{
    int both[2];

    pair(both);
    T_OK(rpc_server_adopt(n->w.server, both[0], t_err()));
    *fd = both[1];
}

static void ask_raw(int fd, uint64_t id, const char *method, const void *body,
                    size_t bytes)
{
    uint8_t more[1000];
    struct rpc_sock_head head = {.magic = RPC_SOCK_ASKS,
                                 .said = (uint32_t)strlen(method),
                                 .id = id,
                                 .total = bytes,
                                 .deadline_ms = DEADLINE_MS};

    memcpy(more, method, head.said);
    memcpy(more + head.said, body, bytes);
    say(fd, &head, more, head.said + bytes, ALL);
}

static void check_echo(int fd, uint64_t id)
{
    static uint8_t more[RPC_SOCK_PACKET];
    struct rpc_sock_head head;
    size_t bytes;

    T_TRUE(hear(fd, &head, more, &bytes));
    T_EQ(head.magic, RPC_SOCK_ANSWERS);
    T_EQ(head.id, id);
    T_EQ(head.said, SL_OK);
    T_EQ(head.total, 2);
    T_EQ(head.at, 0);
    T_EQ(bytes, 2);
    T_MEM(more, "ok", 2);
}

static const struct bad bad_requests[] = {
    {"one byte", ASKS(9, 0, 0), 9, 1},
    {"most of a head", ASKS(0, 0, 0), 0, sizeof(struct rpc_sock_head) - 1},
    {"an answer", {RPC_SOCK_ANSWERS, 0, 1, 0, 0, 1000}, 0, 0},
    {"no magic", {0, 9, 1, 0, 0, 1000}, 9, 0},
    {"a long path", ASKS(RPC_SOCK_PATH_MAX + 1, 0, 0), 129, 0},
    {"a path beyond the packet", ASKS(100, 0, 0), 50, 0},
    {"a path beyond it, and a body before it", ASKS(100, UINT64_MAX - 49, 0),
     50, 0},
    {"a path of 4 GiB", ASKS(UINT32_MAX, 0, 0), 50, 0},
    {"less than it says", ASKS(9, 10, 0), 9 + 9, 0},
    {"more than it says", ASKS(9, 10, 0), 9 + 11, 0},
    {"a first piece", ASKS(9, 20, 0), 9 + 10, 0},
    {"a second piece", ASKS(9, 10, 5), 9 + 5, 0},
    {"an empty piece", ASKS(9, 10, 10), 9, 0},
    {"a piece behind the end", ASKS(9, 10, 11), 9, 0},
    {"all of it, behind the end", ASKS(9, 5, 7), 9 + 5, 0},
    {"a piece over the end", ASKS(9, 10, 6), 9 + 5, 0},
    {"all there is", ASKS(9, UINT64_MAX, 0), 9 + 5, 0},
    {"a piece that wraps", ASKS(9, 3, UINT64_MAX - 1), 9 + 5, 0},
    {"the end of all", ASKS(9, UINT64_MAX, UINT64_MAX - 3), 9 + 5, 0},
    {"a packet that is cut", ASKS(9, RPC_SOCK_PACKET, 0), 9 + RPC_SOCK_PACKET,
     0},
};

TEST(rpc_near_client, a_client_that_says_nonsense_loses_its_socket)
{
    static uint8_t more[ROOM];
    struct near n;
    int fd, other;

    near_open(&n, false);
    near_join(&n);
    open_raw_client(&n, &other);
    fill_x(more);
    for (size_t i = 0; i < SL_COUNT(bad_requests); i++) {
        const struct bad *b = &bad_requests[i];

        fprintf(stderr, "%s\n", b->what);
        open_raw_client(&n, &fd);
        ask_raw(fd, 77, "/t.T/Echo", "ok", 2);
        check_echo(fd, 77);
        say(fd, &b->head, more, b->bytes, b->cut ? b->cut : ALL);
        check_closed(fd);
        close(fd);
        ask_raw(other, i, "/t.T/Echo", "ok", 2);
        check_echo(other, i);
        T_TRUE(goes_near(n.channel));
    }
    close(other);
    near_close(&n);
}

TEST(rpc_near_client, an_empty_packet_and_a_half_closed_socket_are_the_end)
{
    struct near n;
    int fd;

    near_open(&n, false);
    open_raw_client(&n, &fd);
    T_EQ(send(fd, "", 0, MSG_NOSIGNAL), 0);
    check_closed(fd);
    close(fd);
    open_raw_client(&n, &fd);
    T_EQ(shutdown(fd, SHUT_WR), 0);
    check_closed(fd);
    close(fd);
    near_close(&n);
}

// One more than it may have. Before the last one is sent the others are known
// to be held: it waits for them.
TEST(rpc_near_client, a_client_that_waits_for_too_much_is_cut_off)
{
    struct near n;
    int fd;

    near_open(&n, false);
    open_raw_client(&n, &fd);
    for (unsigned i = 0; i < RPC_SOCK_OPEN_MOST; i++) {
        ask_raw(fd, i, "/t.T/Hold", "", 0);
        wait_for(&n.s.entered);
    }
    ask_raw(fd, 1000, "/t.T/Echo", "ok", 2);
    check_closed(fd);
    close(fd);
    open_raw_client(&n, &fd); // another one is served
    ask_raw(fd, 77, "/t.T/Echo", "ok", 2);
    check_echo(fd, 77);
    let_go(&n.s);
    ask_raw(fd, 78, "/t.T/Hold", "", 0); // and so is one who is answered
    wait_for(&n.s.entered);
    close(fd);
    near_close(&n);
}

TEST(rpc_near_client, a_client_may_name_its_calls_as_it_likes)
{
    static const uint64_t ids[] = {0, 5, 5, UINT64_MAX, 5, 0};
    static const int64_t deadlines[] = {0, -1, INT64_MIN, INT64_MAX};
    struct rpc_sock_head head = ASKS(9, 2, 0);
    struct near n;
    int fd;

    near_open(&n, false);
    open_raw_client(&n, &fd);
    for (size_t i = 0; i < SL_COUNT(ids); i++)
        ask_raw(fd, ids[i], "/t.T/Echo", "ok", 2);
    for (size_t i = 0; i < SL_COUNT(ids); i++)
        check_echo(fd, ids[i]);
    for (size_t i = 0; i < SL_COUNT(deadlines); i++) {
        head.deadline_ms = deadlines[i];
        say(fd, &head, "/t.T/Echook", 11, ALL);
        check_echo(fd, 1);
    }
    close(fd);
    near_close(&n);
}

// Asks until the socket takes no more.
static uint64_t ask_all(int fd, const struct wanted *wanted)
{
    struct pollfd p = {fd, POLLOUT, 0};
    uint8_t packet[200];
    struct rpc_sock_head head = ASKS(10, sizeof(*wanted), 0);
    size_t size = sizeof(head) + 10 + sizeof(*wanted);

    memcpy(packet + sizeof(head), "/t.T/Large", 10);
    memcpy(packet + sizeof(head) + 10, wanted, sizeof(*wanted));
    for (head.id = 0;; head.id++) {
        memcpy(packet, &head, sizeof(head));
        if (send(fd, packet, size, MSG_NOSIGNAL) != (ssize_t)size)
            break;
    }
    T_ASSERT(errno == EAGAIN && poll(&p, 1, 0) >= 0);
    return head.id;
}

TEST(rpc_near_client, a_client_that_does_not_listen_is_not_served_and_no_other)
{
    static uint8_t more[RPC_SOCK_PACKET];
    struct wanted wanted = {200000, 1};
    struct rpc_sock_head head;
    uint8_t *want = sl_malloc(wanted.bytes);
    size_t bytes, have;
    uint64_t asked;
    struct near n;
    int fd;

    fill(want, &wanted);
    near_open(&n, false);
    near_join(&n);
    open_raw_client(&n, &fd);
    asked = ask_all(fd, &wanted);
    T_TRUE(goes_near(n.channel));
    for (uint64_t id = 0; id < asked; id++) {
        for (have = 0; have < wanted.bytes; have += bytes) {
            T_TRUE(hear(fd, &head, more, &bytes));
            T_EQ(head.id, id);
            T_EQ(head.said, SL_OK);
            T_EQ(head.total, wanted.bytes);
            T_EQ(head.at, have);
            T_LE(have + bytes, wanted.bytes);
            T_MEM(more, want + have, bytes);
        }
    }
    ask_raw(fd, 3, "/t.T/Echo", "ok", 2); // now it does
    check_echo(fd, 3);
    (void)ask_all(fd, &wanted);
    close(fd);
    T_TRUE(goes_near(n.channel));
    near_close(&n);
    sl_free(want);
}

TEST(rpc_near_client, any_packets_of_a_client)
{
    static uint8_t more[ROOM];
    struct rpc_sock_head head;
    size_t body, size;
    uint8_t packet[300];
    struct near n;
    int fd;

    near_open(&n, false);
    near_join(&n);
    fill_x(more);
    for (int round = 0; round < 300; round++) {
        open_raw_client(&n, &fd);
        for (int i = 0; i < 10; i++) {
            body = t_below(120);
            head =
                some_head(RPC_SOCK_ASKS, t_below(4) ? 9 : t_below(140), body);
            memcpy(packet, &head, sizeof(head));
            memcpy(packet + sizeof(head), more, 200);
            size = t_below(10) ? sizeof(head) + 9 + body : t_below(250);
            (void)!send(fd, packet, size, MSG_NOSIGNAL);
        }
        close(fd);
    }
    T_TRUE(goes_near(n.channel));
    near_close(&n);
}
