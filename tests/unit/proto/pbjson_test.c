// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "tests/harness/pb_text.h"
#include "tests/unit/proto/t_proto.h"

#define SPEC &sluice__v1__job_spec__descriptor

static void reads_as(const ProtobufCMessageDescriptor *of, const char *from,
                     const char *to)
{
    ProtobufCMessage *m = t_make(of, from);
    struct buf text = BUF_INIT;

    T_OK(pb_text(&text, m, false));
    for (uint8_t *c = text.data; *c != '\0'; c++)
        if (*c == '"')
            *c = '\'';
    T_STR(buf_text(&text), to);
    buf_release(&text);
    wire_free(m);
}

TEST(pbjson, proto2_says_what_is_set_proto3_everything)
{
    reads_as(SPEC, "{'name':'a','train':{'shuffle':false,'batch':0}}",
             "{'name':'a','train':{'batch':0,'shuffle':false}}");
    reads_as(&sluice__v1__tag__descriptor, "{}",
             "{'incarnation':0,'sequence':0}");
    reads_as(&sluice__v1__keep__descriptor, "{'job':1}",
             "{'term':0,'job':1,'shard':0,'tags':[]}");
}

TEST(pbjson, each_type_has_its_form)
{
    reads_as(&sluice__v1__epoch_count__descriptor, "{'digest':'0xFFaa'}",
             "{'epoch':0,'steps':0,'samples':0,'digest':'0x000000000000ffaa'}");
    reads_as(&sluice__v1__counted_closure__descriptor,
             "{'closure':9223372036854775807,'steps':'/wE='}",
             "{'closure':9223372036854775807,'steps':'/wE='}");
    reads_as(&sluice__v1__tag__descriptor,
             "{'incarnation':'18446744073709551615','sequence':2.0}",
             "{'incarnation':'18446744073709551615','sequence':2}");
    reads_as(&sluice__v1__variable__descriptor,
             "{'kind':'moving','init':'INIT_TRUNCATED_NORMAL','init_b':0.5}",
             "{'name':'','shape':[],'kind':'moving','momentum':0.0,"
             "'init':'truncated_normal','init_a':0.0,'init_b':0.5,"
             "'keras_order':[]}");
    reads_as(SPEC, "{'model':{'layers':[{'axis':-1,'rate':0.25}]}}",
             "{'model':{'layers':[{'rate':0.25,'axis':-1}]}}");
}

TEST(pbjson, one_value_is_a_list_and_camel_case_is_a_key)
{
    reads_as(SPEC, "{'apiVersion':'sluice/v1'}", "{'api_version':'sluice/v1'}");
    reads_as(SPEC, "{'model':{'layers':[{'kernelSize':3}]}}",
             "{'model':{'layers':[{'kernel_size':[3]}]}}");
    reads_as(SPEC, "{'model':{'layers':{'type':'flatten'}}}",
             "{'model':{'layers':[{'type':'flatten'}]}}");
    reads_as(SPEC, "{'optimizer':{'beta_1':0.5},'evaluate':null}",
             "{'optimizer':{'beta_1':0.5}}");
}

TEST(pbjson, a_name_alone_is_an_item_of_a_list)
{
    reads_as(SPEC, "{'data':{'train':{'ids':['a',{'name':'b','seed':7}]}}}",
             "{'data':{'train':{'ids':[{'name':'a'},{'name':'b','seed':7}]}}}");
    reads_as(SPEC, "{'data':{'train':{'ids':'a'}}}",
             "{'data':{'train':{'ids':[{'name':'a'}]}}}");
}

