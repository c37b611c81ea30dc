// SPDX-License-Identifier: Apache-2.0
// Roles: every method with every certificate over TLS, and the grammar of the
// names in certificates.
#include "proto/access.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "proto/wire.h"
#include "tests/harness/certs.h"
#include "tests/unit/proto/matrix.h"

#define DEADLINE_MS 60000

// ---- over TLS

// One authority, a server, a certificate per line of `callers`, one that has
// expired, and a list that revokes another.
static const char make_certs[] =
    "set -e; umask 077; exec >/dev/null 2>&1\n"
    "key='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes'\n"
    "openssl req -x509 $key -days 2 -subj /CN=ca -keyout ca.key -out ca.pem\n"
    "leaf() { openssl req $key -subj /CN=$1 -keyout $1.key -out $1.csr\n"
    " printf \"subjectAltName=$2\" > $1.ext\n"
    " openssl x509 -req -in $1.csr -CA ca.pem -CAkey ca.key -CAcreateserial"
    " -days $3 -extfile $1.ext -out $1.pem; }\n"
    "s=spiffe://sluice\n"
    "leaf server URI:$s/coordinator/c0,IP:127.0.0.1 2\n"
    "leaf A URI:$s/admin/ann 2; leaf S URI:$s/submitter/sam/tenant/a 2\n"
    "leaf V URI:$s/viewer/vic 2; leaf W URI:$s/worker/w7 2\n"
    "leaf P URI:$s/psserver/ps0 2; leaf C URI:$s/coordinator/c0 2\n"
    "leaf old URI:$s/worker 2; leaf client URI:$s/client 2\n"
    "leaf unknown URI:$s/gardener/g 2; leaf none DNS:w7 2\n"
    "leaf twice URI:$s/admin/ann,URI:$s/worker/w7 2\n"
    "leaf at-C URI:$s/coordinator,IP:127.0.0.1 2\n"
    "leaf at-P URI:$s/psserver/ps0,IP:127.0.0.1 2\n"
    "leaf at-W URI:$s/worker/w7,IP:127.0.0.1 2\n"
    "leaf at-A URI:$s/admin/ann,IP:127.0.0.1 2; leaf at-none IP:127.0.0.1 2\n"
    "leaf at-gone URI:$s/psserver/ps1,IP:127.0.0.1 2\n"
    "leaf expired URI:$s/admin/ann -1; leaf revoked URI:$s/admin/eve 2\n"
    "for name in revoked at-gone; do\n"
    "printf 'R\\t491231235959Z\\t260101000000Z\\t%s\\tunknown\\t/CN=x\\n' "
    "$(openssl x509 -noout -serial -in $name.pem | cut -d= -f2); done > list\n"
    "printf '[ca]\\ndefault_ca=x\\n[x]\\ndatabase=list\\ndefault_md=sha256\\n' "
    "> cnf\n"
    "crl() { openssl ca -gencrl -config cnf -cert ca.pem -keyfile ca.key"
    " -crldays 2 -out $1; }\n"
    "crl ca.crl; : > list; crl empty.crl\n";

static atomic_uint answered;

static void answer(struct rpc_call *call, void *arg)
{
    atomic_fetch_add(&answered, 1);
    rpc_answer(call, SL_OK, NULL, NULL);
}

struct guarded {
    struct rpc_io *io;
    struct rpc_server *server;
    struct rpc_method methods[MATRIX_METHODS];
    char address[40], socket[256];
};

static void guarded_open_as(struct guarded *g, const char *name)
{
    static const struct rpc_server_options options = {.allow = access_allow};
    struct rpc_table table = {g->methods, 0, NULL};
    struct rpc_tls tls;
    int port = 0;

    tls = certs_of("ca", name);
    tls.crl_file = t_path("ca.crl");
    matrix_read();
    table.count = matrix_count;
    for (size_t i = 0; i < matrix_count; i++)
        g->methods[i] = (struct rpc_method){
            .path = matrix[i].path, .kind = RPC_UNARY, .unary = answer};
    T_OK(rpc_io_new(&g->io, NULL, t_err()));
    T_OK(rpc_server_new(&g->server, g->io, &table, 1, &options, t_err()));
    T_OK(rpc_server_bind(g->server, "127.0.0.1:0", &tls, &port, t_err()));
    snprintf(g->socket, sizeof(g->socket), "unix:%s", t_path("s"));
    T_OK(rpc_server_bind(g->server, g->socket, &tls, NULL, t_err()));
    rpc_server_start(g->server);
    snprintf(g->address, sizeof(g->address), "127.0.0.1:%d", port);
}

