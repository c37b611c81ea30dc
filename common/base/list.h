// SPDX-License-Identifier: Apache-2.0
// common/base/list.h -- an intrusive, circular, doubly linked list.
//
// The node lies in the struct that is listed; the list owns nothing. A node
// is in at most one list. A node that is in none has next == NULL, so that
// list_on tells; list_remove of such a node does nothing.
//
// A list is used after list_init, a node after list_node_init (or zeroed).
// Neither a struct list nor a node in one may be copied or moved in memory:
// their neighbours point to them. Take a node out before you free it.
//
// Threads  those of the list's owner.
// Errors   none; inserting a node that is in a list is undefined. No argument
//          is NULL.
#ifndef COMMON_BASE_LIST_H
#define COMMON_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/status.h"

struct list_node {
    struct list_node *prev, *next;
};

struct list {
    struct list_node head;
};

// Makes `l` empty.
static inline void list_init(struct list *l)
{
    l->head.prev = l->head.next = &l->head;
}

// Marks `n` as in no list.
static inline void list_node_init(struct list_node *n)
{
    n->prev = n->next = NULL;
}

// Returns true if `n` is in a list.
static inline bool list_on(const struct list_node *n)
{
    return n->next != NULL;
}

// Returns true if `l` has no node.
static inline bool list_empty(const struct list *l)
{
    return l->head.next == &l->head;
}

// Inserts `n`, which is in no list, behind `where`: a node of a list, or its
// head.
static inline void list_insert_after(struct list_node *where,
                                     struct list_node *n)
{
    n->prev = where;
    n->next = where->next;
    where->next->prev = n;
    where->next = n;
}

// Inserts `n`, which is in no list, as the first node.
static inline void list_push_front(struct list *l, struct list_node *n)
{
    list_insert_after(&l->head, n);
}

// Inserts `n`, which is in no list, as the last node.
static inline void list_push_back(struct list *l, struct list_node *n)
{
    list_insert_after(l->head.prev, n);
}

// Removes node `n` from its list; a node that is in no list stays as it is.
static inline void list_remove(struct list_node *n)
{
    if (n->next == NULL)
        return;
    n->prev->next = n->next;
    n->next->prev = n->prev;
    n->prev = n->next = NULL;
}

// Returns the first node; NULL when the list is empty.
static inline struct list_node *list_first(struct list *l)
{
    return list_empty(l) ? NULL : l->head.next;
}

// Returns the last node; NULL when the list is empty.
static inline struct list_node *list_last(struct list *l)
{
    return list_empty(l) ? NULL : l->head.prev;
}

// Returns the node after `n`, which is in `l`; NULL after the last.
static inline struct list_node *list_next(struct list *l, struct list_node *n)
{
    return n->next == &l->head ? NULL : n->next;
}

// Removes and returns the first node; NULL when the list is empty.
static inline struct list_node *list_pop_front(struct list *l)
{
    struct list_node *n = list_first(l);

    if (n != NULL)
        list_remove(n);
    return n;
}

// Moves all of `from`, another list, behind the last of `to`; `from` is then
// empty. Callbacks that may change the list being walked: move to a local list
// first.
static inline void list_take_all(struct list *to, struct list *from)
{
    if (list_empty(from))
        return;
    from->head.next->prev = to->head.prev;
    to->head.prev->next = from->head.next;
    from->head.prev->next = &to->head;
    to->head.prev = from->head.prev;
    list_init(from);
}

// Returns the struct of `type` whose member `member` is *node, not NULL.
#define list_entry(node, type, member) sl_container_of(node, type, member)

// Walk the nodes of `l`, from the first. The loop declares `n`; the body of the
// first form must not remove n. That of the second may remove and free it, but
// not the node behind it.
#define list_for(n, l)                                                         \
    for (struct list_node *n = (l)->head.next; n != &(l)->head; n = n->next)
#define list_for_safe(n, l)                                                    \
    for (struct list_node *n = (l)->head.next, *n##_next = n->next;            \
         n != &(l)->head; n = n##_next, n##_next = n->next)

#endif
