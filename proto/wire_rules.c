// SPDX-License-Identifier: Apache-2.0
// proto/wire_rules.c -- the rules of which field may hold what.
//
// Numbers are the fields' numbers; a test checks that each names a field of a
// fitting type.
#include "proto/wire_check.h"

#include "common/plan/rates.h"

#define JOB(number)                                                            \
    {                                                                          \
        number, RULE_RANGE, 1, UINT64_MAX                                      \
    }
#define SHARD(number)                                                          \
    {                                                                          \
        number, RULE_RANGE, 0, WIRE_SHARDS_MAX - 1                             \
    }
#define BORN(number)                                                           \
    {                                                                          \
        number, RULE_RANGE, 1, UINT64_MAX                                      \
    } // an incarnation
#define CLOSURE(number)                                                        \
    {                                                                          \
        number, RULE_RANGE, 0, UINT64_C(1) << 62                               \
    }
#define NAME(number)                                                           \
    {                                                                          \
        number, RULE_NAME, 1, WIRE_NAME_BYTES                                  \
    }
#define MAYBE_NAME(number)                                                     \
    {                                                                          \
        number, RULE_NAME, 0, WIRE_NAME_BYTES                                  \
    }
#define COUNT(number, max)                                                     \
    {                                                                          \
        number, RULE_COUNT, 0, max                                             \
    }
#define RANGE(number, min, max)                                                \
    {                                                                          \
        number, RULE_RANGE, min, max                                           \
    }
#define BYTES(number, min, max)                                                \
    {                                                                          \
        number, RULE_BYTES, min, max                                           \
    }
#define TEXT(number, max)                                                      \
    {                                                                          \
        number, RULE_TEXT, 0, max                                              \
    }
#define PATHNAME(number)                                                       \
    {                                                                          \
        number, RULE_FILE, 0, 255                                              \
    }
#define ADDRESS(number)                                                        \
    {                                                                          \
        number, RULE_ADDRESS, 0, WIRE_NAME_BYTES                               \
    }
#define FILL(number)                                                           \
    {                                                                          \
        number, RULE_FILL, 0, 0                                                \
    }
#define REQUIRED(number)                                                       \
    {                                                                          \
        number, RULE_REQUIRED, 0, 0                                            \
    }
#define ANY_FLOAT(number)                                                      \
    {                                                                          \
        number, RULE_ANY_FLOAT, 0, 0                                           \
    }

// ---- common.proto

static const struct wire_rule counted_closure[] = {
    CLOSURE(1),
    BYTES(2, 1, WIRE_COUNTED_BYTES),
};
static const struct wire_rule counted_set[] = {
    CLOSURE(1),
    COUNT(2, WIRE_SPARSE_MAX),
};
static const struct wire_rule geometry[] = {
    RANGE(1, 1, UINT64_C(1) << 40),
    RANGE(2, 1, UINT32_MAX),
    RANGE(3, 1, UINT32_MAX),
    RANGE(4, 1, WIRE_CLOSURE_STEPS_MAX),
};
static const struct wire_rule variable[] = {
    NAME(1),
    COUNT(2, WIRE_RANK_MAX),
    COUNT(8, WIRE_RANK_MAX),
};
static const struct wire_rule piece[] = {
    RANGE(1, 0, WIRE_VARIABLES_MAX - 1), RANGE(2, 0, UINT64_C(1) << 40),
    RANGE(3, 1, UINT64_C(1) << 40),      SHARD(4),
    RANGE(5, 1, UINT64_C(1) << 40),
};
static const struct wire_rule shard_counts[] = {
    COUNT(8, WIRE_STALENESS_BUCKETS),
    COUNT(9, 65536),
    COUNT(12, WIRE_PIECES_MAX),
};

static const struct wire_rule rate_step[] = {CLOSURE(1)};

// ---- coord.proto, upwards

