/* The module's folder as it was at a checkpoint, and what was printed until then: copies in the slot.
 *
 * A start after an interruption begins with these files, whatever the module has done to them since.  Inputs and the app's files are
 * not copied: they may be large, and programs leave them as they are.  There are two places; which of them counts is said by the
 * state, the last thing that is written.
 */
#include "launcher.h"

#include <stdlib.h>
#include <string.h>

#define OUTPUT "stdout"
#define WHOLE_OUTPUT STDOUT_FILE ".whole"
enum { MOST_FOLDERS = 64, BLOCK_BYTES = 1 << 16 };

static const char *target; /* of the folder that is being copied */
static int depth;
static bool good;

static char *place_of(unsigned number, const char *part) { return text_of(ROOM ".kept%u%s%s", number % 2, *part ? "/" : "", part); }

static bool is_dots(const char *name) { return !strcmp(name, ".") || !strcmp(name, ".."); }

static bool copy_file(const char *from, const char *to, const char *mode) {
    static char block[BLOCK_BYTES];
    FILE *in = fopen(from, "rb"), *out = in ? fopen(to, mode) : NULL;
    bool whole = out != NULL;
    for (size_t size; out && (size = fread(block, 1, sizeof block, in));) whole &= fwrite(block, 1, size, out) == size;
    if (in) whole &= !ferror(in) & !fclose(in);
    return out ? write_safely(out) & whole : false;
}

static void copy_folder(const char *from, const char *to);

static void copy_one(const char *folder, const char *name) {
    if (is_dots(name) || (!strcmp(folder, ROOM) && is_passing(name))) return;
    char *from = text_of("%s/%s", folder, name), *to = text_of("%s/%s", target, name);
    if (is_folder(from)) copy_folder(from, to);
    else if (is_plain_file(from)) good &= copy_file(from, to, "wb");
    free(from);
    free(to);
}

static void copy_folder(const char *from, const char *to) {
    const char *above = target;
    good &= depth < MOST_FOLDERS && make_folder(to);
    if (!good) return;
    target = to;
    depth++;
    visit_files(from, copy_one);
    depth--;
    target = above;
}

static void remove_one(const char *folder, const char *name) {
    if (is_dots(name) || (!strcmp(folder, ROOM) && is_passing(name))) return;
    char *path = text_of("%s/%s", folder, name);
    if (is_folder(path)) visit_files(path, remove_one);
    if (is_folder(path)) remove_folder(path);
    else remove_file(path);
    free(path);
}

void forget_kept(unsigned number) {
    char *folder = place_of(number, "");
    visit_files(folder, remove_one);
    remove_folder(folder);
    free(folder);
}

bool keep_folder(unsigned number) {
    char *folder = place_of(number, ""), *files = place_of(number, "files"), *output = place_of(number, OUTPUT);
    char *before = place_of(number - 1, OUTPUT);
    forget_kept(number);
    good = make_folder(folder);
    copy_folder(ROOM, files);
    if (is_plain_file(before)) good &= copy_file(before, output, "wb");
    good &= copy_file(STDOUT_FILE, output, "ab");
    free(folder);
    free(files);
    free(output);
    free(before);
    return good;
}

void restore_folder(unsigned number) {
    char *files = place_of(number, "files");
    forget_kept(number + 1);
    visit_files(ROOM, remove_one);
    good = !number || is_folder(files);
    if (number) copy_folder(files, ROOM);
    if (!good) try_later("the files of the last checkpoint cannot be copied", 600);
    free(files);
}

bool add_kept_output(unsigned number) {
    char *before = place_of(number, OUTPUT);
    bool whole = !number || (copy_file(before, WHOLE_OUTPUT, "wb") && copy_file(STDOUT_FILE, WHOLE_OUTPUT, "ab")
                             && move_file(WHOLE_OUTPUT, STDOUT_FILE));
    free(before);
    return whole;
}
