// SPDX-License-Identifier: Apache-2.0
#include "client/spec/fields.h"

#include "proto/job.pb-c.h"
#include "tests/harness/t.h"

// Every field that a spec may have is found, in every message, and most say
// what they are.
static void walk(const ProtobufCMessageDescriptor *m, unsigned *found,
                 unsigned *told)
{
    for (unsigned i = 0; i < m->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &m->fields[i];
        struct buf text = BUF_INIT;

        T_OK(fields_comment(&text, m->short_name, f->name));
        ++*found;
        *told += text.len > 0;
        T_TRUE(text.len == 0 || buf_text(&text)[0] != '/');
        buf_release(&text);
        if (f->type == PROTOBUF_C_TYPE_MESSAGE)
            walk(f->descriptor, found, told);
    }
}

TEST(fields, each_one_of_a_job_is_found)
{
    unsigned found = 0, told = 0;

    walk(&sluice__v1__job_spec__descriptor, &found, &told);
    T_GT(found, 150);
    T_GT(told, found / 2);
}

TEST(fields, a_comment_is_that_of_its_field_alone)
{
    struct buf text = BUF_INIT;

    T_OK(fields_comment(&text, "TrainSpec", "max_workers"));
    T_STR(buf_text(&text), "0: all there are");
    buf_reset(&text);
    T_OK(fields_comment(&text, "TrainSpec", "batch")); // it has none
    T_EQ(text.len, 0);
    T_OK(fields_comment(&text, "GroupSpec", "by"));
    T_STR(buf_text(&text), "host (default): all on one; any");
    buf_reset(&text);
    T_EQ(fields_comment(&text, "TrainSpec", "by"), SL_ENOENT);
    T_EQ(fields_comment(&text, "NoSuchSpec", "by"), SL_ENOENT);
    buf_release(&text);
}
