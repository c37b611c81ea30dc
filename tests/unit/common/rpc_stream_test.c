// SPDX-License-Identifier: Apache-2.0
// Streams from end to end.
#include "tests/unit/common/rpc_kit.h"

static const struct rpc_call_options plain = {.deadline_ms = DEADLINE_MS,
                                              .max_reply_bytes = 64u << 20};

// ---- one side of a stream, watched

struct side {
    struct rpc_stream *stream;
    uint64_t next;    // number expected in the next message
    size_t got_bytes; // of all messages
    atomic_int messages, ends, half_closes, writables;
    bool echoes, pauses;
    size_t stop_after; // messages; then finish with code
    enum sl_err stop_code;
    enum sl_err code; // at the end
    struct sl_error err;
    sem_t opened, ended, half_closed, message, writable;
};

static void side_init(struct side *s)
{
    memset(s, 0, sizeof(*s));
    sem_init(&s->opened, 0, 0);
    sem_init(&s->ended, 0, 0);
    sem_init(&s->half_closed, 0, 0);
    sem_init(&s->message, 0, 0);
    sem_init(&s->writable, 0, 0);
}

static void number_msg(struct rpc_msg *msg, uint64_t number)
{
    rpc_msg_init(msg);
    memcpy(rpc_msg_head(msg, sizeof(number)), &number, sizeof(number));
}

static void on_message(struct rpc_stream *stream, const struct sl_slices *body,
                       void *user)
{
    struct side *s = user;
    uint64_t number = 0;
    struct rpc_msg msg;

    T_ASSERT(atomic_load(&s->ends) == 0); // the end is the last
    s->got_bytes += body->bytes;
    if (body->bytes == sizeof(number)) {
        slices_copy(&number, body);
        T_ASSERT(number == s->next++);
    }
    atomic_fetch_add(&s->messages, 1);
    if (s->echoes) {
        number_msg(&msg, number);
        T_ASSERT(rpc_stream_send(stream, &msg) == SL_OK);
    }
    if (s->pauses)
        rpc_stream_pause(stream);
    if (s->stop_after && (size_t)atomic_load(&s->messages) == s->stop_after) {
        struct sl_error err;

        sl_fail(&err, s->stop_code, "enough");
        rpc_stream_finish(stream, s->stop_code, &err);
    }
    sem_post(&s->message);
}

static void on_half_close(struct rpc_stream *stream, void *user)
{
    struct side *s = user;

    T_ASSERT(atomic_load(&s->ends) == 0);
    atomic_fetch_add(&s->half_closes, 1);
    rpc_stream_close(stream);
    sem_post(&s->half_closed);
}

static void on_writable(struct rpc_stream *stream, void *user)
{
    struct side *s = user;

    (void)stream;
    atomic_fetch_add(&s->writables, 1);
    sem_post(&s->writable);
}

static void on_end(struct rpc_stream *stream, enum sl_err code,
                   const struct sl_error *err, void *user)
{
    struct side *s = user;

    T_ASSERT(stream == s->stream);
    s->code = code;
    if (code != SL_OK)
        s->err = *err;
    atomic_fetch_add(&s->ends, 1);
    sem_post(&s->ended);
}

static const struct rpc_stream_events events = {on_message, on_half_close,
                                                on_writable, on_end};

// ---- the server: every stream is the one side given as arg

static void open_side(struct rpc_stream *stream, void *arg)
{
    struct side *s = arg;

    s->stream = rpc_stream_ref(stream);
    rpc_stream_set(stream, &events, s);
    sem_post(&s->opened);
}

// Sends as many numbers as the request says, and finishes.
static void open_count(struct rpc_stream *stream, void *arg)
{
    struct rpc_msg msg;
    uint64_t count;

    open_side(stream, arg);
    T_ASSERT(rpc_stream_request(stream)->bytes == sizeof(count));
    slices_copy(&count, rpc_stream_request(stream));
    for (uint64_t i = 0; i < count; i++) {
        number_msg(&msg, i);
        T_ASSERT(rpc_stream_send(stream, &msg) == SL_OK);
    }
    rpc_stream_close(stream);
}

