// SPDX-License-Identifier: Apache-2.0
// lib/listen.c -- what other ranks reach of a session: the Ranks service, which
// listens from its first ring lease on.
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "lib/inner.h"
#include "proto/access.h"

static bool listen_send_up(void *arg, const Sluice__V1__AttendUp *up)
{
    return attendee_send(((struct sluice *)arg)->attend, up);
}

static enum sl_err listen_copy_text(char **out, const char *said,
                                    struct sl_error *err)
{
    if (said == NULL)
        return SL_OK;
    *out = sl_strdup(said);
    return *out != NULL ? SL_OK : sl_no_memory(err);
}

static enum sl_err keep_tls(struct sluice *s, const struct rpc_tls *said,
                            struct sl_error *err)
{
    char *file[3] = {NULL, NULL, NULL};
    enum sl_err rc = listen_copy_text(&file[0], said->ca_file, err);

    if (rc == SL_OK)
        rc = listen_copy_text(&file[1], said->cert_file, err);
    if (rc == SL_OK)
        rc = listen_copy_text(&file[2], said->key_file, err);
    s->tls = (struct rpc_tls){
        .ca_file = file[0], .cert_file = file[1], .key_file = file[2]};
    return rc;
}

static enum sl_err listen_make_store(struct sluice *s, struct sl_error *err)
{
    enum sl_err rc;

    if (s->store == NULL)
        return SL_OK;
    if (strstr(s->store, "://") != NULL)
        return sl_fail(err, SL_ENOTSUP,
                       "store '%.200s': programs keep their parts of "
                       "checkpoints in a folder; only daemons use S3",
                       s->store);
    rc = fs_mkdirs(fs_posix(), s->store, err);
    return rc == SL_OK ? fs_absolute(&s->store, err) : rc;
}

enum sl_err listen_init(struct sluice *s, const struct sluice_options *o,
                        struct sl_error *err)
{
    struct rpc_tls tls;
    enum sl_err rc = lib_tls(&tls, o->tls_ca, o->tls_cert, o->tls_key, err);

    if (rc == SL_OK)
        rc = keep_tls(s, &tls, err);
    if (rc == SL_OK)
        rc = listen_copy_text(
            &s->listen, o->listen != NULL ? o->listen : "127.0.0.1:0", err);
    if (rc == SL_OK)
        rc = listen_copy_text(&s->advertise, o->advertise, err);
    if (rc == SL_OK)
        rc = listen_copy_text(&s->store, o->store, err);
    if (rc == SL_OK)
        rc = listen_make_store(s, err);
    if (rc == SL_OK && ranks_host(s->host, o->no_shm) != SL_OK)
        rc = sl_fail(err, SL_ESTATE, "no name for this host");
    if (rc == SL_OK && ranks_new(&s->ranks) != SL_OK)
        rc = sl_no_memory(err);
    return rc;
}

static enum sl_err listen_bind(struct sluice *s, int *port,
                               struct sl_error *err)
{
    const struct rpc_server_options access = {.allow = access_allow,
                                              .shared = access_shared};
    struct rpc_table table = ranks_table(s->ranks);
    enum sl_err rc = rpc_server_new(&s->rpc, s->io, &table, 1, &access, err);

    if (rc == SL_OK)
        rc =
            rpc_server_bind(s->rpc, s->listen,
                            s->tls.ca_file != NULL ? &s->tls : NULL, port, err);
    return rc == SL_OK ? SL_OK : sl_prefix(err, rc, "listen %s", s->listen);
}

enum sl_err listen_start(struct sluice *s, struct sl_error *err)
{
    char *address = NULL;
    enum sl_err rc;
    int port = 0;

    if (s->rpc != NULL)
        return SL_OK;
    rc = listen_bind(s, &port, err);
    if (rc == SL_OK)
        rc = ranks_address(&address, s->listen, s->advertise, port, err);
    if (rc == SL_OK && snprintf(s->address, sizeof(s->address), "%s",
                                address) >= (int)sizeof(s->address))
        rc = sl_fail(err, SL_EINVAL, "the address to advertise is too long");
    sl_free(address);
    if (rc == SL_OK) {
        rpc_server_start(s->rpc);
        return SL_OK;
    }
    rpc_server_free(s->rpc);
    s->rpc = NULL;
    return rc;
}

void listen_stop(struct sluice *s)
{
    if (s->rpc != NULL)
        rpc_server_stop(s->rpc);
    rpc_server_free(s->rpc);
    s->rpc = NULL;
    ranks_free(s->ranks);
    s->ranks = NULL;
}

void listen_release(struct sluice *s)
{
    sl_free((char *)s->tls.ca_file);
    sl_free((char *)s->tls.cert_file);
    sl_free((char *)s->tls.key_file);
    sl_free(s->listen);
    sl_free(s->advertise);
    sl_free(s->store);
}

const struct ring_env *listen_env(struct sluice *s)
{
    s->env = (struct ring_env){.loop = s->loop,
                               .clock = sl_clock_real(),
                               .send = listen_send_up,
                               .arg = s,
                               .address = s->address,
                               .host = s->host,
                               .fs = fs_posix(),
                               .store = s->store,
                               .weights = roots_all(),
                               .ranks = s->ranks,
                               .io = s->io,
                               .tls = s->tls.ca_file != NULL ? &s->tls : NULL};
    return &s->env;
}
