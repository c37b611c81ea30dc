// SPDX-License-Identifier: Apache-2.0
// proto/wire_rules.c -- the rules of which field may hold what.
//
// Numbers are the fields' numbers; a test checks that each names a field of a
// fitting type, and that no number which a daemon reads is without a rule.
// Those of the data plane, which wire_ps_read.c checks by hand, stand here as
// well. KNOWN names the file and the function that bound a number;
// house.citations looks for both.
#include "proto/wire_check.h"

#include "common/plan/part.h"
#include "common/plan/rate.h"
#include "common/plan/rates.h"
#include "proto/model.h"
#include "proto/spec.h"

#define RANGE(number, min, max)                                                \
    {                                                                          \
        number, RULE_RANGE, min, max, NULL                                     \
    }
#define COUNT_FROM(number, min, max)                                           \
    {                                                                          \
        number, RULE_COUNT, min, max, NULL                                     \
    }
#define BYTES(number, min, max)                                                \
    {                                                                          \
        number, RULE_BYTES, min, max, NULL                                     \
    }
#define TEXT(number, max)                                                      \
    {                                                                          \
        number, RULE_TEXT, 0, max, NULL                                        \
    }
#define FILE_NAME(number, min)                                                 \
    {                                                                          \
        number, RULE_FILE, min, 255, NULL                                      \
    }
#define ADDRESS(number)                                                        \
    {                                                                          \
        number, RULE_ADDRESS, 0, WIRE_NAME_BYTES, NULL                         \
    }
#define NAME_FROM(number, min)                                                 \
    {                                                                          \
        number, RULE_NAME, min, WIRE_NAME_BYTES, NULL                          \
    }
#define PLAIN(number, kind)                                                    \
    {                                                                          \
        number, kind, 0, 0, NULL                                               \
    }
#define KNOWN(number, function)                                                \
    {                                                                          \
        number, RULE_KNOWN, 0, UINT64_MAX, function                            \
    }
#define BOUND(number, min, max, function)                                      \
    {                                                                          \
        number, RULE_RANGE, min, max, function                                 \
    }

#define JOB(number) RANGE(number, 1, UINT64_MAX)
#define SHARD(number) RANGE(number, 0, WIRE_SHARDS_MAX - 1)
#define BORN(number) RANGE(number, 1, UINT64_MAX) // an incarnation
#define CLOSURE(number) RANGE(number, 0, UINT64_C(1) << 62)
#define COUNT(number, max) COUNT_FROM(number, 0, max)
#define NAME(number) NAME_FROM(number, 1)
#define MAYBE_NAME(number) NAME_FROM(number, 0)
#define PATHNAME(number) FILE_NAME(number, 0)
#define FILENAME(number) FILE_NAME(number, 1)
#define FILL(number) PLAIN(number, RULE_FILL)
#define REQUIRED(number) PLAIN(number, RULE_REQUIRED)
#define ANY_FLOAT(number) PLAIN(number, RULE_ANY_FLOAT)
#define OPAQUE(number)                                                         \
    {                                                                          \
        number, RULE_OPAQUE, 0, UINT64_MAX, NULL                               \
    }

// ---- common.proto

static const struct wire_rule counted_closure[] = {
    CLOSURE(1), BYTES(2, 1, WIRE_COUNTED_BYTES)};
static const struct wire_rule counted_set[] = {CLOSURE(1),
                                               COUNT(2, WIRE_SPARSE_MAX)};
static const struct wire_rule geometry[] = {
    RANGE(1, 1, UINT64_C(1) << 40), RANGE(2, 1, UINT32_MAX),
    RANGE(3, 1, UINT32_MAX), RANGE(4, 1, WIRE_CLOSURE_STEPS_MAX)};
static const struct wire_rule variable[] = {
    NAME(1), COUNT(2, WIRE_RANK_MAX),
    BOUND(2, 0, UINT64_C(1) << 40, "layout.c:layout_rows"),
    COUNT(8, WIRE_RANK_MAX), KNOWN(8, "wire_coord.c:check_keras_order")};
static const struct wire_rule piece[] = {
    RANGE(1, 0, WIRE_VARIABLES_MAX - 1), RANGE(2, 0, UINT64_C(1) << 40),
    RANGE(3, 1, UINT64_C(1) << 40), SHARD(4), RANGE(5, 1, UINT64_C(1) << 40)};
static const struct wire_rule shard_counts[] = {
    KNOWN(1, "job.c:job_counts_take"),
    KNOWN(2, "job.c:job_counts_take"),
    KNOWN(3, "job.c:job_counts_take"),
    KNOWN(4, "job.c:job_counts_take"),
    KNOWN(5, "job.c:job_counts_take"),
    KNOWN(6, "job.c:job_counts_take"),
    KNOWN(7, "job.c:job_counts_take"),
    COUNT(8, WIRE_STALENESS_BUCKETS),
    OPAQUE(8),
    COUNT(9, 65536),
    KNOWN(10, "job.c:job_counts_take"),
    KNOWN(11, "job.c:job_counts_take"),
    COUNT(12, WIRE_PIECES_MAX),
    OPAQUE(12)};

