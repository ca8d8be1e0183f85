/* The native launcher: runs a WebAssembly module as a job of the BOINC client, on computers that need not have anything; or a
 * program in Python, which is sent along.
 *
 *   launcher.c  what is to be run, the client's orders, the end
 *   engine.c    the module, in wasmtime
 *   files.c     what the module learns of its files
 *   kept.c      the module's folder as it was at a checkpoint
 *   bundle.c    the Python, unpacked
 *   posix.c     Linux and macOS
 *   windows.c   Windows
 *
 * The module sees one folder, `job_files` in the slot, and nothing else: not the slot itself (the client's files there hold the
 * volunteer's key), no network, no clock and no randomness of the computer.  What lies in that folder is untrusted: it is opened
 * without following links, and nothing outside it is ever opened by a name that the module chose.
 */
#ifndef COBBLESTONE_LAUNCHER_H
#define COBBLESTONE_LAUNCHER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define ROOM "job_files"                    /* the folder that the module sees */
#define STDOUT_FILE "stdout.txt"            /* outside: a module could put a link in its place */
#define STDERR_FILE "command_stderr.txt"
#define SEGMENT_BYTES 8192
#define CHECKPOINT_NAME "cobblestone_checkpoint" /* in the folder */
#define MAKES_CHECKPOINTS_NAME "cobblestone_checkpoints"
#define TIME_TO_CHECKPOINT_NAME "cobblestone_time_to_checkpoint"
#define TRICKLE_NAME "cobblestone_trickle_up_"
#define TIME_TO_CHECKPOINT ROOM "/" TIME_TO_CHECKPOINT_NAME

/* ---- launcher.c */

void say(const char *format, ...);
void *reserve(size_t size);                 /* zeroed memory; ends the launcher without any */
char *text_of(const char *format, ...);     /* formatted, on the heap */
char *read_whole(const char *path, size_t most, size_t *size); /* NULL without a file; a zero follows the content */
void check_file(const char *path, const char *expected); /* ends the launcher if its SHA-256 is another */
_Noreturn void refuse(const char *problem); /* the job cannot be run as described */
_Noreturn void try_later(const char *problem, int seconds); /* the client is to start the job again */

bool note_checkpoint(void);                 /* saves what belongs to a new checkpoint, and says whether there is one */
bool is_passing(const char *name);          /* a file of the folder that is not the module's own work: an input, a message */
void hand_over_error_output(void);

/* ---- files.c */

void file_opened(uint32_t number, char *path); /* the path is on the heap, and is taken over */
void file_closed(uint32_t number);
void file_renumbered(uint32_t from, uint32_t to);
const char *path_of_file(uint32_t number);  /* NULL for streams */
void forget_open_files(void);
char *path_below(uint32_t folder, const char *path, size_t size);
uint64_t number_of_path(const char *path);
bool is_listed(uint32_t folder);
void begin_listing(uint32_t folder);
uint64_t add_to_listing(uint32_t folder, const uint8_t *answer, size_t size, uint64_t from);
void end_listing(uint32_t folder);
size_t write_listing(uint32_t folder, uint64_t from, uint8_t *target, size_t size);

/* ---- kept.c */

bool keep_folder(unsigned number);          /* copies folder and output to where the checkpoint of that number is kept */
void restore_folder(unsigned number);       /* makes the folder what it was at that checkpoint; of 0: at the beginning */
void forget_kept(unsigned number);
bool add_kept_output(unsigned number);      /* puts what was printed before that checkpoint in front of the output */

/* ---- bundle.c */

/* The folder where the archive lies unpacked.  `meanwhile` is called while that takes time; it may end the launcher. */
char *unpack_bundle(const char *archive, const char *digest, void (*meanwhile)(void));

/* ---- engine.c */

enum end { ENDED_ITSELF, TRAPPED, OUT_OF_FUEL, REFUSED };

/* One run of a module.  The engine's thread writes the last part, and reads the first. */
struct run {
    const char *library, *module;           /* paths */
    const char *compiled, *cache;           /* of the compiled form: the one that was sent along, if any; where ours is kept */
    char **words, **names, **values;        /* arguments; environment */
    size_t nwords, nvalues;
    uint8_t seed[32];
    double memory_bound;                    /* bytes; 0: none */
    uint64_t fuel_before, fuel_bound;       /* used by earlier starts; limit of the whole job */
    uint64_t least;                         /* instructions between two checkpoints */
    atomic_bool suspended;

    atomic_bool running, ended;             /* running: compiled, and at work */
    _Atomic uint64_t fuel;                  /* instructions counted in this start */
    uint64_t slept, drawn;                  /* at the last checkpoint: ns of the module's own time; its random bytes */
    enum end end;                           /* valid when `ended` */
    int status;                             /* of ENDED_ITSELF */
    const char *problem;                    /* of the others */
    double memory;                          /* bytes that the module's memory grew to */
};

void engine_run(void *run);                 /* the body of the engine's thread */
const char *engine_compile(const char *triple, const char *library, const char *module, const char *target); /* NULL, or why not */

struct sha256 { uint32_t state[8]; uint64_t count; uint8_t block[64]; };
void sha256_begin(struct sha256 *hash);
void sha256_add(struct sha256 *hash, const void *data, size_t size);
void sha256_end(struct sha256 *hash, uint8_t digest[32]);

/* ---- posix.c, windows.c */

double monotonic_seconds(void);
double cpu_seconds(void);                   /* of this process */
void sleep_ms(unsigned milliseconds);
volatile uint8_t *map_segment(const char *object_name); /* NULL without one */
intptr_t take_lock(const char *path);       /* -1 if another process has it; kept until the process ends at the latest */
void drop_lock(intptr_t lock);
bool client_is_gone(long pid);
void watch_parent(void);                    /* remember who started us */
void listen_to_signals(void);
bool asked_to_end(void);                    /* by a signal */
void open_error_output(void);
bool start_thread(void (*body)(void *), void *argument);
void *load_library(const char *path, char *problem, size_t size);
void *library_function(void *library, const char *name);
bool make_folder(const char *path);         /* true if it is there then */
bool is_folder(const char *path);           /* no link */
bool remove_folder(const char *path);       /* an empty one */
bool is_plain_file(const char *path);       /* no link, no folder, no device */
bool move_file(const char *from, const char *to); /* replaces; never follows a link */
bool remove_file(const char *path);
bool create_empty(const char *path);        /* fails if something has this name */
long read_untrusted(const char *path, char *buffer, size_t size); /* bytes, or -1; never blocks, never follows a link */
bool write_safely(FILE *file);              /* to the disk; closes it */
bool settle_file(FILE *file, const char *path, bool executable); /* closes it, and gives it a time by which it is known again */
bool is_settled(const char *path, double size); /* it has still that time, and this size */
void settle_all(void);                      /* what was closed so is on the disk */
void visit_files(const char *folder, void (*visit)(const char *folder, const char *name)); /* of the folder itself */
double folder_bytes(const char *path, int depth); /* infinite when folders are nested too deeply to be counted */
extern const bool becomes_command;          /* whether a command takes the place of this process; else it runs beside it, in the room */
extern const char *const interpreter;       /* path of Python in the folder that it was unpacked to */
bool start_command(struct run *run);        /* the program is `run->module`; false, and `run->problem`, if it cannot be */
void end_command(void);                     /* the command and all that it has started, at once */
_Noreturn void leave(int status);           /* at once, whatever other threads do */

#endif
