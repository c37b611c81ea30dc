// SPDX-License-Identifier: Apache-2.0
// tests/history/replay.c -- what was pushed into shards, pushed again, one
// after the other: the parameters must be the same to the bit.
//
// Reads a script from stdin, which replay.py makes of a history. A line is a
// command; S numbers shards, M memories of shards (one per load), F files of
// payloads, all from 0; (I, N) is a tag, a path is the rest of the line.
//
//   payloads F PATH          history_bytes has written it
//   spec S F OFFSET BYTES    the ShardSpec of a shard
//   seed M S                 a memory begins with the seed's values, or with
//                            those of the files that its job resumes
//   start M S I N            or as what was frozen under a tag
//   push M F OFFSET BYTES V W B K C T ROWS N  an update that made it version
//                            V, of wire_type W; its gradient is of version B
//                            and K samples, and of step T of closure C; N bytes
//                            of rows of tables are at offset ROWS
//   skip M V                 a step that changed nothing
//   freeze M I N             a snapshot is taken: remembered under its tag
//   file S I N PATH          the snapshot file holds what was frozen
//   export S I N PATH        and so do the whole variables of an export
//
// Values, optimizer slots and the records of tables are compared. Everything
// is computed by the kernels of the product, but without its threads, its
// locks, its copies on write and its files.
//
// Errors   exit status 1 and a line per difference; 2: the script is wrong.
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "state/snap/snap.h"

#define SHARDS 256
#define MEMORIES 4096
#define FILES 256

struct memory {
    struct shard *shard; // ours
    unsigned number;     // of its shard
    uint64_t version;
};

// Records of a part of a table, in the order of their ids.
struct records {
    uint8_t *bytes; // ours
    size_t n, stride;
};

// What was frozen under a tag.
struct state {
    struct state *next;
    unsigned shard;
    struct wire_tag tag;
    uint64_t version;
    uint8_t *bytes;         // ours: values, then slots
    struct records *tables; // ours: the parts of each table in turn
};

struct replay {
    int files[FILES];
    Sluice__V1__ShardSpec *specs[SHARDS]; // ours
    struct memory memories[MEMORIES];
    struct state *states;
    unsigned long line, pushes, compared, differences;
};

static struct replay all; // zeroes; the process ends with it

static void wrong(const char *fmt, ...)
    __attribute__((format(printf, 1, 2), noreturn));

static void wrong(const char *fmt, ...)
{
    va_list ap;

    fprintf(stderr, "line %lu: ", all.line);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    exit(2);
}

static void different(const char *fmt, ...)
    __attribute__((format(printf, 1, 2)));

static void different(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
    all.differences++;
}

static void must(enum sl_err rc, const struct sl_error *err, const char *what)
{
    if (rc != SL_OK)
        wrong("%s: %s %s", what, sl_err_name(rc), err->text);
}

// ---- what the script names

static struct shard *fresh_shard(unsigned number)
{
    struct sl_error err = SL_ERROR_INIT;
    struct shard *s = NULL;
    struct plan plan;

    if (number >= SHARDS || all.specs[number] == NULL)
        wrong("shard %u has no spec", number);
    must(plan_read(&plan, all.specs[number], &err), &err, "spec");
    must(shard_new(&s, &plan), &err, "shard");
    return s;
}

static struct memory *memory_at(unsigned m)
{
    if (m >= MEMORIES || all.memories[m].shard == NULL)
        wrong("there is no memory %u", m);
    return &all.memories[m];
}

static const struct state *find_state(unsigned shard, struct wire_tag tag)
{
    for (const struct state *s = all.states; s != NULL; s = s->next)
        if (s->shard == shard && wire_tag_cmp(s->tag, tag) == 0)
            return s;
    wrong("nothing of shard %u was frozen as (%" PRIu64 ",%" PRIu64 ")", shard,
          tag.incarnation, tag.sequence);
}

