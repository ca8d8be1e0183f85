/* What the module learns of its folder beside the content of files: the same on every computer.
 *
 * A file has a number that follows from its path alone, and a folder lists its files in the order of their names.  So for each open
 * file its path is kept, from the folder that the module sees, as it was when it was opened; there are no links.
 */
#include "launcher.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_FILE 3 /* before it the streams; it is the module's folder */
#define MOST_FILES 1000000
#define ENTRY_BYTES 24

struct entry { char *name; size_t size; uint8_t kind; };
struct open_file {
    char *path;            /* NULL for none */
    struct entry *entries; /* of a folder that was listed */
    size_t count, room;
};

static struct open_file *files;
static size_t nfiles;

static char *copied(const char *from, size_t size) {
    char *text = reserve(size + 1);
    memcpy(text, from, size);
    return text;
}

static void forget_entries(struct open_file *file) {
    for (size_t i = 0; i < file->count; i++) free(file->entries[i].name);
    free(file->entries);
    file->entries = NULL;
    file->count = file->room = 0;
}

static struct open_file *find_file(uint32_t number) {
    if (!nfiles) file_opened(FIRST_FILE, copied("", 0));
    return number < nfiles && files[number].path ? &files[number] : NULL;
}

void file_opened(uint32_t number, char *path) {
    if (number >= MOST_FILES) return free(path);
    if (number >= nfiles) {
        size_t more = number + 16;
        struct open_file *grown = reserve(more * sizeof *grown);
        if (nfiles) memcpy(grown, files, nfiles * sizeof *grown);
        free(files);
        files = grown;
        nfiles = more;
    }
    file_closed(number);
    files[number].path = path;
}

void file_closed(uint32_t number) {
    struct open_file *file = find_file(number);
    if (!file) return;
    forget_entries(file);
    free(file->path);
    file->path = NULL;
}

void file_renumbered(uint32_t from, uint32_t to) {
    struct open_file *file = find_file(from);
    if (!file || from == to) return;
    char *path = file->path;
    file->path = NULL;
    forget_entries(file);
    file_opened(to, path);
}

void forget_open_files(void) {
    for (uint32_t i = 0; i < nfiles; i++) file_closed(i);
    free(files);
    files = NULL;
    nfiles = 0;
}

const char *path_of_file(uint32_t number) {
    struct open_file *file = find_file(number);
    return file ? file->path : NULL;
}

/* Returns the path from the module's folder, without "." and "..". */
char *path_below(uint32_t folder, const char *path, size_t size) {
    const char *base = path_of_file(folder), *end = path + size;
    size_t length = base ? strlen(base) : 0;
    char *whole = reserve(length + size + 2);
    if (base) memcpy(whole, base, length);
    for (const char *part = path; part < end;) {
        const char *slash = memchr(part, '/', (size_t)(end - part));
        size_t count = (size_t)((slash ? slash : end) - part);
        if (count == 2 && !memcmp(part, "..", 2)) {
            while (length && whole[--length] != '/') {}
        } else if (count && !(count == 1 && *part == '.')) {
            if (length) whole[length++] = '/';
            memcpy(whole + length, part, count);
            length += count;
        }
        part += count + 1;
    }
    whole[length] = 0;
    return whole;
}

/* FNV-1a of 64 bits. */
static uint64_t number_after(uint64_t number, const char *text, size_t size) {
    for (size_t i = 0; i < size; i++) number = (number ^ (uint8_t)text[i]) * 0x100000001b3;
    return number;
}

uint64_t number_of_path(const char *path) { return path ? number_after(0xcbf29ce484222325, path, strlen(path)) : 0; }

/* ---- listings */

bool is_listed(uint32_t folder) {
    struct open_file *file = find_file(folder);
    return file && file->entries;
}

void begin_listing(uint32_t folder) {
    struct open_file *file = find_file(folder);
    if (file) forget_entries(file);
}

/* Files that the launcher makes and removes, at its own times. */
static bool is_ours(const struct open_file *folder, const char *name, size_t size) {
    static const char flag[] = TIME_TO_CHECKPOINT_NAME, message[] = TRICKLE_NAME;
    return !*folder->path && ((size == sizeof flag - 1 && !memcmp(name, flag, size))
                              || (size >= sizeof message && !memcmp(name, message, sizeof message - 1)));
}

static uint64_t little_number(const uint8_t *from, size_t size) {
    uint64_t number = 0;
    memcpy(&number, from, size);
    return number;
}

/* Takes the whole entries of one answer of the runtime; returns where the next begins, or `from` if there is none. */
uint64_t add_to_listing(uint32_t folder, const uint8_t *answer, size_t size, uint64_t from) {
    struct open_file *file = find_file(folder);
    while (file && size >= ENTRY_BYTES) {
        size_t length = little_number(answer + 16, 4);
        if (length > size - ENTRY_BYTES) break;
        const char *name = (const char *)answer + ENTRY_BYTES;
        if (!is_ours(file, name, length)) {
            if (file->count == file->room) {
                struct entry *grown = realloc(file->entries, (file->room = 2 * file->room + 16) * sizeof *grown);
                if (!grown) refuse("this computer has no memory left for the names of the module's files");
                file->entries = grown;
            }
            file->entries[file->count++] = (struct entry){copied(name, length), length, answer[20]};
        }
        from = little_number(answer, 8);
        answer += ENTRY_BYTES + length;
        size -= ENTRY_BYTES + length;
    }
    return from;
}

static int is_dots(const struct entry *entry) {
    return entry->size == 1 && entry->name[0] == '.' ? 2 : entry->size == 2 && !memcmp(entry->name, "..", 2);
}

/* The folder itself and the one above come first. */
static int in_order(const void *first, const void *second) {
    const struct entry *a = first, *b = second;
    int dots = is_dots(b) - is_dots(a), bytes = memcmp(a->name, b->name, a->size < b->size ? a->size : b->size);
    return dots ? dots : bytes ? bytes : (a->size > b->size) - (a->size < b->size);
}

void end_listing(uint32_t folder) {
    struct open_file *file = find_file(folder);
    if (file && file->count) qsort(file->entries, file->count, sizeof *file->entries, in_order);
}

/* Writes entries from a place on, the last one perhaps in part; returns the bytes. */
size_t write_listing(uint32_t folder, uint64_t from, uint8_t *target, size_t size) {
    struct open_file *file = find_file(folder);
    size_t used = 0;
    for (; file && from < file->count && used < size; from++) {
        const struct entry *each = &file->entries[from];
        bool dots = is_dots(each);
        char *path = path_below(folder, each->name, dots ? 0 : each->size);
        uint64_t next = from + 1, number = number_of_path(path);
        uint32_t length = (uint32_t)each->size;
        uint8_t head[ENTRY_BYTES] = {0};
        free(path);
        memcpy(head, &next, 8);
        memcpy(head + 8, &number, 8);
        memcpy(head + 16, &length, 4);
        head[20] = each->kind;
        size_t part = size - used < ENTRY_BYTES ? size - used : ENTRY_BYTES;
        memcpy(target + used, head, part);
        used += part;
        part = size - used < each->size ? size - used : each->size;
        memcpy(target + used, each->name, part);
        used += part;
    }
    return used;
}
