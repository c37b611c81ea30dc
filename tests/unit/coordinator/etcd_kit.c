// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/coordinator/etcd_kit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/harness/t.h"

#define SERVER "/usr/bin/etcd"
#define SETPRIV "/usr/bin/setpriv" // has etcd end with a test that crashes
#define LIMIT_MS 60000

static struct kit {
    struct rpc_io *io;
    struct etcd *client;
    pid_t pid; // 0: none runs
    int port, peer_port;
    char folder[400];
    uint64_t quota;
} kit;

static int free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(at);
    int s = socket(AF_INET, SOCK_STREAM, 0);

    T_ASSERT(s >= 0 && bind(s, (struct sockaddr *)&at, sizeof(at)) == 0);
    T_ASSERT(getsockname(s, (struct sockaddr *)&at, &bytes) == 0);
    close(s);
    return ntohs(at.sin_port);
}

void kit_etcd_kill(void)
{
    if (kit.pid == 0)
        return;
    kill(kit.pid, SIGKILL);
    kill(kit.pid, SIGCONT);
    while (waitpid(kit.pid, NULL, 0) < 0 && errno == EINTR)
        ;
    kit.pid = 0;
}

static void kit_end(void)
{
    kit_etcd_kill();
    etcd_free(kit.client);
    rpc_io_free(kit.io);
    kit.client = NULL;
    kit.io = NULL;
}

static pid_t spawn(char *const argv[], const char *log)
{
    posix_spawn_file_actions_t files;
    pid_t pid = 0;

    T_ASSERT(posix_spawn_file_actions_init(&files) == 0);
    posix_spawn_file_actions_addopen(&files, 1, log,
                                     O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    T_ASSERT(posix_spawn(&pid, argv[0], &files, NULL, argv, environ) == 0);
    posix_spawn_file_actions_destroy(&files);
    return pid;
}

static void kit_start(void)
{
    char client[64], peer[64], cluster[80], quota[32];
    char *argv[] = {SETPRIV,
                    "--pdeathsig",
                    "KILL",
                    SERVER,
                    "--name",
                    "m",
                    "--data-dir",
                    kit.folder,
                    "--listen-client-urls",
                    client,
                    "--advertise-client-urls",
                    client,
                    "--listen-peer-urls",
                    peer,
                    "--initial-advertise-peer-urls",
                    peer,
                    "--initial-cluster",
                    cluster,
                    "--heartbeat-interval",
                    "10",
                    "--election-timeout",
                    "100",
                    "--logger",
                    "zap",
                    "--quota-backend-bytes",
                    quota,
                    NULL};

    snprintf(client, sizeof(client), "http://127.0.0.1:%d", kit.port);
    snprintf(peer, sizeof(peer), "http://127.0.0.1:%d", kit.peer_port);
    snprintf(cluster, sizeof(cluster), "m=%s", peer);
    snprintf(quota, sizeof(quota), "%llu", (unsigned long long)kit.quota);
    kit.pid = spawn(argv, t_path("etcd.log"));
}

// Waits until a member answers a read.
static void kit_wait(void)
{
    const struct etcd_op get = {.what = ETCD_GET, .key = "up"};
    uint64_t until = sl_real_ms() + LIMIT_MS;
    struct etcd_reply reply = {0};
    struct sl_error err = SL_ERROR_INIT;

    while (etcd_get(kit.client, &get, 1000, &reply, &err) != SL_OK) {
        if (waitpid(kit.pid, NULL, WNOHANG) == kit.pid) {
            kit.pid = 0;
            T_FAIL("etcd has ended: see %s", t_path("etcd.log"));
        }
        if (sl_real_ms() > until)
            T_FAIL("etcd does not answer: %s", err.text);
    }
    etcd_reply_release(&reply);
}

struct etcd *kit_etcd_client(void)
{
    struct etcd *e = NULL;
    char url[64];

    snprintf(url, sizeof(url), "etcd://127.0.0.1:%d/test", kit.port);
    T_OK(etcd_new(&e, kit.io, url, NULL, t_err()));
    return e;
}

struct etcd *kit_etcd(uint64_t quota)
{
    static bool at_end;

    if (access(SERVER, X_OK) != 0)
        T_SKIP("there is no " SERVER ": tools/install-packages --tests");
    if (!at_end)
        atexit(kit_end);
    at_end = true;
    kit_end();
    T_OK(rpc_io_new(&kit.io, NULL, t_err()));
    kit.quota = quota;
    kit.port = free_port();
    kit.peer_port = free_port();
    snprintf(kit.folder, sizeof(kit.folder), "%s", t_path("etcd"));
    kit_start();
    kit.client = kit_etcd_client();
    kit_wait();
    return kit.client;
}

void kit_etcd_restart(void)
{
    T_ASSERT(kit.pid == 0);
    kit_start();
    kit_wait();
}

void kit_etcd_pause(bool on)
{
    T_ASSERT(kill(kit.pid, on ? SIGSTOP : SIGCONT) == 0);
    if (on) // it runs on for a moment
        T_ASSERT(waitpid(kit.pid, NULL, WUNTRACED) == kit.pid);
}

void kit_etcdctl(const char *line)
{
    char *argv[16] = {"/usr/bin/etcdctl", "--endpoints"};
    char at[64], words[400];
    int count = 3, status = 0;
    pid_t pid;

    snprintf(at, sizeof(at), "127.0.0.1:%d", kit.port);
    snprintf(words, sizeof(words), "%s", line);
    argv[2] = at;
    for (char *w = strtok(words, " "); w != NULL; w = strtok(NULL, " "))
        argv[count++] = w;
    pid = spawn(argv, t_path("etcdctl.log"));
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (status != 0)
        T_FAIL("etcdctl %s: %d, see %s", line, status, t_path("etcdctl.log"));
}

int64_t kit_etcd_lead(struct etcd *e)
{
    const struct etcd_op del = {.what = ETCD_DELETE, .key = "leader"};
    const struct etcd_op put = {.what = ETCD_PUT, .key = "leader"};
    struct etcd_reply reply = {0};
    int64_t term;

    T_OK(etcd_txn(e, &(struct etcd_txn){.then = &del, .then_count = 1},
                  LIMIT_MS, &reply, t_err()));
    etcd_reply_release(&reply);
    T_OK(etcd_txn(e, &(struct etcd_txn){.then = &put, .then_count = 1},
                  LIMIT_MS, &reply, t_err()));
    term = reply.revision;
    etcd_reply_release(&reply);
    return term;
}

struct journal *kit_journal(struct etcd *e, int64_t term)
{
    struct journal *j = NULL;

    T_OK(journal_follow(&j, e, &journal_kind_own, t_err()));
    T_OK(journal_lead(j, &(struct journal_leader){.term = term}, t_err()));
    return j;
}
