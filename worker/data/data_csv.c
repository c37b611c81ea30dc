// SPDX-License-Identifier: Apache-2.0
// worker/data/data_csv.c -- rows of numbers, separated by commas or another
// byte.
//
// RFC 4180: quotes doubled inside quotes, LF or CRLF, an optional header, a
// BOM is skipped, and so are empty lines at the end. A line break within quotes
// is an error: lines are the unit that everything else here counts in. What a
// field holds is read whole or refused: a number that is cut (at a NUL byte, at
// the end of a buffer) is another number.
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/buf.h"
#include "common/base/fs.h"
#include "common/base/mem.h"
#include "worker/data/data_lines.h"
#include "worker/data/data_source.h"

#define COLUMNS_MAX 100000
#define FIELD_BYTES 4096
#define NOT_USED SIZE_MAX
#define LABEL (SIZE_MAX - 1)
#define WEIGHT (SIZE_MAX - 2)
#define ID_COLUMN(i) (WEIGHT - 1 - (i))
// Number `i` of a label of several.
#define LABEL_COLUMN(i) (ID_COLUMN(IDS_COLUMNS_MAX) - (i))

// A cell is part of a line, so no bag of one is too large.
_Static_assert(LINE_BYTES / 2 < IDS_BAG_MAX, "a line may hold too many ids");

struct csv {
    struct data data;
    struct text_lines lines;
    char delimiter;
    size_t columns; // in every line
    // column -> feature, LABEL_COLUMN(i), ID_COLUMN(i), LABEL, WEIGHT or
    // NOT_USED
    size_t *target;
    size_t labels; // columns of a label of several numbers; 0: it has one
    char *cell;    // LINE_BYTES + 1, where there are id columns: one of theirs
    bool header;
};

enum field_end { FIELD_OK, FIELD_OPEN, FIELD_NUL, FIELD_LONG };

// Copies the next field of a line, unquoted, to `out` of `size` bytes. *p moves
// behind it and its delimiter, or becomes NULL at the line's end. FIELD_OPEN: a
// quote does not end; FIELD_NUL: it holds a NUL byte; FIELD_LONG: it is cut.
static enum field_end field(const struct csv *c, const char **p,
                            const char *end, char *out, size_t size)
{
    enum field_end found = FIELD_OK;
    const char *s = *p;
    bool quoted = s < end && *s == '"';
    size_t n = 0;

    if (quoted)
        s++;
    for (;; s++) {
        if (s == end) {
            if (quoted)
                return FIELD_OPEN;
            break;
        }
        if (quoted && *s == '"') {
            if (s + 1 < end && s[1] == '"')
                s++;
            else {
                quoted = false;
                continue;
            }
        } else if (!quoted && *s == c->delimiter) {
            break;
        }
        if (*s == '\0')
            found = FIELD_NUL;
        if (n + 1 < size)
            out[n++] = *s;
        else if (found == FIELD_OK)
            found = FIELD_LONG;
    }
    out[n] = '\0';
    *p = s == end ? NULL : s + 1;
    return found;
}

// Says why field() could not read a field; SL_OK if it could.
static enum sl_err field_error(const struct csv *c, size_t line, size_t column,
                               enum field_end found, struct sl_error *err)
{
    static const char *const why[] = {
        [FIELD_NUL] = "holds a NUL byte: the file is damaged, or is not UTF-8",
        [FIELD_LONG] = "is longer than 4095 bytes",
    };

    if (found == FIELD_OK)
        return SL_OK;
    if (found == FIELD_OPEN)
        return lines_fail(
            &c->lines, line, err, SL_ENOTSUP,
            "a quote does not end; line breaks within quotes are not "
            "read");
    return sl_fail(err, SL_EINVAL, "%s: line %zu, column %zu %s", c->lines.path,
                   line + 1, column, why[found]);
}

static locale_t plain;

