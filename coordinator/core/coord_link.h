// SPDX-License-Identifier: Apache-2.0
// coordinator/core/coord_link.h -- a way back to a coord that may be gone.
//
// Work on a pool thread can outlive the coord that began it. It holds a link;
// when it is done, on the loop, the link says whether anybody is still there.
//
// Threads  the loop only: a pool thread does not touch it.
// Memory   counted; freed with the last reference.
#ifndef COORDINATOR_CORE_COORD_LINK_H
#define COORDINATOR_CORE_COORD_LINK_H

struct coord;
struct coord_link;

struct coord_link *coord_link_new(struct coord *c); // NULL: no memory
struct coord_link *coord_link_ref(struct coord_link *link);
void coord_link_unref(struct coord_link *link); // NULL is allowed

// The coord is going away; drops its reference. NULL is allowed.
void coord_link_close(struct coord_link *link);

struct coord *coord_link_get(const struct coord_link *link); // or NULL

#endif