static void guarded_open(struct guarded *g)
{
    certs_make(make_certs);
    guarded_open_as(g, "server");
}

static void guarded_close(struct guarded *g)
{
    rpc_server_free(g->server);
    rpc_io_free(g->io);
}

static struct rpc_channel *dial(struct guarded *g, const char *address,
                                const struct rpc_tls *tls)
{
    struct rpc_channel *channel;

    T_OK(rpc_channel_new(&channel, g->io, address, tls, NULL, t_err()));
    return channel;
}

static enum sl_err ask(struct rpc_channel *channel, const char *path,
                       struct sl_error *err)
{
    struct rpc_call_options options = {.deadline_ms = DEADLINE_MS};
    struct rpc_body *reply = NULL;
    enum sl_err rc = rpc_call_sync(channel, path, NULL, &options, &reply, err);

    rpc_body_free(reply);
    return rc;
}

// As somebody whose certificate has the letter, every method.
static void check_caller(struct guarded *g, const char *name, char letter)
{
    struct rpc_tls tls = certs_of("ca", name);
    struct rpc_channel *channel = dial(g, g->address, &tls);

    for (size_t i = 0; i < matrix_count; i++) {
        bool may = strchr(matrix[i].roles, letter) != NULL;
        struct sl_error err = SL_ERROR_INIT;
        enum sl_err rc = ask(channel, matrix[i].path, &err);

        if (rc != (may ? SL_OK : SL_EDENIED))
            T_FAIL("%s calls %s: %s (%s)", name, matrix[i].path,
                   sl_err_name(rc), err.text);
    }
    rpc_channel_free(channel);
}

static void check_stranger(struct guarded *g, const char *name,
                           const char *words)
{
    struct rpc_tls tls = certs_of("ca", name);
    struct rpc_channel *channel = dial(g, g->address, &tls);

    for (size_t i = 0; i < matrix_count; i++) {
        struct sl_error err = SL_ERROR_INIT;

        T_EQ(ask(channel, matrix[i].path, &err), SL_EAUTH);
        T_HAS(err.text, words);
    }
    rpc_channel_free(channel);
}

TEST(access, every_method_with_every_certificate)
{
    static const char *const callers[] = {"A", "S", "V", "W", "P", "C"};
    struct guarded g;

    guarded_open(&g);
    for (size_t i = 0; i < SL_COUNT(callers); i++)
        check_caller(&g, callers[i], callers[i][0]);
    check_caller(&g, "old", 'W'); // a role without a name
    check_caller(&g, "client", 'A');
    check_stranger(&g, "unknown", "sluice cert issue");
    check_stranger(&g, "none", "sluice cert issue");
    check_stranger(&g, "twice", "more than one URI");
    check_stranger(&g, "revoked", "has been revoked");
    guarded_close(&g);
}

TEST(access, calls_that_change_something_have_a_name_in_the_audit_log)
{
    static const char *const names[][2] = {
        {WIRE_SUBMIT, "Submit"},
        {WIRE_STOP, "Stop"},
        {WIRE_PAUSE, "Pause"},
        {WIRE_RESUME, "Resume"},
        {WIRE_DELETE, "Delete"},
        {WIRE_CHECKPOINT, "Checkpoint"},
        {WIRE_DRAIN, "Drain"},
        {WIRE_TASK_SCHEDULE, "MakeQueue"},
        {WIRE_TASK_CANCEL, "CancelTasks"},
        {WIRE_TASK_DELETE, "DeleteQueue"},
    };

    for (size_t i = 0; i < SL_COUNT(names); i++)
        T_STR(access_audit_name(names[i][0]), names[i][1]);
    matrix_read();
    for (size_t i = 0; i < matrix_count; i++)
        if (strpbrk(matrix[i].roles, "VWPC") != NULL) // viewers change nothing
            T_TRUE(access_audit_name(matrix[i].path) == NULL);
    T_TRUE(access_audit_name("/sluice.v1.Jobs/Nothing") == NULL);
}