// Bytes of a file of payloads; sl_free.
static uint8_t *read_bytes(unsigned file, uint64_t offset, size_t n)
{
    uint8_t *bytes = sl_malloc(n + 1);

    if (file >= FILES || all.files[file] <= 0)
        wrong("there is no file %u", file);
    if (bytes == NULL ||
        pread(all.files[file], bytes, n, (off_t)offset) != (ssize_t)n)
        wrong("%zu bytes at %" PRIu64 " of file %u are not there", n, offset,
              file);
    return bytes;
}

// ---- rows of tables

static int order_by_id(const void *a, const void *b)
{
    uint64_t x, y;

    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return x < y ? -1 : x > y;
}

static size_t parts_of(const struct shard *s)
{
    return s->tables.count * ROWSET_PARTS;
}

// Copies a part of a set that is frozen.
static struct records copy_part(struct rowset *set, enum rowset_part part)
{
    struct records out = {.stride = rowset_part_stride(set, part)};
    size_t most = rowset_frozen(set, part), n;

    out.bytes = sl_calloc(most + 1, out.stride);
    if (out.bytes == NULL)
        wrong("out of memory");
    while (rowset_walk(set, part, 1, out.bytes + out.n * out.stride, &n)) {
        out.n += n;
        if (out.n > most)
            wrong("a walk gives more than %zu records", most);
    }
    qsort(out.bytes, out.n, out.stride, order_by_id);
    return out;
}

// Copies all records of a shard at a version; free_tables.
static struct records *copy_tables(struct shard *s, uint64_t version)
{
    struct records *out = sl_calloc(parts_of(s) + 1, sizeof(*out));

    if (out == NULL)
        wrong("out of memory");
    tables_freeze(&s->tables, version);
    for (size_t i = 0; i < parts_of(s); i++)
        out[i] = copy_part(s->tables.sets[i / ROWSET_PARTS],
                           (enum rowset_part)(i % ROWSET_PARTS));
    tables_thaw(&s->tables);
    return out;
}

static void free_tables(const struct shard *s, struct records *tables)
{
    for (size_t i = 0; i < parts_of(s); i++)
        sl_free(tables[i].bytes);
    sl_free(tables);
}

// Fills the tables of a new shard.
static void put_tables(struct shard *s, const struct state *from)
{
    struct sl_error err = SL_ERROR_INIT;

    for (size_t i = 0; i < parts_of(s); i++) {
        struct rowset *set = s->tables.sets[i / ROWSET_PARTS];
        enum rowset_part part = (enum rowset_part)(i % ROWSET_PARTS);
        const struct records *r = &from->tables[i];

        must(rowset_expect(set, part, r->n), &err, "room for records");
        must(rowset_put(set, part, (uint32_t)from->version, r->n, r->bytes,
                        &err),
             &err, "records");
    }
}

// Applies an update to all tables, also if the push has no rows (T5).
static void apply_rows(struct memory *m, const struct rowset_step *step,
                       const uint8_t *bytes, size_t n)
{
    struct sl_error err = SL_ERROR_INIT;
    struct tables *tables = &m->shard->tables;
    struct tables_push rows = {.bytes = bytes, .n = n};

    must(tables_check(tables, &rows, true, &err), &err, "rows");
    must(tables_reserve(tables, &m->shard->plan, &rows, &err), &err, "rows");
    tables_apply(tables, step, &rows);
}

// ---- commands

static void do_payloads(const char *args)
{
    unsigned file;
    int at = 0;

    if (sscanf(args, "%u %n", &file, &at) != 1 || file >= FILES)
        wrong("payloads");
    all.files[file] = open(args + at, O_RDONLY | O_CLOEXEC);
    if (all.files[file] <= 0)
        wrong("cannot open %s", args + at);
}

static void do_spec(const char *args)
{
    unsigned shard, file;
    uint64_t offset;
    uint8_t *bytes;
    size_t n;

    if (sscanf(args, "%u %u %" SCNu64 " %zu", &shard, &file, &offset, &n) !=
            4 ||
        shard >= SHARDS)
        wrong("spec");
    bytes = read_bytes(file, offset, n);
    if (all.specs[shard] != NULL)
        sluice__v1__shard_spec__free_unpacked(all.specs[shard], NULL);
    all.specs[shard] = sluice__v1__shard_spec__unpack(NULL, n, bytes);
    sl_free(bytes);
    if (all.specs[shard] == NULL)
        wrong("not a ShardSpec");
}