static const struct wire_rule rate_step[] = {CLOSURE(1)};
static const struct wire_rule job_token[] = {OPAQUE(1), OPAQUE(2)};
static const struct wire_rule attempt[] = {OPAQUE(1), OPAQUE(2)};
static const struct wire_rule tag[] = {OPAQUE(1), OPAQUE(2)};
static const struct wire_rule trace_span[] = {
    KNOWN(1, "wire_coord.c:check_spans"),
    OPAQUE(2),
    KNOWN(3, "wire_coord.c:check_spans"),
    KNOWN(4, "wire_coord.c:check_spans"),
    OPAQUE(5),
    OPAQUE(6),
    OPAQUE(7)};
static const struct wire_rule epoch_count[] = {RANGE(1, 0, WIRE_EPOCHS_MAX),
                                               OPAQUE(2), OPAQUE(3), OPAQUE(4)};

// ---- coord.proto, upwards

static const struct wire_rule hello[] = {
    RANGE(1, SLUICE__V1__ROLE__ROLE_WORKER, SLUICE__V1__ROLE__ROLE_PSSERVER),
    NAME(2),
    OPAQUE(3),
    ADDRESS(4),
    OPAQUE(5),
    MAYBE_NAME(6),
    MAYBE_NAME(7),
    MAYBE_NAME(8),
    RANGE(9, WIRE_PROTOCOL, WIRE_PROTOCOL),
    OPAQUE(11),
    KNOWN(12, "cluster.c:cluster_judge"),
    OPAQUE(15),
    OPAQUE(17),
    OPAQUE(23)};
static const struct wire_rule heartbeat[] = {OPAQUE(1),
                                             COUNT(2, 64),
                                             COUNT(3, WIRE_SHARDS_MAX),
                                             OPAQUE(5),
                                             MAYBE_NAME(7),
                                             KNOWN(50, "offset.c:offset_came"),
                                             OPAQUE(51),
                                             KNOWN(52, "offset.c:offset_heard"),
                                             OPAQUE(80),
                                             OPAQUE(81),
                                             OPAQUE(82)};
static const struct wire_rule lease_progress[] = {JOB(1), CLOSURE(2), FILL(3),
                                                  FILL(4), OPAQUE(5)};
static const struct wire_rule step_metrics[] = {KNOWN(1, "reports.c:plausible"),
                                                KNOWN(2, "reports.c:plausible"),
                                                ANY_FLOAT(3),
                                                KNOWN(4, "reports.c:plausible"),
                                                KNOWN(5, "reports.c:plausible"),
                                                KNOWN(6, "reports.c:plausible"),
                                                OPAQUE(11),
                                                OPAQUE(12),
                                                COUNT(20, WIRE_BAD_MAX)};
static const struct wire_rule score_sums[] = {KNOWN(1, "scores.c:scores_fit"),
                                              KNOWN(2, "scores.c:scores_fit"),
                                              KNOWN(3, "scores.c:scores_fit"),
                                              KNOWN(4, "scores.c:scores_fit"),
                                              ANY_FLOAT(5),
                                              ANY_FLOAT(6),
                                              COUNT(7, WIRE_SCORE_BUCKETS),
                                              KNOWN(7, "scores.c:buckets_fit"),
                                              COUNT(8, WIRE_SCORE_BUCKETS),
                                              KNOWN(8, "scores.c:buckets_fit")};
static const struct wire_rule bad_sample[] = {RANGE(2, 0, UINT64_C(1) << 40),
                                              TEXT(3, WIRE_NAME_BYTES)};
static const struct wire_rule shard_report[] = {JOB(1), SHARD(2), OPAQUE(3),
                                                FILL(4), OPAQUE(5)};
static const struct wire_rule shard_hello[] = {
    JOB(1),  OPAQUE(2), SHARD(3), KNOWN(4, "admit.c:admit_judge"),
    FILL(5), FILL(6),   FILL(7),  OPAQUE(9)};
static const struct wire_rule snapshot_report[] = {
    JOB(1),          OPAQUE(2),   SHARD(3),
    FILL(4),         PATHNAME(5), RANGE(6, 0, UINT64_C(1) << 50),
    BYTES(7, 0, 32), FILL(8),     FILL(9),
    OPAQUE(10),      OPAQUE(13)};
static const struct wire_rule complete[] = {JOB(1),
                                            CLOSURE(2),
                                            FILL(3),
                                            COUNT(5, WIRE_SHARDS_MAX),
                                            FILL(6),
                                            OPAQUE(7),
                                            OPAQUE(8),
                                            KNOWN(10, "reports.c:take_by_map"),
                                            KNOWN(11, "reports.c:ended_ms")};
