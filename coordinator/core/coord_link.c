// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/coord_link.h"

#include "common/base/mem.h"

struct coord_link {
    struct coord *coord; // NULL: gone
    unsigned refs;
};

struct coord_link *coord_link_new(struct coord *c)
{
    struct coord_link *link = sl_malloc(sizeof(*link));

    if (link != NULL)
        *link = (struct coord_link){c, 1};
    return link;
}

struct coord_link *coord_link_ref(struct coord_link *link)
{
    link->refs++;
    return link;
}

void coord_link_unref(struct coord_link *link)
{
    if (link != NULL && --link->refs == 0)
        sl_free(link);
}

void coord_link_close(struct coord_link *link)
{
    if (link == NULL)
        return;
    link->coord = NULL;
    coord_link_unref(link);
}

struct coord *coord_link_get(const struct coord_link *link)
{
    return link->coord;
}
