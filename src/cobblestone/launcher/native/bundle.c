/* The app's own Python: unpacked once for all jobs of the project, beside the archive, and removed when the archive is.
 *
 * The archive is a plain tar file (POSIX ustar) of files and folders, every folder before what is in it; it holds no links.  It is
 * held against the signed description before anything of it is written.  Unpacked it lies in `cobblestone_python/KEY`, KEY being the
 * first letters of its hash: clients put files of any name beside the archive that a server likes, but none into folders.
 * `KEY.whole`, written last, says that all is there, and names the archive.  Every job looks whether the files still have
 * the size and the time that they were given, and mends what has changed; a lock in the folder, which the system takes from
 * who is killed, keeps jobs that start together apart.
 */
#include "launcher.h"

#include <stdlib.h>
#include <string.h>

#define STORE "cobblestone_python"
#define WHOLE ".whole"

enum { BLOCK = 512, KEY_LETTERS = 12, LONGEST_PATH = 257, MOST_ENTRIES = 200000, REMOVE_TRIES = 5, LOCK_POLL_MS = 50, RETRY_SECONDS = 600 };
static const double MOST_BYTES = 2e9; /* and positions in the archive fit into a long */

enum how { LOOK, MEND, FILL };
struct entry { char path[LONGEST_PATH]; size_t size; bool is_folder, executable; };

static char *store, *own_key, *half_done;

static void remove_tree(const char *path);

static void remove_entry(const char *folder, const char *name) {
    if (!strcmp(name, ".") || !strcmp(name, "..")) return;
    char *path = text_of("%s/%s", folder, name);
    if (is_folder(path)) remove_tree(path);
    else remove_file(path);
    free(path);
}

static void remove_tree(const char *path) {
    for (int i = 0; i < REMOVE_TRIES && is_folder(path) && !remove_folder(path); i++) visit_files(path, remove_entry);
}

static _Noreturn void fail(const char *path, const char *why) {
    if (half_done) remove_tree(half_done);
    refuse(text_of("the app's Python cannot be unpacked: %s: %s", path, why));
}

/* No fault of the project's: the job shall not fail for it. */
static _Noreturn void cannot_write(const char *path) {
    if (half_done) remove_tree(half_done);
    try_later(text_of("the app's Python cannot be unpacked: %s cannot be written (is the disk full?)", path), RETRY_SECONDS);
}

/* ---- the archive */

static size_t octal(const uint8_t *from, size_t size) {
    size_t value = 0, i = 0;
    while (i < size && from[i] >= '0' && from[i] <= '7') value = value * 8 + (size_t)(from[i++] - '0');
    if (!i || (i < size && from[i] && from[i] != ' ')) fail("the archive", "a number is none");
    return value;
}

/* Only names that mean one file below the folder, and the same one on every system. */
static bool is_allowed(const char *path) {
    for (const char *part = path;; part++) {
        size_t size = strcspn(part, "/");
        if (!size || *part == ' ' || part[size - 1] == '.' || part[size - 1] == ' ') return false;
        for (size_t i = 0; i < size; i++)
            if (part[i] < ' ' || part[i] > '~' || strchr("\\:*?\"<>|", part[i])) return false;
        if (!*(part += size)) return true;
    }
}

/* Reads the next header; false at the end of the archive. */
static bool next_entry(FILE *archive, struct entry *entry) {
    uint8_t head[BLOCK];
    size_t sum = 8 * ' ';
    if (fread(head, 1, BLOCK, archive) != BLOCK) fail("the archive", "it ends too early");
    for (int i = 0; i < BLOCK; i++) sum += i < 148 || i >= 156 ? head[i] : 0;
    if (sum == 8 * ' ') return false;
    if (sum != octal(head + 148, 8) || memcmp(head + 257, "ustar", 5)) fail("the archive", "it is damaged");
    snprintf(entry->path, sizeof entry->path, "%.155s%s%.100s", (char *)head + 345, head[345] ? "/" : "", (char *)head);
    size_t size = strlen(entry->path);
    entry->is_folder = head[156] == '5';
    if (entry->is_folder && size && entry->path[size - 1] == '/') entry->path[size - 1] = 0;
    if (!is_allowed(entry->path)) fail(entry->path, "such a name is not allowed");
    if (!entry->is_folder && head[156] != '0') fail(entry->path, "it is neither a file nor a folder");
    entry->size = entry->is_folder ? 0 : octal(head + 124, 12);
    entry->executable = octal(head + 100, 8) & 0100;
    return true;
}

