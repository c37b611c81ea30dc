// SPDX-License-Identifier: Apache-2.0
// state/rows/row_gone.c -- see row_gone.h.
#include "state/rows/row_gone.h"

#include <string.h>

#include "common/base/mem.h"

#define PIECE_IDS 8190

struct row_gone_piece {
    struct row_gone_piece *next;
    uint64_t count;
    uint64_t id[PIECE_IDS];
};

static void pieces_free(struct row_gone *g, struct row_gone_piece *first)
{
    for (struct row_gone_piece *next; first != NULL; first = next) {
        next = first->next;
        row_account_give(g->account, sizeof(*first), false);
        sl_free(first);
    }
}

// Frees what was not set apart.
static void row_gone_clear(struct row_gone *g)
{
    pieces_free(g, g->first);
    g->first = g->fill = g->last = NULL;
    g->count = g->room = 0;
}

void row_gone_drop(struct row_gone *g)
{
    pieces_free(g, g->sealed);
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

static bool row_gone_grow(struct row_gone *g)
{
    struct row_gone_piece *piece;

    if (row_account_take(g->account, sizeof(*piece), false) != SL_OK)
        return false;
    piece = sl_malloc(sizeof(*piece));
    if (piece == NULL) {
        row_account_give(g->account, sizeof(*piece), false);
        return false;
    }
    piece->next = NULL;
    piece->count = 0;
    if (g->first == NULL)
        g->first = g->fill = piece;
    else
        g->last->next = piece;
    g->last = piece;
    g->room += PIECE_IDS;
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
    while (g->room < n)
        if (!row_gone_grow(g)) {
            row_gone_lose(g);
            return;
        }
}

void row_gone_add(struct row_gone *g, uint64_t id)
{
    if (!g->follows || g->lost)
        return;
    if (g->room == 0) {
        row_gone_lose(g);
        return;
    }
    while (g->fill->count == PIECE_IDS)
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
    g->room -= PIECE_IDS - fill->count;
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
        g->room = PIECE_IDS - last->count;
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
    n = n < most ? n : most;
    memcpy(ids, piece->id + at->next, n * sizeof(*ids));
    at->next += n;
    return n;
}