static void open_refuse(struct rpc_stream *stream, void *arg)
{
    struct sl_error err;

    (void)arg;
    rpc_stream_finish(stream, SL_EDENIED,
                      (sl_fail(&err, SL_EDENIED, "not you"), &err));
}

static const struct rpc_method methods[] = {
    {"/t.T/Talk", RPC_BIDI, 32u << 20, NULL, open_side, false},
    {"/t.T/Count", RPC_SERVER_STREAM, 0, NULL, open_count, false},
    {"/t.T/Refuse", RPC_BIDI, 0, NULL, open_refuse, false},
};

struct talk {
    struct world w;
    struct side server, client;
};

static void talk_dial(struct talk *t, const char *method,
                      struct rpc_msg *request)
{
    T_OK(rpc_stream_open(&t->client.stream, t->w.channel, method, request,
                         &plain, &events, &t->client, t_err()));
}

static void talk_open(struct talk *t, bool unix_socket)
{
    side_init(&t->server);
    side_init(&t->client);
    world_open(&t->w, methods, SL_COUNT(methods), &t->server, unix_socket);
}

static void talk_close(struct talk *t)
{
    world_close(&t->w);
    T_EQ(atomic_load(&t->client.ends), 1);
    rpc_stream_unref(t->client.stream);
    if (t->server.stream != NULL)
        T_EQ(atomic_load(&t->server.ends), 1);
    rpc_stream_unref(t->server.stream);
}

// ---- tests

static void check_ten_thousand(bool unix_socket)
{
    enum { MESSAGES = 10000 };
    struct rpc_msg msg;
    struct talk t;

    talk_open(&t, unix_socket);
    t.server.echoes = true;
    talk_dial(&t, "/t.T/Talk", NULL);
    for (uint64_t i = 0; i < MESSAGES; i++) {
        number_msg(&msg, i);
        T_OK(rpc_stream_send(t.client.stream, &msg));
    }
    rpc_stream_close(t.client.stream);
    wait_for(&t.client.ended);
    wait_for(&t.server.ended);
    T_OK(t.client.code);
    T_OK(t.server.code);
    T_EQ(atomic_load(&t.server.messages), MESSAGES);
    T_EQ(atomic_load(&t.client.messages), MESSAGES);
    T_EQ(atomic_load(&t.server.half_closes), 1);
    T_EQ(rpc_stream_queued_bytes(t.client.stream), 0);
    talk_close(&t);
}

TEST(rpc_stream, ten_thousand_messages_both_ways_over_tcp)
{
    check_ten_thousand(false);
}

TEST(rpc_stream, ten_thousand_messages_both_ways_over_a_unix_socket)
{
    check_ten_thousand(true);
}

struct sender {
    struct rpc_stream *stream;
    pthread_t thread;
};

static void *send_many(void *arg)
{
    struct sender *s = arg;

    for (int i = 0; i < 1000; i++) {
        struct rpc_msg msg;

        rpc_msg_init(&msg);
        memset(rpc_msg_head(&msg, 3), i, 3);
        T_ASSERT(rpc_stream_send(s->stream, &msg) == SL_OK);
    }
    return NULL;
}