static const struct wire_rule completes[] = {COUNT(1, WIRE_LEASES_MAX)};
static const struct wire_rule evidence[] = {SHARD(1), BORN(2)};
static const struct wire_rule attempt_failed[] = {JOB(1), CLOSURE(2), FILL(3),
                                                  RANGE(5, 0, 9999), OPAQUE(8)};
static const struct wire_rule hand_back[] = {JOB(1), CLOSURE(2), FILL(3),
                                             OPAQUE(6)};
static const struct wire_rule job_deleted[] = {JOB(1), OPAQUE(2)};
static const struct wire_rule map_wanted[] = {JOB(1), OPAQUE(2)};
static const struct wire_rule rates_taken[] = {JOB(1), OPAQUE(2), SHARD(3),
                                               CLOSURE(4)};

static const struct wire_rule ring_join[] = {JOB(1), OPAQUE(2), FILL(3),
                                             ADDRESS(4), MAYBE_NAME(5)};
static const struct wire_rule ring_answer[] = {JOB(1), OPAQUE(2), BORN(3),
                                               FILL(4)};
static const struct wire_rule ring_ready[] = {JOB(1),  OPAQUE(2), BORN(3),
                                              FILL(4), FILL(5),   FILL(6)};
static const struct wire_rule ring_step[] = {
    JOB(1), OPAQUE(2), BORN(3), KNOWN(4, "ring.c:ring_step"), FILL(5)};
static const struct wire_rule ring_copied[] = {JOB(1), OPAQUE(2), BORN(3),
                                               FILL(4)};
static const struct wire_rule ring_broken[] = {
    JOB(1), OPAQUE(2), BORN(3), KNOWN(4, "wire_coord.c:check_ring_broken")};
static const struct wire_rule data_facts[] = {
    RANGE(1, 0, UINT64_C(1) << 40), RANGE(2, 0, UINT64_C(1) << 40), OPAQUE(3),
    OPAQUE(4), COUNT(5, WIRE_MAX_FIELDS)};

// ---- coord.proto, downwards

static const struct wire_rule welcome[] = {
    RANGE(1, 1, UINT64_MAX), OPAQUE(2), RANGE(3, 1, 3600000),
    RANGE(4, 1, 3600000),    OPAQUE(5), BYTES(7, 0, 32)};
static const struct wire_rule place[] = {OPAQUE(1), REQUIRED(2), FILL(3)};
static const struct wire_rule shard_spec[] = {
    JOB(1),
    OPAQUE(2),
    SHARD(3),
    COUNT_FROM(4, 1, WIRE_PIECES_MAX),
    COUNT_FROM(5, 1, WIRE_VARIABLES_MAX),
    COUNT_FROM(6, 1, WIRE_VARIABLES_MAX),
    OPAQUE(6),
    REQUIRED(7),
    REQUIRED(8),
    OPAQUE(9),
    NAME(10),
    OPAQUE(11),
    COUNT(12, WIRE_SHARDS_MAX),
    RANGE(13, 0, UINT64_C(1) << 24),
    RANGE(15, 0, WIRE_CONTRIBUTIONS_MAX),
    COUNT(20, RATES_MAX)};
static const struct wire_rule rates[] = {
    OPAQUE(1), JOB(2), OPAQUE(3), SHARD(4), COUNT(5, RATES_MAX), OPAQUE(6)};
static const struct wire_rule source_file[] = {
    FILENAME(2), BYTES(3, 32, 32), KNOWN(5, "snap_weights.c:check_size")};
static const struct wire_rule admit[] = {OPAQUE(1), JOB(2), SHARD(3), BORN(4),
                                         OPAQUE(5)};
static const struct wire_rule refuse[] = {OPAQUE(1), JOB(2), SHARD(3)};
static const struct wire_rule hello_wanted[] = {OPAQUE(1), JOB(2), SHARD(3)};
static const struct wire_rule snapshot_request[] = {JOB(1), SHARD(2), OPAQUE(3),
                                                    OPAQUE(4), OPAQUE(5)};
static const struct wire_rule keep[] = {OPAQUE(1), JOB(2), SHARD(3),
                                        COUNT(4, 100000)};
static const struct wire_rule close_job[] = {OPAQUE(1), JOB(2), OPAQUE(4)};
static const struct wire_rule job_open[] = {JOB(1),
                                            OPAQUE(2),
                                            NAME(3),
                                            REQUIRED(4),
                                            COUNT(6, WIRE_VARIABLES_MAX),
                                            COUNT(7, WIRE_PIECES_MAX)};
static const struct wire_rule job_map[] = {
    JOB(1), OPAQUE(2), COUNT(3, WIRE_SHARDS_MAX), OPAQUE(4)};
static const struct wire_rule map_entry[] = {SHARD(1), ADDRESS(2), OPAQUE(3)};
static const struct wire_rule lease[] = {OPAQUE(1),
                                         JOB(2),
                                         OPAQUE(3),
                                         CLOSURE(4),
                                         FILL(5),
                                         RANGE(7, 0, WIRE_EPOCHS_MAX),
                                         RANGE(8, 0, UINT64_C(1) << 40),
                                         RANGE(9, 0, UINT64_C(1) << 40),
                                         RANGE(10, 0, WIRE_CLOSURE_STEPS_MAX),
                                         OPAQUE(11),
                                         OPAQUE(12),
                                         COUNT(13, WIRE_SHARDS_MAX)};