// ---- what members say

// `m` says something in one of its fields.
static void fill(ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    static Sluice__V1__LeaseProgress *lease;
    char *at = (char *)m + f->offset;

    if (f->label == PROTOBUF_C_LABEL_REPEATED) {
        *(size_t *)((char *)m + f->quantifier_offset) = 1;
        *(void **)at = &lease;
    } else if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) { // it says 0
        *(uint32_t *)((char *)m + f->quantifier_offset) = f->id;
    } else if (f->type == PROTOBUF_C_TYPE_STRING) {
        *(const char **)at = "w";
    } else if (f->type == PROTOBUF_C_TYPE_BOOL) {
        *(protobuf_c_boolean *)at = 1;
    } else {
        T_TRUE(f->type == PROTOBUF_C_TYPE_UINT64 ||
               f->type == PROTOBUF_C_TYPE_FIXED64);
        *(uint64_t *)at = 1;
    }
}

static const char *roles_of_word(const ProtobufCMessageDescriptor *of,
                                 const char *field)
{
    for (size_t i = 0; i < SL_COUNT(voice); i++)
        if (strcmp(voice[i].message, of->short_name) == 0 &&
            strcmp(voice[i].field, field) == 0)
            return voice[i].roles;
    T_FAIL("%s.%s: who may say it?", of->short_name, field);
    return "";
}

// As each role, a message that says no more than this.
static void check_word(const ProtobufCMessageDescriptor *of,
                       const ProtobufCFieldDescriptor *f,
                       const Sluice__V1__AttendUp *up)
{
    static const struct {
        char letter;
        enum access_role role;
    } all[] = {{'A', ACCESS_ADMIN},    {'S', ACCESS_SUBMITTER},
               {'V', ACCESS_VIEWER},   {'W', ACCESS_WORKER},
               {'P', ACCESS_PSSERVER}, {'C', ACCESS_COORDINATOR}};
    const char *roles = roles_of_word(of, f->name);

    for (size_t i = 0; i < SL_COUNT(all); i++) {
        bool may = strchr(roles, all[i].letter) != NULL;
        struct sl_error err = SL_ERROR_INIT;
        enum sl_err rc = access_say(all[i].role, up, &err);

        if (rc != (may ? SL_OK : SL_EDENIED))
            T_FAIL("%c says %s.%s: %s", all[i].letter, of->short_name, f->name,
                   sl_err_name(rc));
        if (!may && strchr("WP", all[i].letter) != NULL)
            T_HAS(err.text, f->name);
    }
}

TEST(access, every_word_with_every_role)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    const ProtobufCMessageDescriptor *of = up.base.descriptor;
    Sluice__V1__Heartbeat beat = SLUICE__V1__HEARTBEAT__INIT;

    up.heartbeat = &beat; // of which no other kind reads anything
    for (unsigned i = 0; i < of->n_fields; i++) {
        up.kind_case = (Sluice__V1__AttendUp__KindCase)of->fields[i].id;
        check_word(of, &of->fields[i], &up);
    }
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_HEARTBEAT;
    of = beat.base.descriptor;
    for (unsigned i = 0; i < of->n_fields; i++) {
        sluice__v1__heartbeat__init(&beat);
        fill(&beat.base, &of->fields[i]);
        check_word(of, &of->fields[i], &up);
    }
}

TEST(access, a_word_that_says_nothing_is_refused)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    struct sl_error err = SL_ERROR_INIT;

    T_FAILS(SL_EDENIED, access_say(ACCESS_WORKER, &up, &err));
    T_HAS(err.text, "says nothing");
    up.kind_case = (Sluice__V1__AttendUp__KindCase)1000;
    T_FAILS(SL_EDENIED, access_say(ACCESS_WORKER, &up, NULL));
}

