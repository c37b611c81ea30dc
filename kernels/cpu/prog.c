// SPDX-License-Identifier: Apache-2.0
// kernels/cpu/prog.c -- a short list of oneDNN primitives.
#include "kernels/cpu/prog.h"

#include <string.h>

enum sl_err prog_status(dnnl_status_t st, const char *what,
                        struct sl_error *err)
{
    if (st == dnnl_success)
        return SL_OK;
    if (st == dnnl_out_of_memory)
        return sl_fail(err, SL_ENOMEM, "oneDNN %s: out of memory", what);
    if (st == dnnl_unimplemented)
        return sl_fail(err, SL_ENOTSUP, "oneDNN cannot %s", what);
    return sl_fail(err, SL_EINTERNAL, "oneDNN %s: status %d", what, (int)st);
}

void prog_init(struct prog *p, struct cpu_onednn *onednn)
{
    memset(p, 0, sizeof(*p));
    p->onednn = onednn;
}

void prog_release(struct prog *p)
{
    for (int i = 0; i < p->stages; i++)
        dnnl_primitive_destroy(p->stage[i].prim);
    for (int i = 0; i < p->slots; i++)
        dnnl_memory_destroy(p->slot[i].mem);
    p->stages = p->slots = 0;
}

static int add_slot(struct prog *p, ob_desc desc, int io, size_t at)
{
    struct prog_slot *s = &p->slot[p->slots];

    if (p->slots == PROG_SLOTS ||
        dnnl_memory_create(&s->mem, desc, p->onednn->engine,
                           DNNL_MEMORY_NONE) != dnnl_success)
        return -1;
    s->io = io;
    s->at = at;
    return p->slots++;
}

int prog_io(struct prog *p, ob_desc desc, int index)
{
    return add_slot(p, desc, index, 0);
}

size_t prog_bytes(struct prog *p, size_t bytes)
{
    size_t at = p->bytes;

    p->bytes += (bytes + 63) & ~(size_t)63;
    return at;
}

int prog_temp(struct prog *p, ob_desc desc)
{
    return add_slot(p, desc, -1, prog_bytes(p, ob_bytes(desc)));
}

enum sl_err prog_add(struct prog *p, const_dnnl_primitive_desc_t pd,
                     const struct prog_arg *args, int nargs,
                     struct sl_error *err)
{
    struct prog_stage *s = &p->stage[p->stages];
    ob_desc scratch = ob_query(pd, dnnl_query_scratchpad_md);
    enum sl_err rc;
    int slot;

    if (p->stages == PROG_STAGES || nargs + 1 > PROG_ARGS)
        return sl_fail(err, SL_EINTERNAL, "too many oneDNN stages");
    for (s->nargs = 0; s->nargs < nargs; s->nargs++) {
        slot = args[s->nargs].slot;
        if (slot < 0)
            return sl_fail(err, SL_ENOMEM, "oneDNN memory: out of memory");
        s->args[s->nargs] =
            (dnnl_exec_arg_t){args[s->nargs].arg, p->slot[slot].mem};
    }
    if (ob_bytes(scratch) > 0) {
        slot = prog_temp(p, scratch);
        if (slot < 0)
            return sl_fail(err, SL_ENOMEM, "oneDNN memory: out of memory");
        s->args[s->nargs++] =
            (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, p->slot[slot].mem};
    }
    rc = prog_status(dnnl_primitive_create(&s->prim, pd), "make a primitive",
                     err);
    if (rc == SL_OK)
        p->stages++;
    return rc;
}

enum sl_err prog_attr(dnnl_primitive_attr_t *out, struct sl_error *err)
{
    dnnl_status_t st = dnnl_primitive_attr_create(out);

    if (st == dnnl_success)
        dnnl_primitive_attr_set_scratchpad_mode(*out,
                                                dnnl_scratchpad_mode_user);
    return prog_status(st, "make attributes", err);
}

enum sl_err prog_reorder(struct prog *p, ob_desc a, int from, ob_desc b, int to,
                         struct sl_error *err)
{
    const struct prog_arg args[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    dnnl_primitive_attr_t attr;
    dnnl_primitive_desc_t pd;
    enum sl_err rc;

    rc = prog_attr(&attr, err);
    if (rc != SL_OK)
        return rc;
    rc = prog_status(ob_reorder_pd(&pd, p->onednn->engine, a, b, attr),
                     "reorder a tensor", err);
    dnnl_primitive_attr_destroy(attr);
    if (rc != SL_OK)
        return rc;
    rc = prog_add(p, pd, args, 2, err);
    dnnl_primitive_desc_destroy(pd);
    return rc;
}

enum sl_err prog_run(struct prog *p, void *const *io, void *workspace)
{
    dnnl_status_t st = dnnl_success;

    for (int i = 0; i < p->slots && st == dnnl_success; i++) {
        struct prog_slot *s = &p->slot[i];

        st = dnnl_memory_set_data_handle(
            s->mem, s->io >= 0 ? io[s->io] : (char *)workspace + s->at);
    }
    for (int i = 0; i < p->stages && st == dnnl_success; i++)
        st = dnnl_primitive_execute(p->stage[i].prim, p->onednn->stream,
                                    p->stage[i].nargs, p->stage[i].args);
    if (st == dnnl_success)
        st = dnnl_stream_wait(p->onednn->stream);
    return st == dnnl_success ? SL_OK : SL_EINTERNAL;
}
