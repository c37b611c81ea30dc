// SPDX-License-Identifier: Apache-2.0
// host/launch/launch_kit.c -- variables, numbers, roles and addresses, as all
// sources read them.
#include "host/launch/launch_inner.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/net/rpc.h"

const char *launch_env(const struct launch_asked *asked, const char *name)
{
    size_t n = strlen(name);

    for (char *const *e = asked->env; e != NULL && *e != NULL; e++) {
        if (strncmp(*e, name, n) == 0 && (*e)[n] == '=')
            return *e + n + 1;
    }
    return NULL;
}

enum sl_err launch_need(const char **out, const struct launch_asked *asked,
                        const char *name, struct sl_error *err)
{
    const char *value = launch_env(asked, name);

    if (value == NULL)
        return sl_fail(err, SL_ENOENT, "%s is not set", name);
    if (*value == '\0')
        return sl_fail(err, SL_EINVAL,
                       "%s is empty; unset it, or choose another --discover",
                       name);
    *out = value;
    return SL_OK;
}

enum sl_err launch_need_number(unsigned *out, const struct launch_asked *asked,
                               const char *name, unsigned max,
                               struct sl_error *err)
{
    const char *text = NULL, *at;
    unsigned long long n = 0;
    enum sl_err rc = launch_need(&text, asked, name, err);

    if (rc != SL_OK)
        return rc;
    for (at = text; *at >= '0' && *at <= '9' && n <= max; at++)
        n = n * 10 + (unsigned)(*at - '0');
    if (*at != '\0' || n > max)
        return sl_fail(err, SL_EINVAL,
                       "%s='%.40s' is not a number from 0 to %u", name, text,
                       max);
    *out = (unsigned)n;
    return SL_OK;
}

// ---- roles

static const char *const roles[] = {
    [LAUNCH_NO_ROLE] = "auto",        [LAUNCH_COORDINATOR] = "coordinator",
    [LAUNCH_PSSERVER] = "psserver",   [LAUNCH_WORKER] = "worker",
    [LAUNCH_EVALUATOR] = "evaluator",
};

const char *launch_role_name(enum launch_role role)
{
    return roles[role];
}

enum launch_role launch_role_of(const char *name)
{
    for (size_t i = 0; i < SL_COUNT(roles); i++)
        if (strcmp(roles[i], name) == 0)
            return (enum launch_role)i;
    return LAUNCH_NO_ROLE;
}

// ---- addresses

enum sl_err launch_check_host(const char *what, const char *host, size_t n,
                              struct sl_error *err)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789._-:";

    if (n == 0)
        return sl_fail(err, SL_EINVAL, "%s: the host is missing", what);
    if (n >= LAUNCH_HOST)
        return sl_fail(err, SL_EINVAL, "%s: a host of %zu bytes is no host",
                       what, n);
    if (strspn(host, allowed) < n)
        return sl_fail(err, SL_EINVAL,
                       "%s: '%.*s' is not a host: neither a name nor an IP "
                       "address",
                       what, (int)(n < 80 ? n : 80), host);
    return SL_OK;
}

enum sl_err launch_address(char out[LAUNCH_ADDRESS], const char *what,
                           const char *host, unsigned port,
                           struct sl_error *err)
{
    bool six = strchr(host, ':') != NULL;
    enum sl_err rc = launch_check_host(what, host, strlen(host), err);

    if (rc != SL_OK)
        return rc;
    if (port > 65535)
        return sl_fail(err, SL_EINVAL,
                       "%s: its port would be %u; take a lower --base-port",
                       what, port);
    snprintf(out, LAUNCH_ADDRESS, six ? "[%.253s]:%u" : "%.253s:%u", host,
             port);
    if (rpc_address_check(out, NULL) != SL_OK)
        return sl_fail(err, SL_EINVAL, "%s: '%.100s' is no IPv6 address", what,
                       host);
    return SL_OK;
}

static enum sl_err check_port(const char *what, const char *port,
                              struct sl_error *err)
{
    size_t digits = strspn(port, "0123456789");
    unsigned n = 0;

    for (size_t i = 0; i < digits && n <= 65535; i++)
        n = n * 10 + (unsigned)(port[i] - '0');
    if (digits == 0 || port[digits] != '\0' || n == 0 || n > 65535)
        return sl_fail(err, SL_EINVAL,
                       "%s: port '%.20s' is not a number from 1 to 65535", what,
                       port);
    return SL_OK;
}

enum sl_err launch_check(const char *what, const char *address,
                         struct sl_error *err)
{
    const char *colon = strrchr(address, ':'), *host = address;
    size_t n;
    enum sl_err rc;