static const struct wire_rule hello[] = {
    RANGE(1, SLUICE__V1__ROLE__ROLE_WORKER, SLUICE__V1__ROLE__ROLE_PSSERVER),
    NAME(2),
    ADDRESS(4),
    MAYBE_NAME(6),
    MAYBE_NAME(7),
    MAYBE_NAME(8),
    RANGE(9, WIRE_PROTOCOL, WIRE_PROTOCOL),
};
static const struct wire_rule heartbeat[] = {
    COUNT(2, 64),
    COUNT(3, WIRE_SHARDS_MAX),
    MAYBE_NAME(7),
};
static const struct wire_rule lease_progress[] = {
    JOB(1),
    CLOSURE(2),
    FILL(3),
    FILL(4),
};
static const struct wire_rule step_metrics[] = {ANY_FLOAT(3),
                                                COUNT(20, WIRE_BAD_MAX)};
static const struct wire_rule score_sums[] = {
    ANY_FLOAT(5),
    ANY_FLOAT(6),
    COUNT(7, WIRE_SCORE_BUCKETS),
    COUNT(8, WIRE_SCORE_BUCKETS),
};
static const struct wire_rule bad_sample[] = {
    RANGE(2, 0, UINT64_C(1) << 40),
    TEXT(3, WIRE_NAME_BYTES),
};
static const struct wire_rule shard_report[] = {
    JOB(1),
    SHARD(2),
    FILL(4),
};
static const struct wire_rule shard_hello[] = {
    JOB(1), SHARD(3), FILL(5), FILL(6), FILL(7),
};
static const struct wire_rule snapshot_report[] = {
    JOB(1), SHARD(3), FILL(4), PATHNAME(5), BYTES(7, 0, 32), FILL(8), FILL(9),
};
static const struct wire_rule complete[] = {
    JOB(1), CLOSURE(2), FILL(3), COUNT(5, WIRE_SHARDS_MAX), FILL(6),
};
static const struct wire_rule completes[] = {COUNT(1, WIRE_LEASES_MAX)};
static const struct wire_rule evidence[] = {SHARD(1), BORN(2)};
static const struct wire_rule attempt_failed[] = {
    JOB(1),
    CLOSURE(2),
    FILL(3),
    RANGE(5, 0, 9999),
};
static const struct wire_rule hand_back[] = {JOB(1), CLOSURE(2), FILL(3)};
static const struct wire_rule job_only[] = {JOB(1)};
static const struct wire_rule job_deleted[] = {JOB(1)};
static const struct wire_rule rates_taken[] = {JOB(1), SHARD(3), CLOSURE(4)};

static const struct wire_rule ring_join[] = {JOB(1), FILL(3), ADDRESS(4),
                                             MAYBE_NAME(5)};
static const struct wire_rule ring_answer[] = {JOB(1), BORN(3), FILL(4)};
static const struct wire_rule ring_ready[] = {JOB(1), BORN(3), FILL(4), FILL(5),
                                              FILL(6)};
static const struct wire_rule ring_step[] = {JOB(1), BORN(3), FILL(5)};
static const struct wire_rule ring_copied[] = {JOB(1), BORN(3), FILL(4)};
static const struct wire_rule ring_broken[] = {
    JOB(1),
    BORN(3),
    RANGE(4, 0, WIRE_RANKS_MAX - 1),
};

// ---- coord.proto, downwards