static const struct wire_rule leases[] = {COUNT(1, WIRE_LEASES_MAX)};
static const struct wire_rule revoke[] = {JOB(1), CLOSURE(2), FILL(3)};
static const struct wire_rule ring_open[] = {OPAQUE(1), JOB(2), OPAQUE(3),
                                             BORN(4), OPAQUE(5)};
static const struct wire_rule ring_rank[] = {OPAQUE(1), NAME(2), ADDRESS(3),
                                             MAYBE_NAME(4)};
static const struct wire_rule ring_begin[] = {
    OPAQUE(1),
    JOB(2),
    OPAQUE(3),
    BORN(4),
    OPAQUE(5),
    COUNT_FROM(6, 1, WIRE_RANKS_MAX),
    KNOWN(7, "wire_coord.c:check_ring_begin"),
    FILL(8),
    COUNT(9, WIRE_RANKS_MAX),
    KNOWN(9, "wire_coord.c:check_ring_begin"),
    COUNT(10, WIRE_SHARDS_MAX),
    RANGE(11, 1, WIRE_CONTRIBUTIONS_MAX)};
static const struct wire_rule ring_copy[] = {
    OPAQUE(1), JOB(2),    OPAQUE(3),
    BORN(4),   OPAQUE(5), COUNT_FROM(6, 1, WIRE_RANKS_MAX)};
static const struct wire_rule ring_go[] = {OPAQUE(1), JOB(2), OPAQUE(3),
                                           BORN(4)};
static const struct wire_rule heartbeat_ack[] = {OPAQUE(1)};
static const struct wire_rule staleness[] = {RANGE(1, 0, SPEC_DELAY_MAX)};

static const struct wire_rule trace_start[] = {JOB(1), JOB(2),
                                               RANGE(3, 1, WIRE_TRACE_MS_MAX)};
static const struct wire_rule trace_more[] = {JOB(1)};
static const struct wire_rule trace_piece[] = {
    JOB(1), COUNT(2, WIRE_TRACE_NAMES_MAX), COUNT(3, WIRE_TRACE_SPANS_MAX),
    OPAQUE(5)};

static const struct wire_rule log_more[] = {JOB(1), OPAQUE(2), OPAQUE(3)};
static const struct wire_rule log_piece[] = {JOB(1), FILL(2)};
static const struct wire_rule log_lines[] = {BYTES(1, 0, WIRE_LOG_BYTES),
                                             OPAQUE(2)};

// ---- ps.proto

static const struct wire_rule local_reply[] = {TEXT(1, 64), TEXT(2, 4096),
                                               OPAQUE(3), MAYBE_NAME(4)};
static const struct wire_rule ask_request[] = {
    JOB(1), OPAQUE(2), SHARD(3), OPAQUE(4), KNOWN(5, "shard.c:shard_ask")};
static const struct wire_rule ask_reply[] = {OPAQUE(1), OPAQUE(3)};
static const struct wire_rule push_request[] = {
    JOB(1),
    OPAQUE(2),
    SHARD(3),
    OPAQUE(4),
    KNOWN(5, "once.c:once_key"),
    RANGE(6, 0, WIRE_CLOSURE_STEPS_MAX - 1),
    OPAQUE(8),
    OPAQUE(9),
    OPAQUE(10),
    OPAQUE(11)};
static const struct wire_rule push_reply[] = {OPAQUE(1), OPAQUE(4), OPAQUE(5),
                                              OPAQUE(8), OPAQUE(9)};
static const struct wire_rule pull_request[] = {
    JOB(1), OPAQUE(2), SHARD(3), OPAQUE(4), OPAQUE(8), OPAQUE(9)};
static const struct wire_rule pull_reply[] = {OPAQUE(1), OPAQUE(2), OPAQUE(5),
                                              OPAQUE(6)};
static const struct wire_rule refused[] = {OPAQUE(3)};
static const struct wire_rule shm_ref[] = {
    OPAQUE(1), KNOWN(2, "wire_ps_read.c:check_shm"),
    KNOWN(3, "wire_ps_read.c:check_shm")};

// ---- ranks.proto

static const struct wire_rule share_request[] = {JOB(1), OPAQUE(2), OPAQUE(3),
                                                 RANGE(4, 0, WIRE_LANES - 1)};
static const struct wire_rule piece_request[] = {
    JOB(1),
    OPAQUE(2),
    KNOWN(3, "net.c:net_piece_fits"),
    KNOWN(4, "net.c:net_piece_fits"),
    KNOWN(5, "net.c:net_piece_fits"),
    KNOWN(6, "net.c:net_piece_fits"),
    RANGE(8, 0, WIRE_LANES - 1)};
