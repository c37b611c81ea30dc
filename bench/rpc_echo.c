// SPDX-License-Identifier: Apache-2.0
// bench/rpc_echo.c -- the floor of small calls: gRPC C-core alone, which sends
// back what it gets.
//
// Two processes of one thread on one core each, a completion queue in either,
// a registered method, nothing allocated but by core. `--minimal-stack` leaves
// out core's filters (deadlines of the server, limits of size), which a server
// that faces others needs.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>

#include "bench/program.h"
#include "common/net/rpc.h"

#define METHOD "/bench.Echo/Call"
#define POSTED 64
#define CALL_S 60

// As both sides of Sluice have them, where it matters for small calls.
static grpc_channel_args *arguments(bool minimal)
{
    static grpc_arg args[8];
    static grpc_channel_args list = {.args = args};
    const struct {
        const char *key;
        int value;
    } set[] = {
        {"grpc.enable_retries", 0},
        {GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0},
        {GRPC_ARG_ENABLE_CHANNELZ, 0},
        {GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1},
        {GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1},
        {GRPC_ARG_MINIMAL_STACK, minimal},
    };

    for (size_t i = 0; i < SL_COUNT(set); i++) {
        args[i].type = GRPC_ARG_INTEGER;
        args[i].key = (char *)set[i].key;
        args[i].value.integer = set[i].value;
    }
    list.num_args = SL_COUNT(set);
    return &list;
}

// With all that ours has of its allocator and its libraries.
static void start_core(void)
{
    rpc_tune_process();
    grpc_init();
}

static void batch(grpc_call *call, const grpc_op *ops, size_t n, void *tag)
{
    if (grpc_call_start_batch(call, ops, n, tag, NULL) != GRPC_CALL_OK)
        program_die("core refuses a batch");
}

// ---- the far end

struct served {
    grpc_call *call;
    gpr_timespec deadline;
    grpc_metadata_array metadata;
    grpc_byte_buffer *payload;
    int cancelled;
    bool answering;
};

static void post(grpc_server *server, void *method, grpc_completion_queue *cq,
                 struct served *s)
{
    memset(s, 0, sizeof(*s));
    grpc_metadata_array_init(&s->metadata);
    if (grpc_server_request_registered_call(
            server, method, &s->call, &s->deadline, &s->metadata, &s->payload,
            cq, cq, s) != GRPC_CALL_OK)
        program_die("core refuses a request");
}

static void answer(struct served *s)
{
    grpc_op ops[4];

    memset(ops, 0, sizeof(ops));
    ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    ops[1].op = GRPC_OP_SEND_MESSAGE;
    ops[1].flags = GRPC_WRITE_NO_COMPRESS;
    ops[1].data.send_message.send_message = s->payload;
    ops[2].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
    ops[2].data.send_status_from_server.status = GRPC_STATUS_OK;
    ops[3].op = GRPC_OP_RECV_CLOSE_ON_SERVER;
    ops[3].data.recv_close_on_server.cancelled = &s->cancelled;
    s->answering = true;
    batch(s->call, ops, 4, s);
}

static void over(struct served *s)
{
    grpc_metadata_array_destroy(&s->metadata);
    grpc_byte_buffer_destroy(s->payload);
    grpc_call_unref(s->call);
}

// Until it is killed.
static void serve(grpc_server *server, void *method, grpc_completion_queue *cq)
{
    struct served *s = calloc(POSTED, sizeof(*s));

    for (unsigned i = 0; s != NULL && i < POSTED; i++)
        post(server, method, cq, &s[i]);
    for (;;) {
        grpc_event ev = grpc_completion_queue_next(
            cq, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
        struct served *one = ev.tag;

        if (!one->answering) {
            answer(one);
            continue;
        }
        over(one);
        post(server, method, cq, one);
    }
}

// Says its port through `out`.
static void far_end(const struct conf *c, int out)
{
    grpc_server_credentials *creds;
    grpc_completion_queue *cq;
    grpc_server *server;
    void *method;
    int port;

    pair_far(c);
    start_core();
    creds = grpc_insecure_server_credentials_create();
    cq = grpc_completion_queue_create_for_next(NULL);
    server = grpc_server_create(arguments(conf_bool(c, "minimal-stack")), NULL);
    grpc_server_register_completion_queue(server, cq, NULL);
    method = grpc_server_register_method(
        server, METHOD, NULL, GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER, 0);
    port = grpc_server_add_http2_port(server, conf_str(c, "address"), creds);
    grpc_server_start(server);
    if (write(out, &port, sizeof(port)) != sizeof(port))
        _exit(1);
    serve(server, method, cq);
}

// ---- the near end

struct call {
    grpc_call *call;
    grpc_byte_buffer *request, *reply;
    grpc_metadata_array initial, trailing;
    grpc_status_code status;
    grpc_slice details;
    double began_s;
};

struct near_end {
    grpc_channel *channel;
    grpc_completion_queue *cq;
    void *method;
    grpc_slice body;
    unsigned active;
    struct meter meter;
};

static void begin(struct near_end *n, struct call *c)
{
    gpr_timespec deadline =
        gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                     gpr_time_from_seconds(CALL_S, GPR_TIMESPAN));
    grpc_op ops[6];

    memset(c, 0, sizeof(*c));
    c->began_s = program_now_s();
    c->call = grpc_channel_create_registered_call(
        n->channel, NULL, GRPC_PROPAGATE_DEFAULTS, n->cq, n->method, deadline,
        NULL);
    c->request = grpc_raw_byte_buffer_create(&n->body, 1);
    grpc_metadata_array_init(&c->initial);
    grpc_metadata_array_init(&c->trailing);
    memset(ops, 0, sizeof(ops));
    ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    ops[1].op = GRPC_OP_SEND_MESSAGE;
    ops[1].flags = GRPC_WRITE_NO_COMPRESS;
    ops[1].data.send_message.send_message = c->request;
    ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
    ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
    ops[3].data.recv_initial_metadata.recv_initial_metadata = &c->initial;
    ops[4].op = GRPC_OP_RECV_MESSAGE;
    ops[4].data.recv_message.recv_message = &c->reply;
    ops[5].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
    ops[5].data.recv_status_on_client.trailing_metadata = &c->trailing;
    ops[5].data.recv_status_on_client.status = &c->status;
    ops[5].data.recv_status_on_client.status_details = &c->details;
    batch(c->call, ops, 6, c);
    n->active++;
}

