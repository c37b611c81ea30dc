// SPDX-License-Identifier: Apache-2.0
// The control plane's decoders: what passes, what is added, what is refused.
#include "proto/wire_check.h"

#include "proto/model.h"
#include "tests/unit/proto/t_proto.h"

#define UP &sluice__v1__attend_up__descriptor
#define DOWN &sluice__v1__attend_down__descriptor
#define SHA "'AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA='"
#define SPEC                                                                   \
    "{'name':'a','model':{'input_shape':[4],'layers':[{'type':'dense',"        \
    "'units':2}]},'train':{}}"
#define VARIABLE                                                               \
    "{'name':'dense/kernel','shape':[2,4],'init':'uniform','init_a':-1,"       \
    "'init_b':1,'keras_order':[1,0]}"

// Valid messages, of every kind; the start of truncation and mutation too.
static const struct valid {
    const ProtobufCMessageDescriptor *of;
    const char *text;
} valid[] = {
    {UP, "{'hello':{'role':'psserver','name':'ps-0','process':'0x1f',"
         "'address':'10.0.0.1:7','protocol':2}}"},
    {UP, "{'hello':{'role':'worker','name':'w','process':7,'protocol':2}}"},
    {UP, "{'heartbeat':{'seq':1,'leases':[{'job':1,'closure':2,'attempt':"
         "{'term':1,'n':2},'metrics':{'steps':3,'loss_sum':0.5}}],"
         "'shards':[{'job':1,'shard':0,'incarnation':1}]}}"},
    {UP, "{'shard_hello':{'job':1,'job_incarnation':1,'shard':3,'counted':"
         "{'low':2,'sparse':[{'closure':2,'steps':'AQ=='},{'closure':9,"
         "'steps':'Aw=='}]}}}"},
    {UP, "{'snapshot':{'job':1,'shard':0,'tag':{'incarnation':1,'sequence':4},"
         "'file':'shard-0.i1.n4.safetensors','sha256':" SHA
         ",'folder':'/var/lib/x'}}"},
    {UP, "{'snapshot':{'job':1,'failure':'disk full'}}"},
    {UP, "{'complete':{'job':1,'closure':4,'attempt':{'term':1,'n':1},"
         "'evidence':[{'shard':0,'incarnation':2}],'metrics':{'steps':16}}}"},
    {UP, "{'complete':{'job':1,'kind':'probe','facts':{'train_samples':9}}}"},
    {UP, "{'failed':{'job':1,'code':5,'text':'no such file'}}"},
    {UP, "{'hand_back':{'job':1,'closure':3,'why':'preempted'}}"},
    {UP, "{'ring_broken':{'job':1,'generation':1,'suspect':4095}}"},
    {UP, "{'ring_broken':{'job':1,'generation':1,'suspect':4294967295}}"},
    {UP, "{'map_wanted':{'job':1}}"},
    {DOWN, "{'welcome':{'term':1,'member':1,'heartbeat_ms':500,"
           "'lease_ms':2000}}"},
    {DOWN, "{'heartbeat_ack':{'seq':4}}"},
    {DOWN, "{'place':{'term':1,'shard':{'job':1,'job_incarnation':1,'shard':1,"
           "'pieces':[{'variable':3,'first_row':1,'rows':1,'shard':1,"
           "'elements':4}],'variables':[" VARIABLE "],'variable_ids':[3],"
           "'optimizer':{'type':'sgd','learning_rate':0.1},'geometry':"
           "{'samples':100,'batch':10,'epochs':1,'steps_per_closure':4},"
           "'job_name':'a'}}}"},
    {DOWN, "{'admit':{'term':1,'job':1,'incarnation':1}}"},
    {DOWN, "{'refuse':{'term':1,'job':1,'why':'older','load':{'incarnation':1,"
           "'sequence':1}}}"},
    {DOWN, "{'snapshot':{'job':1,'incarnation':1,'request':7}}"},
    {DOWN, "{'keep':{'term':1,'job':1,'tags':[{'incarnation':1}]}}"},
    {DOWN, "{'close_job':{'term':1,'job':1}}"},
    {DOWN,
     "{'job_open':{'job':1,'job_incarnation':1,'job_name':'a','spec':" SPEC
     ",'variables':[" VARIABLE "]}}"},
    {DOWN, "{'map':{'job':1,'version':2,'shards':[{'shard':0,'address':"
           "'unix:/tmp/x','incarnation':1},{'shard':1}]}}"},
    {DOWN, "{'leases':{'lease':[{'term':1,'job':1,'closure':0,'attempt':"
           "{'term':1,'n':1},'first':0,'count':512,'steps':16},"
           "{'term':1,'job':1,'kind':'probe'}]}}"},
    {DOWN, "{'revoke':{'job':1,'whole_job':true}}"},
    {DOWN, "{'goodbye':{'why':'restart'}}"},
    {UP, "{'completes':{'complete':[{'job':1,'closure':2,'attempt':{'n':1}},"
         "{'job':1,'closure':3,'attempt':{'n':2}}]}}"},
    {UP, "{'heartbeat':{'seq':9,'sent_us':5,'heard_seq':8,'heard_us':4}}"},
    {UP, "{'trace_piece':{'trace':7,'names':['push'],'spans':[{'lane':100,"
         "'start_us':9,'us':1,'closure':1,'step':1,'shard':1}],'last':true}}"},
    {DOWN, "{'trace_start':{'trace':7,'job':1,'ms':5000}}"},
    {DOWN, "{'trace_more':{'trace':7}}"},
    {&sluice__v1__trace_request__descriptor, "{'id':'j-7','ms':60000}"},
    {UP, "{'log_piece':{'request':7,'lines':{'text':'e30K','last':3}}}"},
    {DOWN, "{'log_more':{'request':7,'after':3,'job':1}}"},
    {&sluice__v1__logs_request__descriptor, "{}"},
    {&sluice__v1__log_lines__descriptor, "{'text':'e30K','more':true}"},
    {&sluice__v1__trace_reply__descriptor,
     "{'number':1,'name':'w-0','role':'worker','offset_us':-5}"},
    {&sluice__v1__submit_request__descriptor, "{'spec':" SPEC "}"},
    {&sluice__v1__submit_request__descriptor,
     "{'spec':" SPEC ",'weights':{'folder':'/m','file':'w.safetensors',"
     "'sha256':" SHA "}}"},
    {&sluice__v1__job_request__descriptor, "{'id':'j-7'}"},
    {&sluice__v1__list_request__descriptor, "{}"},
    {&sluice__v1__stop_request__descriptor, "{'id':'j-7'}"},
    {&sluice__v1__pause_request__descriptor,
     "{'id':'j-7','checkpoint':true,'why':'x','who':'ada'}"},
    {&sluice__v1__checkpoint_request__descriptor,
     "{'id':'j-7','asked':{'steps':5,'after':1}}"},
    {&sluice__v1__checkpoint_reply__descriptor, "{'asked':{'after':1}}"},
    {&sluice__v1__job_status__descriptor,
     "{'job':1,'id':'j-1','name':'a','state':'running','loss':'NaN',"
     "'shards':[{'shard':0,'bytes':4}]}"},
    {&sluice__v1__checkpoints_reply__descriptor,
     "{'checkpoints':[{'cut':1,'shards':[{'shard':0,'file':'x','sha256':" SHA
     "}]}]}"},
    {&sluice__v1__cluster_reply__descriptor,
     "{'members':[{'name':'w','role':'worker'}],'term':3}"},
};