TEST(rpc_stream, several_threads_may_send)
{
    struct sender senders[4];
    struct talk t;

    talk_open(&t, true);
    talk_dial(&t, "/t.T/Talk", NULL);
    for (int i = 0; i < 4; i++) {
        senders[i].stream = t.client.stream;
        pthread_create(&senders[i].thread, NULL, send_many, &senders[i]);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(senders[i].thread, NULL);
    rpc_stream_close(t.client.stream);
    wait_for(&t.client.ended);
    T_OK(t.client.code);
    T_EQ(t.server.got_bytes, 4 * 1000 * 3);
    talk_close(&t);
}

TEST(rpc_stream, large_payloads_are_released_once_each)
{
    enum { MESSAGES = 8, BYTES = 16 << 20 };
    uint8_t *data = sl_calloc(1, BYTES);
    atomic_int released = 0;
    struct talk t;

    talk_open(&t, true);
    talk_dial(&t, "/t.T/Talk", NULL);
    for (int i = 0; i < MESSAGES; i++) {
        struct rpc_msg msg;
        enum sl_err rc;

        rpc_msg_init(&msg);
        rpc_msg_part(&msg, data, BYTES);
        rpc_msg_on_release(&msg, count_release, &released);
        while ((rc = rpc_stream_send(t.client.stream, &msg)) == SL_EBUSY)
            wait_for(&t.client.writable); // the queue holds 64 MiB
        T_OK(rc);
    }
    rpc_stream_close(t.client.stream);
    wait_for(&t.client.ended);
    T_OK(t.client.code);
    T_EQ(t.server.got_bytes, (size_t)MESSAGES * BYTES);
    talk_close(&t);
    T_EQ(atomic_load(&released), MESSAGES);
    sl_free(data);
}

TEST(rpc_stream, a_full_queue_says_busy_and_leaves_the_message)
{
    enum { BYTES = 16 << 20 };
    uint8_t *data = sl_calloc(1, BYTES);
    atomic_int released = 0;
    struct rpc_msg msg;
    enum sl_err rc = SL_OK;
    int sent = 0;
    struct talk t;

    talk_open(&t, true);
    t.server.pauses = true; // takes one message, then reads no more
    talk_dial(&t, "/t.T/Talk", NULL);
    for (sent = 0; sent < 100; sent++) {
        rpc_msg_init(&msg);
        rpc_msg_part(&msg, data, BYTES);
        rpc_msg_on_release(&msg, count_release, &released);
        rc = rpc_stream_send(t.client.stream, &msg);
        if (rc != SL_OK)
            break;
    }
    T_FAILS(SL_EBUSY, rc);
    T_EQ(rpc_msg_bytes(&msg), BYTES);
    T_LE(rpc_stream_queued_bytes(t.client.stream), 64 << 20);

    // What could not be sent can be sent later.
    wait_for(&t.server.opened);
    wait_for(&t.server.message);
    t.server.pauses = false;
    rpc_stream_resume(t.server.stream);
    wait_for(&t.client.writable);
    T_OK(rpc_stream_send(t.client.stream, &msg));
    rpc_stream_close(t.client.stream);
    wait_for(&t.client.ended);
    T_OK(t.client.code);
    talk_close(&t);
    T_EQ(atomic_load(&t.server.messages), sent + 1);
    T_EQ(atomic_load(&released), sent + 1);
    sl_free(data);
}

TEST(rpc_stream, a_server_stream_answers_one_request_with_many)
{
    struct rpc_msg msg;
    struct talk t;

    talk_open(&t, false);
    number_msg(&msg, 1000);
    talk_dial(&t, "/t.T/Count", &msg);
    number_msg(&msg, 1);
    T_FAILS(SL_ESTATE, rpc_stream_send(t.client.stream, &msg));
    rpc_msg_drop(&msg);
    wait_for(&t.client.ended);
    T_OK(t.client.code);
    T_EQ(t.client.next, 1000);
    T_EQ(atomic_load(&t.server.half_closes), 0);
    talk_close(&t);
}

TEST(rpc_stream, a_server_may_refuse_a_stream)
{
    struct talk t;

    talk_open(&t, false);
    talk_dial(&t, "/t.T/Refuse", NULL);
    wait_for(&t.client.ended);
    T_FAILS(SL_EDENIED, t.client.code);
    T_STR(t.client.err.text, "not you");
    talk_close(&t);
}

TEST(rpc_stream, an_unknown_method_ends_the_stream)
{
    struct talk t;

    talk_open(&t, false);
    talk_dial(&t, "/t.T/NoSuch", NULL);
    wait_for(&t.client.ended);
    T_FAILS(SL_ENOTSUP, t.client.code);
    talk_close(&t);
}

TEST(rpc_stream, a_server_finishes_with_a_status)
{
    struct rpc_msg msg;
    struct talk t;

    talk_open(&t, false);
    t.server.stop_after = 3;
    t.server.stop_code = SL_EPREEMPTED;
    talk_dial(&t, "/t.T/Talk", NULL);
    for (uint64_t i = 0; i < 3; i++) {
        number_msg(&msg, i);
        T_OK(rpc_stream_send(t.client.stream, &msg));
    }
    wait_for(&t.client.ended);
    T_FAILS(SL_EPREEMPTED, t.client.code);
    T_STR(t.client.err.text, "enough");
    wait_for(&t.server.ended);
    T_OK(t.server.code);
    number_msg(&msg, 3);
    T_FAILS(SL_ESTATE, rpc_stream_send(t.client.stream, &msg));
    rpc_msg_drop(&msg);
    rpc_stream_cancel(t.client.stream); // after the end: nothing happens
    rpc_stream_close(t.client.stream);
    talk_close(&t);
}

TEST(rpc_stream, a_client_cancels)
{
    struct talk t;

    talk_open(&t, true);
    talk_dial(&t, "/t.T/Talk", NULL);
    wait_for(&t.server.opened);
    rpc_stream_cancel(t.client.stream);
    wait_for(&t.client.ended);
    wait_for(&t.server.ended);
    T_FAILS(SL_ECANCELED, t.client.code);
    T_FAILS(SL_ECANCELED, t.server.code);
    talk_close(&t);
}

TEST(rpc_stream, a_server_cancels)
{
    struct talk t;

    talk_open(&t, true);
    talk_dial(&t, "/t.T/Talk", NULL);
    wait_for(&t.server.opened);
    rpc_stream_cancel(t.server.stream);
    wait_for(&t.client.ended);
    wait_for(&t.server.ended);
    T_FAILS(SL_ECANCELED, t.client.code);
    T_FAILS(SL_ECANCELED, t.server.code);
    talk_close(&t);
}

TEST(rpc_stream, a_deadline_ends_it)
{
    struct rpc_call_options brief = {.deadline_ms = 50};
    struct talk t;

    talk_open(&t, true);
    T_OK(rpc_stream_open(&t.client.stream, t.w.channel, "/t.T/Talk", NULL,
                         &brief, &events, &t.client, t_err()));
    wait_for(&t.client.ended);
    T_FAILS(SL_ETIMEDOUT, t.client.code);
    talk_close(&t);
}

TEST(rpc_stream, without_a_deadline_it_stays)
{
    struct rpc_call_options forever = {.deadline_ms = RPC_NO_DEADLINE};
    struct rpc_msg msg;
    struct talk t;

    talk_open(&t, true);
    T_OK(rpc_stream_open(&t.client.stream, t.w.channel, "/t.T/Talk", NULL,
                         &forever, &events, &t.client, t_err()));
    number_msg(&msg, 0);
    T_OK(rpc_stream_send(t.client.stream, &msg));
    wait_for(&t.server.message);
    rpc_stream_close(t.client.stream);
    wait_for(&t.client.ended);
    T_OK(t.client.code);
    talk_close(&t);
}

TEST(rpc_stream, a_peer_that_dies_ends_both_sides_once)
{
    struct rpc_channel *channel;
    atomic_int released = 0;
    uint8_t *data = sl_calloc(1, 1 << 20);
    struct wire wire;
    struct talk t;
    struct rpc_msg msg;
    char address[40];

    talk_open(&t, false);
    t.server.pauses = true;
    wire_open(&wire, (unsigned)atoi(strrchr(t.w.address, ':') + 1));
    snprintf(address, sizeof(address), "127.0.0.1:%u", wire.port);
    T_OK(rpc_channel_new(&channel, t.w.io, address, NULL, NULL, t_err()));
    T_OK(rpc_stream_open(&t.client.stream, channel, "/t.T/Talk", NULL, &plain,
                         &events, &t.client, t_err()));
    for (int i = 0; i < 60; i++) { // most of them still queued at the cut
        rpc_msg_init(&msg);
        rpc_msg_part(&msg, data, 1 << 20);
        rpc_msg_on_release(&msg, count_release, &released);
        T_OK(rpc_stream_send(t.client.stream, &msg));
    }
    wait_for(&t.server.message);
    wire_cut(&wire);
    wait_for(&t.client.ended);
    T_FAILS(SL_EUNAVAIL, t.client.code);
    rpc_stream_resume(t.server.stream);
    wait_for(&t.server.ended);
    T_FAILS(SL_ECANCELED, t.server.code);
    rpc_channel_free(channel);
    talk_close(&t);
    T_EQ(atomic_load(&released), 60);
    T_EQ(atomic_load(&t.server.half_closes), 0); // a death is no half close
    sl_free(data);
}

TEST(rpc_stream, a_server_that_is_freed_ends_its_streams)
{
    struct talk t;

    talk_open(&t, true);
    talk_dial(&t, "/t.T/Talk", NULL);
    wait_for(&t.server.opened);
    rpc_server_free(t.w.server);
    t.w.server = NULL;
    T_EQ(atomic_load(&t.server.ends), 1);
    wait_for(&t.client.ended);
    T_NE(t.client.code, SL_OK);
    talk_close(&t);
}

TEST(rpc_stream, a_channel_that_is_freed_ends_its_streams)
{
    struct talk t;

    talk_open(&t, true);
    talk_dial(&t, "/t.T/Talk", NULL);
    wait_for(&t.server.opened);
    rpc_channel_free(t.w.channel);
    t.w.channel = NULL;
    T_EQ(atomic_load(&t.client.ends), 1);
    T_FAILS(SL_ECANCELED, t.client.code);
    wait_for(&t.server.ended);
    talk_close(&t);
}

TEST(rpc_stream, nobody_there)
{
    struct rpc_channel *channel;
    struct talk t;
    char address[300];

    talk_open(&t, true);
    snprintf(address, sizeof(address), "unix:%s", t_path("nobody"));
    T_OK(rpc_channel_new(&channel, t.w.io, address, NULL, NULL, t_err()));
    T_OK(rpc_stream_open(&t.client.stream, channel, "/t.T/Talk", NULL, &plain,
                         &events, &t.client, t_err()));
    wait_for(&t.client.ended);
    T_FAILS(SL_EUNAVAIL, t.client.code);
    rpc_channel_free(channel);
    talk_close(&t);
}

TEST(rpc_stream, a_message_over_the_limit_ends_it_and_says_so)
{
    struct rpc_call_options little = {.deadline_ms = DEADLINE_MS,
                                      .max_reply_bytes = 4};
    struct rpc_msg msg;
    struct talk t;

    talk_open(&t, true);
    number_msg(&msg, 3);
    T_OK(rpc_stream_open(&t.client.stream, t.w.channel, "/t.T/Count", &msg,
                         &little, &events, &t.client, t_err()));
    wait_for(&t.client.ended);
    T_FAILS(SL_ERANGE, t.client.code);
    T_HAS(t.client.err.text, "8 bytes");
    T_EQ(atomic_load(&t.client.messages), 0);
    talk_close(&t);
}

// ---- keeping a message

static struct rpc_body *kept;

static void keep(struct rpc_stream *stream, const struct sl_slices *body,
                 void *user)
{
    struct side *s = user;

    (void)body;
    kept = rpc_stream_take(stream);
    T_ASSERT(kept != NULL);
    T_ASSERT(rpc_stream_take(stream) == NULL); // taken before
    sem_post(&s->message);
}

TEST(rpc_stream, a_message_can_be_kept)
{
    static const struct rpc_stream_events keeps = {.on_message = keep,
                                                   .on_end = on_end};
    struct rpc_msg msg;
    struct talk t;
    uint64_t number;

    talk_open(&t, true);
    number_msg(&msg, 1);
    T_OK(rpc_stream_open(&t.client.stream, t.w.channel, "/t.T/Count", &msg,
                         &plain, &keeps, &t.client, t_err()));
    wait_for(&t.client.ended);
    talk_close(&t);
    T_EQ(rpc_body_slices(kept)->bytes, sizeof(number));
    slices_copy(&number, rpc_body_slices(kept));
    T_EQ(number, 0);
    rpc_body_free(kept);
}