// Whether the handshake of another program ends well.
static bool shakes_hands(struct guarded *g, const char *name)
{
    char line[400];

    snprintf(line, sizeof(line),
             "timeout 60 openssl s_client -connect %s -CAfile ca.pem -cert "
             "%s.pem -key %s.key -alpn h2 -tls1_2 </dev/null >said 2>&1",
             g->address, name, name);
    return certs_shell(line) == 0;
}

// Our own client does not even load one that has expired.
TEST(access, without_a_certificate_or_with_one_that_expired_nothing)
{
    struct sl_error err = SL_ERROR_INIT;
    struct rpc_channel *plain, *none;
    struct rpc_tls expired;
    struct guarded g;

    guarded_open(&g);
    plain = dial(&g, g.address, NULL);
    for (size_t i = 0; i < matrix_count; i++)
        T_FAILS(SL_EUNAVAIL, ask(plain, matrix[i].path, t_err()));
    rpc_channel_free(plain);
    expired = certs_of("ca", "expired");
    T_FAILS(SL_EDENIED,
            rpc_channel_new(&none, g.io, g.address, &expired, NULL, &err));
    T_HAS(err.text, "expired");
    T_TRUE(shakes_hands(&g, "A"));
    T_FALSE(shakes_hands(&g, "expired"));
    guarded_close(&g);
}

// ---- whom we dial

// What the channel says, and whether the server has heard of it.
static enum sl_err reach(const char *server, const struct rpc_tls *tls,
                         const struct rpc_channel_options *to,
                         struct sl_error *err)
{
    unsigned before = atomic_load(&answered);
    struct rpc_channel *channel;
    struct guarded g;
    enum sl_err rc;

    guarded_open_as(&g, server);
    T_OK(rpc_channel_new(&channel, g.io, g.address, tls, to, t_err()));
    rc = ask(channel, WIRE_PUSH, err);
    T_EQ(atomic_load(&answered) - before, rc == SL_OK ? 1u : 0u);
    if (rc != SL_OK)
        T_HAS(err->text, g.address);
    rpc_channel_free(channel);
    guarded_close(&g);
    return rc;
}

TEST(access, a_server_of_another_role_is_sent_nothing)
{
    static const struct {
        const struct rpc_channel_options *to;
        const char *server, *words; // NULL: it is reached
    } table[] = {
        {&access_to_coordinator, "at-C", NULL},
        {&access_to_psserver, "at-P", NULL},
        {&access_to_worker, "at-W", NULL},
        {&access_to_psserver, "at-W",
         "'spiffe://sluice/worker/w7' is of role worker, and a psserver was "
         "dialled"},
        {&access_to_coordinator, "at-W", "of role worker, and a coordinator"},
        {&access_to_coordinator, "at-P", "of role psserver, and a coordinator"},
        {&access_to_psserver, "at-C", "of role coordinator, and a psserver"},
        {&access_to_worker, "at-A", "of role admin, and a worker"},
        {&access_to_psserver, "at-none",
         "sluice cert issue DIR --role psserver"},
        {&access_to_psserver, "at-gone", "has been revoked"},
    };
    struct rpc_tls tls;

    certs_make(make_certs);
    tls = certs_of("ca", "W");
    tls.crl_file = t_path("ca.crl");
    for (size_t i = 0; i < SL_COUNT(table); i++) {
        struct sl_error err = SL_ERROR_INIT;
        enum sl_err rc = reach(table[i].server, &tls, table[i].to, &err);

        if (table[i].words == NULL) {
            T_OK(rc);
            continue;
        }
        T_EQ(rc, SL_EUNAVAIL);
        T_HAS(err.text, TLS_NOT_WHOM);
        T_HAS(err.text, table[i].words);
    }
}