static const struct refused {
    const ProtobufCMessageDescriptor *of;
    const char *text, *why;
} refused[] = {
    {SPEC, "{'modle':{}}", "test: unknown key 'modle'; did you mean 'model'?"},
    {SPEC, "{'model':{'layers':[{},{},{'fiters':3}]}}",
     "test: model.layers[2]: unknown key 'fiters'; did you mean 'filters'?"},
    {SPEC, "{'data':{'zzz':1}}",
     "test: data: unknown key 'zzz'; known are train, test, skip_bad, classes, "
     "validation"},
    {SPEC, "{'train':{'batch':'32'}}",
     "test: train.batch: wants an integer, got the string '32'"},
    {SPEC, "{'train':{'batch':[32]}}",
     "test: train.batch: wants an integer, got a list"},
    {SPEC, "{'train':{'batch':1.5}}",
     "test: train.batch: wants an integer, got a number"},
    {SPEC, "{'train':{'batch':4294967296}}",
     "test: train.batch: 4294967296 is out of range (0 to 4294967295)"},
    {SPEC, "{'train':{'batch':-1}}",
     "test: train.batch: -1 is out of range (0 to 4294967295)"},
    {SPEC, "{'model':{'layers':[{'axis':2147483648}]}}",
     "test: model.layers[0].axis: 2147483648 is out of range (-2147483648 to "
     "2147483647)"},
    {SPEC, "{'train':{'shuffle':'yes'}}",
     "test: train.shuffle: wants true or false, got the string 'yes'"},
    {SPEC, "{'optimizer':{'rho':'x'}}",
     "test: optimizer.rho: wants a number, got the string 'x'"},
    {SPEC, "{'model':{'layers':['dense']}}", // its first field is no name
     "test: model.layers[0]: wants a mapping, got the string 'dense'"},
    {SPEC, "{'data':{'train':{'ids':[3]}}}",
     "test: data.train.ids[0]: wants a mapping, got an integer"},
    {SPEC, "{'train':[]}", "test: train: wants a mapping, got a list"},
    {SPEC, "{'name':7}",
     "test: name: wants a string, got the number 7: write \"7\""},
    {SPEC, "{'name':'a\\u0000b'}", NULL},
    {SPEC, "{'api_version':'a','apiVersion':'b'}",
     "test: api_version: is given twice"},
    {SPEC, "[]", "test: wants a mapping, got a list"},
    {&sluice__v1__variable__descriptor, "{'init':'gaussian'}",
     "test: init: 'gaussian' is none of constant, uniform, normal, "
     "truncated_normal, orthogonal, ones_within"},
    {&sluice__v1__variable__descriptor, "{'init':9}",
     "test: init: wants a word, got an integer"},
    {&sluice__v1__counted_closure__descriptor, "{'steps':'?'}",
     "test: steps: is not base64"},
    {&sluice__v1__counted_closure__descriptor, "{'steps':'!!!!'}",
     "test: steps: is not base64"},
    {&sluice__v1__tag__descriptor, "{'sequence':'18446744073709551616'}",
     "test: sequence: wants an integer, got the string "
     "'18446744073709551616'"},
    {&sluice__v1__attend_up__descriptor,
     "{'map_wanted':{'job':1},'complete':{'job':1}}",
     "test: complete: excludes another key that is given"},
};

TEST(pbjson, refusals_say_where_and_why)
{
    for (unsigned i = 0; i < SL_COUNT(refused); i++) {
        struct sl_error err = SL_ERROR_INIT;
        uint64_t live = sl_mem_live();
        char *copy = sl_strdup(refused[i].text);
        json_t *value = NULL;
        ProtobufCMessage *m = NULL;

        for (char *c = copy; *c != '\0'; c++)
            if (*c == '\'')
                *c = '"';
        // Jansson may refuse first: then there is nothing to check here.
        if (sl_json_parse(&value, "test", copy, strlen(copy), NULL, &err) ==
            SL_OK) {
            T_FAILS(SL_EINVAL,
                    pbjson_read(&m, refused[i].of, value, "test", &err));
            if (refused[i].why != NULL)
                T_STR(err.text, refused[i].why);
            json_decref(value);
        }
        sl_free(copy);
        T_EQ(sl_mem_live(), live);
    }
}

TEST(pbjson, a_value_that_is_missing_is_refused)
{
    struct sl_error err = SL_ERROR_INIT;
    ProtobufCMessage *m = NULL;

    T_FAILS(SL_EINVAL, pbjson_read(&m, SPEC, NULL, "test", &err));
    T_STR(err.text, "test: wants a mapping, got nothing");
    T_TRUE(m == NULL);
}

