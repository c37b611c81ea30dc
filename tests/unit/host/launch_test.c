// SPDX-License-Identifier: Apache-2.0
#include "host/launch/launch.h"

#include "common/base/buf.h"
#include "tests/harness/t.h"

// A name server that knows these alone.
static enum sl_err resolve(struct launch_host *out, const char *name,
                           struct sl_error *err)
{
    static const struct {
        const char *name;
        struct launch_host host;
    } known[] = {
        {"coordinator", {1, false, "coordinator.ml.svc.cluster.local"}},
        {"everybody", {3, false, "everybody"}},
        {"localhost", {2, true, "localhost"}},
        {"nn-psserver-1", {1, false, "nn-psserver-1.ps.ml.svc"}},
        {"nn-worker-0", {1, true, "nn-worker-0"}},
    };

    for (size_t i = 0; i < SL_COUNT(known); i++) {
        if (strcmp(known[i].name, name) == 0) {
            *out = known[i].host;
            return SL_OK;
        }
    }
    return sl_fail(err, SL_EUNAVAIL, "'%s' does not resolve: no", name);
}

#define VARS 8
#define SLURM(rank, tasks, node, nodes)                                        \
    "SLURM_JOB_ID=17", "SLURM_PROCID=" #rank, "SLURM_NTASKS=" #tasks,          \
        "SLURM_NODEID=" #node, "SLURM_JOB_NODELIST=" nodes
#define TORCH(rank, size, master)                                              \
    "RANK=" #rank, "WORLD_SIZE=" #size, "MASTER_ADDR=" master,                 \
        "MASTER_PORT=29500"
#define SKY(rank, nodes, ips)                                                  \
    "SKYPILOT_NODE_RANK=" #rank, "SKYPILOT_NUM_NODES=" #nodes,                 \
        "SKYPILOT_NODE_IPS=" ips
#define TF_CLUSTER                                                             \
    "TF_CONFIG={\"cluster\":{\"chief\":[\"h6:2222\"],\"worker\":["             \
    "\"h1:2222\",\"h2:2222\"],\"ps\":[\"h4:2222\",\"127.0.0.1:2223\"]},"
#define TF_TASK(type, index)                                                   \
    "\"task\":{\"type\":\"" type "\",\"index\":" #index "}}"