static void write_file(FILE *archive, const struct entry *entry, const char *path) {
    static uint8_t block[65536];
    if (is_plain_file(path) || is_folder(path)) fail(path, "two files have this name here");
    FILE *file = create_empty(path) ? fopen(path, "wb") : NULL;
    bool whole = true, written = file;
    for (size_t left = entry->size; left && whole && written;) {
        size_t part = left < sizeof block ? left : sizeof block;
        whole = fread(block, 1, part, archive) == part;
        written = fwrite(block, 1, part, file) == part;
        left -= part;
    }
    if (!(file && settle_file(file, path, entry->executable)) || !written) cannot_write(path);
    if (!whole) fail("the archive", "it ends too early");
}

/* Goes through the archive; when only looking, false if something is not as it was unpacked. */
static bool walk(const char *path, const char *folder, enum how how, void (*meanwhile)(void)) {
    struct entry entry;
    double bytes = 0;
    FILE *archive = fopen(path, "rb");
    if (!archive) fail(path, "it is missing");
    for (int count = 0; next_entry(archive, &entry); count++) {
        char *target = text_of("%s/%s", folder, entry.path);
        if ((bytes += (double)entry.size + BLOCK) > MOST_BYTES || count == MOST_ENTRIES) fail(path, "it is too large");
        if (how != LOOK && count % 50 == 0) meanwhile();
        bool good = entry.is_folder ? is_folder(target) : how != FILL && is_settled(target, (double)entry.size);
        long skip = (long)((BLOCK - entry.size % BLOCK) % BLOCK) + (good ? (long)entry.size : 0);
        if (!good && how == LOOK) {
            fclose(archive);
            return false;
        }
        if (!good && how == MEND) remove_entry(folder, entry.path);
        if (!good && entry.is_folder && !make_folder(target)) cannot_write(target);
        if (!good && !entry.is_folder) write_file(archive, &entry, target);
        if (fseek(archive, skip, SEEK_CUR)) fail(path, "it cannot be read");
        free(target);
    }
    fclose(archive);
    return true;
}

/* ---- the folder */

/* Removes what belongs to an archive that the client has deleted, with its version; and what was left half done. */
static void forget(const char *folder, const char *name) {
    char archive[300] = "";
    if (strspn(name, "0123456789abcdef") != KEY_LETTERS || !strncmp(name, own_key, KEY_LETTERS)) return;
    char *mark = text_of("%s/%.*s" WHOLE, folder, KEY_LETTERS, name);
    if (read_untrusted(mark, archive, sizeof archive - 1) <= 0 || !is_plain_file(text_of("%s/../%s", folder, archive))) {
        remove_file(mark);
        remove_tree(text_of("%s/%.*s", folder, KEY_LETTERS, name));
    }
}

static bool use_store(char *folder) {
    char *probe = text_of("%s/probe", store = folder);
    if (!make_folder(store)) return false;
    FILE *file = fopen(probe, "ab");
    if (!file) return false;
    fclose(file);
    remove_file(probe);
    return true;
}

char *unpack_bundle(const char *archive, const char *digest, void (*meanwhile)(void)) {
    const char *slash = strrchr(archive, '/'), *name = slash ? slash + 1 : archive;
    if (!use_store(text_of("%.*s" STORE, (int)(name - archive), archive)) && !use_store(STORE)) /* jobs may write to their slot only */
        cannot_write(store);
    own_key = text_of("%.*s", KEY_LETTERS, digest);
    char *folder = text_of("%s/%s", store, own_key), *mark = text_of("%s" WHOLE, folder), *lock_name = text_of("%s/lock", store);
    intptr_t lock;
    for (; (lock = take_lock(lock_name)) < 0; sleep_ms(LOCK_POLL_MS)) meanwhile();
    visit_files(store, forget);
    bool filled = is_plain_file(mark);
    if (!filled || !walk(archive, folder, LOOK, meanwhile)) {
        check_file(archive, digest);
        if (!filled) remove_tree(half_done = folder);
        if (!make_folder(folder)) cannot_write(folder);
        walk(archive, folder, filled ? MEND : FILL, meanwhile);
        settle_all();
        if (!walk(archive, folder, LOOK, meanwhile)) fail(archive, "two of its files have one name here, or somebody changes them");
        FILE *file = fopen(mark, "wb");
        if (!file || fputs(name, file) < 0 || !write_safely(file)) cannot_write(mark);
    }
    half_done = NULL;
    drop_lock(lock);
    return folder;
}