TEST(pbjson, what_is_checked_is_as_valid_as_from_the_wire)
{
    const ProtobufCMessageDescriptor *of = &sluice__v1__geometry__descriptor;
    struct sl_error err = SL_ERROR_INIT;
    ProtobufCMessage *m = NULL;
    json_t *good = json_pack("{s:i,s:i,s:i,s:i}", "samples", 9, "batch", 3,
                             "epochs", 1, "steps_per_closure", 2);
    json_t *zero = json_pack("{s:i}", "samples", 0);
    json_t *other = json_pack("{s:i}", "smaples", 9);

    T_FAILS(SL_ECORRUPT, pbjson_read_checked(&m, of, NULL, "geometry", &err));
    T_STR(err.text, "'geometry' is missing");
    T_FAILS(SL_EINVAL, pbjson_read_checked(&m, of, zero, "geometry", &err));
    T_HAS(err.text, "geometry: ");
    T_FAILS(SL_EINVAL, pbjson_read_checked(&m, of, other, "geometry", &err));
    T_HAS(err.text, "did you mean 'samples'?");
    T_TRUE(m == NULL);
    T_OK(pbjson_read_checked(&m, of, good, "geometry", t_err()));
    T_EQ(((Sluice__V1__Geometry *)m)->batch, 3);
    wire_free(m);
    json_decref(good);
    json_decref(zero);
    json_decref(other);
}

TEST(pbjson, any_message_comes_back)
{
    static const ProtobufCMessageDescriptor *const kinds[] = {
        &sluice__v1__attend_up__descriptor,
        &sluice__v1__attend_down__descriptor,
        &sluice__v1__job_status__descriptor,
        &sluice__v1__job_spec__descriptor,
        &sluice__v1__checkpoints_reply__descriptor,
        &sluice__v1__cluster_reply__descriptor,
    };

    for (unsigned i = 0; i < 400; i++) {
        const ProtobufCMessageDescriptor *of = kinds[i % SL_COUNT(kinds)];
        ProtobufCMessage *m = t_random_message(of), *back;
        struct buf text = BUF_INIT, a = t_packed(m), b;
        json_t *value;

        T_OK(pb_text(&text, m, i % 3 == 0));
        T_OK(sl_json_parse(&value, "text", buf_text(&text), text.len, NULL,
                           t_err()));
        T_OK(pbjson_read(&back, of, value, "text", t_err()));
        b = t_packed(back);
        T_EQ(a.len, b.len);
        T_MEM(a.data, b.data, a.len);
        json_decref(value);
        buf_release(&text);
        buf_release(&a);
        buf_release(&b);
        wire_free(back);
        wire_free(m);
    }
}

TEST(pbjson, not_finite_and_not_utf8_can_be_printed)
{
    Sluice__V1__JobStatus s = SLUICE__V1__JOB_STATUS__INIT;
    char bad[] = "a\xff"
                 "b\xc3";
    struct buf text = BUF_INIT;

    s.known_loss_case = SLUICE__V1__JOB_STATUS__KNOWN_LOSS_LOSS;
    s.loss = 0.0 / 0.0;
    s.known_accuracy_case = SLUICE__V1__JOB_STATUS__KNOWN_ACCURACY_ACCURACY;
    s.accuracy = -1.0 / 0.0;
    s.name = bad;
    s.state = (Sluice__V1__JobState)77;
    T_OK(pb_text(&text, &s.base, false));
    T_HAS(buf_text(&text), "\"loss\":\"NaN\",\"accuracy\":\"-Infinity\"");
    T_HAS(buf_text(&text), "\"name\":\"a\xef\xbf\xbd"
                           "b\xef\xbf\xbd\"");
    T_HAS(buf_text(&text), "\"state\":77");
    buf_release(&text);
}