static struct wire_arena arena;

// Through the decoder, in random pieces.
static enum sl_err enter(const ProtobufCMessageDescriptor *of,
                         const uint8_t *bytes, size_t n, ProtobufCMessage **out,
                         struct sl_error *err)
{
    struct t_cut cut;
    enum sl_err rc;

    wire_arena_reset(&arena);
    t_cut(&cut, bytes, n, 1 + (unsigned)t_below(4));
    rc = wire_unpack(out, &arena, of, &cut.all, err);
    t_uncut(&cut);
    return rc;
}

TEST(wire_check, valid_messages_pass)
{
    wire_arena_init(&arena);
    for (unsigned i = 0; i < SL_COUNT(valid); i++) {
        ProtobufCMessage *m = t_make(valid[i].of, valid[i].text), *got = NULL;
        struct buf packed = t_packed(m);
        struct sl_error err = SL_ERROR_INIT;

        if (enter(valid[i].of, packed.data, packed.len, &got, &err) != SL_OK)
            T_FAIL("%s: %s", valid[i].text, err.text);
        T_PTR(got->descriptor, valid[i].of);
        buf_release(&packed);
        wire_free(m);
    }
    wire_arena_release(&arena);
}

static const struct refused {
    const ProtobufCMessageDescriptor *of;
    const char *text, *why;
} refused[] = {
    {UP, "{}", "AttendUp holds no kind of message that this version knows"},
    {UP, "{'hello':{'name':'w','process':7,'protocol':2}}",
     "Hello.role is missing"},
    {UP, "{'hello':{'role':'worker','process':7,'protocol':2}}",
     "Hello.name is missing"},
    {UP, "{'hello':{'role':'worker','name':'a\\nb','process':7,'protocol':2}}",
     "Hello.name has a control character"},
    {UP,
     "{'hello':{'role':'worker','name':'a\xe2\x80\xae','process':7,'protocol':"
     "2}"
     "}",
     "Hello.name has a control character"},
    {UP,
     "{'hello':{'role':'worker','name':'a\xc2\x9b','process':7,'protocol':2}}",
     "Hello.name has a control character"},
    {UP, "{'hello':{'role':'worker','name':' w','process':7,'protocol':2}}",
     "Hello.name begins or ends with a blank"},
    {UP, "{'hello':{'role':'worker','name':'w','protocol':2}}",
     "Hello.process is missing"},
    {UP, "{'hello':{'role':'worker','name':'w','process':7,'protocol':3}}",
     "Hello.protocol is 3; 2 to 2 are allowed"},
    {UP, "{'hello':{'role':'psserver','name':'w','process':7,'protocol':2}}",
     "Hello.address is missing: workers dial a psserver"},
    {UP, "{'heartbeat':{'shards':[{'job':0}]}}", "ShardReport.job is missing"},
    {UP, "{'heartbeat':{'shards':[{'job':1,'shard':65536}]}}",
     "ShardReport.shard is 65536; 0 to 65535 are allowed"},
    {UP,
     "{'shard_hello':{'job':1,'counted':{'low':5,'sparse':[{'closure':4,"
     "'steps':'AQ=='}]}}}",
     "CountedSet.sparse: closure 4 is out of order"},
    {UP, "{'shard_hello':{'job':1,'counted':{'sparse':[{'closure':4}]}}}",
     "CountedClosure.steps has 0 bytes; 1 to 512 are allowed"},
    {UP, "{'snapshot':{'job':1,'file':'x','sha256':'AAAA'}}",
     "SnapshotReport.sha256 has 3 bytes, not 32"},
    {UP, "{'snapshot':{'job':1,'sha256':" SHA "}}",
     "SnapshotReport.file is missing"},
    {UP, "{'snapshot':{'job':1,'file':'../etc/passwd','sha256':" SHA "}}",
     "SnapshotReport.file is '../etc/passwd', not the name of a file"},
    {UP, "{'complete':{'job':1,'evidence':[{'shard':1}]}}",
     "ShardEvidence.incarnation is missing"},
    {UP, "{'complete':{'job':1,'metrics':{'wait_ms':'Infinity'}}}",
     "StepMetrics.wait_ms is not finite"},
    {DOWN, "{'admit':{'job':1}}", "Admit.incarnation is missing"},
    {DOWN, "{'place':{'term':1}}", "Place.shard is missing"},
    {DOWN, "{'map':{'job':1,'shards':[{'shard':1}]}}",
     "JobMap.shards[0] is shard 1: not in order"},
    {DOWN, "{'map':{'job':1,'shards':[{'incarnation':1}]}}",
     "JobMap.shards[0] is admitted but has no address"},
    {DOWN, "{'leases':{'lease':[{'job':1,'attempt':{},'steps':4}]}}",
     "Lease.count is missing"},
    {DOWN, "{'leases':{'lease':[{'job':1,'attempt':{},'count':4}]}}",
     "Lease.steps is missing"},
    {DOWN, "{'job_open':{'job':1,'job_name':'a'}}", "JobOpen.spec is missing"},
    {DOWN, "{'job_open':{'job':1,'job_name':'a','spec':{'train':{}}}}",
     "JobOpen.spec has no model"},
    {DOWN, "{'job_open':{'job':1,'job_name':'a','spec':{'model':{}}}}",
     "JobOpen.spec has no train"},
    {UP, "{'ring_answer':{'job':1}}", "RingAnswer.generation is missing"},
    {UP, "{'ring_broken':{'job':1,'generation':1,'suspect':4096}}",
     "RingBroken.suspect is 4096; 0 to 4095 are allowed"},
    {&sluice__v1__job_spec__descriptor, "{'train':{'priority':-101}}",
     "TrainSpec.priority is -101; its magnitude must be at most 100"},
    {&sluice__v1__job_spec__descriptor, "{'train':{'epochs':65537}}",
     "TrainSpec.epochs is 65537; 0 to 65536 are allowed"},
    {DOWN, "{'ring_open':{'job':1}}", "RingOpen.generation is missing"},
    {DOWN, "{'ring_begin':{'job':1,'generation':1,'contributions':1}}",
     "RingBegin.ranks has 0 values; 1 to 4096 are allowed"},
    {DOWN,
     "{'ring_begin':{'job':1,'generation':1,'contributions':1,"
     "'ranks':[{'name':'a'}],'self':1}}",
     "RingBegin.self is 1 of 1 ranks"},
    {DOWN,
     "{'ring_begin':{'job':1,'generation':1,'contributions':1,"
     "'ranks':[{'name':'a'}],'holders':[0,2]}}",
     "RingBegin.holders[1] is 2 of 1 ranks"},
    {DOWN,
     "{'job_open':{'job':1,'job_name':'a','spec':" SPEC
     ",'variables':[{'name':'x','shape':[0]}]}}",
     "variable 'x': each axis must be at least 1, and all together at most "
     "1000000000 elements"},
    {DOWN,
     "{'job_open':{'job':1,'job_name':'a','spec':" SPEC
     ",'variables':[{'name':'x','shape':[4294967296,4294967296]}]}}",
     "variable 'x': each axis must be at least 1, and all together at most "
     "1000000000 elements"},
    {DOWN,
     "{'job_open':{'job':1,'job_name':'a','spec':" SPEC
     ",'variables':[{'name':'x','shape':[2,2],'keras_order':[1,1]}]}}",
     "Variable 'x': keras_order is no order of its 2 axes"},
    {DOWN,
     "{'job_open':{'job':1,'job_name':'a','spec':" SPEC
     ",'variables':[{'name':'x','shape':[2,2],'init':'orthogonal','init_a':4,"
     "'init_b':2}]}}",
     "Variable 'x': no orthogonal matrix of 4 x 2"},
    {DOWN,
     "{'job_open':{'job':1,'job_name':'a','spec':" SPEC
     ",'variables':[{'name':'x','shape':[30000,30000],'init':'orthogonal',"
     "'init_a':30000,'init_b':30000}]}}",
     "Variable 'x': no orthogonal matrix of 30000 x 30000"},
    {DOWN,
     "{'job_open':{'job':1,'job_name':'a','spec':" SPEC
     ",'geometry':{'samples':5}}}",
     "Geometry.batch is missing"},
    {UP, "{'trace_piece':{'trace':1,'names':['a'],'spans':[{'name':1}]}}",
     "trace: span 0 has name 1 of 1"},
    {UP, "{'trace_piece':{'trace':1,'spans':[{}]}}",
     "trace: span 0 has name 0 of 0"},
    {UP,
     "{'trace_piece':{'trace':1,'names':['a'],'spans':[{},{'us':"
     "9007199254740993}]}}",
     "trace: span 1 has no time"},
    {UP, "{'trace_piece':{'trace':1,'names':['a','']}}",
     "trace: name 1 has 0 bytes; wants 1 to 64"},
    {UP, "{'trace_piece':{'names':['a']}}", "TracePiece.trace is missing"},
    {DOWN, "{'trace_start':{'trace':1,'job':1,'ms':60001}}",
     "TraceStart.ms is 60001; 1 to 60000 are allowed"},
    {&sluice__v1__share_request__descriptor,
     "{'job':1,'generation':1,'lane':2}",
     "ShareRequest.lane is 2; 0 to 1 are allowed"},
    {UP, "{'log_piece':{}}", "LogPiece.request is missing"},
    {&sluice__v1__trace_request__descriptor, "{'id':'j-1'}",
     "TraceRequest.ms is missing"},
    {&sluice__v1__trace_reply__descriptor,
     "{'number':1,'name':'w-0','role':'worker','spans':[{'name':3}]}",
     "trace: span 0 has name 3 of 0"},
    {&sluice__v1__submit_request__descriptor, "{}",
     "SubmitRequest.spec is missing"},
    {&sluice__v1__job_request__descriptor, "{}", "JobRequest.id is missing"},
};

