// SPDX-License-Identifier: Apache-2.0
// host/launch/tf_config.c -- from the text to lists of addresses and one
// task.
#include "host/launch/tf_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/mem.h"
#include "common/base/suggest.h"
#include "host/launch/launch_inner.h"

// What each type may be called; the first is the usual one.
static const struct {
    const char *word;
    enum tf_type type;
} words[] = {
    {"chief", TF_CHIEF},   {"ps", TF_PS},
    {"worker", TF_WORKER}, {"evaluator", TF_EVALUATOR},
    {"master", TF_CHIEF},  {"coordinator", TF_CHIEF},
};

const char *tf_type_name(enum tf_type type)
{
    return words[type].word;
}

static enum sl_err tf_type_parse(enum tf_type *out, const char *where,
                                 const char *word, struct sl_error *err)
{
    const char *names[SL_COUNT(words)], *near;

    for (size_t i = 0; i < SL_COUNT(words); i++) {
        names[i] = words[i].word;
        if (strcmp(words[i].word, word) == 0) {
            *out = words[i].type;
            return SL_OK;
        }
    }
    near = sl_suggest(word, names, SL_COUNT(names));
    return sl_fail(err, SL_EINVAL,
                   "TF_CONFIG: %s: there is no type '%.40s'; %s%s%s", where,
                   word, near != NULL ? "did you mean '" : "",
                   near != NULL ? near
                                : "known are chief (or master, "
                                  "coordinator), ps, worker and "
                                  "evaluator",
                   near != NULL ? "'?" : "");
}

static const char *kind(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "a number";
    case JSON_REAL:
        return "a fraction";
    case JSON_NULL:
        return "null";
    default:
        return "true or false";
    }
}

static enum sl_err not_a(const char *where, const char *want,
                         const json_t *value, struct sl_error *err)
{
    return sl_fail(err, SL_EINVAL, "TF_CONFIG: %s must be %s and is %s", where,
                   want, kind(value));
}

// ---- cluster

// Reads a decimal number of at most 9 digits, without sign or leading zero.
static bool tf_config_read_number(unsigned *out, const char *text)
{
    size_t n = strspn(text, "0123456789");

    if (n == 0 || n > 9 || text[n] != '\0' || (text[0] == '0' && n > 1))
        return false;
    *out = (unsigned)strtoul(text, NULL, 10);
    return true;
}

// *count is the highest index of the map and 1.
static enum sl_err read_map(unsigned *count, const char *where,
                            const json_t *map, struct sl_error *err)
{
    const char *key;
    json_t *value;
    unsigned index;

    *count = 0;
    json_object_foreach((json_t *)map, key, value)
    {
        if (!tf_config_read_number(&index, key))
            return sl_fail(err, SL_EINVAL,
                           "TF_CONFIG: %s: '%.40s' is not the number of a "
                           "task, as in {\"1\": \"host:port\"}",
                           where, key);
        if (index >= TF_NAMES_MAX)
            return sl_fail(err, SL_ERANGE,
                           "TF_CONFIG: %s has a task %u, and at most %d are "
                           "read",
                           where, index, TF_NAMES_MAX);
        if (index >= *count)
            *count = index + 1;
    }
    return SL_OK;
}

static enum sl_err tf_config_read_list(struct tf_config *tf, const char *key,
                                       const json_t *list, struct sl_error *err)
{
    enum tf_type type = TF_WORKER;
    unsigned count = (unsigned)json_array_size(list);
    char where[64];
    enum sl_err rc = tf_type_parse(&type, "cluster", key, err);

    if (rc != SL_OK)
        return rc;
    snprintf(where, sizeof(where), "cluster.%s", key);
    if (json_is_object(list))
        rc = read_map(&count, where, list, err);
    else if (!json_is_array(list) && !json_is_null(list))
        return not_a(where, "a list of addresses, as [\"host:port\"],", list,
                     err);
    if (rc != SL_OK || count == 0)
        return rc;
    if (tf->lists[type] != NULL)
        return sl_fail(err, SL_EINVAL,
                       "TF_CONFIG: %s: chief, master and coordinator are one "
                       "type; list it once",
                       where);
    if (type == TF_CHIEF && count > 1)
        return sl_fail(err, SL_EINVAL,
                       "TF_CONFIG: %s has %u addresses, and a cluster has one "
                       "chief",
                       where, count);
    tf->lists[type] = list;
    tf->counts[type] = count;
    return SL_OK;
}

static const json_t *tf_config_entry(const struct tf_config *tf,
                                     enum tf_type type, unsigned i)
{
    char key[16];

    if (!json_is_object(tf->lists[type]))
        return json_array_get(tf->lists[type], i);
    snprintf(key, sizeof(key), "%u", i);
    return json_object_get(tf->lists[type], key);
}

static enum sl_err check_list(const struct tf_config *tf, enum tf_type type,
                              struct sl_error *err)
{
    char where[64];
    enum sl_err rc = SL_OK;