static struct memory *new_memory(unsigned m, unsigned shard)
{
    if (m >= MEMORIES || all.memories[m].shard != NULL)
        wrong("memory %u", m);
    all.memories[m] =
        (struct memory){.shard = fresh_shard(shard), .number = shard};
    return &all.memories[m];
}

static void do_seed(const char *args)
{
    struct sl_error err = SL_ERROR_INIT;
    struct memory *memory;
    unsigned m, shard;

    if (sscanf(args, "%u %u", &m, &shard) != 2)
        wrong("seed");
    memory = new_memory(m, shard);
    if (memory->shard->plan.source_count == 0)
        return;
    must(snap_sources(&(struct snap_from){.fs = fs_posix(), .store = ""},
                      memory->shard, &err),
         &err, "sources");
    memory->version = once_version(&memory->shard->once);
}

static void do_start(const char *args)
{
    const struct state *from;
    struct memory *memory;
    struct wire_tag tag;
    unsigned m, shard;

    if (sscanf(args, "%u %u %" SCNu64 " %" SCNu64, &m, &shard, &tag.incarnation,
               &tag.sequence) != 4)
        wrong("start");
    from = find_state(shard, tag);
    memory = new_memory(m, shard);
    memory->version = from->version;
    for (size_t at = 0, n; at < shard_bytes(memory->shard); at += n) {
        void *to = shard_memory_at(memory->shard, at, &n);

        memcpy(to, from->bytes + at, n);
    }
    put_tables(memory->shard, from);
}

static void check_version(const struct memory *m, uint64_t version)
{
    if (m->version != version)
        different("shard %u: an update made it version %" PRIu64
                  ", but it is the %" PRIu64 "th of this memory",
                  m->number, version, m->version);
}

static void do_push(const char *args)
{
    struct sl_error err = SL_ERROR_INIT;
    uint64_t offset, version, based_on, samples, closure, rows_offset;
    struct memory *memory;
    struct apply_step step;
    struct apply_of of;
    struct sl_slices payload;
    struct sl_slice one;
    unsigned m, file, wire, number;
    uint8_t *bytes, *rows;
    size_t n, rows_bytes;

    if (sscanf(args,
               "%u %u %" SCNu64 " %zu %" SCNu64 " %u %" SCNu64 " %" SCNu64
               " %" SCNu64 " %u %" SCNu64 " %zu",
               &m, &file, &offset, &n, &version, &wire, &based_on, &samples,
               &closure, &number, &rows_offset, &rows_bytes) != 12 ||
        wire >= WIRE_TYPES)
        wrong("push");
    memory = memory_at(m);
    bytes = read_bytes(file, offset, n);
    rows = read_bytes(file, rows_offset, rows_bytes);
    one = (struct sl_slice){bytes, n};
    payload = slices_one(&one);
    must(apply_check(&memory->shard->plan, wire, &payload, &err), &err,
         "payload");
    // What is replayed has no callbacks: its rates do not depend on closures.
    of = (struct apply_of){&memory->shard->rates, 0, memory->version++,
                           based_on, samples};
    apply_step_init(&step, &memory->shard->plan, &memory->shard->versions, &of);
    apply_update(&memory->shard->plan, &memory->shard->memory, wire, &payload,
                 &step, NULL);
    apply_rows(memory,
               &(struct rowset_step){.closure = closure,
                                     .step = number,
                                     .version = (uint32_t)step.t,
                                     .rate = step.rate,
                                     .factor = 1},
               rows, rows_bytes);
    sl_free(bytes);
    sl_free(rows);
    check_version(memory, version);
    all.pushes++;
}

static void do_skip(const char *args)
{
    uint64_t version;
    unsigned m;

    if (sscanf(args, "%u %" SCNu64, &m, &version) != 2)
        wrong("skip");
    check_version(memory_at(m), version);
}