TEST(wire_check, refusals_say_why)
{
    wire_arena_init(&arena);
    for (unsigned i = 0; i < SL_COUNT(refused); i++) {
        ProtobufCMessage *m = t_make(refused[i].of, refused[i].text), *got;
        struct buf packed = t_packed(m);
        struct sl_error err = SL_ERROR_INIT;

        T_NE(enter(refused[i].of, packed.data, packed.len, &got, &err), SL_OK);
        T_STR(err.text, refused[i].why);
        buf_release(&packed);
        wire_free(m);
    }
    wire_arena_release(&arena);
}

// However small each of them is.
TEST(wire_check, a_piece_of_a_trace_has_few_spans)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__TracePiece piece = SLUICE__V1__TRACE_PIECE__INIT;
    Sluice__V1__TraceSpan span = SLUICE__V1__TRACE_SPAN__INIT,
                          *list[WIRE_TRACE_SPANS_MAX + 1];
    char *names[] = {"a"};

    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_TRACE_PIECE;
    up.trace_piece = &piece;
    piece.trace = 1;
    piece.names = names;
    piece.n_names = 1;
    piece.spans = list;
    span.start_us = span.us = 1;
    for (size_t i = 0; i < SL_COUNT(list); i++)
        list[i] = &span;
    wire_arena_init(&arena);
    for (piece.n_spans = WIRE_TRACE_SPANS_MAX; piece.n_spans <= SL_COUNT(list);
         piece.n_spans++) {
        struct buf packed = t_packed(&up.base);
        struct sl_error err = SL_ERROR_INIT;
        ProtobufCMessage *got;

        enum sl_err rc = enter(UP, packed.data, packed.len, &got, &err);

        T_STR(err.text, piece.n_spans <= WIRE_TRACE_SPANS_MAX
                            ? ""
                            : "TracePiece.spans has 1025 values; 0 to 1024 are "
                              "allowed");
        T_EQ(rc == SL_OK, piece.n_spans <= WIRE_TRACE_SPANS_MAX);
        buf_release(&packed);
    }
    wire_arena_release(&arena);
}

