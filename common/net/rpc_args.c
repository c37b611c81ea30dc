// SPDX-License-Identifier: Apache-2.0
// common/net/rpc_args.c -- how connections are set up: channel arguments and
// credentials. Retries are ours, idempotent by key; nothing is compressed; what
// a stranger may send is bounded; a dead peer is noticed by keepalive.
#include "common/net/rpc_inner.h"

#include <assert.h>
#include <limits.h>

static grpc_arg *next_arg(struct rpc_args *args)
{
    assert(args->list.num_args < RPC_ARGS_MAX);
    return &args->arg[args->list.num_args++];
}

static void add_int(struct rpc_args *args, const char *key, size_t value)
{
    grpc_arg *arg = next_arg(args);

    arg->type = GRPC_ARG_INTEGER;
    arg->key = (char *)key;
    arg->value.integer = value > INT_MAX ? INT_MAX : (int)value;
}

static void rpc_args_add_text(struct rpc_args *args, const char *key,
                              const char *value)
{
    grpc_arg *arg = next_arg(args);

    arg->type = GRPC_ARG_STRING;
    arg->key = (char *)key;
    arg->value.string = (char *)value;
}

// A read takes what the socket has, as one block, up to the largest. Core's own
// sizes start at 256 bytes and end at 4 MiB, which leaves the caches.
#define READ_BYTES ((size_t)256 << 10)
#define READ_MOST_BYTES ((size_t)1 << 20)
#define HANDSHAKE_MS 10000

static void add_read_sizes(struct rpc_args *args)
{
    add_int(args, "grpc.experimental.tcp_read_chunk_size", READ_BYTES);
    add_int(args, "grpc.experimental.tcp_min_read_chunk_size",
            RPC_READ_LEAST_BYTES);
    add_int(args, "grpc.experimental.tcp_max_read_chunk_size", READ_MOST_BYTES);
}

