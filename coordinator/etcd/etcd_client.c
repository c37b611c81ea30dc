// SPDX-License-Identifier: Apache-2.0
// coordinator/etcd/etcd_client.c -- the URL; one call to one member;
// what an error says.
#include "coordinator/etcd/etcd_inner.h"

#include <string.h>

#include "common/base/mem.h"

// etcd's words (rpctypes/error.go), which its own clients compare as well: the
// statuses alone do not tell these cases apart.
#define SAYS_FULL "etcdserver: mvcc: database space exceeded"

// ---- the client

static enum sl_err etcd_url_refuse(const char *url, struct sl_error *err)
{
    return sl_fail(err, SL_EINVAL,
                   "'%.200s' is no URL of etcd; it has the form "
                   "etcd://HOST:PORT[,HOST:PORT...]/PREFIX, as "
                   "etcd://10.0.0.5:2379,10.0.0.6:2379/sluice",
                   url);
}

// Reads e->url, and sets the prefix: with one "/" at its end and none before.
static enum sl_err etcd_begin(struct etcd *e, struct rpc_io *io,
                              const char *url, const struct rpc_tls *tls,
                              struct sl_error *err)
{
    // etcd ends connections that are pinged without a call.
    const struct rpc_channel_options options = {
        .quiet = true,
        .max_message_bytes = ETCD_REPLY_BYTES,
    };
    const char *list = url + strlen(ETCD_SCHEME);
    const char *path = strchr(list, '/');
    size_t bytes = path == NULL ? 0 : strlen(path + 1);
    enum sl_err rc;
    char *members;

    if (bytes == 0 || path[1] == '/' || bytes > ETCD_KEY_BYTES / 2)
        return etcd_url_refuse(url, err);
    e->prefix = e->url + (path + 1 - url);
    e->prefix_bytes = bytes;
    if (e->prefix[bytes - 1] != '/')
        e->url[path + 1 - url + e->prefix_bytes++] = '/';
    members = sl_strndup(list, (size_t)(path - list));
    if (members == NULL)
        return sl_no_memory(err);
    rc = rpc_channel_new(&e->channel, io, members, tls, &options, err);
    sl_free(members);
    return rc == SL_OK ? rc : sl_prefix(err, rc, "%.200s", url);
}

enum sl_err etcd_new(struct etcd **out, struct rpc_io *io, const char *url,
                     const struct rpc_tls *tls, struct sl_error *err)
{
    struct etcd *e;
    enum sl_err rc;

    if (strncmp(url, ETCD_SCHEME, strlen(ETCD_SCHEME)) != 0)
        return etcd_url_refuse(url, err);
    e = sl_calloc(1, sizeof(*e));
    if (e == NULL)
        return sl_no_memory(err);
    e->url = sl_calloc(1, strlen(url) + 2);
    rc = e->url == NULL ? sl_no_memory(err) : SL_OK;
    if (rc == SL_OK) {
        memcpy(e->url, url, strlen(url));
        rc = etcd_begin(e, io, url, tls, err);
    }
    if (rc != SL_OK) {
        etcd_free(e);
        return rc;
    }
    *out = e;
    return SL_OK;
}

void etcd_free(struct etcd *e)
{
    if (e == NULL)
        return;
    rpc_channel_free(e->channel);
    sl_free(e->url);
    sl_free(e);
}

const char *etcd_url(const struct etcd *e)
{
    return e->url;
}

// ---- messages

void etcd_held_free(struct etcd_held *h)
{
    if (h != NULL)
        wire_arena_release(&h->arena);
    sl_free(h);
}

enum sl_err etcd_held_read(struct etcd_held **out,
                           const ProtobufCMessageDescriptor *kind,
                           const struct sl_slices *body, struct sl_error *err)
{
    static const struct wire_limits limits = {.max_bytes = ETCD_REPLY_BYTES};
    struct etcd_held *h = sl_malloc(sizeof(*h));
    enum sl_err rc;

    if (h == NULL)
        return sl_no_memory(err);
    wire_arena_init(&h->arena);
    rc = wire_unpack_slices(&h->message, &h->arena, kind, body, &limits, err);
    if (rc != SL_OK) {
        etcd_held_free(h);
        return rc;
    }
    *out = h;
    return SL_OK;
}

enum sl_err etcd_pack(struct rpc_msg *msg, const ProtobufCMessage *message,
                      struct sl_error *err)
{
    size_t bytes = protobuf_c_message_get_packed_size(message);
    uint8_t *head;

    rpc_msg_init(msg);
    head = rpc_msg_head(msg, bytes);
    if (head == NULL)
        return sl_no_memory(err);
    protobuf_c_message_pack(message, head);
    return SL_OK;
}

// ---- calls

enum sl_err etcd_call(struct etcd *e, const char *method,
                      const ProtobufCMessage *request,
                      const ProtobufCMessageDescriptor *kind, int64_t limit_ms,
                      struct etcd_held **out, struct sl_error *err)
{
    const struct rpc_call_options options = {
        .deadline_ms = limit_ms,
        .max_reply_bytes = ETCD_REPLY_BYTES,
    };
    struct rpc_body *body = NULL;
    struct rpc_msg msg;
    enum sl_err rc = etcd_pack(&msg, request, err);

    if (rc != SL_OK)
        return rc;
    rc = rpc_call_sync(e->channel, method, &msg, &options, &body, err);
    if (rc != SL_OK)
        return sl_prefix(err, rc, "etcd");
    rc = etcd_held_read(out, kind, rpc_body_slices(body), err);
    rpc_body_free(body);
    return rc == SL_OK ? rc
                       : sl_prefix(err, SL_ECORRUPT, "etcd: %s answers",
                                   rpc_channel_address(e->channel));
}

bool etcd_full(const struct sl_error *err)
{
    return strstr(err->text, SAYS_FULL) != NULL;
}

bool etcd_compacted(const struct sl_error *err)
{
    return strstr(err->text, ETCD_SAYS_COMPACTED) != NULL;
}

bool etcd_unknown(enum sl_err code, const struct sl_error *err)
{
    switch (code) {
    case SL_EINVAL:
    case SL_ENOENT:
    case SL_EDENIED:
    case SL_EAUTH:
    case SL_ENOTSUP:
    case SL_ENOMEM:
        return false;
    case SL_EBUSY: // too many requests, before any of it was done
        return etcd_full(err);
    default:
        return true;
    }
}