TEST(wire_check, shard_spec_pieces_fit_their_variables)
{
    static const struct {
        const char *piece, *why;
    } cases[] = {
        {"{'variable':4,'rows':1,'shard':1,'elements':4}",
         "ShardSpec: a piece names variable 4 of shard 1, which is not here"},
        {"{'variable':3,'rows':1,'shard':2,'elements':4}",
         "ShardSpec: a piece names variable 3 of shard 2, which is not here"},
        {"{'variable':3,'first_row':1,'rows':2,'shard':1,'elements':8}",
         "ShardSpec: a piece holds rows [1, +2) of 'dense/kernel', which has "
         "2"},
        {"{'variable':3,'rows':1,'shard':1,'elements':5}",
         "ShardSpec: a piece holds rows [0, +1) of 'dense/kernel', which has "
         "2"},
    };

    wire_arena_init(&arena);
    for (unsigned i = 0; i < SL_COUNT(cases); i++) {
        char text[1200];
        struct sl_error err = SL_ERROR_INIT;
        ProtobufCMessage *m, *got;
        struct buf packed;

        snprintf(text, sizeof(text),
                 "{'job':1,'shard':1,'pieces':[%s],'variables':[" VARIABLE
                 "],'variable_ids':[3],'optimizer':{},'geometry':{'samples':1,"
                 "'batch':1,'epochs':1,'steps_per_closure':1},'job_name':'a'}",
                 cases[i].piece);
        m = t_make(&sluice__v1__shard_spec__descriptor, text);
        packed = t_packed(m);
        T_FAILS(SL_EINVAL, enter(&sluice__v1__shard_spec__descriptor,
                                 packed.data, packed.len, &got, &err));
        T_STR(err.text, cases[i].why);
        buf_release(&packed);
        wire_free(m);
    }
    wire_arena_release(&arena);
}

