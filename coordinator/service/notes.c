// SPDX-License-Identifier: Apache-2.0
// coordinator/service/notes.c -- a copy that crosses to the loop.
#include "coordinator/service/notes.h"

#include <stdio.h>

#include "common/base/mem.h"
#include "common/run/log.h"
#include "proto/wire.h"

struct note {
    struct notes *notes;
    struct access_who who;
    const char *call;
    char queue[WIRE_NAME_BYTES + 1];
    enum sl_err result;
    struct sl_error why;
};

static void note_on_loop(void *arg)
{
    struct note *n = arg;
    const struct audit_line line = {.who = &n->who,
                                    .call = n->call,
                                    .job = n->queue,
                                    .result = n->result,
                                    .why = &n->why};

    api_note(n->notes->api, &line);
    sl_free(n);
}

void notes_take(void *notes, const struct tasks_change *change)
{
    struct note *n = sl_malloc(sizeof(*n));

    if (n != NULL) {
        n->notes = notes;
        n->who = *change->who;
        n->call = change->call;
        n->result = change->result;
        n->why = change->result == SL_OK ? (struct sl_error)SL_ERROR_INIT
                                         : *change->why;
        snprintf(n->queue, sizeof(n->queue), "%s", change->queue);
        if (loop_post(n->notes->loop, note_on_loop, n) == SL_OK)
            return;
    }
    sl_free(n);
    LOG(ERROR, "a line of the audit log is missing", "call=%s queue=%s",
        change->call, change->queue);
}