static void add_common(struct rpc_args *args, const struct rpc_tuning *t)
{
    args->list.num_args = 0;
    args->list.args = args->arg;
    add_int(args, GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, t->max_receive_bytes);
    add_int(args, "grpc.enable_retries", 0);
    add_int(args, GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 1 << 20);
    add_int(args, GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 16 << 20);
    add_read_sizes(args);
    add_int(args, GRPC_ARG_MAX_METADATA_SIZE, 16 << 10);
    add_int(args, GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0);
    // Identity only: decompression is not bounded by the message limit. What
    // is compressed nevertheless is refused before that.
    add_int(args, GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
    add_int(args, GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET,
            1u << GRPC_COMPRESS_NONE);
    add_int(args, GRPC_ARG_ENABLE_CHANNELZ, 0);
    add_int(args, GRPC_ARG_KEEPALIVE_TIME_MS,
            t->keepalive_ms ? t->keepalive_ms : 10000);
    add_int(args, GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
            t->keepalive_timeout_ms ? t->keepalive_timeout_ms : 5000);
    add_int(args, GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, !t->quiet);
    add_int(args, GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
}

// Adds a quota of `bytes` for received data. Core checks its limit of a message
// only when the message is whole, so this quota bounds the memory of a peer
// that sends without end. The fuller it is, the less a peer may send unasked
// (the windows of its streams shrink, from 4 MiB and more); where it is
// exceeded, core ends calls (ENHANCE_YOUR_CALM) and closes idle connections.
// Smaller fixed windows bound memory more tightly, and cost a push a tenth to a
// third more processor time.
static void add_quota(struct rpc_args *args, size_t bytes)
{
    grpc_arg *arg = next_arg(args);

    args->quota = grpc_resource_quota_create("server");
    grpc_resource_quota_resize(args->quota, bytes);
    arg->type = GRPC_ARG_POINTER;
    arg->key = (char *)GRPC_ARG_RESOURCE_QUOTA;
    arg->value.pointer.p = args->quota;
    arg->value.pointer.vtable = grpc_resource_quota_arg_vtable();
}

void rpc_args_release(struct rpc_args *args)
{
    grpc_resource_quota_unref(args->quota);
}

void rpc_args_server(struct rpc_args *args, const struct rpc_tuning *tuning)
{
    add_common(args, tuning);
    add_quota(args, tuning->inbound_bytes);
    // Else a second server binds the same port, and both get half the calls.
    add_int(args, GRPC_ARG_ALLOW_REUSEPORT, 0);
    // A client that waits no longer resets its call; one that has died ends
    // all of its calls. No timer of ours is needed for either.
    add_int(args, GRPC_ARG_ENABLE_DEADLINE_CHECKS, 0);
    add_int(args, GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 500);
    add_int(args, GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
    add_int(args, GRPC_ARG_MAX_CONCURRENT_STREAMS, 100);
    // Until a connection has said what it is, TLS and HTTP/2.
    add_int(args, GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
            tuning->patience_ms < HANDSHAKE_MS ? tuning->patience_ms
                                               : HANDSHAKE_MS);
}

void rpc_args_client(struct rpc_args *args, const struct rpc_tuning *tuning,
                     const char *server_name)
{
    add_common(args, tuning);
    add_int(args, "grpc.enable_http_proxy", 0);
    add_int(args, GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    add_int(args, GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
    add_int(args, GRPC_ARG_CLIENT_IDLE_TIMEOUT_MS, INT_MAX); // for ever
    add_int(args, GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
    // Its name misleads: in core this one is the time a connection attempt
    // may take. At 100 ms a busy machine cannot even connect to itself.
    add_int(args, GRPC_ARG_MIN_RECONNECT_BACKOFF_MS,
            tuning->connect_ms ? tuning->connect_ms : 5000);
    add_int(args, GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
    if (server_name != NULL)
        rpc_args_add_text(args, GRPC_SSL_TARGET_NAME_OVERRIDE_ARG, server_name);
}

static enum sl_err refuse_open(const char *address, const char *verb,
                               struct sl_error *err)
{
    return sl_fail(err, SL_EDENIED,
                   "will not %s %s without TLS: others can reach it; make "
                   "certificates with `sluice cert init` and give them with "
                   "--tls-ca, --tls-cert and --tls-key, or use a loopback "
                   "address",
                   verb, address);
}

// A socket file is guarded by its mode; TLS would cost five times the time.
static bool is_unix(const char *address)
{
    return strncmp(address, "unix:", 5) == 0;
}

// Core asks for certificates before each handshake; on a failure it goes on
// with those that it has.
static grpc_ssl_certificate_config_reload_status
rpc_source_fetch_certs(void *user, grpc_ssl_server_certificate_config **out)
{
    struct rpc_source *source = user;
    grpc_ssl_pem_key_cert_pair pair;
    struct tls_pem pem;
    unsigned serial;

    if (tls_files_serial(source->files) == atomic_load(&source->serial))
        return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    if (tls_files_copy(source->files, &pem, &serial, NULL) != SL_OK)
        return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_FAIL;
    pair.private_key = pem.key;
    pair.cert_chain = pem.cert;
    *out = grpc_ssl_server_certificate_config_create(pem.ca, &pair, 1);
    tls_pem_release(&pem);
    atomic_store(&source->serial, serial);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
}

enum sl_err rpc_server_creds(grpc_server_credentials **out,
                             struct rpc_source **source, const char *address,
                             const struct rpc_tls *tls, struct sl_error *err)
{
    struct tls_files *files;
    enum sl_err rc;

    if (is_unix(address)) {
        *out = grpc_local_server_credentials_create(UDS);
        return SL_OK;
    }
    if (tls == NULL) {
        if (!rpc_address_is_local(address))
            return refuse_open(address, "listen on", err);
        *out = grpc_insecure_server_credentials_create();
        return SL_OK;
    }
    rc = tls_files_open(&files, tls, err);
    if (rc != SL_OK)
        return rc;
    *source = gpr_zalloc(sizeof(**source));
    (*source)->files = files;
    *out = grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config_fetcher(
            GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY,
            rpc_source_fetch_certs, *source));
    return SL_OK;
}

void rpc_sources_free(struct rpc_source *list)
{
    while (list != NULL) {
        struct rpc_source *source = list;

        list = source->next;
        tls_files_close(source->files);
        gpr_free(source);
    }
}

static enum sl_err files_creds(grpc_channel_credentials **out,
                               struct tls_files *files, struct rpc_guard *guard,
                               unsigned *serial, struct sl_error *err)
{
    grpc_ssl_pem_key_cert_pair pair;
    grpc_ssl_verify_peer_options verify;
    struct tls_pem pem;
    enum sl_err rc = tls_files_copy(files, &pem, serial, err);

    if (rc != SL_OK)
        return rc;
    pair.private_key = pem.key;
    pair.cert_chain = pem.cert;
    if (guard != NULL)
        verify = rpc_guard_options(guard);
    *out = grpc_ssl_credentials_create_ex(pem.ca, &pair,
                                          guard != NULL ? &verify : NULL, NULL);
    tls_pem_release(&pem);
    return SL_OK;
}

enum sl_err rpc_client_creds(grpc_channel_credentials **out,
                             const char *address, struct tls_files *files,
                             struct rpc_guard *guard, unsigned *serial,
                             struct sl_error *err)
{
    if (files != NULL)
        return files_creds(out, files, guard, serial, err);
    *out = is_unix(address) ? grpc_local_credentials_create(UDS)
                            : grpc_insecure_credentials_create();
    return SL_OK;
}

enum sl_err rpc_client_files(struct tls_files **files, const char *address,
                             const struct rpc_tls *tls, struct sl_error *err)
{
    if (!is_unix(address) && tls == NULL && !rpc_address_is_local(address))
        return refuse_open(address, "talk to", err);
    if (is_unix(address) || tls == NULL)
        return SL_OK;
    return tls_files_open(files, tls, err);
}
