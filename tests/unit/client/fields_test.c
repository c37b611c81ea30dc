// SPDX-License-Identifier: Apache-2.0
#include "client/spec/fields.h"

#include "proto/job.pb-c.h"
#include "tests/harness/t.h"

// Every field that a spec may have says what it is.
static void walk(const ProtobufCMessageDescriptor *m, unsigned *found)
{
    for (unsigned i = 0; i < m->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &m->fields[i];
        struct buf text = BUF_INIT;

        T_OK(fields_comment(&text, m->short_name, f->name));
        ++*found;
        T_STR(text.len > 0 ? "" : f->name, ""); // else it has no comment
        T_TRUE(buf_text(&text)[0] != '/');
        buf_release(&text);
        if (f->type == PROTOBUF_C_TYPE_MESSAGE)
            walk(f->descriptor, found);
    }
}

TEST(fields, each_one_of_a_job_is_told)
{
    unsigned found = 0;

    walk(&sluice__v1__job_spec__descriptor, &found);
    T_GT(found, 300);
}

TEST(fields, a_comment_is_that_of_its_field_alone)
{
    struct buf text = BUF_INIT;

    T_OK(fields_comment(&text, "TrainSpec", "max_workers"));
    T_STR(buf_text(&text), "0: all there are");
    buf_reset(&text);
    T_OK(fields_comment(&text, "SourceSpec", "samples"));
    T_STR(buf_text(&text), "synthetic, external: how many");
    buf_reset(&text);
    T_OK(fields_comment(&text, "GroupSpec", "by"));
    T_STR(buf_text(&text), "host (default): all on one; any");
    buf_reset(&text);
    T_EQ(fields_comment(&text, "TrainSpec", "by"), SL_ENOENT);
    T_EQ(fields_comment(&text, "NoSuchSpec", "by"), SL_ENOENT);
    buf_release(&text);
}
