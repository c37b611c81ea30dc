// SPDX-License-Identifier: Apache-2.0
// host/launch/tf_config.h -- TF_CONFIG as TensorFlow's cluster resolver reads
// it, and strictly.
//
//     {"cluster": {"chief": ["h6:2222"], "ps": ["h4:2222", "h5:2222"],
//                  "worker": ["h1:2222", "h2:2222"]},
//      "task": {"type": "worker", "index": 1}}
//
// `cluster` may be absent for an evaluator, or be called `sparseCluster`, as by
// operators that let a cluster grow. A type may have a map of its tasks instead
// of a list, {"1": "h2:2222"}: tasks that the map lacks are unknown. An empty
// list, an empty map and null count as no list. `master` and `coordinator` are
// other words for the chief, of which there is one at most. An index may be a
// text, "1". `rpc_layer` and `environment`, which are texts, are accepted and
// ignored, other keys noted. Each address is checked, and no two are the same.
//
// Threads  any.
// Memory   tf_config_release frees; strings live until then.
// Errors   SL_EINVAL, SL_ERANGE: the text names the key by its path, the fault
//          and the right form. SL_ENOMEM. *out is unchanged; `err` may be NULL.
#ifndef HOST_LAUNCH_TF_CONFIG_H
#define HOST_LAUNCH_TF_CONFIG_H

#include "common/base/json.h"

#define TF_NAMES_MAX 65536
#define TF_BYTES_MAX ((size_t)1 << 20)

enum tf_type { TF_CHIEF, TF_PS, TF_WORKER, TF_EVALUATOR, TF_TYPES };

struct tf_config {
    json_t *root;                  // owned
    const json_t *lists[TF_TYPES]; // addresses, as a list or a map; or NULL
    unsigned counts[TF_TYPES];     // number of tasks: the highest index + 1
    enum tf_type type;             // type of this task
    unsigned index;                // number of this task in its type
    char unknown[200];             // names of unknown keys, or ""
};

// Reads `len` bytes of TF_CONFIG into *out, for tf_config_release; what *out
// held is not freed.
enum sl_err tf_config_read(struct tf_config *out, const char *text, size_t len,
                           struct sl_error *err);
// Frees the strings and leaves *tf all zeroes, which is allowed.
void tf_config_release(struct tf_config *tf);

// Returns the key of a type in `cluster`: "chief", "ps", "worker", "evaluator";
// static text.
const char *tf_type_name(enum tf_type type);

// Returns the number of tasks of a type, those that a map lacks included: the
// highest index + 1; 0: the cluster has none.
unsigned tf_config_count(const struct tf_config *tf, enum tf_type type);

// Returns the address of task `i` of a type; NULL: there is no such task, or a
// map lacks it.
const char *tf_config_address(const struct tf_config *tf, enum tf_type type,
                              unsigned i);

#endif
