// SPDX-License-Identifier: Apache-2.0
// lib/link.c -- calls to the coordinator, one at a time on each line.
#include "lib/link.h"

#include <string.h>

#include "common/base/num.h"
#include "common/base/utf8.h"
#include "lib/inner.h"
#include "proto/access.h"

static void *link_run_loop(void *arg)
{
    loop_run(((struct link *)arg)->loop);
    return NULL;
}

enum sl_err link_open(struct link *l, const struct link_options *o,
                      struct sl_error *err)
{
    const struct rpc_io_options io = {.threads = 1, .frugal = true};
    char own[OWNSOCK_BYTES];
    const char *at = lib_coordinator(own, o->coordinator);
    struct rpc_tls tls;
    enum sl_err rc = lib_tls(&tls, o->tls_ca, o->tls_cert, o->tls_key, err);

    lib_log_once();
    if (rc == SL_OK)
        rc = rpc_addresses_check(at, err);
    if (rc == SL_OK)
        rc = loop_new(&l->loop, err);
    if (rc == SL_OK)
        rc = rpc_io_new(&l->io, &io, err);
    if (rc == SL_OK)
        rc = rpc_channel_new(&l->channel, l->io, at,
                             o->tls_ca != NULL ? &tls : NULL,
                             &access_to_coordinator, err);
    return rc;
}

enum sl_err link_start(struct link *l, struct sl_error *err)
{
    if (pthread_create(&l->thread, NULL, link_run_loop, l) != 0)
        return sl_fail(err, SL_ENOMEM, "cannot start a thread");
    pthread_setname_np(l->thread, "sluice-tasks");
    l->started = true;
    return SL_OK;
}

void link_stop(struct link *l)
{
    if (l->started) {
        loop_stop(l->loop);
        pthread_join(l->thread, NULL);
        l->started = false;
    }
    l->over = true;
    rpc_channel_free(l->channel); // no callback runs after it
    rpc_io_free(l->io);
    l->channel = NULL;
    l->io = NULL;
}

void link_release(struct link *l)
{
    loop_free(l->loop);
    l->loop = NULL;
}

static void line_deliver(void *arg)
{
    struct link_line *l = arg;

    l->busy = false;
    if (!l->link->over) // else what was posted only runs out
        l->answered(l->arg, l->rc, &l->err, l->reply);
}

static void line_on_done(void *arg, enum sl_err code,
                         const struct sl_error *err,
                         const struct sl_slices *bytes)
{
    struct link_line *l = arg;

    l->rc = code;
    if (code == SL_OK)
        l->rc = l->decode(&l->reply, &l->arena, bytes, &l->err);
    else
        l->err = *err;
    loop_post_task(l->link->loop, &l->task, line_deliver, l);
}

void line_call(struct link_line *l, const ProtobufCMessage *request,
               uint32_t deadline_ms)
{
    const struct rpc_call_options options = {.deadline_ms = deadline_ms,
                                             .wait_for_ready = true};
    struct rpc_msg msg;

    l->busy = true;
    line_release(l);
    wire_arena_init(&l->arena);
    rpc_msg_init(&msg);
    if (wire_msg(&msg, request) != SL_OK) {
        l->rc = sl_fail(&l->err, SL_ENOMEM, "no memory for a call");
        rpc_msg_drop(&msg);
        loop_post_task(l->link->loop, &l->task, line_deliver, l);
        return;
    }
    if (l->rc != SL_OK) // the coordinator may be back
        rpc_channel_hurry(l->link->channel);
    rpc_call_start(l->link->channel, l->method, &msg, &options, line_on_done, l,
                   &l->ticket);
}

void line_cancel(struct link_line *l)
{
    if (l->busy)
        rpc_cancel(l->link->channel, l->ticket);
}

void line_release(struct link_line *l)
{
    wire_arena_release(&l->arena);
    l->reply = NULL;
}

enum sl_err link_options_read(void *all, const void *said, struct sl_error *err)
{
    size_t known, size;

    memcpy(&known, all, sizeof(known));
    if (said == NULL)
        return SL_OK;
    memcpy(&size, said, sizeof(size));
    if (size < sizeof(size))
        return sl_fail(err, SL_EINVAL,
                       "options.size is %zu; set it to sizeof(options)", size);
    memcpy(all, said, sl_min(size, known));
    return SL_OK;
}

bool link_is_name(const char *text)
{
    size_t n = text != NULL ? strlen(text) : 0;

    if (n == 0 || n > WIRE_NAME_BYTES || text[0] == ' ' || text[n - 1] == ' ')
        return false;
    return utf8_plain(text, n);
}

bool link_may_retry(enum sl_err rc)
{
    return sl_err_transient(rc) || rc == SL_ECANCELED || rc == SL_EIO ||
           rc == SL_ENOMEM;
}