// What is asked, what is there, and the plan as `role index name coordinator
// listen advertise serve resume`, "-" for nothing; or the error, after '!'.
static const struct row {
    struct launch_asked asked;
    const char *env[VARS];
    const char *want;
} rows[] = {
    // TF_CONFIG: each binds the port of its own entry
    {{.source = LAUNCH_TF_CONFIG},
     {TF_CLUSTER TF_TASK("chief", 0)},
     "coordinator 0 coordinator h6:2222 0.0.0.0:2222 - - -"},
    {{.source = LAUNCH_TF_CONFIG},
     {TF_CLUSTER TF_TASK("ps", 0)},
     "psserver 0 ps-0 h6:2222 0.0.0.0:2222 h4:2222 - -"},
    {{.source = LAUNCH_TF_CONFIG},
     {TF_CLUSTER TF_TASK("ps", 1)},
     "psserver 1 ps-1 h6:2222 127.0.0.1:2223 127.0.0.1:2223 - -"},
    {{.source = LAUNCH_TF_CONFIG},
     {TF_CLUSTER TF_TASK("worker", 1)},
     "worker 1 worker-1 h6:2222 0.0.0.0:2222 h2:2222 - -"},
    {{.source = LAUNCH_TF_CONFIG, .coordinator = "h9:70"},
     {TF_CLUSTER TF_TASK("worker", 1)},
     "worker 1 worker-1 h9:70 0.0.0.0:2222 h2:2222 - -"},
    {{.source = LAUNCH_TF_CONFIG},
     {"TF_CONFIG={\"task\":{\"type\":\"evaluator\",\"index\":0}}"},
     "evaluator 0 evaluator-0 - - - - -"},
    // without chief and ps worker 0 starts the coordinator
    {{.source = LAUNCH_TF_CONFIG},
     {"TF_CONFIG={\"cluster\":{\"worker\":[\"h1:1\",\"h2:1\"]}," TF_TASK(
         "worker", 0)},
     "worker 0 worker-0 h1:1 h1:0 - 0.0.0.0:1 -"},
    {{.source = LAUNCH_TF_CONFIG},
     {"TF_CONFIG={\"cluster\":{\"worker\":[\"localhost:1\",\"h2:1\"]}," TF_TASK(
         "worker", 0)},
     "worker 0 worker-0 localhost:1 - - localhost:1 -"},
    {{.source = LAUNCH_TF_CONFIG},
     {"TF_CONFIG={\"cluster\":{\"worker\":[\"[fd00::1]:1\",\"[fd00::2]:1\"]"
      "}," TF_TASK("worker", 1)},
     "worker 1 worker-1 [fd00::1]:1 [::]:1 [fd00::2]:1 - -"},
    {{.source = LAUNCH_TF_CONFIG},
     {"TF_CONFIG={\"cluster\":{\"ps\":[\"h1:1\"],\"worker\":[\"h2:1\"]}"
      "," TF_TASK("worker", 0)},
     "!EINVAL TF_CONFIG: cluster lists ps but no chief, which gives no "
     "address of the coordinator; list a chief, or set --coordinator"},
    {{.source = LAUNCH_TF_CONFIG, .role = LAUNCH_WORKER},
     {TF_CLUSTER TF_TASK("ps", 0)},
     "!EINVAL TF_CONFIG: task.type is ps, which is a psserver, not a worker"},
    {{.source = LAUNCH_TF_CONFIG}, {NULL}, "!ENOENT TF_CONFIG is not set"},
    {{.source = LAUNCH_TF_CONFIG},
     {"TF_CONFIG="},
     "!EINVAL TF_CONFIG is empty"},

    // Slurm
    {{.source = LAUNCH_SLURM, .psservers = 2},
     {SLURM(0, 8, 0, "n[01-04]")},
     "coordinator 0 coordinator n01:7070 0.0.0.0:7070 - - slurm-17"},
    {{.source = LAUNCH_SLURM, .psservers = 2},
     {SLURM(2, 8, 1, "n[01-04]")},
     "psserver 1 ps-1 n01:7070 0.0.0.0:7072 n02:7072 - slurm-17"},
    {{.source = LAUNCH_SLURM, .psservers = 2},
     {SLURM(7, 8, 3, "n[01-04]")},
     "worker 4 worker-17-4 n01:7070 n04:0 - - slurm-17"},
    {{.source = LAUNCH_SLURM, .psservers = 2},
     {SLURM(7, 8, 1, "n[01-04]"), "SLURM_STEP_NODELIST=n[03-04]"},
     "worker 4 worker-17-4 n03:7070 n04:0 - - slurm-17"},
    {{.source = LAUNCH_SLURM, .role = LAUNCH_WORKER, .coordinator = "c:1"},
     {SLURM(0, 1, 0, "localhost"), "SLURM_RESTART_COUNT=2"},
     "worker 0 worker-17-0 c:1 - - - slurm-17"},
    {{.source = LAUNCH_SLURM, .psservers = 2},
     {SLURM(1, 2, 0, "n1")},
     "!EINVAL Slurm: 2 processes are too few for a coordinator and 2 "
     "psservers"},
    {{.source = LAUNCH_SLURM},
     {SLURM(8, 8, 0, "n1")},
     "!EINVAL Slurm: rank 8 is out of range: the launcher started 8 processes"},
    {{.source = LAUNCH_SLURM},
     {SLURM(0, 8, 4, "n[01-04]")},
     "!EINVAL SLURM_NODEID=4, but SLURM_JOB_NODELIST has 4 hosts"},
    {{.source = LAUNCH_SLURM},
     {SLURM(0, 8, 0, "n[4-1]")},
     "!EINVAL SLURM_JOB_NODELIST:3: a range must not count down"},
    {{.source = LAUNCH_SLURM},
     {SLURM(x, 8, 0, "n1")},
     "!EINVAL SLURM_PROCID='x' is not a number from 0 to 1000000"},
    {{.source = LAUNCH_SLURM},
     {"SLURM_JOB_ID=1", "SLURM_PROCID=0"},
     "!ENOENT SLURM_NTASKS is not set"},
    {{.source = LAUNCH_SLURM, .psservers = 1, .port = 65535},
     {SLURM(1, 8, 0, "n1")},
     "!EINVAL Slurm: its port would be 65536; take a lower --base-port"},

    // sparse: a task knows its own entry
    {{.source = LAUNCH_TF_CONFIG},
     {"TF_CONFIG={\"cluster\":{\"ps\":[\"h4:1\"],\"chief\":[\"h6:1\"],"
      "\"worker\":{\"1\":\"h2:1\"}},"
      "\"task\":{\"type\":\"worker\",\"index\":1}}"},
     "worker 1 worker-1 h6:1 0.0.0.0:1 h2:1 - -"},
    {{.source = LAUNCH_TF_CONFIG},
     {"TF_CONFIG={\"cluster\":{\"worker\":[\"h1:1\",\"h2:1\"],\"ps\":[],"
      "\"chief\":[\"h6:1\"]},\"task\":{\"type\":\"worker\",\"index\":0}}"},
     "worker 0 worker-0 h6:1 0.0.0.0:1 h1:1 - -"},
    {{.source = LAUNCH_TF_CONFIG},
     {"TF_CONFIG={\"sparseCluster\":{\"worker\":{\"1\":\"h2:1\"},\"ps\":null},"
      "\"task\":{\"type\":\"worker\",\"index\":1}}"},
     "!EINVAL TF_CONFIG: cluster lists no chief and no worker 0, which gives"},
    {{.source = LAUNCH_TF_CONFIG, .coordinator = "c:1"},
     {"TF_CONFIG={\"sparseCluster\":{\"worker\":{\"0\":\"h1:1\"},"
      "\"ps\":[\"h4:1\"]},\"task\":{\"type\":\"worker\",\"index\":0}}"},
     "worker 0 worker-0 c:1 0.0.0.0:1 h1:1 - -"},

    // torchrun
    {{.source = LAUNCH_TORCHRUN, .psservers = 1},
     {TORCH(0, 4, "10.0.0.1"), "TORCHELASTIC_RUN_ID=night"},
     "coordinator 0 coordinator 10.0.0.1:7070 0.0.0.0:7070 - - night"},
    {{.source = LAUNCH_TORCHRUN, .psservers = 1},
     {TORCH(1, 4, "10.0.0.1"), "TORCHELASTIC_RUN_ID=none"},
     "psserver 0 ps-0 10.0.0.1:7070 0.0.0.0:7071 here:7071 - -"},
    {{.source = LAUNCH_TORCHRUN, .psservers = 1},
     {TORCH(3, 4, "fd00::1")},
     "worker 1 worker-1 [fd00::1]:7070 here:0 - - -"},
    {{.source = LAUNCH_TORCHRUN, .psservers = 1},
     {TORCH(1, 4, "localhost")},
     "psserver 0 ps-0 localhost:7070 localhost:7071 localhost:7071 - -"},
    {{.source = LAUNCH_TORCHRUN},
     {"RANK=0", "WORLD_SIZE=1", "MASTER_ADDR="},
     "!EINVAL MASTER_ADDR is empty"},
    {{.source = LAUNCH_TORCHRUN, .psservers = 1},
     {TORCH(1, 4, "10.0.0.1;reboot")},
     "!EINVAL torchrun: '10.0.0.1;reboot' is not a host"},

    {{.source = LAUNCH_TORCHRUN, .psservers = 1},
     {TORCH(1, 4, "fd00::x")},
     "!EINVAL torchrun: 'fd00::x' is no IPv6 address"},

    // MPI
    {{.source = LAUNCH_MPI, .psservers = 1, .coordinator = "h1:9000"},
     {"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=3"},
     "coordinator 0 coordinator h1:9000 0.0.0.0:9000 - - -"},
    {{.source = LAUNCH_MPI, .psservers = 1, .coordinator = "h1:9000"},
     {"PMI_RANK=1", "PMI_SIZE=3"},
     "psserver 0 ps-0 h1:9000 0.0.0.0:7071 here:7071 - -"},
    {{.source = LAUNCH_MPI, .psservers = 1, .coordinator = "127.0.0.1:9000"},
     {"PMI_RANK=1", "PMI_SIZE=3"},
     "psserver 0 ps-0 127.0.0.1:9000 127.0.0.1:7071 127.0.0.1:7071 - -"},
    {{.source = LAUNCH_MPI, .psservers = 1},
     {"PMI_RANK=2", "PMI_SIZE=3"},
     "!ENOENT MPI names no hosts: say where the coordinator is with "
     "--coordinator"},

    // SkyPilot: addresses stand between any white space
    {{.source = LAUNCH_SKYPILOT, .psservers = 1},
     {SKY(0, 3, "10.0.0.1\n10.0.0.2\n10.0.0.3\n"), "SKYPILOT_TASK_ID=sky-1"},
     "coordinator 0 coordinator 10.0.0.1:7070 0.0.0.0:7070 - - sky-1"},
    {{.source = LAUNCH_SKYPILOT, .psservers = 1},
     {SKY(1, 3, "10.0.0.1 10.0.0.2  10.0.0.3")},
     "psserver 0 ps-0 10.0.0.1:7070 0.0.0.0:7071 10.0.0.2:7071 - -"},
    {{.source = LAUNCH_SKYPILOT, .psservers = 1},
     {SKY(2, 3, "10.0.0.1\n10.0.0.2\n10.0.0.3")},
     "worker 0 worker-0 10.0.0.1:7070 10.0.0.3:0 - - -"},
    {{.source = LAUNCH_SKYPILOT, .role = LAUNCH_WORKER},
     {SKY(0, 2, "127.0.0.1\n10.0.0.2"),
      "SKYPILOT_TASK_ID=sky-managed-2026-11-25-02-47-19-000000_a-rather-long-"
      "name-of-a-task_1-0"},
     "worker 0 worker-0 127.0.0.1:7070 - - - "
     "sky-managed-2026-11-25-02-47-19-000000_a-rather-12353e1f2e97ad4e"},
    {{.source = LAUNCH_SKYPILOT},
     {SKY(0, 3, "10.0.0.1 10.0.0.2")},
     "!EINVAL SKYPILOT_NODE_IPS has 2 addresses, but SKYPILOT_NUM_NODES=3"},

    // pods
    {{.source = LAUNCH_DNS},
     {"HOSTNAME=nn-coordinator-0"},
     "coordinator 0 nn-coordinator-0 coordinator:7070 0.0.0.0:7070 - - -"},
    {{.source = LAUNCH_DNS},
     {"HOSTNAME=nn-psserver-1"},
     "psserver 1 ps-1 coordinator:7070 0.0.0.0:7071 "
     "nn-psserver-1.ps.ml.svc:7071 - -"},
    {{.source = LAUNCH_DNS},
     {"HOSTNAME=nn-worker-0"},
     "worker 0 nn-worker-0 coordinator:7070 - - - -"},
    {{.source = LAUNCH_DNS, .role = LAUNCH_WORKER},
     {"HOSTNAME=nn-6d4cf56db6-x7k2p"},
     "worker 0 nn-6d4cf56db6-x7k2p coordinator:7070 nn-6d4cf56db6-x7k2p:0 - - "
     "-"},
    {{.source = LAUNCH_DNS},
     {"HOSTNAME=mnist-ps-0"},
     "psserver 0 ps-0 coordinator:7070 0.0.0.0:7071 mnist-ps-0:7071 - -"},
    {{.source = LAUNCH_DNS},
     {"HOSTNAME=nn-6d4cf56db6-x7k2p"},
     "!ENOENT HOSTNAME='nn-6d4cf56db6-x7k2p' does not end in -coordinator-N"},
    {{.source = LAUNCH_DNS, .role = LAUNCH_PSSERVER},
     {"HOSTNAME=nn-6d4cf56db6-x7k2p"},
     "!EINVAL HOSTNAME='nn-6d4cf56db6-x7k2p' has no number at its end"},
    {{.source = LAUNCH_DNS, .service = "nowhere"},
     {"HOSTNAME=nn-worker-0"},
     "!EUNAVAIL the coordinator's service: 'nowhere' does not resolve"},
    {{.source = LAUNCH_DNS, .service = "everybody"},
     {"HOSTNAME=nn-worker-0"},
     "!EINVAL service 'everybody' has 3 addresses; name the service of"},

    // static
    {{.source = LAUNCH_STATIC, .role = LAUNCH_WORKER, .coordinator = "c:1"},
     {TF_CLUSTER TF_TASK("ps", 0)},
     "worker 0 worker c:1 - - - -"},
    {{.source = LAUNCH_STATIC,
      .role = LAUNCH_COORDINATOR,
      .coordinator = "unix:/run/c.sock"},
     {NULL},
     "coordinator 0 coordinator unix:/run/c.sock unix:/run/c.sock - - -"},
    {{.source = LAUNCH_STATIC, .role = LAUNCH_COORDINATOR},
     {NULL},
     "coordinator 0 coordinator 127.0.0.1:7070 127.0.0.1:7070 - - -"},
    {{.source = LAUNCH_STATIC, .role = LAUNCH_WORKER},
     {NULL},
     "!ENOENT where the coordinator is is not said"},
    {{.source = LAUNCH_STATIC, .role = LAUNCH_WORKER, .coordinator = "c:1,d:1"},
     {NULL},
     "worker 0 worker c:1,d:1 - - - -"},
    {{.source = LAUNCH_DNS, .coordinator = "c:1,unix:/d,[::1]:2"},
     {"HOSTNAME=ps-1"},
     "psserver 1 ps-1 c:1,unix:/d,[::1]:2 0.0.0.0:7071 ps-1:7071 - -"},
    {{.source = LAUNCH_STATIC,
      .role = LAUNCH_WORKER,
      .coordinator = "c:1,,d:1"},
     {NULL},
     "!EINVAL 'c:1,,d:1': address 2 of this list is empty"},
    {{.source = LAUNCH_STATIC,
      .role = LAUNCH_COORDINATOR,
      .coordinator = "c:1,d:1"},
     {NULL},
     "!EINVAL --coordinator lists several addresses"},
    {{.source = LAUNCH_STATIC, .role = LAUNCH_WORKER, .coordinator = "c"},
     {NULL},
     "!EINVAL --coordinator: 'c' has no port"},

    // auto: the first that is complete
    {{.source = LAUNCH_AUTO},
     {TF_CLUSTER TF_TASK("worker", 1), "SLURM_JOB_ID=3"},
     "worker 1 worker-1 h6:2222 0.0.0.0:2222 h2:2222 - -"},
    {{.source = LAUNCH_AUTO, .psservers = 1},
     {SLURM(2, 3, 0, "n1"), "RANK=2"},
     "worker 0 worker-17-0 n1:7070 n1:0 - - slurm-17"},
    {{.source = LAUNCH_AUTO},
     {"HOSTNAME=nn-psserver-1", "KUBERNETES_SERVICE_HOST=10.1.1.1"},
     "psserver 1 ps-1 coordinator:7070 0.0.0.0:7071 "
     "nn-psserver-1.ps.ml.svc:7071 - -"},
    {{.source = LAUNCH_AUTO, .role = LAUNCH_WORKER, .coordinator = "c:1"},
     {"HOSTNAME=desk"},
     "worker 0 worker c:1 - - - -"},
    // two that agree
    {{.source = LAUNCH_AUTO, .psservers = 1},
     {SLURM(1, 4, 0, "n1"), "PMI_RANK=1", "PMI_SIZE=4"},
     "psserver 0 ps-0 n1:7070 0.0.0.0:7071 n1:7071 - slurm-17"},
    {{.source = LAUNCH_AUTO, .psservers = 1, .coordinator = "n1:7070"},
     {SLURM(1, 4, 0, "n1"), "PMI_RANK=1", "PMI_SIZE=4"},
     "psserver 0 ps-0 n1:7070 0.0.0.0:7071 here:7071 - -"},
    // two that do not
    {{.source = LAUNCH_AUTO, .psservers = 1},
     {TF_CLUSTER TF_TASK("worker", 1), SLURM(1, 4, 0, "n1")},
     "!EINVAL tf_config says that this is worker 1 with the coordinator at "
     "h6:2222, but slurm says psserver 0 and n1:7070; say which holds: "
     "--discover tf_config or --discover slurm"},
    // one that is there and wrong is not passed over
    {{.source = LAUNCH_AUTO, .psservers = 1},
     {"TF_CONFIG={}", SLURM(1, 4, 0, "n1")},
     "!EINVAL TF_CONFIG: 'task' is missing"},
    // none, and why
    {{.source = LAUNCH_AUTO},
     {"RANK=3", "SLURM_JOB_ID=9"},
     "!ENOENT no launcher's environment is complete; torchrun: WORLD_SIZE is "
     "not set; slurm: SLURM_PROCID is not set; static: which daemon to start "
     "is not said; say --role; set one"},
};

