// SPDX-License-Identifier: Apache-2.0
// lib/setup.c -- what sessions and clients of tasks read alike: the address of
// the coordinator, a name, files of TLS; the log; names of errors.
#include "lib/inner.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/net/tls.h"
#include "common/run/log.h"

// ---- what is the process's

const char *sluice_version(void)
{
    return SLUICE_VERSION;
}

const char *sluice_err_name(int code)
{
    return sl_err_name((enum sl_err)code);
}

const char *sluice_err_text(int code)
{
    return sl_err_text((enum sl_err)code);
}

static struct {
    void (*line)(void *arg, const char *text, size_t len);
    void *arg;
} log_to;

static void on_line(void *arg, enum log_level level, const char *line,
                    size_t len)
{
    if (log_to.line != NULL)
        log_to.line(log_to.arg, line, len);
}

static void log_start(void)
{
    log_init(LOG_FORMAT_JSON, LOG_LEVEL_INFO, "library", "");
    log_set_sink(on_line, NULL);
}

void lib_log_once(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, log_start);
}

void sluice_set_log(void (*line)(void *arg, const char *text, size_t len),
                    void *arg)
{
    lib_log_once();
    log_to.arg = arg;
    log_to.line = line;
}

// ---- address, name, TLS

const char *lib_coordinator(char own[OWNSOCK_BYTES], const char *said)
{
    const char *at = said != NULL ? said : getenv("SLUICE_COORDINATOR");

    return at != NULL ? at : ownsock_find(own);
}

char *lib_name(const char *said)
{
    static atomic_uint made; // names without a name from the program
    char host[256] = "host", nth[16] = "", name[300];
    unsigned before;

    if (said != NULL)
        return sl_strdup(said);
    before = atomic_fetch_add(&made, 1);
    if (before > 0)
        snprintf(nth, sizeof(nth), "-%u", before + 1);
    (void)gethostname(host, sizeof(host) - 1);
    snprintf(name, sizeof(name), "%s-%d%s", host, (int)getpid(), nth);
    return sl_strdup(name);
}

enum sl_err lib_tls(struct rpc_tls *tls, const char *ca, const char *cert,
                    const char *key, struct sl_error *err)
{
    int said = (ca != NULL) + (cert != NULL) + (key != NULL);

    if (said != 0 && said != 3)
        return sl_fail(err, SL_EINVAL,
                       "tls_ca, tls_cert and tls_key go together: all three "
                       "or none");
    *tls = (struct rpc_tls){.ca_file = ca, .cert_file = cert, .key_file = key};
    return SL_OK;
}
