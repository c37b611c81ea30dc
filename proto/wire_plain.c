// SPDX-License-Identifier: Apache-2.0
// proto/wire_plain.c -- what others have said, made such that it may be shown.
#include <string.h>

#include "common/base/utf8.h"
#include "proto/field.h"
#include "proto/wire.h"

// Composed for people, of names that were checked.
static bool has_lines(const ProtobufCFieldDescriptor *field)
{
    return strcmp(field->name, "explanation") == 0;
}

static bool may_stay(const char *text, size_t n, bool lines)
{
    while (lines && memchr(text, '\n', n) != NULL) {
        size_t line = strcspn(text, "\n");

        if (!utf8_plain(text, line))
            return false;
        text += line + 1;
        n -= line + 1;
    }
    return utf8_plain(text, n);
}

// Every character may become UTF8_SHOWN - 1 of them.
static void wire_write_shown(char *to, const char *text, size_t left,
                             bool lines)
{
    char shown[UTF8_SHOWN];
    size_t n, bytes;

    for (; left > 0; text += n, left -= n, to += bytes) {
        bool stays = utf8_shown(shown, text, left, &n)[0] == '\0' ||
                     (lines && *text == '\n');

        bytes = stays ? n : strlen(shown);
        memcpy(to, stays ? text : shown, bytes);
    }
    *to = '\0';
}

static void wire_make_plain(char **text, bool lines, struct wire_arena *arena)
{
    size_t n = strlen(*text);
    char *to;

    if (may_stay(*text, n, lines))
        return;
    to = wire_arena_alloc(arena, n * (UTF8_SHOWN - 1) + 1);
    if (to == NULL) { // over the budget: it tells less
        utf8_line(*text, n + 1, *text);
        return;
    }
    wire_write_shown(to, *text, n, lines);
    *text = to;
}

void wire_plain(ProtobufCMessage *m, struct wire_arena *arena)
{
    for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &m->descriptor->fields[i];
        size_t count = field_count(m, field);

        for (size_t k = 0; k < count; k++) {
            void *at = field_at(m, field, k);

            if (field->type == PROTOBUF_C_TYPE_STRING)
                wire_make_plain(at, has_lines(field), arena);
            else if (field->type == PROTOBUF_C_TYPE_MESSAGE)
                wire_plain(*(ProtobufCMessage **)at, arena);
        }
    }
}