static const struct wire_rule welcome[] = {
    RANGE(1, 1, UINT64_MAX),
    RANGE(3, 1, 3600000),
    RANGE(4, 1, 3600000),
    BYTES(7, 0, 32),
};
static const struct wire_rule place[] = {REQUIRED(2), FILL(3)};
static const struct wire_rule shard_spec[] = {
    JOB(1),
    SHARD(3),
    {4, RULE_COUNT, 1, WIRE_PIECES_MAX},
    {5, RULE_COUNT, 1, WIRE_VARIABLES_MAX},
    {6, RULE_COUNT, 1, WIRE_VARIABLES_MAX},
    REQUIRED(7),
    REQUIRED(8),
    NAME(10),
    COUNT(12, WIRE_SHARDS_MAX),
    COUNT(20, RATES_MAX),
};
static const struct wire_rule rates[] = {JOB(2), SHARD(4), COUNT(5, RATES_MAX)};
static const struct wire_rule source_file[] = {
    {2, RULE_FILE, 1, 255},
    BYTES(3, 32, 32),
};
static const struct wire_rule admit[] = {JOB(2), SHARD(3), BORN(4)};
static const struct wire_rule refuse[] = {JOB(2), SHARD(3)};
static const struct wire_rule hello_wanted[] = {JOB(2), SHARD(3)};
static const struct wire_rule snapshot_request[] = {JOB(1), SHARD(2)};
static const struct wire_rule keep[] = {JOB(2), SHARD(3), COUNT(4, 100000)};
static const struct wire_rule close_job[] = {JOB(2)};
static const struct wire_rule job_open[] = {
    JOB(1),
    NAME(3),
    REQUIRED(4),
    COUNT(6, WIRE_VARIABLES_MAX),
    COUNT(7, WIRE_PIECES_MAX),
};
static const struct wire_rule job_map[] = {JOB(1), COUNT(3, WIRE_SHARDS_MAX)};
static const struct wire_rule map_entry[] = {SHARD(1), ADDRESS(2)};
static const struct wire_rule lease[] = {
    JOB(2),
    CLOSURE(4),
    FILL(5),
    RANGE(8, 0, UINT64_C(1) << 40),
    RANGE(9, 0, UINT64_C(1) << 40),
    RANGE(10, 0, WIRE_CLOSURE_STEPS_MAX),
    COUNT(13, WIRE_SHARDS_MAX),
};
static const struct wire_rule leases[] = {COUNT(1, WIRE_LEASES_MAX)};
static const struct wire_rule revoke[] = {JOB(1), CLOSURE(2), FILL(3)};
static const struct wire_rule ring_open[] = {JOB(2), BORN(4)};
static const struct wire_rule ring_rank[] = {NAME(2), ADDRESS(3),
                                             MAYBE_NAME(4)};
static const struct wire_rule ring_begin[] = {
    JOB(2),
    BORN(4),
    {6, RULE_COUNT, 1, WIRE_RANKS_MAX},
    FILL(8),
    COUNT(9, WIRE_RANKS_MAX),
    COUNT(10, WIRE_SHARDS_MAX),
    RANGE(11, 1, WIRE_CONTRIBUTIONS_MAX),
};
static const struct wire_rule ring_copy[] = {
    JOB(2),
    BORN(4),
    {6, RULE_COUNT, 1, WIRE_RANKS_MAX},
};
static const struct wire_rule ring_go[] = {JOB(2), BORN(4)};

static const struct wire_rule trace_start[] = {JOB(1), JOB(2),
                                               RANGE(3, 1, WIRE_TRACE_MS_MAX)};
static const struct wire_rule trace_more[] = {JOB(1)};
static const struct wire_rule trace_piece[] = {
    JOB(1),
    COUNT(2, WIRE_TRACE_NAMES_MAX),
    COUNT(3, WIRE_TRACE_SPANS_MAX),
};

static const struct wire_rule log_more[] = {JOB(1)};
static const struct wire_rule log_piece[] = {JOB(1), FILL(2)};
static const struct wire_rule log_lines[] = {BYTES(1, 0, WIRE_LOG_BYTES)};

// ---- ps.proto

static const struct wire_rule local_reply[] = {TEXT(1, 64), TEXT(2, 4096),
                                               MAYBE_NAME(4)};

// ---- ranks.proto

static const struct wire_rule share_request[] = {RANGE(4, 0, WIRE_LANES - 1)};

// ---- jobs.proto

static const struct wire_rule submit_request[] = {REQUIRED(1), MAYBE_NAME(2)};
static const struct wire_rule weights_file[] = {
    {2, RULE_FILE, 1, 255},
    BYTES(3, 32, 32),
};
static const struct wire_rule submit_reply[] = {MAYBE_NAME(2),
                                                TEXT(3, 1 << 20)};
static const struct wire_rule job_request[] = {NAME(1)};
static const struct wire_rule list_request[] = {RANGE(1, 0, 10000)};
static const struct wire_rule list_reply[] = {COUNT(1, 10000)};
static const struct wire_rule stop_request[] = {NAME(1)};
static const struct wire_rule pause_request[] = {NAME(1), TEXT(3, 200),
                                                 MAYBE_NAME(4)};
