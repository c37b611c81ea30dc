// SPDX-License-Identifier: Apache-2.0
// client/up/up_setup.c -- what a local cluster is made of before it starts:
// folder, certificates, arguments of each daemon.
#include "client/up/up.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/crc.h"
#include "common/base/fs.h"
#include "common/base/mem.h"
#include "common/net/ownsock.h"
#include "common/net/rpc.h"
#include "host/store/store.h"

#define ADDRESS_BYTES 256
#define DATA_ROOTS 24 // that fit among the arguments of a worker

// ---- environment

// What the user set for the client (an address, certificates) is not meant
// for these daemons, and what a service manager set for us is ours.
static bool kept_from_children(const char *entry)
{
    static const char *const names[] = {
        "SLUICE_TLS_",       "SLUICE_CONFIG=", "SLUICE_COORDINATOR=",
        "SLUICE_NAME=",      "SLUICE_LISTEN=", "SLUICE_ADVERTISE=",
        "SLUICE_STATE=",     "SLUICE_STORE=",  "SLUICE_GRACE=",
        "SLUICE_DATA_ROOT=", "SLUICE_OPS_",    UPDIR_VARIABLE "=",
        "NOTIFY_SOCKET=",    "WATCHDOG_",
    };

    for (size_t i = 0; i < SL_COUNT(names); i++)
        if (strncmp(entry, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static char *up_env_text(const char *name, const char *value)
{
    struct buf b = BUF_INIT;

    if (buf_appendf(&b, "%s=%s", name, value) != SL_OK)
        return NULL;
    return (char *)buf_detach(&b, NULL);
}

enum sl_err up_environment(char ***out, char *const *ours, const char *notify,
                           const char *dir)
{
    size_t n = 0, kept = 0;
    char **list;

    while (ours[n] != NULL)
        n++;
    list = sl_calloc(n + 3, sizeof(*list));
    if (list == NULL)
        return SL_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        if (kept_from_children(ours[i]))
            continue;
        list[kept] = sl_strdup(ours[i]);
        if (list[kept++] == NULL)
            goto failed;
    }
    list[kept++] = up_env_text("NOTIFY_SOCKET", notify);
    list[kept++] = up_env_text(UPDIR_VARIABLE, dir);
    if (list[kept - 1] != NULL && list[kept - 2] != NULL) {
        *out = list;
        return SL_OK;
    }

failed:
    for (size_t i = 0; i < kept; i++)
        sl_free(list[i]);
    sl_free(list);
    return SL_ENOMEM;
}

// ---- addresses

enum sl_err up_choose_address(char **out, const char *listen_at,
                              struct sl_error *err)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t size = sizeof(at);
    char text[ADDRESS_BYTES];
    size_t n = strlen(listen_at);
    int fd, rc;

    if (n < 2 || strcmp(listen_at + n - 2, ":0") != 0 ||
        strncmp(listen_at, "unix:", 5) == 0) {
        *out = sl_strdup(listen_at);
        return *out != NULL ? SL_OK : sl_no_memory(err);
    }
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    rc = fd < 0 ? -1 : bind(fd, (struct sockaddr *)&at, sizeof(at));
    if (rc == 0)
        rc = getsockname(fd, (struct sockaddr *)&at, &size);
    if (rc != 0)
        sl_fail(err, SL_EIO, "no free port: %s", strerror(errno));
    if (fd >= 0)
        close(fd);
    if (rc != 0)
        return SL_EIO;
    snprintf(text, sizeof(text), "%.*s:%u", (int)(n - 2), listen_at,
             (unsigned)ntohs(at.sin_port));
    *out = sl_strdup(text);
    return *out != NULL ? SL_OK : sl_no_memory(err);
}

static enum sl_err choose_own(struct up *u, struct sl_error *err)
{
    char own[OWNSOCK_BYTES];
    enum sl_err rc = ownsock_make(own, err);

    if (rc != SL_OK)
        return rc;
    u->address = sl_strdup(own);
    return u->address != NULL ? SL_OK : sl_no_memory(err);
}

static enum sl_err choose_listen(struct up *u, struct sl_error *err)
{
    const char *listen_at = conf_str(u->conf, "listen");
    enum sl_err rc;

    if (listen_at == NULL)
        return choose_own(u, err);
    rc = rpc_address_check(listen_at, err);
    if (rc != SL_OK)
        return rc;
    if (!rpc_address_is_local(listen_at))
        return sl_fail(err, SL_EINVAL,
                       "--listen %s: 'sluice up' serves this machine only; "
                       "for others start the daemons with TLS (see "
                       "deploy/README.md)",
                       listen_at);
    return up_choose_address(&u->address, listen_at, err);
}

// After what an earlier run left has ended: it may have listened there.
static enum sl_err check_vacant(const struct up *u, struct sl_error *err)
{
    enum sl_err rc = rpc_address_vacant(u->address, err);

    if (rc != SL_EEXIST)
        return rc;
    if (conf_str(u->conf, "listen") == NULL)
        return sl_fail(err, rc,
                       "another 'sluice up' of yours listens on %s: stop it "
                       "with 'sluice down --dir ITS-FOLDER', or give this one "
                       "another address with --listen unix:/PATH",
                       u->address);
    return sl_fail(err, rc,
                   "--listen %s: another process listens there; name another "
                   "port (0: a free one), or leave --listen out",
                   u->address);
}

// ---- the socket on which children say READY=1

// A path in the folder, or an abstract name where the path would be too long.
static enum sl_err open_notify(struct up *u, struct sl_error *err)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int one = 1;
    size_t n;

    u->notify_path = updir_path(&u->dir, "notify.sock");
    if (u->notify_path != NULL &&
        strlen(u->notify_path) >= sizeof(at.sun_path)) {
        char name[64];

        sl_free(u->notify_path);
        snprintf(name, sizeof(name), "@sluice-up-%d", (int)getpid());
        u->notify_path = sl_strdup(name);
    }
    if (u->notify_path == NULL)
        return sl_no_memory(err);
    n = strlen(u->notify_path);
    memcpy(at.sun_path, u->notify_path, n);
    if (at.sun_path[0] == '@')
        at.sun_path[0] = '\0';
    else
        unlink(u->notify_path);
    u->notify = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (u->notify < 0 ||
        setsockopt(u->notify, SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)) ||
        bind(u->notify, (struct sockaddr *)&at,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)) != 0)
        return sl_fail(err, SL_EIO, "%s: %s", u->notify_path, strerror(errno));
    return SL_OK;
}

