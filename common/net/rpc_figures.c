// SPDX-License-Identifier: Apache-2.0
// common/net/rpc_figures.c -- see rpc_figures.h.
#include "common/net/rpc_figures.h"

#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/net/rpc_inner.h"
#include "common/net/rpc_serve.h"

static _Atomic uint64_t refusals[RPC_REFUSALS];

static const char *const code_names[RPC_CODES] = {
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
};

static double rpc_figures_load(const _Atomic uint64_t *of)
{
    return (double)atomic_load_explicit(of, memory_order_relaxed);
}

void rpc_refused(enum rpc_refusal why)
{
    atomic_fetch_add_explicit(&refusals[why], 1, memory_order_relaxed);
}

void rpc_figures_init(struct rpc_figures *f)
{
    f->took = (struct histogram)HISTOGRAM_DURATIONS;
}

void rpc_figures_answered(struct rpc_figures *f, enum sl_err code,
                          uint64_t begun_us)
{
    unsigned grpc = (unsigned)sl_err_to_grpc(code);

    atomic_fetch_add_explicit(&f->code[grpc < RPC_CODES ? grpc : 2], 1,
                              memory_order_relaxed);
    if (begun_us != 0)
        histogram_add(&f->took, sl_real_us() - begun_us);
}

// ---- "/sluice.v1.Jobs/Submit"

struct names {
    char service[96], method[64];
};

static void rpc_figures_split_path(struct names *n, const char *path)
{
    const char *slash;

    *n = (struct names){.service = "", .method = "unknown"};
    if (path == NULL || (slash = strrchr(path, '/')) == NULL)
        return;
    snprintf(n->service, sizeof(n->service), "%.*s", (int)(slash - path - 1),
             path + 1);
    snprintf(n->method, sizeof(n->method), "%s", slash + 1);
}

static void put_calls(struct rpc_server *s, struct expo *e)
{
    struct names n;

    expo_family(e, "sluice_rpc_requests_total", EXPO_COUNTER,
                "Calls that the daemon answered, and streams that it opened.");
    for (size_t i = 0; i <= s->count; i++) {
        rpc_figures_split_path(&n, s->served[i].method.path);
        for (int k = 0; k < RPC_CODES; k++) {
            // Codes other than 0 appear once they were counted: 17 rows of
            // each method would be most of the page.
            if (k == 0 || rpc_figures_load(&s->served[i].figures.code[k]) > 0)
                expo_value(e, rpc_figures_load(&s->served[i].figures.code[k]),
                           "service", n.service, "method", n.method, "code",
                           code_names[k], NULL);
        }
    }
    expo_family(
        e, "sluice_rpc_duration_seconds", EXPO_HISTOGRAM,
        "Time from a complete request to its answer, without the network.");
    for (size_t i = 0; i < s->count; i++) {
        rpc_figures_split_path(&n, s->served[i].method.path);
        if (s->served[i].method.kind == RPC_UNARY)
            expo_histogram(e, &s->served[i].figures.took, "service", n.service,
                           "method", n.method, NULL);
    }
}

void rpc_server_measure(struct rpc_server *s, struct expo *e)
{
    static const char *const whys[RPC_REFUSALS] = {
        "size", "depth", "auth", "quota", "fenced", "malformed"};

    put_calls(s, e);
    expo_single(e, "sluice_rpc_in_flight", EXPO_GAUGE,
                "Open calls and streams.", (double)atomic_load(&s->open));
    expo_single(e, "sluice_rpc_sent_bytes_total", EXPO_COUNTER,
                "Bytes of answers to calls, without streams.",
                rpc_figures_load(&s->traffic.sent_bytes));
    expo_single(e, "sluice_rpc_received_bytes_total", EXPO_COUNTER,
                "Bytes of requests of calls, without streams.",
                rpc_figures_load(&s->traffic.received_bytes));
    expo_family(
        e, "sluice_refused_total", EXPO_COUNTER,
        "Calls, streams and connections that the daemon refused, by reason.");
    for (int i = 0; i < RPC_REFUSALS; i++)
        expo_value(e, rpc_figures_load(&refusals[i]), "reason", whys[i], NULL);
}