static void csv_make_c_locale(void)
{
    plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

bool data_parse_number(const char *text, double *out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    char *end;

    pthread_once(&once, csv_make_c_locale);
    text += strspn(text, " \t");
    if (*text == '\0' || text[strspn(text, "0123456789+-.eE \t")] != '\0')
        return false;
    *out = strtod_l(text, &end, plain);
    end += strspn(end, " \t");
    return *end == '\0' && isfinite((float)*out);
}

// True for an empty field and for what pandas and R write for a missing value.
static bool is_missing(const char *text)
{
    static const char *const words[] = {"", "NA", "N/A", "nan", "null", "None"};

    for (size_t i = 0; i < SL_COUNT(words); i++)
        if (strcasecmp(text, words[i]) == 0)
            return true;
    return false;
}

// Says what is wrong with a field that is no number, and what is likely meant.
static enum sl_err bad_field(const struct csv *c, size_t line, size_t column,
                             const char *text, struct sl_error *err)
{
    bool label = c->target[column] == LABEL;

    if (is_missing(text))
        return sl_fail(err, SL_EINVAL,
                       "%s: line %zu, column %zu is empty; fill in or drop "
                       "missing values",
                       c->lines.path, line + 1, column);
    return sl_fail(
        err, SL_EINVAL, "%s: line %zu, column %zu is not a number%s%s%s",
        c->lines.path, line + 1, column,
        line > 0 ? ""
                 : "; if line 1 holds the names of the columns, say header: "
                   "true",
        label ? "; classes are written as numbers from 0" : "",
        !label && strchr(text, ',') != NULL
            ? "; decimals have a point, and thousands no separator"
            : "");
}

// The label of a line: a number, or several, for which the caller has space.
struct csv_label {
    double one;
    float *all;
};

// Returns true if a column is one of several of the label.
static bool csv_is_label(const struct csv *c, size_t column)
{
    size_t target = c->target[column];

    return target <= LABEL_COLUMN(0) && target > LABEL_COLUMN(c->labels);
}

// Returns the id column that a column of the file is; NULL: it is none.
static struct data_ids *csv_id_column(const struct csv *c, size_t column)
{
    size_t target = c->target[column];

    return target <= ID_COLUMN(0) && target > ID_COLUMN(c->data.ids_count)
               ? &c->data.ids[ID_COLUMN(0) - target]
               : NULL;
}

// Puts the text of a field, which is used, where it belongs.
static enum sl_err csv_take_field(struct csv *c, size_t line, size_t column,
                                  const char *text, float *x,
                                  struct csv_label *label, struct sl_error *err)
{
    struct data_ids *ids = csv_id_column(c, column);
    double value;
    enum sl_err rc;

    if (ids != NULL) {
        buf_reset(&ids->bag);
        rc = ids_parse(&ids->bag, &ids->how, text, err);
        return rc == SL_OK
                   ? rc
                   : sl_prefix(err, rc, "%s: line %zu, column %zu (%s)",
                               c->lines.path, line + 1, column, ids->how.name);
    }
    if (!data_parse_number(text, &value))
        return bad_field(c, line, column, text, err);
    if (c->target[column] == WEIGHT) {
        rc = data_check_weight(value, err);
        c->data.weights[0] = (float)value;
        return rc == SL_OK ? rc
                           : sl_prefix(err, rc, "%s: line %zu, column %zu",
                                       c->lines.path, line + 1, column);
    }
    if (c->target[column] == LABEL)
        label->one = value;
    else if (csv_is_label(c, column))
        label->all[LABEL_COLUMN(0) - c->target[column]] = (float)value;
    else
        x[c->target[column]] = (float)value * c->data.scale + c->data.offset;
    return SL_OK;
}

static enum sl_err csv_parse_line(struct csv *c, size_t line, float *x,
                                  struct csv_label *label, struct sl_error *err)
{
    const char *p = c->lines.text, *end;
    char text[FIELD_BYTES];
    size_t length = 0, column = 0;
    enum sl_err rc = lines_read(&c->lines, line, &length, err);

    if (rc != SL_OK)
        return rc;
    if (length == 0 && c->columns > 1)
        return lines_fail(&c->lines, line, err, SL_EINVAL, "is empty");
    end = c->lines.text + length;
    for (; p != NULL && column < c->columns; column++) {
        bool ids = csv_id_column(c, column) != NULL;
        char *to = ids ? c->cell : text;
        enum field_end found =
            field(c, &p, end, to, ids ? LINE_BYTES + 1 : sizeof(text));

        if (c->target[column] == NOT_USED && found == FIELD_LONG)
            continue;
        rc = field_error(c, line, column, found, err);
        if (rc == SL_OK && c->target[column] != NOT_USED)
            rc = csv_take_field(c, line, column, to, x, label, err);
        if (rc != SL_OK)
            return rc;
    }
    if (p != NULL || column < c->columns)
        return sl_fail(err, SL_EINVAL,
                       "%s: line %zu has %s than the %zu columns of the first",
                       c->lines.path, line + 1, p != NULL ? "more" : "fewer",
                       c->columns);
    return SL_OK;
}

static enum sl_err csv_read(struct data *d, uint64_t number, void *x, void *y,
                            struct sl_error *err)
{
    struct csv *c = sl_container_of(d, struct csv, data);
    size_t line = (size_t)number + c->header;
    struct csv_label label = {0, y};
    enum sl_err rc = csv_parse_line(c, line, x, &label, err);

    if (rc != SL_OK || c->labels > 0)
        return rc;
    return lines_put_label(&c->lines, line, d, label.one, y, err);
}

static void csv_release(struct data *d)
{
    struct csv *c = sl_container_of(d, struct csv, data);

    lines_release(&c->lines);
    sl_free(c->target);
    sl_free(c->cell);
}

static uint64_t csv_memory(const struct data *d)
{
    const struct csv *c =
        sl_container_of((struct data *)(uintptr_t)d, struct csv, data);

    return lines_memory(&c->lines);
}

static const struct data_ops csv_ops = {
    .read = csv_read, .memory = csv_memory, .release = csv_release};

// ---- columns and their names

// Finds the column `name`: a name of the header, else a number from 0.
static enum sl_err find_column(const struct csv *c, const struct buf *names,
                               const char *name, size_t *out,
                               struct sl_error *err)
{
    const char *p = buf_text(names);
    size_t n = 0;
    char *end;
    unsigned long number;

    for (size_t i = 0; c->header && i < c->columns; i++) {
        if (strcmp(p, name) == 0) {
            *out = i;
            return SL_OK;
        }
        p += strlen(p) + 1;
    }
    number = strtoul(name, &end, 10);
    n = (size_t)number;
    if (*name < '0' || *name > '9' || *end != '\0' || n >= c->columns)
        return sl_fail(err, SL_EINVAL,
                       "%s: there is no column '%s' (%zu columns, numbered "
                       "from 0%s)",
                       c->lines.path, name, c->columns,
                       c->header ? "" : "; for names set header: true");
    *out = n;
    return SL_OK;
}

// Removes blanks around a name, as numbers may have them.
static char *csv_trim_name(char *text)
{
    size_t n;

    text += strspn(text, " \t");
    for (n = strlen(text);
         n > 0 && (text[n - 1] == ' ' || text[n - 1] == '\t');)
        n--;
    text[n] = '\0';
    return text;
}

// Counts the columns of the first line; names are its fields, 0-terminated.
static enum sl_err first_line(struct csv *c, struct buf *names,
                              struct sl_error *err)
{
    const char *p = c->lines.text, *end;
    char text[FIELD_BYTES], *name;
    size_t length = 0;
    enum sl_err rc;

    if (c->lines.count == 0)
        return sl_fail(err, SL_EINVAL, "%s: is empty", c->lines.path);
    rc = lines_read(&c->lines, 0, &length, err);
    if (rc != SL_OK)
        return rc;
    end = c->lines.text + length;
    if (c->lines.count == 1 && memchr(c->lines.text, '\r', length) != NULL)
        return lines_fail(&c->lines, 0, err, SL_ENOTSUP,
                          "lines end with CR alone; convert them to LF");
    while (p != NULL) {
        enum field_end found = field(c, &p, end, text, sizeof(text));

        if (found != FIELD_LONG || c->header)
            rc = field_error(c, 0, c->columns, found, err);
        if (rc != SL_OK)
            return rc;
        if (++c->columns > COLUMNS_MAX)
            return lines_fail(&c->lines, 0, err, SL_ERANGE,
                              "has over 100000 columns");
        name = csv_trim_name(text);
        if (buf_append(names, name, strlen(name) + 1) != SL_OK)
            return sl_no_memory(err);
    }
    return SL_OK;
}

static enum sl_err use_column(struct csv *c, const struct buf *names,
                              const char *name, size_t target,
                              struct sl_error *err)
{
    size_t column = 0;
    enum sl_err rc = find_column(c, names, name, &column, err);

    if (rc != SL_OK)
        return rc;
    if (c->target[column] != NOT_USED)
        return sl_fail(err, SL_EINVAL, "%s: column %zu is used twice",
                       c->lines.path, column);
    c->target[column] = target;
    return SL_OK;
}

static enum sl_err choose_columns(struct csv *c, const struct data_source *s,
                                  const struct buf *names, struct sl_error *err)
{
    size_t column = c->columns - 1, used = 0;
    enum sl_err rc = SL_OK;

    c->target = sl_malloc_array(c->columns, sizeof(*c->target));
    if (c->target == NULL)
        return sl_no_memory(err);
    for (size_t i = 0; i < c->columns; i++)
        c->target[i] = NOT_USED;
    for (size_t i = 0; i < c->labels && rc == SL_OK; i++)
        rc = use_column(c, names, s->label_columns[i], LABEL_COLUMN(i), err);
    if (s->label_column != NULL)
        rc = find_column(c, names, s->label_column, &column, err);
    if (rc != SL_OK)
        return rc;
    if (c->labels == 0)
        c->target[column] = LABEL;
    for (size_t i = 0; i < c->data.ids_count && rc == SL_OK; i++)
        rc = use_column(c, names, c->data.ids[i].how.name, ID_COLUMN(i), err);
    if (rc == SL_OK && s->weights != NULL)
        rc = use_column(c, names, s->weights, WEIGHT, err);
    for (size_t i = 0; i < s->columns_count && rc == SL_OK; i++)
        rc = use_column(c, names, s->columns[i], used++, err);
    for (size_t i = 0; s->columns_count == 0 && i < c->columns; i++) {
        if (c->target[i] == NOT_USED)
            c->target[i] = used++;
    }
    if (rc == SL_OK && used != c->data.features)
        rc = sl_fail(err, SL_EINVAL,
                     "%s: %zu feature columns do not fit the model's input of "
                     "%zu numbers",
                     c->lines.path, used, c->data.features);
    return rc;
}

static enum sl_err csv_open_file(struct csv *c, const struct data_source *s,
                                 struct sl_error *err)
{
    struct buf names = BUF_INIT;
    enum sl_err rc;

    if (s->x == NULL)
        return sl_fail(err, SL_EINVAL, "data of format csv needs the path x");
    c->labels = s->label_columns_count;
    if (c->data.want.labels == DATA_VALUES
            ? c->data.want.outputs != (c->labels > 0 ? c->labels : 1)
            : c->labels > 0)
        return sl_fail(
            err, SL_EINVAL,
            "%s: a label is %zu columns, and %llu numbers are wanted", s->x,
            c->labels > 0 ? c->labels : 1,
            c->data.want.labels == DATA_VALUES
                ? (unsigned long long)c->data.want.outputs
                : 1ULL);
    if (s->ids_count > 0)
        c->cell = sl_malloc(LINE_BYTES + 1);
    if (s->ids_count > 0 && c->cell == NULL)
        return sl_no_memory(err);
    rc = data_set_ids(&c->data, s, err);
    if (rc == SL_OK && s->weights != NULL)
        rc = data_set_weights(&c->data, err);
    if (rc == SL_OK)
        rc = lines_open(&c->lines, s, err);
    if (rc == SL_OK)
        rc = first_line(c, &names, err);
    if (rc == SL_OK)
        rc = choose_columns(c, s, &names, err);
    if (rc == SL_OK)
        rc = data_set_samples(&c->data, c->lines.count - c->header, s, err);
    buf_release(&names);
    if (rc != SL_OK)
        return rc;
    lines_hash(&c->lines, &c->data);
    data_hash_number(&c->data, c->columns);
    if (s->weights != NULL)
        data_hash_name(&c->data, s->weights);
    return SL_OK;
}

enum sl_err data_open_csv(struct data **out, const struct data_source *s,
                          const struct data_want *want, struct sl_error *err)
{
    struct csv *c = sl_calloc(1, sizeof(*c));
    enum sl_err rc;

    if (c == NULL)
        return sl_no_memory(err);
    data_init(&c->data, &csv_ops, s, want);
    c->delimiter = s->delimiter != '\0' ? s->delimiter : ',';
    c->header = s->header;
    rc = csv_open_file(c, s, err);
    if (rc != SL_OK) {
        data_free(&c->data);
        return rc;
    }
    *out = &c->data;
    return SL_OK;
}
