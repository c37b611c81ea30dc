// SPDX-License-Identifier: Apache-2.0
// worker/lease/device_lost.c -- the rule after a lost device, and what is said
// of it.
#include "worker/lease/device_lost.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "common/run/log.h"
#include "worker/lease/task.h"

enum lost_policy lost_policy_of(const char *text)
{
    if (strcmp(text, "reopen") == 0)
        return LOST_REOPEN;
    return strcmp(text, "cpu") == 0 ? LOST_CPU : LOST_EXIT;
}

void lost_note(char out[LOST_NOTE], const struct lost_row *row)
{
    snprintf(out, LOST_NOTE, "lost-device %" PRIu32 " %s", row->tried,
             row->name);
}

struct lost_row lost_row_of(const char *note)
{
    struct lost_row row = {0, ""};

    if (sscanf(note, "lost-device %" SCNu32 " %159s", &row.tried, row.name) !=
        2)
        row = (struct lost_row){0, ""};
    return row;
}

enum lost_turn lost_next(const struct lost_rule *rule, uint32_t tried)
{
    if (rule->policy == LOST_CPU)
        return LOST_TAKE_CPU;
    if (rule->policy == LOST_REOPEN && tried < rule->tries)
        return LOST_WAIT_AND_START_ANEW;
    return LOST_END;
}

const char *lost_name(const char *asked, const struct kern_dev *dev)
{
    return strcmp(asked, "auto") == 0 ? dev->backend->name : asked;
}

#define ADVICE "look at dmesg and nvidia-smi on this host"

void lost_log(const struct lost_rule *rule, enum lost_turn turn, uint32_t tried,
              const char *device, const char *why)
{
    if (turn == LOST_TAKE_CPU)
        LOG(ERROR, "device lost; going on with cpu",
            "device=%s error=%s advice=%s, then start this worker anew", device,
            why, ADVICE);
    else if (turn == LOST_WAIT_AND_START_ANEW)
        LOG(ERROR, "device lost; starting anew to open it again",
            "device=%s error=%s tried=%" PRIu32 " tries=%" PRIu32
            " every_ms=%" PRIu64 " advice=%s",
            device, why, tried, rule->tries, rule->wait_ms, ADVICE);
    else
        LOG(ERROR, "device lost; ending",
            "device=%s error=%s tried=%" PRIu32 " advice=%s", device, why,
            tried, ADVICE);
}

void lost_log_still(const struct lost_rule *rule, enum lost_turn turn,
                    const struct lost_row *row, const char *why)
{
    if (turn == LOST_WAIT_AND_START_ANEW)
        LOG(WARN, "device is not back yet",
            "device=%s tried=%" PRIu32 " tries=%" PRIu32 " every_ms=%" PRIu64
            " error=%s",
            row->name, row->tried, rule->tries, rule->wait_ms, why);
    else
        LOG(ERROR, "device does not come back; ending",
            "device=%s tried=%" PRIu32 " error=%s advice=%s", row->name,
            row->tried, why, ADVICE);
}

// A module may be older than fault(), and host backends do not have it.
const char *lost_of(const struct kern_dev *dev, const struct lease *l)
{
    const struct kern_backend *b = dev->backend;

    if (l->outcome.kind != OUTCOME_FAILED || l->outcome.err.code != SL_ELOST ||
        b->size < offsetof(struct kern_backend, fault) + sizeof(b->fault) ||
        b->fault == NULL)
        return "";
    return b->fault((struct kern_dev *)dev);
}

void lost_excuse(struct lease *l, const char *why)
{
    char text[SL_ERROR_TEXT];

    snprintf(text, sizeof(text), "its device is lost: %.170s (%.170s)", why,
             l->outcome.err.text);
    l->outcome.job_error = false;
    lease_hand_back(l, text);
}

bool lost_out_of_memory(const struct lease *l)
{
    return l->outcome.kind == OUTCOME_FAILED &&
           l->outcome.err.code == SL_ENOMEM;
}

void lost_advise(struct lease *l)
{
    // The advice in compile's error text.
    static const char half[] = "use a smaller batch";
    const char *said = strstr(l->outcome.err.text, half);
    char text[SL_ERROR_TEXT];

    if (said != NULL && said[sizeof(half) - 1] != '\0')
        return; // it says more than `half` already
    snprintf(text, sizeof(text), "%.300s%s", l->outcome.err.text,
             said != NULL ? " or another device"
                          : "; use a smaller batch or another device");
    sl_fail(&l->outcome.err, SL_ENOMEM, "%s", text);
}