static const struct wire_rule share_reply[] = {
    OPAQUE(1), OPAQUE(2), KNOWN(3, "host.c:host_join"), OPAQUE(4)};
static const struct wire_rule state_request[] = {OPAQUE(1),
                                                 OPAQUE(2),
                                                 KNOWN(3, "ranks.c:read_state"),
                                                 KNOWN(4, "ranks.c:read_state"),
                                                 OPAQUE(5),
                                                 KNOWN(6, "ranks.c:read_state"),
                                                 OPAQUE(8)};

// ---- jobs.proto

static const struct wire_rule submit_request[] = {REQUIRED(1), MAYBE_NAME(2)};
static const struct wire_rule weights_file[] = {
    FILENAME(2), BYTES(3, 32, 32), KNOWN(4, "snap_weights.c:check_size")};
static const struct wire_rule submit_reply[] = {MAYBE_NAME(2),
                                                TEXT(3, 1 << 20)};
static const struct wire_rule job_request[] = {NAME(1)};
static const struct wire_rule list_request[] = {
    RANGE(1, 0, 10000), KNOWN(2, "status_list.c:find_next")};
static const struct wire_rule list_reply[] = {COUNT(1, 10000)};
static const struct wire_rule stop_request[] = {NAME(1)};
static const struct wire_rule pause_request[] = {NAME(1), TEXT(3, 200),
                                                 MAYBE_NAME(4)};
static const struct wire_rule checkpoint_request[] = {NAME(1)};
static const struct wire_rule trace_request[] = {
    NAME(1), RANGE(2, 1, WIRE_TRACE_MS_MAX)};
static const struct wire_rule trace_reply[] = {
    RANGE(1, 1, UINT32_MAX), NAME(2), NAME(3), COUNT(7, WIRE_TRACE_NAMES_MAX),
    COUNT(8, WIRE_TRACE_SPANS_MAX)};
static const struct wire_rule logs_request[] = {MAYBE_NAME(1), OPAQUE(2),
                                                OPAQUE(3)};
static const struct wire_rule checkpoint_reply[] = {FILL(1)};
static const struct wire_rule evaluation[] = {ANY_FLOAT(2), ANY_FLOAT(3),
                                              COUNT(20, 64)};
static const struct wire_rule metric[] = {NAME(1), ANY_FLOAT(2)};
static const struct wire_rule callbacks_status[] = {COUNT(5, RATES_MAX),
                                                    OPAQUE(7)};
static const struct wire_rule shard_status[] = {SHARD(1), MAYBE_NAME(2),
                                                FILL(5)};
static const struct wire_rule job_status[] = {JOB(1),
                                              NAME(2),
                                              NAME(3),
                                              ANY_FLOAT(13),
                                              ANY_FLOAT(14),
                                              COUNT(29, 65536),
                                              COUNT(36, WIRE_SHARDS_MAX)};
static const struct wire_rule checkpoint[] = {
    OPAQUE(1), RANGE(4, 0, UINT64_C(1) << 50), RANGE(5, 0, WIRE_EPOCHS_MAX),
    OPAQUE(6), COUNT(8, WIRE_SHARDS_MAX)};
static const struct wire_rule checkpoint_shard[] = {
    SHARD(1),        MAYBE_NAME(2), ADDRESS(3),
    FILL(4),         PATHNAME(6),   RANGE(7, 0, UINT64_C(1) << 50),
    BYTES(8, 0, 32), OPAQUE(9)};
static const struct wire_rule checkpoints_reply[] = {
    COUNT(1, 65536),
    COUNT(2, WIRE_VARIABLES_MAX),
    COUNT(3, WIRE_PIECES_MAX),
    OPAQUE(4),
    OPAQUE(5),
    COUNT(6, WIRE_MAX_FIELDS)};
static const struct wire_rule member_status[] = {NAME(1), ADDRESS(4)};
static const struct wire_rule cluster_reply[] = {COUNT(1, 100000)};
static const struct wire_rule drain_request[] = {NAME(1), MAYBE_NAME(2),
                                                 TEXT(4, 200), MAYBE_NAME(5)};
static const struct wire_rule quota_tenant[] = {FILL(2), FILL(3), FILL(4),
                                                FILL(5), FILL(6)};
static const struct wire_rule quota_reply[] = {COUNT(1, 100000)};
static const struct wire_rule checkpoint_asked[] = {
    KNOWN(1, "calls.c:read_wish"), KNOWN(2, "calls.c:read_wish")};
static const struct wire_rule resume_source[] = {OPAQUE(2)};

// ---- events.proto

static const struct wire_rule events_request[] = {MAYBE_NAME(1), OPAQUE(2),
                                                  RANGE(3, 0, WIRE_EVENTS_MAX)};
static const struct wire_rule event[] = {MAYBE_NAME(3), MAYBE_NAME(4),
                                         TEXT(5, 1024), MAYBE_NAME(7)};