TEST(wire_check, absent_messages_are_added_but_not_those_that_speak)
{
    struct sl_slices none = SL_SLICES_NONE;
    Sluice__V1__AttendDown *down;
    Sluice__V1__AttendUp *up;
    ProtobufCMessage *m = t_make(DOWN, "{'refuse':{'job':1}}");
    struct buf packed = t_packed(m);
    struct sl_slice one = {packed.data, packed.len};
    struct sl_slices s = slices_one(&one);
    Sluice__V1__ListRequest *list;

    wire_arena_init(&arena);
    T_OK(wire_unpack_attend_down(&down, &arena, &s, t_err()));
    T_PTR(down->refuse->load, NULL);
    wire_free(m);
    buf_release(&packed);

    m = t_make(UP, "{'complete':{'job':1}}");
    packed = t_packed(m);
    one = (struct sl_slice){packed.data, packed.len};
    s = slices_one(&one);
    T_OK(wire_unpack_attend_up(&up, &arena, &s, t_err()));
    T_TRUE(up->complete->attempt != NULL && up->complete->metrics != NULL);
    T_EQ(up->complete->metrics->steps, 0);
    T_PTR(up->complete->facts, NULL);
    T_FAILS(SL_EINVAL, wire_check(m, NULL));
    T_OK(wire_unpack_list_request(&list, &arena, &none, t_err()));
    wire_free(m);
    buf_release(&packed);
    wire_arena_release(&arena);
}