static void check_plan(const struct launch_plan *p, const char *want)
{
    const char *texts[] = {p->name,      p->coordinator, p->listen,
                           p->advertise, p->serve,       p->resume};
    struct buf got = BUF_INIT;

    T_OK(buf_appendf(&got, "%s %u", launch_role_name(p->role), p->index));
    for (size_t i = 0; i < SL_COUNT(texts); i++)
        T_OK(buf_appendf(&got, " %s", texts[i][0] != '\0' ? texts[i] : "-"));
    T_STR(buf_text(&got), want);
    T_TRUE(p->from[0] != '\0');
    buf_release(&got);
}

TEST(launch, each_environment_means_one_role_at_its_addresses)
{
    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        struct launch_asked asked = rows[i].asked;
        struct launch_plan plan = {.index = 77};
        struct sl_error err = SL_ERROR_INIT;
        char code[24] = "";
        enum sl_err rc;

        asked.env = (char *const *)rows[i].env;
        asked.host = "here";
        asked.resolve = resolve;
        asked.port = asked.port != 0 ? asked.port : 7070;
        asked.service = asked.service != NULL ? asked.service : "coordinator";
        rc = launch_find(&plan, &asked, &err);
        if (rows[i].want[0] != '!') {
            T_STR(err.text, "");
            check_plan(&plan, rows[i].want);
            continue;
        }
        sscanf(rows[i].want, "!%20s", code);
        T_HAS(sl_err_name(rc), code);
        T_HAS(err.text, rows[i].want + 2 + strlen(code));
        T_EQ(plan.index, 77);
    }
}