static const struct wire_rule events_reply[] = {COUNT(1, WIRE_EVENTS_MAX)};
static const struct wire_rule timeline_request[] = {
    NAME(1), KNOWN(2, "status_events.c:status_add_ended_spans"),
    RANGE(3, 0, WIRE_SPANS_MAX)};
static const struct wire_rule span[] = {FILL(3), MAYBE_NAME(4), MAYBE_NAME(5),
                                        MAYBE_NAME(8)};
static const struct wire_rule timeline_reply[] = {COUNT(1, WIRE_SPANS_MAX)};
static const struct wire_rule history_request[] = {NAME(1), OPAQUE(3)};
static const struct wire_rule history_point[] = {ANY_FLOAT(4), ANY_FLOAT(5)};
static const struct wire_rule history_reply[] = {COUNT(1, WIRE_POINTS_MAX)};

// ---- tasks.proto

static const struct wire_rule task_asked[] = {NAME(1),
                                              BYTES(2, 0, WIRE_TASK_BYTES)};
static const struct wire_rule task_schedule[] = {NAME(1),
                                                 RANGE(2, 1, UINT64_MAX),
                                                 RANGE(3, 1, UINT64_C(1) << 62),
                                                 COUNT(4, WIRE_TASKS_MAX),
                                                 RANGE(5, 0, 1000000),
                                                 OPAQUE(6),
                                                 OPAQUE(7)};
static const struct wire_rule task_scheduled[] = {COUNT(5, WIRE_TASK_LEFT_MAX)};
static const struct wire_rule task_ended_request[] = {
    NAME(1),
    RANGE(2, 1, UINT64_MAX),
    OPAQUE(3),
    OPAQUE(4),
    RANGE(5, 0, WIRE_TASKS_MAX),
    KNOWN(6, "tasks_calls.c:visit_ended"),
    COUNT(7, WIRE_TASK_NUMBERS_MAX),
    OPAQUE(7)};
static const struct wire_rule task_ended[] = {BYTES(4, 0, WIRE_TASK_BYTES)};
static const struct wire_rule task_ended_reply[] = {COUNT(1, WIRE_TASKS_MAX)};
static const struct wire_rule task_cancel[] = {
    NAME(1), RANGE(2, 1, UINT64_MAX), OPAQUE(3),
    COUNT(4, WIRE_TASK_NUMBERS_MAX), OPAQUE(4)};
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
    COUNT(4, WIRE_TASKS_MAX),
    NAME(4),
    COUNT(5, WIRE_TASKS_MAX),
    COUNT(6, WIRE_TASKS_MAX),
    OPAQUE(6),
    RANGE(7, 0, WIRE_TASKS_MAX),
    KNOWN(8, "tasks_work.c:visit_work")};
static const struct wire_rule task_given[] = {OPAQUE(1), OPAQUE(2), NAME(3),
                                              BYTES(4, 0, WIRE_TASK_BYTES)};
static const struct wire_rule task_work_reply[] = {
    COUNT(1, WIRE_TASKS_MAX), COUNT(2, WIRE_TASKS_MAX), OPAQUE(2),
    RANGE(3, 0, 3600000)};

// ---- job.proto: caps; spec_check has the narrower bounds, in words

static const struct wire_rule job_spec[] = {RANGE(14, 0, 100000)};
static const struct wire_rule model_spec[] = {
    COUNT(2, WIRE_RANK_MAX), KNOWN(2, "model_shape.c:model_shape_elements"),
    COUNT(3, MODEL_LAYERS_MAX), COUNT(4, WIRE_VARIABLES_MAX), OPAQUE(6)};
static const struct wire_rule layer_spec[] = {
    COUNT(3, MODEL_INPUTS_MAX),
    KNOWN(4, "model_layers.c:build_layer"),
    COUNT(5, 8),
    RANGE(5, 0, WIRE_WINDOW_MAX),
    COUNT(6, 8),
    RANGE(6, 0, WIRE_STRIDE_MAX),
    KNOWN(10, "model_layers.c:build_layer"),
    COUNT(11, 8),
    RANGE(11, 0, WIRE_STRIDE_MAX),
    KNOWN(18, "model_layers.c:build_layer"),
    OPAQUE(21),
    COUNT(22, 8),
    RANGE(22, 0, WIRE_STRIDE_MAX),
    COUNT(25, 8),
    KNOWN(25, "model_layers.c:build_layer"),
    COUNT(26, 8),
    KNOWN(26, "model_layers.c:build_layer"),
    COUNT(28, 8),
    RANGE(28, 0, WIRE_WINDOW_MAX),
    KNOWN(29, "model_layers.c:build_layer"),
    KNOWN(30, "model_layers.c:build_layer"),
    KNOWN(33, "model_layers.c:build_layer"),
    KNOWN(34, "model_layers.c:build_layer"),
    KNOWN(36, "model_layers.c:build_layer"),
    KNOWN(37, "model_layers.c:build_layer"),
    KNOWN(38, "model_layers.c:build_layer")};
static const struct wire_rule variable_spec[] = {
    COUNT(2, WIRE_RANK_MAX), KNOWN(2, "layout.c:layout_rows")};