static enum sl_err open_signals(struct up *u, struct sl_error *err)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP); // the terminal was closed
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    u->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (u->signals < 0)
        return sl_fail(err, SL_EIO, "signalfd: %s", strerror(errno));
    return SL_OK;
}

// ---- children

static enum sl_err common_args(struct up *u, struct child *c,
                               const char *program, struct sl_error *err)
{
    char path[PATH_MAX];
    enum sl_err rc = child_program(path, program, err);

    if (rc != SL_OK)
        return rc;
    rc = child_arg(c, "%s", path);
    c->log = updir_path(&u->dir, "log/%s.log", c->name);
    c->pid_file = updir_path(&u->dir, "%s.pid", c->name);
    if (rc == SL_OK && c->role != CHILD_COORDINATOR) {
        rc = child_arg(c, "--coordinator=%s", u->address);
        if (rc == SL_OK)
            rc = child_arg(c, "--name=%s", c->name);
    }
    if (rc == SL_OK)
        rc = child_arg(c, "--node=%s", c->name);
    // A little less than our own patience, so that it ends by itself.
    if (rc == SL_OK)
        rc = child_arg(c, "--grace=%lldms",
                       (long long)conf_int(u->conf, "grace") * 4 / 5);
    if (rc == SL_OK)
        rc = child_arg(c, "--state=%s/%s", u->dir.path, c->name);
    if (rc == SL_OK)
        rc = child_arg(c, "--store=%s", u->store);
    // The daemon takes a port itself, and says which: one that is chosen here
    // may be taken by the time that it starts, or starts again.
    if (rc == SL_OK)
        rc = child_arg(c, "--ops-bind=127.0.0.1:0");
    c->lock = updir_path(&u->dir, "%s/lock", c->name);
    if (c->lock == NULL)
        rc = SL_ENOMEM;
    if (rc != SL_OK || c->log == NULL || c->pid_file == NULL)
        return sl_no_memory(err);
    return SL_OK;
}

static enum sl_err make_coordinator(struct up *u, struct child *c,
                                    struct sl_error *err)
{
    enum sl_err rc;

