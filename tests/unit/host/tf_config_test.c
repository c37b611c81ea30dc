// SPDX-License-Identifier: Apache-2.0
#include "host/launch/tf_config.h"

#include "common/base/buf.h"
#include "common/base/mem.h"
#include "tests/harness/t.h"

#define CLUSTER                                                                \
    "\"cluster\":{\"chief\":[\"h6:2222\"],\"worker\":[\"h1:2222\","            \
    "\"h2:2222\"],\"ps\":[\"h4:2222\",\"h5:2222\"]}"
#define WORKER_1 "\"task\":{\"type\":\"worker\",\"index\":1}"

static struct tf_config read_ok(const char *text)
{
    struct tf_config tf = {.root = NULL};

    T_OK(tf_config_read(&tf, text, strlen(text), t_err()));
    return tf;
}

TEST(tf_config, the_form_of_tensorflows_own_guide_is_read)
{
    struct tf_config tf =
        read_ok("{" CLUSTER "," WORKER_1
                ",\"environment\":\"cloud\",\"rpc_layer\":\"grpc\"}");

    T_EQ(tf.type, TF_WORKER);
    T_EQ(tf.index, 1);
    T_EQ(tf_config_count(&tf, TF_CHIEF), 1);
    T_EQ(tf_config_count(&tf, TF_PS), 2);
    T_EQ(tf_config_count(&tf, TF_WORKER), 2);
    T_EQ(tf_config_count(&tf, TF_EVALUATOR), 0);
    T_STR(tf_config_address(&tf, TF_PS, 1), "h5:2222");
    T_STR(tf.unknown, "");
    tf_config_release(&tf);
}

TEST(tf_config, what_tensorflow_takes_is_taken)
{
    static const struct {
        const char *text;
        enum tf_type type;
        unsigned index;
        const char *unknown;
    } rows[] = {
        {"{\"cluster\":{\"evaluator\":[\"h7:1\"]},\"task\":{\"type\":"
         "\"evaluator\",\"index\":0}}",
         TF_EVALUATOR, 0, ""},
        {"{\"task\":{\"type\":\"evaluator\",\"index\":0}}", TF_EVALUATOR, 0,
         ""},
        {"{\"cluster\":{\"worker\":[\"h1:1\"]},\"task\":{\"type\":"
         "\"evaluator\",\"index\":3}}",
         TF_EVALUATOR, 3, ""},
        {"{\"cluster\":{\"master\":[\"h1:1\"]},\"task\":{\"type\":"
         "\"master\",\"index\":0}}",
         TF_CHIEF, 0, ""},
        {"{\"cluster\":{\"coordinator\":[\"h1:1\"]},\"task\":{\"type\":"
         "\"chief\",\"index\":\"0\"}}",
         TF_CHIEF, 0, ""},
        {"{\"cluster\":{\"worker\":[\"[::1]:2222\",\"a-b_c.d:65535\"]},"
         "\"task\":{\"type\":\"worker\",\"index\":1,\"cloud\":\"x\"},"
         "\"job\":{}}",
         TF_WORKER, 1, "job, task.cloud"},
    };

    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        struct tf_config tf = read_ok(rows[i].text);

        T_EQ(tf.type, rows[i].type);
        T_EQ(tf.index, rows[i].index);
        T_STR(tf.unknown, rows[i].unknown);
        tf_config_release(&tf);
    }
}

#define WORKER_0 "\"task\":{\"type\":\"worker\",\"index\":0}"
#define WITH(cluster) "{\"cluster\":" cluster "," WORKER_0 "}"
#define TASK(task) "{" CLUSTER ",\"task\":" task "}"