static const struct wire_rule optimizer_spec[] = {COUNT(19, 64)};
static const struct wire_rule optimizer_group[] = {COUNT(1, 16384)};
static const struct wire_rule schedule_spec[] = {
    RANGE(2, 0, UINT64_C(1) << 53), COUNT(5, RATE_POINTS_MAX), OPAQUE(5),
    COUNT(6, RATE_POINTS_MAX + 1), OPAQUE(12)};
static const struct wire_rule data_spec[] = {RANGE(10, 0, SPEC_SKIP_BAD_MAX),
                                             COUNT(11, SPEC_CLASSES_BYTES / 2)};
static const struct wire_rule source_spec[] = {COUNT(11, WIRE_MAX_FIELDS),
                                               RANGE(12, 0, UINT64_C(1) << 40),
                                               OPAQUE(13),
                                               RANGE(15, 0, 100000),
                                               RANGE(16, 0, UINT64_C(1) << 40),
                                               RANGE(17, 0, 16)};
static const struct wire_rule train_spec[] = {
    RANGE(2, 0, UINT64_C(1) << 20),
    RANGE(3, 0, WIRE_EPOCHS_MAX),
    RANGE(4, 0, WIRE_CLOSURE_STEPS_MAX),
    OPAQUE(5),
    OPAQUE(8),
    RANGE(9, 0, 1000),
    OPAQUE(10),
    RANGE(11, 0, WIRE_SPARSE_MAX),
    RANGE(16, 0, UINT64_C(1) << 24),
    RANGE(17, 0, SPEC_DELAY_MAX),
    RANGE(20, 0, WIRE_CONTRIBUTIONS_MAX),
    RANGE(21, 0, WIRE_CONTRIBUTIONS_MAX),
    RANGE(24, 0, UINT64_C(1) << 30),
    RANGE(30, 0, SPEC_PRIORITY_MAX)};
static const struct wire_rule group_spec[] = {RANGE(2, 0, WIRE_GROUP_MAX)};
static const struct wire_rule workers_spec[] = {RANGE(1, 0, WIRE_RANKS_MAX),
                                                RANGE(2, 0, WIRE_RANKS_MAX)};
static const struct wire_rule placement_spec[] = {
    RANGE(2, 0, PART_MAX_SHARDS),      KNOWN(3, "part_cut.c:part_count"),
    KNOWN(4, "part_cut.c:part_count"), KNOWN(5, "part_cut.c:part_count"),
    RANGE(6, 0, UINT64_C(32) << 20),   OPAQUE(7)};
static const struct wire_rule checkpoint_spec[] = {RANGE(3, 0, 1000)};
static const struct wire_rule evaluate_spec[] = {
    OPAQUE(1),
    RANGE(2, 0, UINT64_C(1) << 20),
    RANGE(3, 0, WIRE_CLOSURE_STEPS_MAX),
    COUNT(10, 64),
    RANGE(11, 0, 100000),
    OPAQUE(20)};
static const struct wire_rule early_stopping_spec[] = {RANGE(3, 0, 1000000),
                                                       OPAQUE(7)};
static const struct wire_rule reduce_on_plateau_spec[] = {RANGE(3, 0, 1000000),
                                                          OPAQUE(6)};

#define OF(name) &sluice__v1__##name##__descriptor
#define RULES(name, list, check)                                               \
    {                                                                          \
        OF(name), list, SL_COUNT(list), check, false                           \
    }
#define SHOWN(name, list, check)                                               \
    {                                                                          \
        OF(name), list, SL_COUNT(list), check, true                            \
    }