// New certificates make new connections, of which the same is asked.
TEST(access, whoever_dials_with_new_certificates_asks_again)
{
    struct sl_error err = SL_ERROR_INIT;
    struct rpc_channel *channel;
    struct rpc_tls tls;
    struct guarded g;

    certs_make(make_certs);
    guarded_open_as(&g, "at-W");
    tls = certs_of("ca", "W");
    T_OK(rpc_channel_new(&channel, g.io, g.address, &tls, &access_to_psserver,
                         t_err()));
    T_FAILS(SL_EUNAVAIL, ask(channel, WIRE_PUSH, &err));
    T_EQ(certs_shell("cp P.pem W.pem && cp P.key W.key"), 0);
    tls_look(true);
    err = (struct sl_error)SL_ERROR_INIT;
    T_FAILS(SL_EUNAVAIL, ask(channel, WIRE_PUSH, &err));
    T_HAS(err.text, "of role worker");
    rpc_channel_free(channel);
    guarded_close(&g);
}

// The file's mode (0600) lets in the daemon's user and root alone.
TEST(access, on_a_socket_file_everything)
{
    struct rpc_channel *channel;
    struct guarded g;

    guarded_open(&g);
    channel = dial(&g, g.socket, NULL);
    for (size_t i = 0; i < matrix_count; i++)
        T_OK(ask(channel, matrix[i].path, t_err()));
    rpc_channel_free(channel);
    guarded_close(&g);
}

TEST(access, a_list_that_is_replaced_holds_for_connections_that_stand)
{
    struct rpc_channel *channel;
    struct rpc_tls tls;
    struct guarded g;

    guarded_open(&g);
    tls = certs_of("ca", "revoked");
    channel = dial(&g, g.address, &tls);
    T_FAILS(SL_EAUTH, ask(channel, matrix[1].path, t_err()));
    T_EQ(certs_shell("mv empty.crl ca.crl"), 0);
    tls_look(true);
    T_OK(ask(channel, matrix[1].path, t_err()));
    rpc_channel_free(channel);
    guarded_close(&g);
}

TEST(access, a_list_of_another_authority_is_refused)
{
    struct sl_error err = SL_ERROR_INIT;
    struct tls_pem pem;
    struct rpc_tls tls;

    certs_make(make_certs);
    tls = certs_of("ca", "A");
    tls.crl_file = t_path("ca.crl");
    T_OK(tls_load(&pem, &tls, t_err()));
    T_TRUE(pem.crl_ends > pem.ends - 86400 * 3);
    tls_pem_release(&pem);
    tls.crl_file = t_path("two.crl");
    T_EQ(certs_shell("cat ca.crl empty.crl > two.crl"), 0);
    T_OK(tls_load(&pem, &tls, t_err()));
    tls_pem_release(&pem);
    T_EQ(certs_shell("{ cat empty.crl; sed 's/^M/!/' ca.crl; } > two.crl"), 0);
    T_FAILS(SL_EINVAL, tls_load(&pem, &tls, &err));
    T_HAS(err.text, "is malformed");
    tls.crl_file = t_path("ca.crl");
    T_EQ(certs_shell(
             "mkdir other && cd other && (ln -s ../cnf ../list . ; "
             "openssl req -x509 -newkey ec -pkeyopt "
             "ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=ca "
             "-keyout ca.key -out ca.pem && openssl ca -gencrl -config cnf "
             "-cert ca.pem -keyfile ca.key -crldays 2 -out ../ca.crl) "
             ">/dev/null 2>&1"),
         0);
    T_FAILS(SL_EINVAL, tls_load(&pem, &tls, &err));
    T_HAS(err.text, "of no authority");
    tls.crl_file = t_path("A.pem");
    T_FAILS(SL_EINVAL, tls_load(&pem, &tls, &err));
    T_HAS(err.text, "no revocation list");
}

// ---- what names mean

static struct access_who who_of(const char *uri)
{
    struct rpc_peer peer = {.way = RPC_WAY_TLS, .guarded = true, .uris = 1};
    struct access_who who = {.role = ACCESS_NOBODY};

    snprintf(peer.id, sizeof(peer.id), "%s", uri);
    (void)access_who(&who, &peer, NULL);
    return who;
}