static void end(struct near_end *n, struct call *c)
{
    if (c->status != GRPC_STATUS_OK)
        program_die("a call ended with gRPC status %d", (int)c->status);
    grpc_byte_buffer_destroy(c->request);
    grpc_byte_buffer_destroy(c->reply);
    grpc_metadata_array_destroy(&c->initial);
    grpc_metadata_array_destroy(&c->trailing);
    grpc_slice_unref(c->details);
    grpc_call_unref(c->call);
    n->active--;
}

static void run(struct near_end *n, unsigned outstanding)
{
    struct call *calls = calloc(outstanding, sizeof(*calls));
    bool more = calls != NULL;

    for (unsigned i = 0; more && i < outstanding; i++)
        begin(n, &calls[i]);
    while (n->active > 0) {
        grpc_event ev = grpc_completion_queue_next(
            n->cq, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
        struct call *c = ev.tag;

        end(n, c);
        more &= meter_add(&n->meter, GRPC_SLICE_LENGTH(n->body), c->began_s,
                          program_now_s());
        if (more)
            begin(n, c);
    }
    free(calls);
}

static void near_end(const struct conf *conf, const char *target)
{
    struct near_end n = {0};
    grpc_channel_credentials *creds;

    pair_near(conf);
    start_core();
    creds = grpc_insecure_credentials_create();
    n.channel = grpc_channel_create(
        target, creds, arguments(conf_bool(conf, "minimal-stack")));
    n.cq = grpc_completion_queue_create_for_next(NULL);
    n.method = grpc_channel_register_call(n.channel, METHOD, NULL, NULL);
    n.body = grpc_slice_malloc((size_t)conf_int(conf, "bytes"));
    memset(GRPC_SLICE_START_PTR(n.body), 1, GRPC_SLICE_LENGTH(n.body));
    meter_start(&n.meter, conf);
    run(&n, (unsigned)conf_int(conf, "outstanding"));
    meter_print(&n.meter, "echo");
    meter_release(&n.meter);
}

static const struct conf_about about = {
    .program = "rpc_echo",
    .usage = "rpc_echo [OPTION]...",
    .text = "Echoes small unary calls over bare gRPC C-core between two pinned "
            "processes and says how many.",
    .example = "rpc_echo --outstanding 16",
};

static const struct conf_key keys[] = {
    {.name = "address",
     .kind = CONF_STRING,
     .value = "127.0.0.1:0",
     .help = "Where to listen: 127.0.0.1:0 or unix:/path."},
    {.name = "bytes",
     .kind = CONF_BYTES,
     .value = "64",
     .min = 1,
     .max = 1 << 20,
     .help = "Size of a request and of its answer."},
    {.name = "outstanding",
     .kind = CONF_INT,
     .value = "16",
     .min = 1,
     .max = POSTED,
     .unit = "calls",
     .help = "How many may be on their way."},
    {.name = "minimal-stack",
     .kind = CONF_BOOL,
     .value = "false",
     .help = "Without core's filters."},
    {.name = NULL},
};

static const struct conf_key *const tables[] = {keys, pair_keys, meter_keys,
                                                NULL};

int main(int argc, char **argv)
{
    struct conf *c = program_options(&about, tables, argc, argv);
    const char *address = conf_str(c, "address");
    char target[300];
    int port = 0, pipes[2];
    pid_t child;

    if (pipe(pipes) != 0 || (child = fork()) < 0)
        program_die("fork: %s", strerror(errno));
    if (child == 0)
        far_end(c, pipes[1]);
    if (read(pipes[0], &port, sizeof(port)) != sizeof(port) || port <= 0)
        program_die("the far end cannot listen on %s", address);
    if (strncmp(address, "unix:", 5) == 0)
        snprintf(target, sizeof(target), "%s", address);
    else
        snprintf(target, sizeof(target), "127.0.0.1:%d", port);
    near_end(c, target);
    kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
    conf_free(c);
    return 0;
}
