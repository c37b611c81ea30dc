// SPDX-License-Identifier: Apache-2.0
// host/launch/launch_dns.c -- pods: the own name's end, and a headless
// service for the coordinator.
#include "host/launch/launch_inner.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

// ---- the system's resolver

static bool launch_dns_is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)a)
                         ->sin_addr.s_addr) >>
                   24 ==
               127;
    return a->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(
               &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
}

enum sl_err launch_resolve(struct launch_host *out, const char *name,
                           struct sl_error *err)
{
    // One socket type, so that each address comes once.
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_CANONNAME};
    struct addrinfo *list = NULL;
    int rc = getaddrinfo(name, NULL, &hints, &list);

    if (rc != 0)
        return sl_fail(err, SL_EUNAVAIL, "'%.100s' does not resolve: %s", name,
                       gai_strerror(rc));
    *out =
        (struct launch_host){.loopback = launch_dns_is_loopback(list->ai_addr)};
    for (const struct addrinfo *a = list; a != NULL; a = a->ai_next)
        out->count++;
    snprintf(out->full, sizeof(out->full), "%s",
             list->ai_canonname != NULL ? list->ai_canonname : name);
    freeaddrinfo(list);
    return SL_OK;
}

// ---- a pod's name

static const struct {
    const char *word;
    enum launch_role role;
} dns_words[] = {
    {"coordinator", LAUNCH_COORDINATOR},
    {"chief", LAUNCH_COORDINATOR},
    {"master", LAUNCH_COORDINATOR},
    {"psserver", LAUNCH_PSSERVER},
    {"ps", LAUNCH_PSSERVER},
    {"worker", LAUNCH_WORKER},
    {"evaluator", LAUNCH_EVALUATOR},
};

// "job-ps-1" is the second psserver. False where the name ends otherwise.
static bool launch_dns_parse_host(const char *host, enum launch_role *role,
                                  unsigned *index)
{
    const char *dash = strrchr(host, '-'), *begin;
    size_t digits = dash != NULL ? strspn(dash + 1, "0123456789") : 0;

    if (digits == 0 || digits > 6 || dash[1 + digits] != '\0')
        return false;
    *index = (unsigned)strtoul(dash + 1, NULL, 10);
    for (begin = dash; begin > host && begin[-1] != '-'; begin--)
        ;
    for (size_t i = 0; i < SL_COUNT(dns_words); i++) {
        if (strlen(dns_words[i].word) == (size_t)(dash - begin) &&
            strncmp(dns_words[i].word, begin, (size_t)(dash - begin)) == 0)
            *role = dns_words[i].role;
    }
    return true;
}

static enum sl_err launch_dns_set_role(struct launch_plan *plan,
                                       const struct launch_asked *asked,
                                       const char *host, struct sl_error *err)
{
    enum launch_role role = LAUNCH_NO_ROLE;
    bool numbered = launch_dns_parse_host(host, &role, &plan->index);

    plan->role = asked->role != LAUNCH_NO_ROLE ? asked->role : role;
    if (plan->role == LAUNCH_NO_ROLE)
        return sl_fail(err, SL_ENOENT,
                       "HOSTNAME='%.100s' does not end in -coordinator-N, "
                       "-psserver-N or -worker-N; say --role",
                       host);
    if (!numbered && plan->role == LAUNCH_PSSERVER)
        return sl_fail(err, SL_EINVAL,
                       "HOSTNAME='%.100s' has no number at its end, as the pod "
                       "of a StatefulSet has; a psserver needs one, since it "
                       "must be the same after a restart",
                       host);
    return SL_OK;
}

// ---- addresses

static enum sl_err launch_dns_set_coordinator(struct launch_plan *plan,
                                              const struct launch_asked *asked,
                                              struct sl_error *err)
{
    struct launch_host found;
    enum sl_err rc;

    if (asked->coordinator != NULL)
        return launch_take_coordinator(plan, asked, err);
    rc = launch_address(plan->coordinator, "--service", asked->service,
                        asked->port, err);
    if (rc != SL_OK || plan->role == LAUNCH_COORDINATOR)
        return rc; // its own record may come only when it is ready
    rc = asked->resolve(&found, asked->service, err);
    if (rc != SL_OK)
        return sl_prefix(err, rc, "the coordinator's service");
    if (found.count > 1 && !found.loopback)
        return sl_fail(err, SL_EINVAL,
                       "service '%.100s' has %u addresses; name the service of "
                       "one coordinator by --service, or the addresses of all "
                       "by --coordinator, with commas between",
                       asked->service, found.count);
    launch_from(plan, "service %s, --base-port %u", asked->service,
                asked->port);
    return SL_OK;
}

static enum sl_err launch_dns_set_listen(struct launch_plan *plan,
                                         const struct launch_asked *asked,
                                         const char *host, struct sl_error *err)
{
    struct launch_host own = {.count = 0};
    enum sl_err rc = SL_OK;

    if (plan->role == LAUNCH_COORDINATOR) {
        launch_listen(plan->listen, plan->coordinator);
        return SL_OK;
    }
    if (asked->resolve(&own, host, NULL) != SL_OK) {
        snprintf(own.full, sizeof(own.full), "%.253s", host);
        launch_note(plan, "the own name '%.100s' does not resolve", host);
    }
    if (own.loopback)
        snprintf(own.full, sizeof(own.full), "127.0.0.1");
    if (plan->role == LAUNCH_WORKER)
        return launch_listen_worker(plan->listen, "HOSTNAME", own.full, err);
    // Each pod has its own address, so all psservers may use one port.
    rc = launch_address(plan->advertise, "HOSTNAME", own.full, asked->port + 1,
                        err);
    if (rc == SL_OK)
        launch_listen(plan->listen, plan->advertise);
    return rc;
}

enum sl_err launch_dns(struct launch_plan *plan,
                       const struct launch_asked *asked, struct sl_error *err)
{
    const char *host = NULL;
    enum sl_err rc = launch_need(&host, asked, "HOSTNAME", err);

    if (rc == SL_OK)
        rc = launch_check_host("HOSTNAME", host, strlen(host), err);
    if (rc == SL_OK)
        rc = launch_dns_set_role(plan, asked, host, err);
    if (rc != SL_OK)
        return rc;
    launch_from(plan, "HOSTNAME=%.100s", host);
    if (plan->role == LAUNCH_PSSERVER)
        snprintf(plan->name, sizeof(plan->name), "ps-%u", plan->index);
    else
        snprintf(plan->name, sizeof(plan->name), "%.253s", host);
    if (plan->role == LAUNCH_EVALUATOR)
        return SL_OK;
    rc = launch_dns_set_coordinator(plan, asked, err);
    return rc == SL_OK ? launch_dns_set_listen(plan, asked, host, err) : rc;
}
