// SPDX-License-Identifier: Apache-2.0
// state/rows/row_gone.c -- see row_gone.h.
#include "state/rows/row_gone.h"

#include <string.h>

#include "common/base/mem.h"
#include "common/base/num.h"

#define PIECE_IDS 8190 // at most, but for a push that may need more

struct row_gone_piece {
    struct row_gone_piece *next;
    uint64_t count, room;
    uint64_t id[];
};

static uint64_t piece_bytes(uint64_t room)
{
    return sizeof(struct row_gone_piece) + room * sizeof(uint64_t);
}

static void row_pieces_free(struct row_gone *g, struct row_gone_piece *first)
{
    for (struct row_gone_piece *next; first != NULL; first = next) {
        next = first->next;
        row_account_give(g->account, piece_bytes(first->room), false);
        sl_free(first);
    }
}

// Frees what was not set apart.
static void row_gone_clear(struct row_gone *g)
{
    row_pieces_free(g, g->first);
    g->first = g->fill = g->last = NULL;
    g->count = g->room = 0;
}

void row_gone_drop(struct row_gone *g)
{
    row_pieces_free(g, g->sealed);
    g->sealed = NULL;
    g->sealed_count = 0;
}

void row_gone_release(struct row_gone *g)
{
    row_gone_clear(g);
    row_gone_drop(g);
}

void row_gone_begin(struct row_gone *g)
{
    row_gone_release(g);
    g->follows = true;
    g->lost = false;
}

static void row_gone_lose(struct row_gone *g)
{
    row_gone_clear(g);
    g->lost = true;
}

// Adds a piece for at least n ids, and as many as there are: there may be many
// tables, and few ids of most of them go.
static bool row_gone_grow(struct row_gone *g, uint64_t n)
{
    uint64_t like = sl_min(g->count + g->sealed_count, PIECE_IDS);
    uint64_t room = n > like ? n : like;
    struct row_gone_piece *piece;

    if (row_account_take(g->account, piece_bytes(room), false) != SL_OK)
        return false;
    piece = sl_malloc(piece_bytes(room));
    if (piece == NULL) {
        row_account_give(g->account, piece_bytes(room), false);
        return false;
    }
    *piece = (struct row_gone_piece){.room = room};
    if (g->first == NULL)
        g->first = g->fill = piece;
    else
        g->last->next = piece;
    g->last = piece;
    g->room += room;
    return true;
}

void row_gone_reserve(struct row_gone *g, uint64_t n, uint64_t most)
{
    if (!g->follows || g->lost)
        return;
    if (g->count + g->sealed_count > most) {
        row_gone_lose(g);
        return;
    }
    if (g->room < n && !row_gone_grow(g, n - g->room))
        row_gone_lose(g);
}

void row_gone_add(struct row_gone *g, uint64_t id)
{
    if (!g->follows || g->lost)
        return;
    if (g->room == 0) {
        row_gone_lose(g);
        return;
    }
    while (g->fill->count == g->fill->room)
        g->fill = g->fill->next;
    g->fill->id[g->fill->count++] = id;
    g->count++;
    g->room--;
}

void row_gone_seal(struct row_gone *g)
{
    struct row_gone_piece *fill = g->fill;

    if (fill == NULL)
        return;
    g->sealed = g->first;
    g->sealed_count = g->count;
    g->count = 0;
    g->room -= fill->room - fill->count;
    g->first = g->fill = fill->next;
    fill->next = NULL;
    if (g->first == NULL)
        g->last = NULL;
}

void row_gone_undo(struct row_gone *g)
{
    struct row_gone_piece *last = g->sealed;

    if (last == NULL || g->lost) {
        row_gone_drop(g);
        return;
    }
    while (last->next != NULL)
        last = last->next;
    if (g->first == NULL) {
        g->fill = g->last = last;
        g->room = last->room - last->count;
    }
    last->next = g->first;
    g->first = g->sealed;
    g->count += g->sealed_count;
    g->sealed = NULL;
    g->sealed_count = 0;
}

size_t row_gone_read(const struct row_gone *g, struct rowset_gone_at *at,
                     size_t most, uint64_t *ids)
{
    const struct row_gone_piece *piece = at->piece;
    size_t n;

    if (!at->begun) {
        piece = g->sealed;
        *at = (struct rowset_gone_at){.begun = true};
    }
    while (piece != NULL && at->next == piece->count) {
        piece = piece->next;
        at->next = 0;
    }
    at->piece = piece;
    if (piece == NULL)
        return 0;
    n = piece->count - at->next;
    n = sl_min(n, most);
    memcpy(ids, piece->id + at->next, n * sizeof(*ids));
    at->next += n;
    return n;
}