    c->role = CHILD_COORDINATOR;
    snprintf(c->name, sizeof(c->name), "coordinator");
    rc = common_args(u, c, "coordinator", err);
    if (rc == SL_OK && child_arg(c, "--listen=%s", u->address) != SL_OK)
        rc = sl_no_memory(err);
    if (rc != SL_OK || strncmp(u->address, "unix:", 5) != 0)
        return rc;
    c->socket = sl_strdup(u->address + 5);
    return c->socket != NULL ? SL_OK : sl_no_memory(err);
}

// Has the child listen on a socket of its own, DIR/NAME.sock, or one beside
// the user's own where that path would be too long: a port of loopback would
// be open to every user of this machine.
static enum sl_err listen_on_socket(const struct up *u, struct child *c,
                                    struct sl_error *err)
{
    struct sockaddr_un at;
    char folder[OWNSOCK_BYTES], path[OWNSOCK_BYTES];
    size_t n = strlen(u->dir.path);
    enum sl_err rc;

    c->socket = updir_path(&u->dir, "%s.sock", c->name);
    if (c->socket != NULL && strlen(c->socket) >= sizeof(at.sun_path)) {
        rc = ownsock_folder(folder, err);
        if (rc != SL_OK)
            return rc;
        snprintf(path, sizeof(path), "%.80s/%08x-%.20s.sock", folder,
                 crc32c(0, u->dir.path, n), c->name);
        sl_free(c->socket);
        c->socket = sl_strdup(path);
    }
    if (c->socket == NULL ||
        child_arg(c, "--listen=unix:%s", c->socket) != SL_OK)
        return sl_no_memory(err);
    return SL_OK;
}

// As another flag: what jobs may have read.
static enum sl_err data_roots(const struct up *u, struct child *c,
                              const char *flag, struct sl_error *err)
{
    size_t count = conf_list_count(u->conf, "data-root");

    if (count > DATA_ROOTS)
        return sl_fail(err, SL_ERANGE, "--data-root: at most %d of them",
                       DATA_ROOTS);
    for (size_t i = 0; i < count; i++) {
        if (child_arg(c, "%s=%s", flag,
                      conf_list_at(u->conf, "data-root", i)) != SL_OK)
            return sl_no_memory(err);
    }
    return SL_OK;
}

static enum sl_err make_psserver(struct up *u, struct child *c, unsigned i,
                                 struct sl_error *err)
{
    enum sl_err rc;

    c->role = CHILD_PSSERVER;
    snprintf(c->name, sizeof(c->name), "ps-%u", i);
    rc = common_args(u, c, "psserver", err);
    if (rc == SL_OK)
        rc = data_roots(u, c, "--weights-root", err);
    return rc == SL_OK ? listen_on_socket(u, c, err) : rc;
}

// --gpus, if it was given; asked of the worker that will be started.
static enum sl_err find_gpus(struct up *u, struct sl_error *err)
{
    char path[PATH_MAX];
    enum sl_err rc;

    u->each = (unsigned)conf_int(u->conf, "gpus-per-worker");
    if (!conf_is_set(u->conf, "gpus") && u->each > 1)
        return sl_fail(err, SL_EINVAL,
                       "--gpus-per-worker %u: set the GPUs with --gpus all, or "
                       "their number",
                       u->each);
    if (!conf_is_set(u->conf, "gpus"))
        return SL_OK;
    rc = child_program(path, "worker", err);
    if (rc == SL_OK)
        rc = gpus_find(&u->gpus, path, conf_str(u->conf, "gpus"), err);
    return rc;
}

static enum sl_err make_worker(struct up *u, struct child *c, unsigned i,
                               struct sl_error *err)
{
    char gpu[GPUS_LIST];
    const char *device = conf_str(u->conf, "device");
    enum sl_err rc;

    if (i < gpus_workers(&u->gpus, u->each)) {
        gpus_list(gpu, &u->gpus, u->each, i);
        device = gpu;
    } else if (u->gpus.count > 0 && strcmp(device, "auto") == 0) {
        device = "cpu"; // every GPU has its worker
    }

    c->role = CHILD_WORKER;
    snprintf(c->name, sizeof(c->name), "worker-%u", i);
    rc = common_args(u, c, "worker", err);
    if (rc == SL_OK && (child_arg(c, "--device=%s", device) != SL_OK ||
                        child_arg(c, "--threads=%u", u->threads) != SL_OK))
        rc = sl_no_memory(err);
    if (rc == SL_OK)
        rc = listen_on_socket(u, c, err);
    return rc == SL_OK ? data_roots(u, c, "--data-root", err) : rc;
}

