// SPDX-License-Identifier: Apache-2.0
// common/net/rpc_route.c -- lists of addresses, and the choice of one.
#include "common/net/rpc_route.h"

#include <string.h>

#include "common/base/mem.h"

static bool route_has(const struct rpc_route *r, const char *address)
{
    for (unsigned i = 0; i < r->count; i++) {
        if (strcmp(r->address[i], address) == 0)
            return true;
    }
    return false;
}

static enum sl_err route_add(struct rpc_route *r, const char *list,
                             const char *address, struct sl_error *err)
{
    struct sl_error why = SL_ERROR_INIT;

    if (r->count == RPC_ADDRESSES_MAX)
        return sl_fail(err, SL_EINVAL, "'%s' lists more than %d addresses",
                       list, RPC_ADDRESSES_MAX);
    if (address[0] == '\0')
        return sl_fail(err, SL_EINVAL,
                       "'%s': address %u of this list is empty; a list looks "
                       "like host-a:7070,host-b:7070",
                       list, r->count + 1);
    if (rpc_address_check(address, &why) != SL_OK)
        return sl_fail(err, why.code, "'%s': %s", list, why.text);
    if (route_has(r, address))
        return sl_fail(err, SL_EINVAL, "'%s' lists %s twice", list, address);
    r->address[r->count++] = address;
    return SL_OK;
}

static enum sl_err route_read(struct rpc_route *r, const char *list,
                              struct sl_error *err)
{
    char *rest = r->text, *comma;
    enum sl_err rc;

    do {
        comma = strchr(rest, ',');
        if (comma != NULL)
            *comma = '\0';
        rc = route_add(r, list, rest, err);
        rest = comma + 1;
    } while (rc == SL_OK && comma != NULL);
    return rc;
}

enum sl_err rpc_route_init(struct rpc_route *r, const char *list,
                           struct sl_error *err)
{
    enum sl_err rc;

    *r = (struct rpc_route){0};
    if (list == NULL || strchr(list, ',') == NULL) {
        rc = rpc_address_check(list, err);
        if (rc != SL_OK)
            return rc;
    }
    r->text = sl_strdup(list);
    if (r->text == NULL)
        return sl_no_memory(err);
    rc = route_read(r, list, err);
    if (rc != SL_OK)
        rpc_route_release(r);
    return rc;
}

void rpc_route_release(struct rpc_route *r)
{
    sl_free(r->text);
    *r = (struct rpc_route){0};
}

enum sl_err rpc_addresses_check(const char *list, struct sl_error *err)
{
    struct rpc_route r;
    enum sl_err rc = rpc_route_init(&r, list, err);

    if (rc == SL_OK)
        rpc_route_release(&r);
    return rc;
}

static bool is_tried(const struct rpc_route *r, unsigned i)
{
    return (r->tried >> i & 1) != 0;
}

// Says whether `text` names address `i` as the one that serves.
static bool names_leader(const struct rpc_route *r, unsigned i,
                         const char *text)
{
    const size_t skip = sizeof(RPC_STANDBY) - 1;
    size_t n;

    if (strncmp(text, RPC_STANDBY, skip) != 0)
        return false;
    n = strcspn(text + skip, " ");
    return strlen(r->address[i]) == n &&
           strncmp(text + skip, r->address[i], n) == 0;
}

// Returns the address to try after the present one has failed with `text`.
static unsigned route_next(struct rpc_route *r, const char *text)
{
    for (unsigned i = 0; i < r->count; i++) {
        if (!is_tried(r, i) && names_leader(r, i, text))
            return i;
    }
    for (unsigned i = 1; i < r->count; i++) {
        if (!is_tried(r, (r->at + i) % r->count))
            return (r->at + i) % r->count;
    }
    r->tried = 0; // a round is over
    return (r->at + 1) % r->count;
}

void rpc_route_note(struct rpc_route *r, unsigned at, enum sl_err code,
                    const char *text)
{
    if (at != r->at || code == SL_ECANCELED)
        return;
    if (code != SL_EUNAVAIL && code != SL_ETIMEDOUT) {
        r->tried = 0;
        return;
    }
    r->tried |= 1u << at;
    r->at = route_next(r, text);
}

bool rpc_route_untried(const struct rpc_route *r)
{
    return r->tried != 0;
}