static const struct mistake {
    const char *text, *says;
} mistakes[] = {
    // the whole
    {"", "TF_CONFIG is empty; put {"},
    {"{", "TF_CONFIG:1:"},
    {"[]", "all of it must be an object with cluster and task and is a list"},
    {"{\"task\":1,\"task\":2}", "TF_CONFIG:1:"},
    {"{}", "'task' is missing: which process this is"},
    {"{" CLUSTER "}", "'task' is missing: which process this is"},
    {"{" WORKER_0 "}", "'cluster' is missing: the addresses of each type"},
    {"{" CLUSTER "," WORKER_0 ",\"rpc_layer\":3}",
     "rpc_layer must be a string and is a number"},
    {"{" CLUSTER "," WORKER_0 ",\"environment\":null}",
     "environment must be a string and is null"},
    // cluster
    {WITH("[]"), "cluster must be an object of lists, as {\"worker\": "
                 "[\"host:port\"]}, and is a list"},
    {WITH("{\"wrker\":[\"a:1\"]}"),
     "cluster: there is no type 'wrker'; did you mean 'worker'?"},
    {WITH("{\"gpu-boxes\":[\"a:1\"]}"),
     "cluster: there is no type 'gpu-boxes'; known are chief"},
    {WITH("{\"worker\":\"a:1\"}"),
     "cluster.worker must be a list of addresses, as [\"host:port\"], and is "
     "a string"},
    {WITH("{\"worker\":[]}"),
     "task.type is worker, but cluster lists no worker"},
    {WITH("{\"worker\":{\"one\":\"a:1\"}}"),
     "cluster.worker: 'one' is not the number of a task, as in {\"1\": "},
    {WITH("{\"worker\":{\"00\":\"a:1\"}}"),
     "cluster.worker: '00' is not the number of a task"},
    {WITH("{\"worker\":{\"1\":\"a:1\"}}"),
     "task.index is 0, but cluster.worker has no address for it"},
    {WITH("{\"worker\":{\"0\":\"a:1\",\"3\":\"a:1\"}}"),
     "cluster.worker[0] and cluster.worker[3] are both 'a:1'"},
    {WITH("{\"worker\":{\"0\":null}}"),
     "cluster.worker[0] must be a string, as \"host:port\", and is null"},
    {WITH("{\"worker\":[\"a:1\"],\"chief\":{\"1\":\"b:1\"}}"),
     "cluster.chief has 2 addresses, and a cluster has one chief"},
    {WITH("{\"worker\":[\"a:1\"],\"chief\":[\"b:1\"],\"master\":[\"c:1\"]}"),
     "cluster.master: chief, master and coordinator are one type"},
    {WITH("{\"worker\":[\"a:1\"],\"chief\":[\"b:1\",\"c:1\"]}"),
     "cluster.chief has 2 addresses, and a cluster has one chief"},
    {WITH("{\"worker\":[\"a:1\",7]}"),
     "cluster.worker[1] must be a string, as \"host:port\", and is a number"},
    {WITH("{\"worker\":[\"a:1\",\"b:2\",\"a:1\"]}"),
     "cluster.worker[0] and cluster.worker[2] are both 'a:1'; each process "
     "needs an address of its own"},
    {WITH("{\"worker\":[\"a:1\"],\"ps\":[\"A:1\"]}"),
     "cluster.ps[0] and cluster.worker[0] are both 'A:1'"},
    // addresses
    {WITH("{\"worker\":[\"\"]}"), "cluster.worker[0]: the address is empty"},
    {WITH("{\"worker\":[\"h1\"]}"),
     "cluster.worker[0]: 'h1' has no port; write host:port"},
    {WITH("{\"worker\":[\"[::1]\"]}"),
     "cluster.worker[0]: '[::1]' has no port; write host:port"},
    {WITH("{\"worker\":[\"grpc://h1:2\"]}"),
     "cluster.worker[0]: 'grpc://h1:2' has a scheme; write host:port alone"},
    {WITH("{\"worker\":[\"h1:99999\"]}"),
     "cluster.worker[0]: port '99999' is not a number from 1 to 65535"},
    {WITH("{\"worker\":[\"h1:0\"]}"),
     "cluster.worker[0]: port '0' is not a number from 1 to 65535"},
    {WITH("{\"worker\":[\"h1:\"]}"),
     "cluster.worker[0]: port '' is not a number from 1 to 65535"},
    {WITH("{\"worker\":[\"h1:2222x\"]}"),
     "cluster.worker[0]: port '2222x' is not a number from 1 to 65535"},
    {WITH("{\"worker\":[\":2222\"]}"),
     "cluster.worker[0]: the host is missing"},
    {WITH("{\"worker\":[\"::1:2222\"]}"),
     "cluster.worker[0]: '::1:2222' has several colons; an IPv6 address stands "
     "in brackets"},
    {WITH("{\"worker\":[\"[::x]:2222\"]}"),
     "cluster.worker[0]: '[::x]:2222' is not an address"},
    {WITH("{\"worker\":[\"h 1:2222\"]}"),
     "cluster.worker[0]: 'h 1' is not a host"},
    // task
    {TASK("3"), "task must be an object with type and index and is a number"},
    {TASK("{\"index\":0}"), "task.type is missing: chief, ps, worker or"},
    {TASK("{\"type\":0,\"index\":0}"),
     "task.type must be a string and is a number"},
    {TASK("{\"type\":\"pss\",\"index\":0}"),
     "task.type: there is no type 'pss'; did you mean 'ps'?"},
    {TASK("{\"type\":\"worker\"}"),
     "task.index is missing: which of the workers this is, counted from 0"},
    {TASK("{\"type\":\"worker\",\"index\":2}"),
     "task.index is 2, but cluster.worker has 2 addresses: the last one is 1"},
    {TASK("{\"type\":\"worker\",\"index\":-1}"),
     "task.index is -1; it counts from 0"},
    {TASK("{\"type\":\"worker\",\"index\":0.5}"),
     "task.index must be a whole number, counted from 0, and is a fraction"},
    {TASK("{\"type\":\"worker\",\"index\":\"one\"}"),
     "task.index must be a whole number, counted from 0, and is one"},
    {TASK("{\"type\":\"worker\",\"index\":[0]}"),
     "task.index must be a whole number, counted from 0, and is a list"},
    {"{\"cluster\":{\"worker\":[\"a:1\"]},\"task\":{\"type\":\"ps\","
     "\"index\":0}}",
     "task.type is ps, but cluster lists no ps"},
};