    for (unsigned i = 0; rc == SL_OK && i < tf_config_count(tf, type); i++) {
        const json_t *one = tf_config_entry(tf, type, i);

        if (one == NULL)
            continue; // a task that the map does not know
        snprintf(where, sizeof(where), "cluster.%s[%u]", tf_type_name(type), i);
        if (!json_is_string(one))
            return not_a(where, "a string, as \"host:port\",", one, err);
        rc = launch_check(where, json_string_value(one), err);
        if (rc != SL_OK)
            sl_prefix(err, rc, "TF_CONFIG");
    }
    return rc;
}

struct tf_config_place {
    const char *address;
    enum tf_type type;
    unsigned index;
};

static int by_address(const void *a, const void *b)
{
    const struct tf_config_place *x = a, *y = b;
    int order = strcasecmp(x->address, y->address);

    if (order != 0)
        return order;
    return x->type != y->type ? (int)x->type - (int)y->type
                              : (x->index > y->index) - (x->index < y->index);
}

static enum sl_err tf_config_check_unique(const struct tf_config *tf,
                                          size_t names, struct sl_error *err)
{
    struct tf_config_place *all = sl_malloc_array(names + 1, sizeof(*all));
    enum sl_err rc = SL_OK;
    size_t n = 0;

    if (all == NULL)
        return sl_fail(err, SL_ENOMEM, "TF_CONFIG: out of memory");
    for (enum tf_type type = TF_CHIEF; type < TF_TYPES; type++)
        for (unsigned i = 0; i < tf_config_count(tf, type); i++)
            if (tf_config_address(tf, type, i) != NULL)
                all[n++] = (struct tf_config_place){
                    tf_config_address(tf, type, i), type, i};
    qsort(all, n, sizeof(*all), by_address);
    for (size_t i = 1; rc == SL_OK && i < n; i++) {
        const struct tf_config_place *a = &all[i - 1], *b = &all[i];

        if (strcasecmp(a->address, b->address) == 0)
            rc = sl_fail(err, SL_EINVAL,
                         "TF_CONFIG: cluster.%s[%u] and cluster.%s[%u] are "
                         "both '%.100s'; each process needs an address of its "
                         "own",
                         tf_type_name(a->type), a->index, tf_type_name(b->type),
                         b->index, a->address);
    }
    sl_free(all);
    return rc;
}

static enum sl_err read_cluster(struct tf_config *tf, const json_t *cluster,
                                struct sl_error *err)
{
    const char *key;
    json_t *list;
    size_t names = 0;
    enum sl_err rc = SL_OK;

    if (!json_is_object(cluster))
        return not_a("cluster",
                     "an object of lists, as {\"worker\": "
                     "[\"host:port\"]},",
                     cluster, err);
    json_object_foreach((json_t *)cluster, key, list)
    {
        rc = tf_config_read_list(tf, key, list, err);
        if (rc != SL_OK)
            return rc;
        names += json_array_size(list) + json_object_size(list);
    }
    if (names > TF_NAMES_MAX)
        return sl_fail(err, SL_ERANGE,
                       "TF_CONFIG: cluster has %zu addresses, and at most %d "
                       "are read",
                       names, TF_NAMES_MAX);
    for (enum tf_type type = TF_CHIEF; rc == SL_OK && type < TF_TYPES; type++)
        rc = check_list(tf, type, err);
    return rc == SL_OK ? tf_config_check_unique(tf, names, err) : rc;
}

// ---- task

// TensorFlow takes "1" for 1, so that is taken here.
static enum sl_err read_index(struct tf_config *tf, const json_t *index,
                              struct sl_error *err)
{
    const char *text = json_string_value(index);
    json_int_t n = json_integer_value(index);
    char *end = NULL;

    if (index == NULL)
        return sl_fail(err, SL_EINVAL,
                       "TF_CONFIG: task.index is missing: which of the %ss "
                       "this is, counted from 0",
                       tf_type_name(tf->type));
    if (text != NULL && *text >= '0' && *text <= '9' && strlen(text) < 10)
        n = strtol(text, &end, 10);
    if (!json_is_integer(index) && (end == NULL || *end != '\0'))
        return sl_fail(
            err, SL_EINVAL,
            "TF_CONFIG: task.index must be a whole number, counted from "
            "0, and is %s%.20s",
            text != NULL ? "" : kind(index), text != NULL ? text : "");
    if (n < 0)
        return sl_fail(err, SL_EINVAL,
                       "TF_CONFIG: task.index is %lld; it counts from 0",
                       (long long)n);
    if (tf->lists[tf->type] == NULL && n < TF_NAMES_MAX) {
        tf->index = (unsigned)n; // of an evaluator
        return SL_OK;
    }
    if (n >= (json_int_t)tf_config_count(tf, tf->type))
        return sl_fail(err, SL_EINVAL,
                       "TF_CONFIG: task.index is %lld, but cluster.%s has %u "
                       "addresses: the last one is %u",
                       (long long)n, tf_type_name(tf->type),
                       tf_config_count(tf, tf->type),
                       tf_config_count(tf, tf->type) - 1);
    tf->index = (unsigned)n;
    if (tf_config_address(tf, tf->type, tf->index) == NULL)
        return sl_fail(err, SL_EINVAL,
                       "TF_CONFIG: task.index is %lld, but cluster.%s has no "
                       "address for it",
                       (long long)n, tf_type_name(tf->type));
    return SL_OK;
}