// An older program sends no 0, and reads as one what is not there.
TEST(pbjson, a_number_that_is_not_known_is_null_and_not_sent)
{
    Sluice__V1__JobStatus s = SLUICE__V1__JOB_STATUS__INIT;
    struct buf text = BUF_INIT, none = BUF_INIT, zero = BUF_INIT;
    ProtobufCMessage *back = NULL;

    T_OK(pb_text(&text, &s.base, false));
    T_HAS(buf_text(&text), "\"loss\":null,\"accuracy\":null");
    T_OK(wire_pack(&s.base, &none));
    WIRE_SET_KNOWN(&s, loss, SLUICE__V1__JOB_STATUS__KNOWN_LOSS_LOSS, NAN);
    T_EQ(s.known_loss_case, 0);
    WIRE_SET_KNOWN(&s, loss, SLUICE__V1__JOB_STATUS__KNOWN_LOSS_LOSS, 0);
    buf_reset(&text);
    T_OK(pb_text(&text, &s.base, false));
    T_HAS(buf_text(&text), "\"loss\":0.0,\"accuracy\":null");
    T_OK(wire_pack(&s.base, &zero));
    T_EQ(zero.len, none.len + 9); // field 13 as a double, as ever
    T_EQ(zero.data[none.len], 13 << 3 | 1);
    back = protobuf_c_message_unpack(&sluice__v1__job_status__descriptor, NULL,
                                     zero.len, zero.data);
    T_TRUE(back != NULL);
    T_EQ(WIRE_KNOWN((Sluice__V1__JobStatus *)back, loss), 0);
    T_TRUE(isnan(WIRE_KNOWN((Sluice__V1__JobStatus *)back, accuracy)));
    protobuf_c_message_free_unpacked(back, NULL);
    buf_release(&text);
    buf_release(&none);
    buf_release(&zero);
}

static void lacks_memory_at_every_step(const ProtobufCMessageDescriptor *of,
                                       const char *text)
{
    json_t *value = NULL;
    bool failed = true;

    T_OK(sl_json_parse(&value, "t", text, strlen(text), NULL, t_err()));
    for (uint64_t n = 1; failed; n++) {
        ProtobufCMessage *m = NULL;
        uint64_t live = sl_mem_live();
        enum sl_err rc;

        sl_mem_fail_at(n);
        rc = pbjson_read(&m, of, value, "t", NULL);
        failed = sl_mem_failed();
        T_EQ(rc, failed ? SL_ENOMEM : SL_OK);
        wire_free(m);
        T_EQ(sl_mem_live(), live);
    }
    json_decref(value);
}

TEST(pbjson, out_of_memory_at_every_step)
{
    lacks_memory_at_every_step(
        SPEC, "{\"name\":\"a\",\"model\":{\"input_shape\":[1,2],\"layers\":"
              "[{\"type\":\"dense\"},{\"inputs\":[\"a\",\"b\"]}]}}");
    lacks_memory_at_every_step(&sluice__v1__counted_closure__descriptor,
                               "{\"steps\":\"/wE=\"}");
}

TEST(pbjson, a_text_that_is_mended_without_memory_is_not_cut_short)
{
    Sluice__V1__JobStatus s = SLUICE__V1__JOB_STATUS__INIT;
    bool failed = true;
    char bad[512];

    memset(bad, 'a', sizeof(bad)); // the buffer grows more than once
    bad[sizeof(bad) - 2] = '\xff';
    bad[sizeof(bad) - 1] = '\0';
    s.name = bad;
    for (uint64_t n = 1; failed; n++) {
        json_t *value = NULL;
        uint64_t live = sl_mem_live();
        enum sl_err rc;

        sl_mem_fail_at(n);
        rc = pbjson_write(&value, &s.base);
        failed = sl_mem_failed();
        T_EQ(rc, failed ? SL_ENOMEM : SL_OK);
        T_TRUE((value == NULL) == failed);
        if (value != NULL)
            T_EQ(json_string_length(json_object_get(value, "name")),
                 sizeof(bad) + 1);
        json_decref(value);
        T_EQ(sl_mem_live(), live);
    }
}

TEST(pbjson, enum_words)
{
    char text[PBJSON_ENUM_TEXT];

    T_STR(pbjson_enum(text, &sluice__v1__job_state__descriptor, 2), "running");
    T_STR(pbjson_enum(text, &sluice__v1__refused_why__descriptor, 3),
          "job_incarnation");
    T_STR(pbjson_enum(text, &sluice__v1__job_state__descriptor, 99), "?");
}
