// SPDX-License-Identifier: Apache-2.0
// state/rows/row_arena.c -- chunks, and what is moved out of the oldest one.
#include "state/rows/row_arena.h"

#include <string.h>

#include "common/base/huge.h"

#define PIECES 8 // that a chunk has room for, so that its end is a small one
#define HOLES_PART 5 // of what is in use

struct row_chunk {
    struct list_node on_list;
    size_t bytes, end; // size of the chunk; end of its last piece
    size_t first;      // the first piece that may be in use
    size_t pieces;     // number of pieces in use
} __attribute__((aligned(64)));

// What lies in front of a piece.
struct row_piece {
    struct row_chunk *chunk;
    size_t bytes; // with this
    uint32_t owner;
    bool used;
} __attribute__((aligned(64)));

void row_arena_init(struct row_arena *a)
{
    *a = (struct row_arena){.newest = NULL};
    list_init(&a->chunks);
}

static void chunk_free(struct row_arena *a, struct row_chunk *c)
{
    list_remove(&c->on_list);
    a->bytes -= c->bytes;
    a->newest = c == a->newest ? NULL : a->newest;
    sl_free(c);
}

void row_arena_release(struct row_arena *a)
{
    while (a->bytes > 0)
        chunk_free(
            a, list_entry(list_first(&a->chunks), struct row_chunk, on_list));
}

static bool row_arena_grow(struct row_arena *a, size_t piece)
{
    size_t bytes = sizeof(struct row_chunk) + PIECES * piece;
    struct row_chunk *c;

    bytes = (bytes + SL_HUGE_PAGE - 1) / SL_HUGE_PAGE * SL_HUGE_PAGE;
    c = sl_huge(bytes);
    if (c == NULL)
        return false;
    *c = (struct row_chunk){
        .bytes = bytes, .end = sizeof(*c), .first = sizeof(*c)};
    list_push_back(&a->chunks, &c->on_list);
    a->bytes += bytes;
    a->newest = c;
    return true;
}

static struct row_piece *piece_at(struct row_chunk *c, size_t at)
{
    return (struct row_piece *)(void *)((uint8_t *)c + at);
}

void *row_arena_take(struct row_arena *a, size_t bytes, uint32_t owner)
{
    struct row_piece *p;

    bytes += sizeof(*p);
    if ((a->newest == NULL || bytes > a->newest->bytes - a->newest->end) &&
        !row_arena_grow(a, bytes))
        return NULL;
    p = piece_at(a->newest, a->newest->end);
    *p = (struct row_piece){a->newest, bytes, owner, true};
    a->newest->end += bytes;
    a->newest->pieces++;
    a->used += bytes;
    return p + 1;
}

void row_arena_give(struct row_arena *a, void *at)
{
    struct row_piece *p = (struct row_piece *)at - 1;

    p->used = false;
    a->used -= p->bytes;
    if (--p->chunk->pieces == 0)
        chunk_free(a, p->chunk);
}

void *row_arena_tidy(struct row_arena *a, uint32_t *owner)
{
    struct row_piece *p;
    struct row_chunk *c;
    void *to;

    if (a->newest == NULL ||
        a->bytes <= a->used + a->used / HOLES_PART + a->newest->bytes)
        return NULL;
    c = list_entry(list_first(&a->chunks), struct row_chunk, on_list);
    while (!piece_at(c, c->first)->used)
        c->first += piece_at(c, c->first)->bytes;
    p = piece_at(c, c->first);
    to = row_arena_take(a, p->bytes - sizeof(*p), p->owner);
    if (to == NULL)
        return NULL;
    memcpy(to, p + 1, p->bytes - sizeof(*p));
    *owner = p->owner;
    row_arena_give(a, p + 1);
    return to;
}