static const struct wire_rule checkpoint_request[] = {NAME(1)};
static const struct wire_rule trace_request[] = {
    NAME(1), RANGE(2, 1, WIRE_TRACE_MS_MAX)};
static const struct wire_rule trace_reply[] = {
    RANGE(1, 1, UINT32_MAX),
    NAME(2),
    NAME(3),
    COUNT(7, WIRE_TRACE_NAMES_MAX),
    COUNT(8, WIRE_TRACE_SPANS_MAX),
};
static const struct wire_rule logs_request[] = {MAYBE_NAME(1)};
static const struct wire_rule checkpoint_reply[] = {FILL(1)};
static const struct wire_rule evaluation[] = {ANY_FLOAT(2), ANY_FLOAT(3),
                                              COUNT(20, 64)};
static const struct wire_rule metric[] = {NAME(1), ANY_FLOAT(2)};
static const struct wire_rule callbacks_status[] = {COUNT(5, RATES_MAX)};
static const struct wire_rule shard_status[] = {SHARD(1), MAYBE_NAME(2),
                                                FILL(5)};
static const struct wire_rule job_status[] = {
    JOB(1),
    NAME(2),
    NAME(3),
    ANY_FLOAT(13),
    ANY_FLOAT(14),
    COUNT(29, 65536),
    COUNT(36, WIRE_SHARDS_MAX),
};
static const struct wire_rule checkpoint[] = {COUNT(8, WIRE_SHARDS_MAX)};
static const struct wire_rule checkpoint_shard[] = {
    SHARD(1), MAYBE_NAME(2), ADDRESS(3), FILL(4), PATHNAME(6), BYTES(8, 0, 32),
};
static const struct wire_rule checkpoints_reply[] = {
    COUNT(1, 65536),
    COUNT(2, WIRE_VARIABLES_MAX),
    COUNT(3, WIRE_PIECES_MAX),
};
static const struct wire_rule member_status[] = {NAME(1), ADDRESS(4)};
static const struct wire_rule cluster_reply[] = {COUNT(1, 100000)};
static const struct wire_rule drain_request[] = {NAME(1), MAYBE_NAME(2),
                                                 TEXT(4, 200), MAYBE_NAME(5)};
static const struct wire_rule quota_tenant[] = {FILL(2), FILL(3), FILL(4),
                                                FILL(5), FILL(6)};
static const struct wire_rule quota_reply[] = {COUNT(1, 100000)};

// ---- events.proto

static const struct wire_rule events_request[] = {MAYBE_NAME(1),
                                                  RANGE(3, 0, WIRE_EVENTS_MAX)};
static const struct wire_rule event[] = {MAYBE_NAME(3), MAYBE_NAME(4),
                                         TEXT(5, 1024), MAYBE_NAME(7)};
static const struct wire_rule events_reply[] = {COUNT(1, WIRE_EVENTS_MAX)};
static const struct wire_rule timeline_request[] = {
    NAME(1), RANGE(3, 0, WIRE_SPANS_MAX)};
static const struct wire_rule span[] = {FILL(3), MAYBE_NAME(4), MAYBE_NAME(5),
                                        MAYBE_NAME(8)};
static const struct wire_rule timeline_reply[] = {COUNT(1, WIRE_SPANS_MAX)};
static const struct wire_rule history_request[] = {NAME(1)};
static const struct wire_rule history_point[] = {ANY_FLOAT(4), ANY_FLOAT(5)};
static const struct wire_rule history_reply[] = {COUNT(1, WIRE_POINTS_MAX)};

// ---- tasks.proto

static const struct wire_rule task_asked[] = {NAME(1),
                                              BYTES(2, 0, WIRE_TASK_BYTES)};