static struct launch_plan plan_of(const char *const env[VARS])
{
    struct launch_plan plan = {.index = 0};
    struct launch_asked asked = {.env = (char *const *)env,
                                 .host = "here",
                                 .port = 7070,
                                 .psservers = 2,
                                 .resolve = resolve,
                                 .service = "coordinator"};

    T_OK(launch_find(&plan, &asked, t_err()));
    return plan;
}

TEST(launch, a_daemon_is_told_what_its_role_knows)
{
    struct launch_plan chief = plan_of(
        (const char *const[VARS]){TF_CLUSTER TF_TASK("chief", 0), NULL});
    struct launch_plan ps =
        plan_of((const char *const[VARS]){SLURM(2, 8, 1, "n[01-04]")});
    struct launch_setting told[LAUNCH_SETTINGS];

    T_EQ(launch_settings(told, &chief), 1);
    T_STR(told[0].key, "listen");
    T_STR(told[0].value, "0.0.0.0:2222");
    T_EQ(launch_settings(told, &ps), 4);
    T_STR(told[0].key, "coordinator");
    T_STR(told[1].key, "name");
    T_STR(told[1].value, "ps-1");
    T_STR(told[3].key, "advertise");
    T_STR(told[3].value, "n02:7072");
}

TEST(launch, a_plan_says_where_it_is_from)
{
    struct launch_plan plan = plan_of((const char *const[VARS]){
        SLURM(2, 8, 1, "n[01-04]"), "SLURM_RESTART_COUNT=3"});
    struct buf out = BUF_INIT;
    json_t *json = launch_json(&plan);

    T_OK(launch_line(&out, &plan));
    T_STR(buf_text(&out),
          "slurm: psserver 1, coordinator at n01:7070 (SLURM_PROCID=2, "
          "SLURM_NTASKS=8, SLURM_NODEID=1, SLURM_JOB_NODELIST=n[01-04], "
          "--psservers 2)");
    buf_reset(&out);
    T_OK(launch_text(&out, &plan));
    T_HAS(buf_text(&out), "advertise         n02:7072\n");
    T_HAS(buf_text(&out), "of                2 psservers, 5 workers\n");
    T_HAS(buf_text(&out), "restarts          3\n");
    T_STR(json_string_value(json_object_get(json, "source")), "slurm");
    T_EQ(json_integer_value(json_object_get(json, "workers")), 5);
    T_EQ(json_integer_value(json_object_get(json, "restarts")), 3);
    json_decref(json);
    buf_release(&out);
}

