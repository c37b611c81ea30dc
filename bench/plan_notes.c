// SPDX-License-Identifier: Apache-2.0
// bench/plan_notes.c -- see plan_notes.h.
#include "bench/plan_notes.h"

#include <stdlib.h>

#include "bench/program.h"

struct plan_note {
    struct plan_note *before;
    const struct kern_plan *plan;
    struct kern_desc desc;
};

static const struct kern_backend *own;
static struct kern_backend noting;
static struct plan_note *latest;

// Plans and notes. A plan that was freed may leave its address to another one:
// the latest note counts.
static enum sl_err plan_noted(struct kern_plan **out, size_t *workspace_bytes,
                              struct kern_dev *dev, const struct kern_desc *d,
                              size_t cap_bytes, struct sl_error *err)
{
    enum sl_err rc = own->plan(out, workspace_bytes, dev, d, cap_bytes, err);
    struct plan_note *note;

    if (rc != SL_OK)
        return rc;
    note = malloc(sizeof(*note));
    if (note == NULL)
        program_die("no memory for a note");
    *note = (struct plan_note){latest, *out, *d};
    latest = note;
    return rc;
}

void plan_notes_begin(struct kern_dev *dev)
{
    own = dev->backend;
    noting = *own;
    noting.plan = plan_noted;
    dev->backend = &noting;
}

const struct kern_desc *plan_notes_desc(const struct kern_plan *plan)
{
    for (const struct plan_note *n = latest; n != NULL; n = n->before)
        if (n->plan == plan)
            return &n->desc;
    return NULL;
}