TEST(wire_check, text_that_is_not_utf8_is_refused)
{
    static const uint8_t bytes[] = {0x0a, 2, 0xc3, 0x28}; // JobRequest.id
    ProtobufCMessage *got;
    struct sl_error err = SL_ERROR_INIT;

    wire_arena_init(&arena);
    T_FAILS(SL_EINVAL, enter(&sluice__v1__job_request__descriptor, bytes,
                             sizeof(bytes), &got, &err));
    T_STR(err.text, "JobRequest.id is not UTF-8");
    wire_arena_release(&arena);
}

TEST(wire_check, unknown_kind_can_be_told_from_nonsense)
{
    static const uint8_t bytes[] = {0xa2, 0x06, 0x00}; // field 100
    ProtobufCMessage *got;

    wire_arena_init(&arena);
    T_FAILS(SL_ENOTSUP, enter(UP, bytes, sizeof(bytes), &got, NULL));
    wire_arena_release(&arena);
}

TEST(wire_check, survives_truncation_and_mutation)
{
    wire_arena_init(&arena);
    for (unsigned i = 0; i < SL_COUNT(valid); i++) {
        ProtobufCMessage *m = t_make(valid[i].of, valid[i].text), *got;
        struct buf packed = t_packed(m);

        for (size_t n = 0; n < packed.len; n++)
            (void)enter(valid[i].of, packed.data, n, &got, NULL);
        for (unsigned j = 0; packed.len > 0 && j < 1500; j++) {
            struct buf copy = BUF_INIT;

            T_OK(buf_append(&copy, packed.data, packed.len));
            for (uint64_t k = 1 + t_below(4); k > 0; k--)
                copy.data[t_below(copy.len)] = (uint8_t)t_rand();
            // What passes can be packed, and passes again.
            if (enter(valid[i].of, copy.data, copy.len, &got, NULL) == SL_OK) {
                struct buf again = t_packed(got);

                T_OK(enter(valid[i].of, again.data, again.len, &got, t_err()));
                buf_release(&again);
            }
            buf_release(&copy);
        }
        buf_release(&packed);
        wire_free(m);
    }
    wire_arena_release(&arena);
}

TEST(wire_check, every_rule_names_a_field_of_its_kind)
{
    for (unsigned i = 0; i < SL_COUNT(valid); i++) {
        const struct wire_rules *rules = wire_rules_of(valid[i].of);

        for (size_t r = 0; rules != NULL && r < rules->count; r++)
            T_TRUE(protobuf_c_message_descriptor_get_field(
                       valid[i].of, rules->rules[r].number) != NULL);
    }
}

TEST(wire_check, a_new_message_says_nothing)
{
    Sluice__V1__Tag *tag = wire_new(&sluice__v1__tag__descriptor);

    T_PTR(tag->base.descriptor, &sluice__v1__tag__descriptor);
    T_EQ(protobuf_c_message_get_packed_size(&tag->base), 0);
    wire_free(&tag->base);
    sl_mem_fail_at(1);
    T_TRUE(wire_new(&sluice__v1__tag__descriptor) == NULL);
    T_TRUE(sl_mem_failed());
}