    if (*address == '\0')
        return sl_fail(err, SL_EINVAL,
                       "%s: the address is empty; write "
                       "host:port",
                       what);
    if (strstr(address, "://") != NULL)
        return sl_fail(err, SL_EINVAL,
                       "%s: '%.100s' has a scheme; write host:port alone", what,
                       address);
    if (colon == NULL || (host[0] == '[' && colon[-1] != ']'))
        return sl_fail(err, SL_EINVAL,
                       "%s: '%.100s' has no port; write host:port", what,
                       address);
    n = (size_t)(colon - host);
    if (host[0] != '[' && memchr(host, ':', n) != NULL)
        return sl_fail(err, SL_EINVAL,
                       "%s: '%.100s' has several colons; an IPv6 address "
                       "stands in brackets, as in [::1]:2222",
                       what, address);
    rc = host[0] == '['
             ? launch_check_host(what, host + 1, n > 2 ? n - 2 : 0, err)
             : launch_check_host(what, host, n, err);
    if (rc == SL_OK)
        rc = check_port(what, colon + 1, err);
    if (rc == SL_OK && rpc_address_check(address, err) != SL_OK)
        rc = sl_prefix(err, SL_EINVAL, "%s", what);
    return rc;
}

enum sl_err launch_take_coordinator(struct launch_plan *plan,
                                    const struct launch_asked *asked,
                                    struct sl_error *err)
{
    bool plain = strncmp(asked->coordinator, "unix:", 5) == 0 ||
                 strchr(asked->coordinator, ',') != NULL;
    enum sl_err rc =
        plain ? rpc_addresses_check(asked->coordinator, err)
              : launch_check("--coordinator", asked->coordinator, err);

    if (rc != SL_OK)
        return rc;
    if (strlen(asked->coordinator) >= LAUNCH_ADDRESSES)
        return sl_fail(err, SL_EINVAL, "--coordinator: more than %d bytes",
                       LAUNCH_ADDRESSES - 1);
    snprintf(plan->coordinator, sizeof(plan->coordinator), "%s",
             asked->coordinator);
    launch_from(plan, "--coordinator %s", asked->coordinator);
    return SL_OK;
}

bool launch_local(const char *address)
{
    return rpc_address_is_local(address);
}

void launch_listen(char out[LAUNCH_ADDRESS], const char *address)
{
    const char *all = address[0] == '[' ? "[::]" : "0.0.0.0";

    if (rpc_address_is_local(address))
        snprintf(out, LAUNCH_ADDRESS, "%s", address);
    else
        snprintf(out, LAUNCH_ADDRESS, "%s%s", all, strrchr(address, ':'));
}

enum sl_err launch_listen_worker(char out[LAUNCH_ADDRESS], const char *what,
                                 const char *host, struct sl_error *err)
{
    enum sl_err rc = launch_address(out, what, host, 0, err);

    if (rc == SL_OK && rpc_address_is_local(out))
        out[0] = '\0'; // the worker's default listens on loopback
    return rc;
}

// ---- words

// What an environment says may be any bytes, and a plan is printed.
static void keep_printable(char *text)
{
    for (; *text != '\0'; text++)
        if (*text < ' ' || *text > '~')
            *text = '?';
}

static void launch_append_text(char *text, size_t size, const char *between,
                               const char *fmt, va_list ap)
    __attribute__((format(printf, 4, 0)));

static void launch_append_text(char *text, size_t size, const char *between,
                               const char *fmt, va_list ap)
{
    size_t n = strlen(text), begin = n;

    if (n > 0)
        n += (size_t)snprintf(text + n, size - n, "%s", between);
    if (n < size)
        vsnprintf(text + n, size - n, fmt, ap);
    keep_printable(text + begin);
}

void launch_from(struct launch_plan *plan, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    launch_append_text(plan->from, sizeof(plan->from), ", ", fmt, ap);
    va_end(ap);
}

void launch_note(struct launch_plan *plan, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    launch_append_text(plan->notes, sizeof(plan->notes), "; ", fmt, ap);
    va_end(ap);
}

enum sl_err launch_resume(struct launch_plan *plan, const char *text,
                          struct sl_error *err)
{
    uint8_t digest[SHA256_BYTES];
    char hex[17];
    enum sl_err rc;

    if (strlen(text) < sizeof(plan->resume)) {
        snprintf(plan->resume, sizeof(plan->resume), "%s", text);
        keep_printable(plan->resume);
        return SL_OK;
    }
    rc = sha256_bytes(digest, text, strlen(text));
    if (rc != SL_OK)
        return sl_fail(err, rc, "no hash of '%.60s...'", text);
    hex_encode(hex, digest, 8);
    snprintf(plan->resume, sizeof(plan->resume), "%.47s-%s", text, hex);
    keep_printable(plan->resume);
    return SL_OK;
}