static const struct wire_rules all[] = {
    RULES(counted_closure, counted_closure, NULL),
    RULES(counted_set, counted_set, check_counted_set),
    RULES(geometry, geometry, check_geometry),
    RULES(variable, variable, check_variable),
    RULES(piece, piece, NULL),
    RULES(shard_counts, shard_counts, NULL),
    RULES(rate_step, rate_step, NULL),
    {OF(attend_up), NULL, 0, check_attend_up, false},
    {OF(attend_down), NULL, 0, check_attend_down, false},
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
    RULES(map_wanted, map_wanted, NULL),
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
    RULES(ring_broken, ring_broken, check_ring_broken),
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
    RULES(resume_source, resume_source, check_resume_source),
    RULES(weights_file, weights_file, NULL),
    SHOWN(submit_reply, submit_reply, NULL),
    RULES(job_request, job_request, NULL),
    RULES(list_request, list_request, NULL),
    SHOWN(list_reply, list_reply, NULL),
    RULES(stop_request, stop_request, NULL),
    RULES(pause_request, pause_request, NULL),
    RULES(checkpoint_request, checkpoint_request, NULL),
    RULES(trace_request, trace_request, NULL),
    SHOWN(trace_reply, trace_reply, check_trace_reply),
    RULES(logs_request, logs_request, NULL),
    SHOWN(checkpoint_reply, checkpoint_reply, NULL),
    SHOWN(evaluation, evaluation, NULL),
    SHOWN(callbacks_status, callbacks_status, NULL),
    SHOWN(metric, metric, NULL),
    SHOWN(shard_status, shard_status, NULL),
    SHOWN(job_status, job_status, NULL),
    RULES(checkpoint, checkpoint, NULL),
    RULES(checkpoint_shard, checkpoint_shard, NULL),
    RULES(checkpoints_reply, checkpoints_reply, NULL),
    SHOWN(member_status, member_status, NULL),
    SHOWN(cluster_reply, cluster_reply, NULL),
    RULES(drain_request, drain_request, NULL),
    SHOWN(quota_tenant, quota_tenant, NULL),
    SHOWN(quota_reply, quota_reply, NULL),
    RULES(events_request, events_request, NULL),
    SHOWN(event, event, NULL),
    SHOWN(events_reply, events_reply, NULL),
    RULES(timeline_request, timeline_request, NULL),
    SHOWN(span, span, NULL),
    SHOWN(timeline_reply, timeline_reply, NULL),
    RULES(history_request, history_request, NULL),
    SHOWN(history_point, history_point, NULL),
    SHOWN(history_reply, history_reply, NULL),
    RULES(task_asked, task_asked, NULL),
    RULES(task_schedule, task_schedule, NULL),
    SHOWN(task_scheduled, task_scheduled, NULL),
    RULES(task_ended_request, task_ended_request, NULL),
    SHOWN(task_ended, task_ended, NULL),
    SHOWN(task_ended_reply, task_ended_reply, NULL),
    RULES(task_cancel, task_cancel, NULL),
    RULES(task_queues_request, task_queues_request, NULL),
    SHOWN(task_queues_reply, task_queues_reply, NULL),
    RULES(task_delete, task_delete, NULL),
    RULES(task_result, task_result, NULL),
    RULES(task_work, task_work, NULL),
    RULES(task_given, task_given, NULL),
    RULES(task_work_reply, task_work_reply, NULL),
    RULES(job_token, job_token, NULL),
    RULES(attempt, attempt, NULL),
    RULES(tag, tag, NULL),
    RULES(trace_span, trace_span, NULL),
    RULES(epoch_count, epoch_count, NULL),
    RULES(data_facts, data_facts, NULL),
    RULES(heartbeat_ack, heartbeat_ack, NULL),
    RULES(staleness, staleness, NULL),
    RULES(checkpoint_asked, checkpoint_asked, NULL),
    RULES(ask_request, ask_request, NULL),
    RULES(ask_reply, ask_reply, NULL),
    RULES(push_request, push_request, NULL),
    RULES(push_reply, push_reply, NULL),
    RULES(pull_request, pull_request, NULL),
    RULES(pull_reply, pull_reply, NULL),
    RULES(refused, refused, NULL),
    RULES(shm_ref, shm_ref, NULL),
    RULES(piece_request, piece_request, NULL),
    RULES(share_reply, share_reply, NULL),
    RULES(state_request, state_request, NULL),
    RULES(job_spec, job_spec, NULL),
    RULES(model_spec, model_spec, NULL),
    RULES(layer_spec, layer_spec, NULL),
    RULES(variable_spec, variable_spec, NULL),
    RULES(optimizer_spec, optimizer_spec, NULL),
    RULES(optimizer_group, optimizer_group, NULL),
    RULES(schedule_spec, schedule_spec, NULL),
    RULES(data_spec, data_spec, NULL),
    RULES(source_spec, source_spec, NULL),
    RULES(train_spec, train_spec, NULL),
    RULES(group_spec, group_spec, NULL),
    RULES(workers_spec, workers_spec, NULL),
    RULES(placement_spec, placement_spec, NULL),
    RULES(checkpoint_spec, checkpoint_spec, NULL),
    RULES(evaluate_spec, evaluate_spec, NULL),
    RULES(early_stopping_spec, early_stopping_spec, NULL),
    RULES(reduce_on_plateau_spec, reduce_on_plateau_spec, NULL),
    {OF(callback_status), NULL, 0, NULL, true},
    {OF(job_pause), NULL, 0, NULL, true},
    {OF(group_status), NULL, 0, NULL, true},
    {OF(group_member), NULL, 0, NULL, true},
    {OF(member_usage), NULL, 0, NULL, true},
    {OF(quota_figure), NULL, 0, NULL, true},
    {OF(drain_reply), NULL, 0, NULL, true},
    {OF(task_cancel_reply), NULL, 0, NULL, true},
    {OF(task_queue), NULL, 0, NULL, true},
    {OF(task_line), NULL, 0, NULL, true},
    {OF(task_delete_reply), NULL, 0, NULL, true},
};

const struct wire_rules *wire_rules_of(const ProtobufCMessageDescriptor *of)
{
    for (size_t i = 0; i < SL_COUNT(all); i++)
        if (all[i].of == of)
            return &all[i];
    return NULL;
}