TEST(access, names_in_certificates)
{
    static const char *const none[] = {
        "",
        "worker",
        "spiffe://other/worker/w7",
        "spiffe://sluice/",
        "spiffe://sluice/worker/",
        "spiffe://sluice/worker/w7/",
        "spiffe://sluice/worker/w7/more",
        "spiffe://sluice/worker/w 7",
        "spiffe://sluice/worker/w7/tenant/",
        "spiffe://sluice/submitter/tenant/tenant/",
        "spiffe://sluice/submitter/*",
        "spiffe://sluice/submitter/bob/tenant/*",
        "spiffe://sluice/local/root",
        "spiffe://sluice/nobody/x",
        "spiffe://sluice/*/x",
    };
    struct access_who who = who_of("spiffe://sluice/worker/w7.lan-12");

    T_EQ(who.role, ACCESS_WORKER);
    T_STR(who.name, "w7.lan-12");
    T_STR(who.tenant, "");
    who = who_of("spiffe://sluice/submitter/bob/tenant/a");
    T_EQ(who.role, ACCESS_SUBMITTER);
    T_STR(who.name, "bob");
    T_STR(who.tenant, "a");
    T_STR(who_of("spiffe://sluice/submitter/bob").tenant, "bob");
    T_STR(who_of("spiffe://sluice/viewer/*").tenant, "");
    T_STR(who_of("spiffe://sluice/worker").name, ACCESS_ANY);
    T_EQ(who_of("spiffe://sluice/client").role, ACCESS_ADMIN);
    for (size_t i = 0; i < SL_COUNT(none); i++)
        if (who_of(none[i]).role != ACCESS_NOBODY)
            T_FAIL("'%s' is somebody", none[i]);
}

TEST(access, what_is_written_is_read)
{
    char uri[RPC_PEER_ID];
    struct access_who who;

    T_OK(access_uri(uri, ACCESS_VIEWER, "eve", "b", t_err()));
    who = who_of(uri);
    T_EQ(who.role, ACCESS_VIEWER);
    T_STR(who.name, "eve");
    T_STR(who.tenant, "b");
    T_OK(access_uri(uri, ACCESS_WORKER, ACCESS_ANY, NULL, t_err()));
    T_STR(who_of(uri).name, ACCESS_ANY);
    T_OK(access_uri(uri, ACCESS_SUBMITTER, "tenant", "b", t_err()));
    who = who_of(uri);
    T_EQ(who.role, ACCESS_SUBMITTER);
    T_STR(who.name, "tenant");
    T_STR(who.tenant, "b");
    T_STR(who_of("spiffe://sluice/submitter/tenant/b").name, ACCESS_ANY);
    T_STR(who_of("spiffe://sluice/submitter/tenant/tenant").tenant, "tenant");
    T_FAILS(SL_EINVAL,
            access_uri(uri, ACCESS_WORKER, "a,DNS:x", NULL, t_err()));
    T_FAILS(SL_EINVAL, access_uri(uri, ACCESS_WORKER, "", NULL, t_err()));
    T_FAILS(SL_EINVAL, access_uri(uri, ACCESS_WORKER, "a", "b/c", t_err()));
    T_FAILS(SL_EINVAL, access_uri(uri, ACCESS_WORKER, "a", "*", t_err()));
}

TEST(access, a_member_attends_as_what_it_is)
{
    struct access_who worker = who_of("spiffe://sluice/worker/w7");
    struct access_who any = who_of("spiffe://sluice/psserver/*");
    struct access_who admin = who_of("spiffe://sluice/admin/ann");
    struct access_who local = {.role = ACCESS_LOCAL};
    struct sl_error err = SL_ERROR_INIT;

    T_OK(access_attend(&worker, ACCESS_WORKER, "w7", t_err()));
    T_FAILS(SL_EDENIED, access_attend(&worker, ACCESS_WORKER, "w8", &err));
    T_HAS(err.text, "--name w7");
    T_FAILS(SL_EDENIED, access_attend(&worker, ACCESS_PSSERVER, "w7", &err));
    T_HAS(err.text, "may not attend as a psserver");
    T_OK(access_attend(&any, ACCESS_PSSERVER, "ps3", t_err()));
    T_FAILS(SL_EDENIED, access_attend(&admin, ACCESS_PSSERVER, "x", &err));
    T_OK(access_attend(&local, ACCESS_PSSERVER, "x", t_err()));
}