TEST(tf_config, each_mistake_has_its_own_words)
{
    for (size_t i = 0; i < SL_COUNT(mistakes); i++) {
        struct tf_config tf = {.index = 77};
        struct sl_error err = SL_ERROR_INIT;

        T_FAILS(SL_EINVAL, tf_config_read(&tf, mistakes[i].text,
                                          strlen(mistakes[i].text), &err));
        T_HAS(err.text, mistakes[i].says);
        T_HAS(err.text, "TF_CONFIG");
        T_EQ(tf.index, 77);
    }
}

// A cluster of so many workers, as text.
static struct buf many(unsigned workers)
{
    struct buf text = BUF_INIT;

    T_OK(buf_append_str(&text, "{\"cluster\":{\"worker\":["));
    for (unsigned i = 0; i < workers; i++)
        T_OK(buf_appendf(&text, "%s\"h%u:1\"", i > 0 ? "," : "", i));
    T_OK(buf_append_str(&text, "]}," WORKER_0 "}"));
    return text;
}

// What an operator writes that lets a cluster grow: each task knows itself and
// those before which it stands, and types without a task have an empty list.
TEST(tf_config, sparse_clusters_are_read)
{
    struct tf_config tf =
        read_ok("{\"cluster\":{\"ps\":[\"h4:1\",\"h5:1\"],\"chief\":[\"h6:1\"],"
                "\"worker\":{\"1\":\"h2:1\"},\"evaluator\":null},"
                "\"task\":{\"type\":\"worker\",\"index\":1}}");

    T_EQ(tf_config_count(&tf, TF_WORKER), 2);
    T_PTR(tf_config_address(&tf, TF_WORKER, 0), NULL);
    T_STR(tf_config_address(&tf, TF_WORKER, 1), "h2:1");
    T_EQ(tf_config_count(&tf, TF_EVALUATOR), 0);
    T_STR(tf.unknown, "");
    tf_config_release(&tf);

    tf = read_ok("{\"sparseCluster\":{\"worker\":{\"0\":\"h1:1\"},\"ps\":[],"
                 "\"chief\":{}},\"task\":{\"type\":\"worker\",\"index\":0}}");
    T_STR(tf_config_address(&tf, TF_WORKER, 0), "h1:1");
    T_EQ(tf_config_count(&tf, TF_PS), 0);
    T_EQ(tf_config_count(&tf, TF_CHIEF), 0);
    T_STR(tf.unknown, "");
    tf_config_release(&tf);
}

TEST(tf_config, names_and_bytes_have_limits)
{
    struct tf_config tf = {.root = NULL};
    struct sl_error err = SL_ERROR_INIT;
    const char *far =
        "{\"cluster\":{\"worker\":{\"65536\":\"a:1\"}}," WORKER_0 "}";
    struct buf text = many(TF_NAMES_MAX);

    T_LT(text.len, TF_BYTES_MAX);
    T_OK(tf_config_read(&tf, buf_text(&text), text.len, t_err()));
    T_EQ(tf_config_count(&tf, TF_WORKER), TF_NAMES_MAX);
    tf_config_release(&tf);
    buf_release(&text);

    T_FAILS(SL_ERANGE, tf_config_read(&tf, far, strlen(far), &err));
    text = many(TF_NAMES_MAX + 1);
    T_FAILS(SL_ERANGE, tf_config_read(&tf, buf_text(&text), text.len, &err));
    T_HAS(err.text, "cluster has 65537 addresses, and at most 65536 are read");
    // A MiB of blanks behind, and it is too long.
    while (text.len <= TF_BYTES_MAX)
        T_OK(buf_append_str(&text, "                "));
    T_FAILS(SL_ERANGE, tf_config_read(&tf, buf_text(&text), text.len, &err));
    T_HAS(err.text, "TF_CONFIG");
    buf_release(&text);
}