static const struct wire_rule task_schedule[] = {
    NAME(1),
    RANGE(2, 1, UINT64_MAX),
    RANGE(3, 1, UINT64_C(1) << 62),
    COUNT(4, WIRE_TASKS_MAX),
    RANGE(5, 0, 1000000),
};
static const struct wire_rule task_scheduled[] = {COUNT(5, WIRE_TASK_LEFT_MAX)};
static const struct wire_rule task_ended_request[] = {
    NAME(1),
    RANGE(2, 1, UINT64_MAX),
    RANGE(5, 0, WIRE_TASKS_MAX),
    COUNT(7, WIRE_TASK_NUMBERS_MAX),
};
static const struct wire_rule task_ended[] = {BYTES(4, 0, WIRE_TASK_BYTES)};
static const struct wire_rule task_ended_reply[] = {COUNT(1, WIRE_TASKS_MAX)};
static const struct wire_rule task_cancel[] = {
    NAME(1),
    RANGE(2, 1, UINT64_MAX),
    COUNT(4, WIRE_TASK_NUMBERS_MAX),
};
static const struct wire_rule task_queues_request[] = {
    MAYBE_NAME(1), MAYBE_NAME(2), RANGE(3, 0, 10000)};
static const struct wire_rule task_queues_reply[] = {COUNT(1, 10000),
                                                     COUNT(2, 10000)};
static const struct wire_rule task_delete[] = {NAME(1), MAYBE_NAME(2)};
static const struct wire_rule task_result[] = {RANGE(1, 1, UINT64_MAX),
                                               BYTES(2, 0, WIRE_TASK_BYTES)};
static const struct wire_rule task_work[] = {
    MAYBE_NAME(1),
    NAME(2),
    RANGE(3, 1, UINT64_MAX),
    {4, RULE_NAME, 1, WIRE_NAME_BYTES},
    COUNT(5, WIRE_TASKS_MAX),
    COUNT(6, WIRE_TASKS_MAX),
    RANGE(7, 0, WIRE_TASKS_MAX),
};
static const struct wire_rule task_given[] = {NAME(3),
                                              BYTES(4, 0, WIRE_TASK_BYTES)};
static const struct wire_rule task_work_reply[] = {
    COUNT(1, WIRE_TASKS_MAX),
    COUNT(2, WIRE_TASKS_MAX),
};

#define OF(name) &sluice__v1__##name##__descriptor
#define RULES(name, list, check)                                               \
    {                                                                          \
        OF(name), list, SL_COUNT(list), check                                  \
    }