static enum sl_err read_task(struct tf_config *tf, const json_t *task,
                             bool clustered, struct sl_error *err)
{
    const json_t *type;
    enum sl_err rc;

    if (task == NULL)
        return sl_fail(err, SL_EINVAL,
                       "TF_CONFIG: 'task' is missing: which process this is, "
                       "as {\"type\": \"worker\", \"index\": 0}");
    if (!json_is_object(task))
        return not_a("task", "an object with type and index", task, err);
    type = json_object_get(task, "type");
    if (type == NULL)
        return sl_fail(err, SL_EINVAL,
                       "TF_CONFIG: task.type is missing: chief, ps, worker or "
                       "evaluator");
    if (!json_is_string(type))
        return not_a("task.type", "a string", type, err);
    rc = tf_type_parse(&tf->type, "task.type", json_string_value(type), err);
    if (rc != SL_OK)
        return rc;
    if (!clustered && tf->type != TF_EVALUATOR)
        return sl_fail(err, SL_EINVAL,
                       "TF_CONFIG: 'cluster' is missing: the addresses of each "
                       "type, as {\"worker\": [\"host:port\"]}");
    if (tf->lists[tf->type] == NULL && tf->type != TF_EVALUATOR)
        return sl_fail(err, SL_EINVAL,
                       "TF_CONFIG: task.type is %s, but cluster lists no %s",
                       json_string_value(type), tf_type_name(tf->type));
    return read_index(tf, json_object_get(task, "index"), err);
}

// ---- the whole

static void note_key(struct tf_config *tf, const char *before, const char *key)
{
    size_t n = strlen(tf->unknown);

    snprintf(tf->unknown + n, sizeof(tf->unknown) - n, "%s%s%.60s",
             n > 0 ? ", " : "", before, key);
}

static enum sl_err read_others(struct tf_config *tf, const json_t *cluster,
                               const json_t *task, struct sl_error *err)
{
    const char *key;
    json_t *value;

    json_object_foreach(tf->root, key, value)
    {
        if (value == cluster || strcmp(key, "task") == 0)
            continue;
        if (strcmp(key, "rpc_layer") != 0 && strcmp(key, "environment") != 0)
            note_key(tf, "", key);
        else if (!json_is_string(value))
            return not_a(key, "a string", value, err);
    }
    json_object_foreach((json_t *)task, key, value)
    {
        if (strcmp(key, "type") != 0 && strcmp(key, "index") != 0)
            note_key(tf, "task.", key);
    }
    return SL_OK;
}

enum sl_err tf_config_read(struct tf_config *out, const char *text, size_t len,
                           struct sl_error *err)
{
    static const struct sl_json_limits limits = {
        .bytes = TF_BYTES_MAX, .depth = 8, .values = 4 * TF_NAMES_MAX};
    struct tf_config tf = {.root = NULL};
    const json_t *cluster, *task;
    enum sl_err rc;

    if (len == 0)
        return sl_fail(err, SL_EINVAL,
                       "TF_CONFIG is empty; put {\"cluster\": ..., \"task\": "
                       "...} in, or unset it");
    rc = sl_json_parse(&tf.root, "TF_CONFIG", text, len, &limits, err);
    if (rc != SL_OK)
        return rc;
    cluster = json_object_get(tf.root, "cluster");
    if (cluster == NULL || json_is_null(cluster))
        cluster = json_object_get(tf.root, "sparseCluster");
    task = json_object_get(tf.root, "task");
    if (!json_is_object(tf.root))
        rc =
            not_a("all of it", "an object with cluster and task", tf.root, err);
    if (rc == SL_OK && cluster != NULL)
        rc = read_cluster(&tf, cluster, err);
    if (rc == SL_OK)
        rc = read_task(&tf, task, cluster != NULL, err);
    if (rc == SL_OK)
        rc = read_others(&tf, cluster, task, err);
    if (rc == SL_OK)
        *out = tf;
    else
        tf_config_release(&tf);
    return rc;
}

void tf_config_release(struct tf_config *tf)
{
    json_decref(tf->root);
    *tf = (struct tf_config){.root = NULL};
}

unsigned tf_config_count(const struct tf_config *tf, enum tf_type type)
{
    return tf->counts[type];
}

const char *tf_config_address(const struct tf_config *tf, enum tf_type type,
                              unsigned i)
{
    return json_string_value(tf_config_entry(tf, type, i));
}