static void do_freeze(const char *args)
{
    struct state *s = sl_calloc(1, sizeof(*s));
    const struct memory *memory;
    unsigned m;

    if (s == NULL || sscanf(args, "%u %" SCNu64 " %" SCNu64, &m,
                            &s->tag.incarnation, &s->tag.sequence) != 3)
        wrong("freeze");
    memory = memory_at(m);
    s->shard = memory->number;
    s->version = memory->version;
    s->bytes = sl_malloc(shard_bytes(memory->shard));
    if (s->bytes == NULL)
        wrong("out of memory");
    for (size_t at = 0, n; at < shard_bytes(memory->shard); at += n) {
        const void *from = shard_memory_at(memory->shard, at, &n);

        memcpy(s->bytes + at, from, n);
    }
    s->tables = copy_tables(memory->shard, memory->version);
    s->next = all.states;
    all.states = s;
}

// ---- comparing

// Names the first of `n` floats that differ; they are those from `first` on of
// matrix `k` of a shard.
static void compare(const struct plan *p, unsigned k, uint64_t first, size_t n,
                    const void *got, const void *want, const char *path)
{
    const struct plan_piece *piece;
    float there, here;
    size_t i = 0;

    if (memcmp(got, want, n * sizeof(float)) == 0)
        return;
    while (memcmp((const float *)got + i, (const float *)want + i,
                  sizeof(float)) == 0)
        i++;
    memcpy(&there, (const float *)got + i, sizeof(there));
    memcpy(&here, (const float *)want + i, sizeof(here));
    piece = plan_piece_of(p, first + i);
    different("%s: %s%s%s element %" PRIu64 " is %.9g, the replay says %.9g",
              path, piece->name, k == 0 ? "" : "#",
              k == 0 ? "" : optim_slot_name(&p->optim, k - 1),
              first + i - piece->first + piece->offset, (double)there,
              (double)here);
}

// Names the first record of a part of a table that differs.
static void compare_part(const char *table, const char *part,
                         const struct records *got, const struct records *want,
                         const char *path)
{
    size_t least = got->n < want->n ? got->n : want->n, i = 0;
    const struct records *longer = got->n > want->n ? got : want;
    uint64_t id;

    while (i < least && memcmp(got->bytes + i * got->stride,
                               want->bytes + i * got->stride, got->stride) == 0)
        i++;
    if (i == longer->n)
        return;
    memcpy(&id, longer->bytes + i * longer->stride, sizeof(id));
    different("%s: table %s has %zu %s, the replay %zu; the first that differ "
              "are at id %" PRIu64,
              path, table, got->n, part, want->n, id);
}

static void compare_tables(struct shard *got, const struct state *want,
                           const char *path)
{
    static const char *const parts[] = {
        [ROWSET_ROWS] = "rows", [ROWSET_WAITING] = "waiting ids"};
    struct records *there = copy_tables(got, want->version);

    for (size_t i = 0; i < parts_of(got); i++)
        compare_part(got->plan.tables[i / ROWSET_PARTS].name,
                     parts[i % ROWSET_PARTS], &there[i], &want->tables[i],
                     path);
    free_tables(got, there);
}

// What is compared with what: the path, and the state that it should hold.
static const char *read_pair(const char *args, const struct state **want,
                             const char *command)
{
    struct wire_tag tag;
    unsigned shard;
    int at = 0;

    if (sscanf(args, "%u %" SCNu64 " %" SCNu64 " %n", &shard, &tag.incarnation,
               &tag.sequence, &at) != 3)
        wrong("%s", command);
    *want = find_state(shard, tag);
    return args + at;
}

static void do_file(const char *args)
{
    struct sl_error err = SL_ERROR_INIT;
    const struct state *want;
    const char *path = read_pair(args, &want, "file");
    struct shard *got = fresh_shard(want->shard);
    char *folder = fs_dirname(path);
    size_t n;

    must(snap_read(fs_posix(), folder, want->tag, want->tag, got, &err), &err,
         path);
    if (once_version(&got->once) != want->version)
        different("%s: version %" PRIu64 ", the replay says %" PRIu64, path,
                  once_version(&got->once), want->version);
    n = got->plan.elements;
    for (unsigned k = 0; k <= optim_slots(&got->plan.optim); k++) {
        size_t at = k * n * sizeof(float), together;

        compare(&got->plan, k, 0, n, shard_memory_at(got, at, &together),
                (const void *)(want->bytes + at), path);
    }
    compare_tables(got, want, path);
    all.compared++;
    shard_unref(got);
    sl_free(folder);
}