static const struct wire_rules all[] = {
    RULES(counted_closure, counted_closure, NULL),
    RULES(counted_set, counted_set, check_counted_set),
    RULES(geometry, geometry, check_geometry),
    RULES(variable, variable, check_variable),
    RULES(piece, piece, NULL),
    RULES(shard_counts, shard_counts, NULL),
    RULES(rate_step, rate_step, NULL),
    {OF(attend_up), NULL, 0, check_attend_up},
    {OF(attend_down), NULL, 0, check_attend_down},
    RULES(hello, hello, check_hello),
    RULES(heartbeat, heartbeat, NULL),
    RULES(lease_progress, lease_progress, NULL),
    RULES(step_metrics, step_metrics, NULL),
    RULES(bad_sample, bad_sample, NULL),
    RULES(score_sums, score_sums, NULL),
    RULES(shard_report, shard_report, NULL),
    RULES(shard_hello, shard_hello, NULL),
    RULES(snapshot_report, snapshot_report, check_snapshot),
    RULES(job_deleted, job_deleted, NULL),
    RULES(rates_taken, rates_taken, NULL),
    RULES(complete, complete, NULL),
    RULES(completes, completes, NULL),
    RULES(shard_evidence, evidence, NULL),
    RULES(attempt_failed, attempt_failed, NULL),
    RULES(hand_back, hand_back, NULL),
    RULES(map_wanted, job_only, NULL),
    RULES(welcome, welcome, NULL),
    RULES(place, place, NULL),
    RULES(shard_spec, shard_spec, check_shard_spec),
    RULES(source_file, source_file, NULL),
    RULES(admit, admit, NULL),
    RULES(refuse, refuse, NULL),
    RULES(hello_wanted, hello_wanted, NULL),
    RULES(snapshot_request, snapshot_request, NULL),
    RULES(rates, rates, NULL),
    RULES(keep, keep, NULL),
    RULES(close_job, close_job, NULL),
    RULES(job_open, job_open, NULL),
    RULES(job_map, job_map, check_job_map),
    RULES(map_entry, map_entry, NULL),
    RULES(leases, leases, NULL),
    RULES(lease, lease, check_lease),
    RULES(revoke, revoke, NULL),
    RULES(ring_join, ring_join, NULL),
    RULES(ring_answer, ring_answer, NULL),
    RULES(ring_ready, ring_ready, NULL),
    RULES(ring_step, ring_step, NULL),
    RULES(ring_broken, ring_broken, NULL),
    RULES(ring_copied, ring_copied, NULL),
    RULES(ring_open, ring_open, NULL),
    RULES(ring_rank, ring_rank, NULL),
    RULES(ring_begin, ring_begin, check_ring_begin),
    RULES(ring_copy, ring_copy, NULL),
    RULES(ring_go, ring_go, NULL),
    RULES(trace_start, trace_start, NULL),
    RULES(trace_more, trace_more, NULL),
    RULES(trace_piece, trace_piece, check_trace_piece),
    RULES(log_more, log_more, NULL),
    RULES(log_piece, log_piece, NULL),
    RULES(log_lines, log_lines, NULL),
    RULES(local_reply, local_reply, NULL),
    RULES(share_request, share_request, NULL),
    RULES(submit_request, submit_request, NULL),
    {OF(resume_source), NULL, 0, check_resume_source},
    RULES(weights_file, weights_file, NULL),
    RULES(submit_reply, submit_reply, NULL),
    RULES(job_request, job_request, NULL),
    RULES(list_request, list_request, NULL),
    RULES(list_reply, list_reply, NULL),
    RULES(stop_request, stop_request, NULL),
    RULES(pause_request, pause_request, NULL),
    RULES(checkpoint_request, checkpoint_request, NULL),
    RULES(trace_request, trace_request, NULL),
    RULES(trace_reply, trace_reply, check_trace_reply),
    RULES(logs_request, logs_request, NULL),
    RULES(checkpoint_reply, checkpoint_reply, NULL),
    RULES(evaluation, evaluation, NULL),
    RULES(callbacks_status, callbacks_status, NULL),
    RULES(metric, metric, NULL),
    RULES(shard_status, shard_status, NULL),
    RULES(job_status, job_status, NULL),
    RULES(checkpoint, checkpoint, NULL),
    RULES(checkpoint_shard, checkpoint_shard, NULL),
    RULES(checkpoints_reply, checkpoints_reply, NULL),
    RULES(member_status, member_status, NULL),
    RULES(cluster_reply, cluster_reply, NULL),
    RULES(drain_request, drain_request, NULL),
    RULES(quota_tenant, quota_tenant, NULL),
    RULES(quota_reply, quota_reply, NULL),
    RULES(events_request, events_request, NULL),
    RULES(event, event, NULL),
    RULES(events_reply, events_reply, NULL),
    RULES(timeline_request, timeline_request, NULL),
    RULES(span, span, NULL),
    RULES(timeline_reply, timeline_reply, NULL),
    RULES(history_request, history_request, NULL),
    RULES(history_point, history_point, NULL),
    RULES(history_reply, history_reply, NULL),
    RULES(task_asked, task_asked, NULL),
    RULES(task_schedule, task_schedule, NULL),
    RULES(task_scheduled, task_scheduled, NULL),
    RULES(task_ended_request, task_ended_request, NULL),
    RULES(task_ended, task_ended, NULL),
    RULES(task_ended_reply, task_ended_reply, NULL),
    RULES(task_cancel, task_cancel, NULL),
    RULES(task_queues_request, task_queues_request, NULL),
    RULES(task_queues_reply, task_queues_reply, NULL),
    RULES(task_delete, task_delete, NULL),
    RULES(task_result, task_result, NULL),
    RULES(task_work, task_work, NULL),
    RULES(task_given, task_given, NULL),
    RULES(task_work_reply, task_work_reply, NULL),
};

const struct wire_rules *wire_rules_of(const ProtobufCMessageDescriptor *of)
{
    for (size_t i = 0; i < SL_COUNT(all); i++)
        if (all[i].of == of)
            return &all[i];
    return NULL;
}