TEST(wire_check, random_messages_survive_dup)
{
    for (unsigned i = 0; i < 200; i++) {
        const ProtobufCMessageDescriptor *of =
            i % 2 ? UP : &sluice__v1__job_spec__descriptor;
        ProtobufCMessage *m = t_random_message(of), *copy;
        struct buf a = t_packed(m), b;

        T_OK(wire_dup(&copy, m));
        b = t_packed(copy);
        T_EQ(a.len, b.len);
        T_MEM(a.data, b.data, a.len);
        buf_release(&a);
        buf_release(&b);
        wire_free(copy);
        wire_free(m);
    }
}

// Ten bytes of a message make a struct of hundreds.
TEST(wire_check, a_model_of_as_many_small_layers_as_there_may_be_is_read)
{
    static Sluice__V1__LayerSpec *layers[MODEL_LAYERS_MAX];
    Sluice__V1__SubmitRequest msg = SLUICE__V1__SUBMIT_REQUEST__INIT, *read;
    Sluice__V1__JobSpec spec = SLUICE__V1__JOB_SPEC__INIT;
    Sluice__V1__ModelSpec model = SLUICE__V1__MODEL_SPEC__INIT;
    Sluice__V1__LayerSpec layer = SLUICE__V1__LAYER_SPEC__INIT;
    struct wire_arena own;
    struct sl_slices all;
    struct sl_slice one;
    struct buf packed;

    layer.type = (char *)"dense";
    layer.has_units = true;
    layer.units = 1;
    spec.name = (char *)"deep";
    spec.model = &model;
    msg.spec = &spec;
    model.layers = layers;
    for (size_t i = 0; i < MODEL_LAYERS_MAX; i++)
        layers[i] = &layer;
    for (model.n_layers = 1; model.n_layers <= MODEL_LAYERS_MAX;
         model.n_layers = 3 * model.n_layers + 1) {
        if (model.n_layers > MODEL_LAYERS_MAX / 3)
            model.n_layers = MODEL_LAYERS_MAX;
        packed = t_packed(&msg.base);
        one = (struct sl_slice){packed.data, packed.len};
        all = slices_one(&one);
        wire_arena_init(&own);
        T_OK(wire_unpack_submit_request(&read, &own, &all, t_err()));
        T_EQ(read->spec->model->n_layers, model.n_layers);
        wire_arena_release(&own);
        buf_release(&packed);
    }
}

// What `sluice submit` asks for at the end of a wide job: 30 numbers of each
// shard, and five of each of its epochs.
TEST(wire_check, a_status_with_all_shards_and_epochs_can_be_read)
{
    enum { SHARDS = 2560, EPOCHS = 50 };
    static Sluice__V1__EpochCount epoch, *epochs[EPOCHS];
    static Sluice__V1__ShardStatus shard, *shards[SHARDS];
    Sluice__V1__JobStatus msg = SLUICE__V1__JOB_STATUS__INIT, *read = NULL;
    Sluice__V1__ShardCounts counts = SLUICE__V1__SHARD_COUNTS__INIT;
    struct buf packed = BUF_INIT;
    struct sl_slice slice;
    struct sl_slices bytes;

    sluice__v1__epoch_count__init(&epoch);
    epoch.epoch = 1;
    epoch.steps = epoch.samples = epoch.digest = 1000000;
    for (unsigned i = 0; i < EPOCHS; i++)
        epochs[i] = &epoch;
    counts.epochs = epochs;
    counts.n_epochs = EPOCHS;
    sluice__v1__shard_status__init(&shard);
    shard.counts = &counts;
    for (unsigned i = 0; i < SHARDS; i++)
        shards[i] = &shard;
    msg.job = 1;
    msg.id = msg.name = (char *)"j-1";
    msg.shards = shards;
    msg.n_shards = SHARDS;
    T_OK(wire_pack(&msg.base, &packed));
    slice = (struct sl_slice){packed.data, packed.len};
    bytes = slices_one(&slice);
    wire_arena_init(&arena);
    T_OK(wire_unpack_job_status(&read, &arena, &bytes, t_err()));
    T_EQ(read->n_shards, SHARDS);
    T_EQ(read->shards[SHARDS - 1]->counts->n_epochs, EPOCHS);
    wire_arena_release(&arena);
    buf_release(&packed);
}