static const Sluice__V1__Variable *variable_of(unsigned shard, uint32_t number)
{
    const Sluice__V1__ShardSpec *spec = all.specs[shard];

    for (size_t i = 0; i < spec->n_variable_ids; i++)
        if (spec->variable_ids[i] == number)
            return spec->variables[i];
    wrong("shard %u has no variable %u", shard, number);
}

// Where an element of a variable, counted row major in our shape, lies in an
// export, whose axes are those of Keras.
static uint64_t exported_at(const Sluice__V1__Variable *v, uint64_t element)
{
    uint64_t index[WIRE_RANK_MAX], at = 0;

    for (size_t i = v->n_shape; i-- > 0; element /= v->shape[i])
        index[i] = element % v->shape[i];
    for (size_t i = 0; i < v->n_shape; i++) {
        size_t axis = v->n_keras_order == 0 ? i : v->keras_order[i];

        at = at * v->shape[axis] + index[axis];
    }
    return at;
}

static void compare_piece(const struct plan *p, const struct plan_piece *piece,
                          const struct tensorfile *f, const struct state *want,
                          const char *path)
{
    const Sluice__V1__Variable *v = variable_of(want->shard, piece->variable);
    const struct tensor_info *t = tensorfile_find(f, piece->name);
    float *got = sl_malloc(piece->elements * sizeof(*got));
    uint64_t at;

    if (t == NULL || t->dtype != TENSOR_F32 || got == NULL)
        wrong("%s: %s is missing, or not f32", path, piece->name);
    for (uint64_t i = 0; i < piece->elements; i++) {
        at = exported_at(v, piece->offset + i) * sizeof(*got);
        if (at + sizeof(*got) > t->end - t->begin)
            wrong("%s: %s is too short", path, piece->name);
        memcpy(&got[i], tensorfile_data(f, t) + at, sizeof(*got));
    }
    compare(p, 0, piece->first, piece->elements, got,
            want->bytes + piece->first * sizeof(*got), path);
    sl_free(got);
}

static void do_export(const char *args)
{
    struct sl_error err = SL_ERROR_INIT;
    struct tensorfile *f = NULL;
    const struct state *want;
    const char *path = read_pair(args, &want, "export");
    struct shard *shape = fresh_shard(want->shard);

    must(tensorfile_open(&f, fs_posix(), path, 0, &err), &err, path);
    for (size_t i = 0; i < shape->plan.piece_count; i++)
        compare_piece(&shape->plan, &shape->plan.pieces[i], f, want, path);
    all.compared++;
    tensorfile_close(f);
    shard_unref(shape);
}

// ---- the script

static const struct {
    const char *name;
    void (*run)(const char *args);
} commands[] = {
    {"payloads", do_payloads}, {"spec", do_spec}, {"seed", do_seed},
    {"start", do_start},       {"push", do_push}, {"skip", do_skip},
    {"freeze", do_freeze},     {"file", do_file}, {"export", do_export},
};

static void run_line(char *line)
{
    char *args = line + strcspn(line, " ");

    if (*args != '\0')
        *args++ = '\0';
    for (size_t i = 0; i < SL_COUNT(commands); i++) {
        if (strcmp(commands[i].name, line) == 0) {
            commands[i].run(args);
            return;
        }
    }
    wrong("no command '%s'", line);
}

int main(void)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t n;

    while ((n = getline(&line, &room, stdin)) > 0) {
        all.line++;
        if (line[n - 1] == '\n')
            line[n - 1] = '\0';
        run_line(line);
    }
    free(line);
    printf("replayed %lu updates, compared %lu files\n", all.pushes,
           all.compared);
    return all.differences > 0 ? 1 : 0;
}