static enum sl_err make_children(struct up *u, struct sl_error *err)
{
    unsigned servers = (unsigned)conf_int(u->conf, "psservers");
    unsigned workers = (unsigned)conf_int(u->conf, "workers");
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    enum sl_err rc = find_gpus(u, err);

    if (rc != SL_OK)
        return rc;
    if (u->gpus.count > 0 && conf_origin(u->conf, "workers") == CONF_DEFAULT)
        workers = 0;
    workers += gpus_workers(&u->gpus, u->each);
    u->threads = (unsigned)conf_int(u->conf, "threads");
    if (u->threads == 0)
        u->threads = cores > (long)workers && workers > 0
                         ? (unsigned)cores / workers
                         : 1;
    u->children = sl_calloc(1 + servers + workers, sizeof(*u->children));
    if (u->children == NULL)
        return sl_no_memory(err);
    rc = make_coordinator(u, &u->children[u->count++], err);
    for (unsigned i = 0; rc == SL_OK && i < servers; i++)
        rc = make_psserver(u, &u->children[u->count++], i, err);
    for (unsigned i = 0; rc == SL_OK && i < workers; i++)
        rc = make_worker(u, &u->children[u->count++], i, err);
    return rc;
}

// ---- all of it

static enum sl_err make_folders(struct up *u, struct sl_error *err)
{
    char *log = updir_path(&u->dir, "log");
    enum sl_err rc =
        log != NULL ? fs_mkdirs(fs_private(), log, err) : sl_no_memory(err);

    sl_free(log);
    return rc;
}

// The settings of S3 are the daemons' own: they have our environment.
static enum sl_err up_make_store(struct up *u, struct sl_error *err)
{
    const char *said = conf_str(u->conf, "store");
    struct fs *fs = NULL;
    enum sl_err rc;

    u->store =
        said != NULL ? sl_strdup(said) : updir_path(&u->dir, "checkpoints");
    if (u->store == NULL)
        return sl_no_memory(err);
    rc = store_fs(&fs, u->store, NULL, err);
    if (rc == SL_OK && said == NULL)
        fs = fs_private();
    if (rc != SL_OK || store_is_s3(u->store))
        return rc;
    rc = fs_mkdirs(fs, u->store, err);
    return rc == SL_OK ? fs_absolute(&u->store, err) : rc;
}

enum sl_err up_setup(struct up *u, const struct conf *conf,
                     struct sl_error *err)
{
    enum sl_err rc;

    *u = (struct up){.conf = conf, .notify = -1, .signals = -1};
    rc = choose_listen(u, err);
    if (rc == SL_OK)
        rc = updir_open(&u->dir, conf_str(conf, "dir"), err);
    if (rc == SL_OK)
        rc = open_signals(u, err);
    if (rc == SL_OK)
        rc = updir_end_strays(&u->dir, (int)conf_int(conf, "grace"), err);
    if (rc == SL_OK)
        rc = check_vacant(u, err);
    if (rc == SL_OK)
        rc = make_folders(u, err);
    if (rc == SL_OK)
        rc = up_make_store(u, err);
    if (rc == SL_OK)
        rc = open_notify(u, err);
    if (rc == SL_OK)
        rc = make_children(u, err);
    if (rc == SL_OK &&
        up_environment(&u->env, environ, u->notify_path, u->dir.path) != SL_OK)
        rc = sl_no_memory(err);
    return rc;
}

void up_release(struct up *u)
{
    for (unsigned i = 0; i < u->count; i++) {
        struct child *c = &u->children[i];

        // All children have ended and the folder's lock is ours: no process
        // holds these files.
        if (c->pid_file != NULL)
            unlink(c->pid_file);
        if (c->socket != NULL)
            unlink(c->socket);
        if (c->lock != NULL)
            unlink(c->lock);
        child_release(c);
    }
    sl_free(u->children);
    for (size_t i = 0; u->env != NULL && u->env[i] != NULL; i++)
        sl_free(u->env[i]);
    sl_free(u->env);
    if (u->notify >= 0)
        close(u->notify);
    if (u->notify_path != NULL && u->notify_path[0] != '@')
        unlink(u->notify_path);
    if (u->signals >= 0)
        close(u->signals);
    sl_free(u->notify_path);
    sl_free(u->address);
    sl_free(u->store);
    updir_release(&u->dir);
}
