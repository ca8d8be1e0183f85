/* Progress, checkpoints and messages for a program in C or C++ that runs as a job: `#include <cobblestone.h>`, nothing to link.
 *
 *     long i = 0;
 *     load_state(&i);                             // if there is one: the job was interrupted
 *     for (; i < n; i++) {
 *         step(i);
 *         cobblestone_progress((double)i / n);    // cheap: call it as often as you like
 *         if (cobblestone_time_to_checkpoint()) {
 *             save_state(i + 1);                  // under another name, then rename()
 *             cobblestone_checkpoint();           // from here the job continues after an interruption
 *         }
 *     }
 *
 * Save all that the rest of the computation depends on: a checkpoint ends the program, and the launcher starts it again.
 * Without a launcher the functions do nothing, so the program can be tried by itself.
 */
#ifndef COBBLESTONE_H
#define COBBLESTONE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline const char *cobblestone_path_(char *path, size_t size, const char *name) {
    const char *folder = getenv("COBBLESTONE_FOLDER");
    if (!folder || snprintf(path, size, "%s/%s", folder, name) >= (int)size) return NULL;
    return path;
}

static inline int cobblestone_write_(const char *name, const char *text) {
    char path[600], temporary[620];
    FILE *file;
    if (!cobblestone_path_(path, sizeof path, name)) return 0;
    snprintf(temporary, sizeof temporary, "%s.new", path);
    if (!(file = fopen(temporary, "w"))) return 0;
    return (fputs(text, file) >= 0) & !fclose(file) && !rename(temporary, path);
}

/* Tells which fraction (0 to 1) of the job is done. */
static inline void cobblestone_progress(double fraction) {
    static double told = -1;
    char text[40];
    if (!(fraction > told + 0.001) && !(fraction < told) && !(fraction >= 1 && told < 1)) return;
    told = fraction;
    snprintf(text, sizeof text, "%.6f\n", fraction < 0 ? 0 : fraction > 1 ? 1 : fraction);
    cobblestone_write_("cobblestone_progress", text);
}

/* Says whether to save the state now: the volunteer's period is over, or the client asks the job to stop. */
static inline int cobblestone_time_to_checkpoint(void) {
    static int announced;
    char path[600];
    FILE *file;
    if (!announced) announced = cobblestone_write_("cobblestone_checkpoints", "") + 1;
    if (!cobblestone_path_(path, sizeof path, "cobblestone_time_to_checkpoint")) return 0;
    if (!(file = fopen(path, "r"))) return 0;
    fclose(file);
    return 1;
}

/* Tells that the state is safely in a file.  Does not return when it was time for a checkpoint: the program starts again. */
static inline void cobblestone_checkpoint(void) {
    static unsigned long count;
    char path[600], mark[80] = "";
    FILE *last;
    if (!count && cobblestone_path_(path, sizeof path, "cobblestone_checkpoint") && (last = fopen(path, "r"))) {
        if (fscanf(last, "%lu", &count) != 1) count = 0; /* continue where the start before this one ended */
        fclose(last);
    }
    snprintf(mark, sizeof mark, "%lu\n", ++count);
    if (cobblestone_write_("cobblestone_checkpoint", mark)
        && cobblestone_path_(path, sizeof path, "cobblestone_time_to_checkpoint"))
        remove(path);
}

/* Sends a message to the project while the job runs: a word of letters, digits and _-. that says what kind it is, and a text of at most
 * 60000 bytes.  Returns whether it is on its way; a job that goes on from a checkpoint may send one a second time. */
static inline int cobblestone_trickle(const char *variety, const char *text) {
    static const char usual[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
    static unsigned number;
    size_t size = strlen(variety);
    char name[80], *whole;
    int sent;
    if (!size || size > 80 || strspn(variety, usual) != size || strlen(text) > 60000 || strstr(text, "</msg_from_host>")) return 0;
    if (!(whole = (char *)malloc(size + strlen(text) + 40))) return 0;
    snprintf(name, sizeof name, "cobblestone_trickle_up_%010lld_%06u", (long long)time(NULL), ++number); /* they go in this order */
    sprintf(whole, "<variety>%s</variety>\n%s\n", variety, text);
    sent = cobblestone_write_(name, whole);
    free(whole);
    return sent;
}

#endif
