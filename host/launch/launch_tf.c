// SPDX-License-Identifier: Apache-2.0
// host/launch/launch_tf.c -- from a TensorFlow cluster's task to a role.
#include "host/launch/launch_inner.h"

#include <stdio.h>
#include <string.h>

#include "host/launch/tf_config.h"

static const enum launch_role role_of[TF_TYPES] = {
    [TF_CHIEF] = LAUNCH_COORDINATOR,
    [TF_PS] = LAUNCH_PSSERVER,
    [TF_WORKER] = LAUNCH_WORKER,
    [TF_EVALUATOR] = LAUNCH_EVALUATOR,
};

static const char *const name_of[TF_TYPES] = {
    [TF_CHIEF] = "coordinator",
    [TF_PS] = "ps",
    [TF_WORKER] = "worker",
    [TF_EVALUATOR] = "evaluator",
};

static enum sl_err launch_tf_set_role(struct launch_plan *plan,
                                      const struct launch_asked *asked,
                                      const struct tf_config *tf,
                                      struct sl_error *err)
{
    plan->role = role_of[tf->type];
    plan->index = tf->index;
    plan->psservers = tf_config_count(tf, TF_PS);
    plan->workers = tf_config_count(tf, TF_WORKER);
    if (tf->type == TF_CHIEF)
        snprintf(plan->name, sizeof(plan->name), "coordinator");
    else
        snprintf(plan->name, sizeof(plan->name), "%s-%u", name_of[tf->type],
                 tf->index);
    if (asked->role != LAUNCH_NO_ROLE && asked->role != plan->role)
        return sl_fail(
            err, SL_EINVAL,
            "TF_CONFIG: task.type is %s, which is a %s, not a %s; start it "
            "with 'sluice run', which starts the role that it names",
            tf_type_name(tf->type), launch_role_name(plan->role),
            launch_role_name(asked->role));
    return SL_OK;
}

// The chief's address; in a cluster without psservers and without a chief
// that of worker 0, as in TensorFlow.
static enum sl_err launch_tf_set_coordinator(struct launch_plan *plan,
                                             const struct launch_asked *asked,
                                             const struct tf_config *tf,
                                             struct sl_error *err)
{
    enum tf_type type =
        tf_config_count(tf, TF_CHIEF) > 0 ? TF_CHIEF : TF_WORKER;

    if (asked->coordinator != NULL)
        return launch_take_coordinator(plan, asked, err);
    if (type == TF_WORKER && tf_config_count(tf, TF_PS) > 0)
        return sl_fail(
            err, SL_EINVAL,
            "TF_CONFIG: cluster lists ps but no chief, which gives no address "
            "of the coordinator; list a chief, or set --coordinator");
    if (tf_config_address(tf, type, 0) == NULL)
        return sl_fail(
            err, SL_EINVAL,
            "TF_CONFIG: cluster lists no chief and no worker 0, which gives no "
            "address of the coordinator; list a chief, or set --coordinator");
    snprintf(plan->coordinator, LAUNCH_ADDRESS, "%s",
             tf_config_address(tf, type, 0));
    if (type == TF_WORKER && tf->type == TF_WORKER && tf->index == 0)
        launch_listen(plan->serve, plan->coordinator);
    return SL_OK;
}

// Sets the address to listen on to that of the task's own entry.
static void launch_tf_set_listen(struct launch_plan *plan,
                                 const struct tf_config *tf)
{
    const char *own = tf_config_address(tf, tf->type, tf->index);

    // Worker 0's port is its coordinator's: it takes a free one.
    if (plan->serve[0] != '\0' && launch_local(own))
        return;
    if (plan->serve[0] != '\0') {
        snprintf(plan->listen, LAUNCH_ADDRESS, "%.*s:0",
                 (int)(strrchr(own, ':') - own), own);
        return;
    }
    launch_listen(plan->listen, own);
    if (plan->role != LAUNCH_COORDINATOR)
        snprintf(plan->advertise, LAUNCH_ADDRESS, "%s", own);
}

static void take_notes(struct launch_plan *plan, const struct tf_config *tf)
{
    launch_from(plan, "TF_CONFIG: task %s %u, %u ps, %u workers",
                tf_type_name(tf->type), tf->index, plan->psservers,
                plan->workers);
    if (tf->unknown[0] != '\0')
        launch_note(plan, "TF_CONFIG: nobody knows %s", tf->unknown);
    if (plan->role == LAUNCH_EVALUATOR)
        return;
    if (plan->workers == 0)
        launch_note(plan, "TF_CONFIG: cluster lists no worker; one must join");
    if (plan->psservers == 0)
        launch_note(plan, "TF_CONFIG: cluster lists no ps; without one only "
                          "jobs with train.mode=allreduce run");
}

enum sl_err launch_tf_config(struct launch_plan *plan,
                             const struct launch_asked *asked,
                             struct sl_error *err)
{
    const char *text = launch_env(asked, "TF_CONFIG");
    struct tf_config tf;
    enum sl_err rc;

    if (text == NULL)
        return sl_fail(err, SL_ENOENT, "TF_CONFIG is not set");
    rc = tf_config_read(&tf, text, strlen(text), err);
    if (rc != SL_OK)
        return rc;
    rc = launch_tf_set_role(plan, asked, &tf, err);
    if (rc == SL_OK && plan->role != LAUNCH_EVALUATOR) {
        rc = launch_tf_set_coordinator(plan, asked, &tf, err);
        if (rc == SL_OK)
            launch_tf_set_listen(plan, &tf);
    }
    if (rc == SL_OK)
        take_notes(plan, &tf);
    tf_config_release(&tf);
    return rc;
}