// What an environment says is printed, whatever bytes it has.
TEST(launch, odd_bytes_are_no_obstacle)
{
    struct launch_plan plan = plan_of(
        (const char *const[VARS]){SKY(0, 3, "10.0.0.1 10.0.0.2 10.0.0.3"),
                                  "SKYPILOT_TASK_ID=\xff\n\x01"});
    json_t *json = launch_json(&plan);

    T_STR(plan.resume, "???");
    T_TRUE(json != NULL);
    json_decref(json);
}

TEST(launch, keys_that_nobody_knows_are_noted)
{
    struct launch_plan plan = plan_of((const char *const[VARS]){
        "TF_CONFIG={\"cluster\":{\"chief\":[\"a:1\"]},\"x\":1," TF_TASK("chief",
                                                                        0)});

    T_STR(plan.notes, "TF_CONFIG: nobody knows x; TF_CONFIG: cluster lists no "
                      "worker; one must join; TF_CONFIG: cluster lists no ps; "
                      "without one only jobs with train.mode=allreduce run");
}

TEST(launch, the_systems_resolver_knows_this_machine)
{
    struct launch_host host;
    struct sl_error err = SL_ERROR_INIT;

    T_OK(launch_resolve(&host, "localhost", t_err()));
    T_GE(host.count, 1);
    T_TRUE(host.loopback);
    T_FAILS(SL_EUNAVAIL, launch_resolve(&host, "no.such.host.invalid", &err));
    T_HAS(err.text, "'no.such.host.invalid' does not resolve: ");
}

TEST(launch, names_go_there_and_back)
{
    static const char *const names[] = {"auto",     "static",   "tf_config",
                                        "slurm",    "torchrun", "mpi",
                                        "skypilot", "dns"};

    for (size_t i = 0; i < SL_COUNT(names); i++)
        T_STR(launch_source_name(launch_source_of(names[i])), names[i]);
    T_STR(launch_role_name(launch_role_of("psserver")), "psserver");
    T_EQ(launch_role_of("auto"), LAUNCH_NO_ROLE);
}
