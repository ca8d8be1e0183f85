/* The module, in wasmtime 50: loading, compiling, the world that it sees, and the count of its instructions.
 *
 * Same input, same bytes on every computer: NaN has one form (a module that was rewritten for it says so in its first section; of
 * others the runtime looks after each operation, which takes some times longer), threads and relaxed SIMD are off, the clock
 * counts the module's own instructions (one nanosecond each), to sleep moves that clock, and random bytes come from a seed of the job.
 * Of its folder it sees names and content, and nothing else that differs between computers: see files.c.
 *
 * The call is an asynchronous one: after every SLICE instructions the engine returns to the thread, which then publishes the count
 * and, while the job is suspended, waits.  So the client's orders need no signals and no stopped threads, on any system.
 *
 * A call of the host counts as HOST_CALL instructions and one for each byte that it moves, and the client's orders are obeyed there,
 * too.  The runtime's own functions work in the memory of the instance that calls them, so each stands behind two modules of ours:
 * one that the program imports, before there is a memory, and one with that memory, which tells us of begin and end of the call.
 *
 * Declarations follow the C API of wasmtime 50 (`wasmtime.h`; facts only), which is loaded at run time.
 */
#include "launcher.h"

#include <stdlib.h>
#include <string.h>

#define SLICE 20000000u
#define HOST_CALL 1000u
#define RANDOM_PIECE (1u << 20) /* bytes between two looks for orders */
#define LISTING_BYTES (1u << 18) /* of the module's memory, lent for listing a folder */
#define MOST_FUEL ((uint64_t)1 << 62)
#define STACK_BYTES ((size_t)4 << 20)
#define MOST_MODULE_BYTES ((size_t)1 << 30)
#define NANOSECONDS 1000000000u
#define START_OF_TIME (946684800ull * NANOSECONDS) /* 2000-01-01: archives know no dates before 1980 */
#define OUT_OF_FUEL_CODE 11
#define MEMORY_KIND 3
#define FUNCTION_KIND 0

typedef struct { size_t size; char *data; } bytes_t;
typedef struct { size_t size; void **data; } pointers_t;
typedef struct { uint64_t store; void *private_; } function_t;
typedef struct { uint64_t store; size_t private_; } instance_t;
typedef struct { uint64_t store; uint32_t private1, private2; } memory_t;
typedef struct { uint8_t kind; union { function_t function; memory_t memory; uint64_t room[3]; } of; } external_t;
typedef union { int32_t i32; int64_t i64; uint8_t room[16] __attribute__((aligned(8))); } value_t;
typedef void *(*host_function_t)(void *world, void *caller, value_t *values, size_t count);

#define FUNCTIONS(F) \
    F(void *, wasm_config_new, (void)) \
    F(void *, wasm_engine_new_with_config, (void *)) \
    F(void, wasm_byte_vec_delete, (bytes_t *)) \
    F(void *, wasm_valtype_new, (uint8_t)) \
    F(void, wasm_valtype_vec_new, (pointers_t *, size_t, void **)) \
    F(void *, wasm_functype_new, (pointers_t *, pointers_t *)) \
    F(void, wasm_trap_message, (void *, bytes_t *)) \
    F(void *, wasmtime_trap_new, (const char *, size_t)) \
    F(void, wasm_trap_delete, (void *)) \
    F(bool, wasmtime_trap_code, (void *, uint8_t *)) \
    F(void, wasmtime_error_message, (void *, bytes_t *)) \
    F(bool, wasmtime_error_exit_status, (void *, int *)) \
    F(void, wasmtime_config_consume_fuel_set, (void *, bool)) \
    F(void, wasmtime_config_cranelift_nan_canonicalization_set, (void *, bool)) \
    F(void, wasmtime_config_wasm_relaxed_simd_set, (void *, bool)) \
    F(void, wasmtime_config_wasm_threads_set, (void *, bool)) \
    F(void, wasmtime_config_parallel_compilation_set, (void *, bool)) \
    F(void, wasmtime_config_memory_init_cow_set, (void *, bool)) \
    F(void *, wasmtime_config_target_set, (void *, const char *)) \
    F(void, wasmtime_config_cranelift_flag_enable, (void *, const char *)) \
    F(void, wasmtime_config_max_wasm_stack_set, (void *, size_t)) \
    F(void, wasmtime_config_async_stack_size_set, (void *, size_t)) \
    F(void *, wasmtime_store_new, (void *, void *, void *)) \
    F(void *, wasmtime_store_context, (void *)) \
    F(void, wasmtime_store_delete, (void *)) \
    F(void, wasmtime_store_limiter, (void *, int64_t, int64_t, int64_t, int64_t, int64_t)) \
    F(void *, wasmtime_context_set_fuel, (void *, uint64_t)) \
    F(void *, wasmtime_context_get_fuel, (void *, uint64_t *)) \
    F(void *, wasmtime_context_fuel_async_yield_interval, (void *, uint64_t)) \
    F(void *, wasmtime_context_set_wasi, (void *, void *)) \
    F(void *, wasmtime_wat2wasm, (const char *, size_t, bytes_t *)) \
    F(void *, wasmtime_module_new, (void *, const uint8_t *, size_t, void **)) \
    F(void *, wasmtime_module_serialize, (void *, bytes_t *)) \
    F(void *, wasmtime_module_deserialize, (void *, const uint8_t *, size_t, void **)) \
    F(void *, wasmtime_linker_new, (void *)) \
    F(void, wasmtime_linker_delete, (void *)) \
    F(void, wasmtime_linker_allow_shadowing, (void *, bool)) \
    F(void *, wasmtime_linker_define_wasi, (void *)) \
    F(void *, wasmtime_linker_define, (void *, void *, const char *, size_t, const char *, size_t, const external_t *)) \
    F(void *, wasmtime_linker_define_instance, (void *, void *, const char *, size_t, const instance_t *)) \
    F(void *, wasmtime_linker_define_func_unchecked, \
      (void *, const char *, size_t, const char *, size_t, void *, host_function_t, void *, void *)) \
    F(void *, wasmtime_linker_instantiate_async, (void *, void *, void *, instance_t *, void **, void **)) \
    F(bool, wasmtime_instance_export_get, (void *, instance_t *, const char *, size_t, external_t *)) \
    F(void *, wasmtime_func_call_async, (void *, function_t *, void *, size_t, void *, size_t, void **, void **)) \
    F(bool, wasmtime_call_future_poll, (void *)) \
    F(void, wasmtime_call_future_delete, (void *)) \
    F(bool, wasmtime_caller_export_get, (void *, const char *, size_t, external_t *)) \
    F(void *, wasmtime_caller_context, (void *)) \
    F(uint8_t *, wasmtime_memory_data, (void *, memory_t *)) \
    F(size_t, wasmtime_memory_data_size, (void *, memory_t *)) \
    F(void *, wasi_config_new, (void)) \
    F(bool, wasi_config_set_argv, (void *, size_t, char **)) \
    F(bool, wasi_config_set_env, (void *, size_t, char **, char **)) \
    F(bool, wasi_config_set_stdout_file, (void *, const char *)) \
    F(bool, wasi_config_set_stderr_file, (void *, const char *)) \
    F(bool, wasi_config_preopen_dir, (void *, const char *, const char *, bool))

static struct {
#define FIELD(type, name, arguments) type (*name) arguments;
    FUNCTIONS(FIELD)
} api;

/* What the module may ask for beside its files. */
struct world {
    struct run *run;
    uint64_t fuel_limit;        /* of this start */
    uint64_t slept, drawn;      /* ns; random bytes */
    uint64_t fuel_left;         /* when the call of the host began */
    uint64_t next_entry;        /* of the folder that is being listed */
    bool listed;                /* as far as the runtime can */
    int32_t listing_error;
    uint64_t began, due;        /* used when this instance began; instructions from there until a checkpoint */
    bool announced;             /* this instance has said that it makes checkpoints */
    bool again;                 /* a checkpoint was made: the next instance goes on from it */
    size_t lent;                /* bytes of the module's memory, from its beginning */
    uint8_t borrowed[LISTING_BYTES];
};

static const char WASI[] = "wasi_snapshot_preview1", OWN[] = "cobblestone";

static const char *load(const char *path) {
    char problem[500];
    void *library = load_library(path, problem, sizeof problem);
    if (!library) return text_of("its WebAssembly runtime cannot be loaded on this computer: %s", problem);
#define LOOK_UP(type, name, arguments) \
    if (!(*(void **)&api.name = library_function(library, #name))) return "its WebAssembly runtime is another version: no " #name;
    FUNCTIONS(LOOK_UP)
    return NULL;
}

/* Returns a message of the library as one line of at most 4000 characters; of an error with its history, the causes. */
static const char *line_of(bytes_t message) {
    size_t size = message.size < 4000 ? message.size : 4000;
    char *line = reserve(size + 1);
    memcpy(line, message.data, size);
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)line[i] < ' ') line[i] = i + 1 < size && line[i] == '\n' ? ';' : ' ';
    api.wasm_byte_vec_delete(&message);
    const char *causes = strstr(line, "Caused by:;");
    return causes ? causes + strlen("Caused by:;") + strspn(causes + strlen("Caused by:;"), " ") : line;
}

static const char *error_text(void *error) {
    bytes_t message;
    api.wasmtime_error_message(error, &message);
    return line_of(message);
}

/* ---- clock, sleep and randomness */

static uint64_t fuel_used(const struct world *world, void *context) {
    uint64_t left = 0;
    api.wasmtime_context_get_fuel(context, &left);
    return world->fuel_limit - left;
}

static uint64_t time_of(const struct world *world, void *context) {
    return START_OF_TIME + world->run->fuel_before + fuel_used(world, context) + world->slept;
}

/* Returns a place in the module's memory, or NULL if it does not lie inside. */
static uint8_t *place(void *caller, uint32_t address, uint64_t size) {
    external_t memory;
    if (!api.wasmtime_caller_export_get(caller, "memory", 6, &memory) || memory.kind != MEMORY_KIND) return NULL;
    void *context = api.wasmtime_caller_context(caller);
    size_t whole = api.wasmtime_memory_data_size(context, &memory.of.memory);
    return address + size <= whole ? api.wasmtime_memory_data(context, &memory.of.memory) + address : NULL;
}

enum { SUCCESS = 0, FAULT = 21, INVALID = 28, NOT_SUPPORTED = 58, EVENT_BYTES = 32, SUBSCRIPTION_BYTES = 48, MOST_SUBSCRIPTIONS = 4096 };

static void wait_while_suspended(const struct run *run) {
    while (atomic_load(&run->suspended)) sleep_ms(50);
}

static bool is_due(const struct world *world) { return atomic_load(&world->run->fuel) - world->began >= world->due; }

/* Ends a call of the host that began with so much fuel, and obeys the client. */
static void charge(struct world *world, void *context, uint64_t began, uint64_t nbytes) {
    uint64_t amount = HOST_CALL + nbytes, left = began > amount ? began - amount : 0;
    api.wasmtime_context_set_fuel(context, left);
    atomic_store(&world->run->fuel, world->fuel_limit - left);
    if (is_due(world)) create_empty(TIME_TO_CHECKPOINT);
    wait_while_suspended(world->run);
}

/* Ends a call of a function of ours, which uses no fuel itself. */
static void *answer(struct world *world, void *caller, value_t *values, int32_t error, uint64_t nbytes) {
    void *context = api.wasmtime_caller_context(caller);
    charge(world, context, world->fuel_limit - fuel_used(world, context), nbytes);
    values[0].i32 = error;
    return NULL;
}

static void *clock_res_get(void *given, void *caller, value_t *values, size_t count) {
    (void)count;
    uint64_t resolution = 1;
    uint8_t *target = place(caller, (uint32_t)values[1].i32, 8);
    if (target) memcpy(target, &resolution, 8);
    return answer(given, caller, values, target ? SUCCESS : FAULT, 0);
}

static void *clock_time_get(void *given, void *caller, value_t *values, size_t count) {
    (void)count;
    uint64_t now = time_of(given, api.wasmtime_caller_context(caller));
    uint8_t *target = place(caller, (uint32_t)values[2].i32, 8);
    if (target) memcpy(target, &now, 8);
    return answer(given, caller, values, target ? SUCCESS : FAULT, 0);
}

static void *random_get(void *given, void *caller, value_t *values, size_t count) {
    (void)count;
    struct world *world = given;
    uint32_t size = (uint32_t)values[1].i32;
    uint8_t *target = place(caller, (uint32_t)values[0].i32, size), block[32];
    if (!target) return answer(world, caller, values, FAULT, 0);
    for (uint32_t i = 0; i < size; i++, world->drawn++) {
        if (!i || world->drawn % sizeof block == 0) {
            struct sha256 hash;
            uint64_t number = world->drawn / sizeof block;
            sha256_begin(&hash);
            sha256_add(&hash, world->run->seed, sizeof world->run->seed);
            sha256_add(&hash, &number, sizeof number);
            sha256_end(&hash, block);
        }
        if (i % RANDOM_PIECE == 0) wait_while_suspended(world->run);
        target[i] = block[world->drawn % sizeof block];
    }
    return answer(world, caller, values, SUCCESS, size);
}

static void *no_links(void *given, void *caller, value_t *values, size_t count) {
    (void)count;
    return answer(given, caller, values, NOT_SUPPORTED, 0);
}

static uint64_t number_at(const uint8_t *place_, size_t size) {
    uint64_t number = 0;
    memcpy(&number, place_, size);
    return number;
}

/* Waits in the module's own time, which costs none of ours; files are always ready. */
static void *poll_oneoff(void *given, void *caller, value_t *values, size_t count) {
    (void)count;
    struct world *world = given;
    uint32_t wanted = (uint32_t)values[2].i32, found = 0;
    if (!wanted || wanted > MOST_SUBSCRIPTIONS) return answer(world, caller, values, INVALID, 0);
    const uint8_t *in = place(caller, (uint32_t)values[0].i32, (uint64_t)wanted * SUBSCRIPTION_BYTES);
    uint8_t *out = place(caller, (uint32_t)values[1].i32, (uint64_t)wanted * EVENT_BYTES);
    uint8_t *number = place(caller, (uint32_t)values[3].i32, 4);
    if (!in || !out || !number) return answer(world, caller, values, FAULT, 0);
    uint64_t now = time_of(world, api.wasmtime_caller_context(caller)), first = UINT64_MAX;
    bool files = false;
    uint64_t ends[MOST_SUBSCRIPTIONS];
    for (uint32_t i = 0; i < wanted; i++) {
        const uint8_t *each = in + i * SUBSCRIPTION_BYTES;
        uint64_t timeout = number_at(each + 24, 8);
        bool absolute = number_at(each + 40, 2) & 1;
        ends[i] = each[8] ? 0 : absolute ? timeout : now + timeout < now ? UINT64_MAX : now + timeout;
        files |= each[8] != 0;
        if (ends[i] < first) first = ends[i];
    }
    if (!files && first > now) {
        world->slept += first - now;
        now = first;
    }
    for (uint32_t i = 0; i < wanted; i++) {
        uint8_t event[EVENT_BYTES] = {0};
        if (files ? ends[i] != 0 : ends[i] > now) continue;
        memcpy(event, in + i * SUBSCRIPTION_BYTES, 8);
        event[10] = in[i * SUBSCRIPTION_BYTES + 8];
        event[16] = files;
        memcpy(out + found++ * EVENT_BYTES, event, EVENT_BYTES);
    }
    memcpy(number, &found, 4);
    return answer(world, caller, values, SUCCESS, 0);
}

/* Defines a function of ours; `types` has a letter for each argument: i for 32 bits, I for 64. */
static void *define(void *linker, struct world *world, const char *module, const char *name, const char *types, int results,
                    host_function_t function) {
    void *arguments[12], *result = results ? api.wasm_valtype_new(results == 'I') : NULL;
    size_t count = strlen(types);
    pointers_t from, to;
    for (size_t i = 0; i < count; i++) arguments[i] = api.wasm_valtype_new(types[i] == 'I');
    api.wasm_valtype_vec_new(&from, count, arguments);
    api.wasm_valtype_vec_new(&to, results != 0, &result);
    return api.wasmtime_linker_define_func_unchecked(linker, module, strlen(module), name, strlen(name),
                                                     api.wasm_functype_new(&from, &to), function, world, NULL);
}

/* ---- calls of the runtime's functions: what the module gets of them, and what they cost */

enum { MOST_ARGUMENTS = 9, STAT_BYTES = 64, FOLDER = 3, PLAIN_FILE = 4 };
enum action { NOTHING, MOVES, STATS_FILE, STATS_PATH, OPENS, CLOSES, RENUMBERS, RENAMES, LISTS };
static const struct call { const char *name, *types; enum action action; } calls[] = {
    {"args_get", "ii", NOTHING}, {"args_sizes_get", "ii", NOTHING}, {"environ_get", "ii", NOTHING},
    {"environ_sizes_get", "ii", NOTHING}, {"fd_advise", "iIIi", NOTHING}, {"fd_allocate", "iII", NOTHING},
    {"fd_close", "i", CLOSES}, {"fd_datasync", "i", NOTHING}, {"fd_fdstat_get", "ii", NOTHING},
    {"fd_fdstat_set_flags", "ii", NOTHING}, {"fd_fdstat_set_rights", "iII", NOTHING}, {"fd_filestat_get", "ii", STATS_FILE},
    {"fd_filestat_set_size", "iI", NOTHING}, {"fd_filestat_set_times", "iIIi", NOTHING}, {"fd_pread", "iiiIi", MOVES},
    {"fd_prestat_dir_name", "iii", NOTHING}, {"fd_prestat_get", "ii", NOTHING}, {"fd_pwrite", "iiiIi", MOVES},
    {"fd_read", "iiii", MOVES}, {"fd_readdir", "iiiIi", LISTS}, {"fd_renumber", "ii", RENUMBERS}, {"fd_seek", "iIii", NOTHING},
    {"fd_sync", "i", NOTHING}, {"fd_tell", "ii", NOTHING}, {"fd_write", "iiii", MOVES},
    {"path_create_directory", "iii", NOTHING}, {"path_filestat_get", "iiiii", STATS_PATH},
    {"path_filestat_set_times", "iiiiIIi", NOTHING}, {"path_open", "iiiiiIIii", OPENS}, {"path_readlink", "iiiiii", NOTHING},
    {"path_remove_directory", "iii", NOTHING}, {"path_rename", "iiiiii", RENAMES}, {"path_unlink_file", "iii", NOTHING},
    {"proc_raise", "i", NOTHING}, {"sched_yield", "", NOTHING}, {"sock_accept", "iii", NOTHING}, {"sock_recv", "iiiiii", NOTHING},
    {"sock_send", "iiiii", NOTHING}, {"sock_shutdown", "ii", NOTHING},
};
enum { CALLS = sizeof calls / sizeof *calls };

/* Returns a path in the module's memory, seen from its folder. */
static char *path_at(void *caller, int64_t folder, int64_t address, int64_t size) {
    const char *path = (const char *)place(caller, (uint32_t)address, (uint32_t)size);
    return path_below((uint32_t)folder, path ? path : "", path ? (uint32_t)size : 0);
}

/* Leaves of a file's description what is the same everywhere. */
static void fix_stat(uint8_t *stat, const char *path) {
    if (!stat) return;
    const uint64_t device = 1, number = number_of_path(path), links = 1, nothing = 0, time = START_OF_TIME;
    uint8_t kind = stat[16];
    if (kind != FOLDER && kind != PLAIN_FILE) {
        memset(stat, 0, STAT_BYTES);
        stat[16] = kind;
        return;
    }
    memcpy(stat, &device, 8);
    memcpy(stat + 8, &number, 8);
    memcpy(stat + 24, &links, 8);
    if (kind == FOLDER) memcpy(stat + 32, &nothing, 8);
    for (int i = 40; i < STAT_BYTES; i += 8) memcpy(stat + i, &time, 8);
}

static void *enter(void *given, void *caller, value_t *values, size_t count) {
    (void)values, (void)count;
    struct world *world = given;
    world->fuel_left = world->fuel_limit - fuel_used(world, api.wasmtime_caller_context(caller));
    world->listed = false;
    world->listing_error = SUCCESS;
    return NULL;
}

/* Says from which entry the runtime is to list a folder into the memory that is lent, or -1 if all entries are known. */
static void *next_entry(void *given, void *caller, value_t *values, size_t count) {
    (void)count;
    struct world *world = given;
    uint32_t folder = (uint32_t)values[0].i32;
    world->listed |= !world->lent && values[1].i64 && is_listed(folder);
    if (!world->listed && !world->lent) {
        for (world->lent = LISTING_BYTES; world->lent && !place(caller, 0, world->lent); world->lent /= 2) {}
        if (world->lent) memcpy(world->borrowed, place(caller, 0, world->lent), world->lent);
        else world->listed = true, world->listing_error = FAULT; /* a memory of no pages */
        world->next_entry = 0;
        begin_listing(folder);
    }
    values[0].i64 = world->listed ? -1 : (int64_t)world->next_entry;
    return NULL;
}

static void *lent_bytes(void *given, void *caller, value_t *values, size_t count) {
    (void)caller, (void)count;
    values[0].i32 = (int32_t)((struct world *)given)->lent - 8;
    return NULL;
}

/* Takes what the runtime has listed; gives the memory back at the end. */
static void *take_entries(void *given, void *caller, value_t *values, size_t count) {
    (void)count;
    struct world *world = given;
    uint32_t folder = (uint32_t)values[0].i32, size = (uint32_t)world->lent - 8;
    uint8_t *memory = place(caller, 0, world->lent);
    uint64_t used = number_at(memory + size, 4), from = world->next_entry;
    world->listing_error = values[1].i32;
    if (!world->listing_error && used <= size) world->next_entry = add_to_listing(folder, memory, used, from);
    if (!world->listing_error && used == size && world->next_entry != from) return NULL;
    memcpy(memory, world->borrowed, world->lent);
    world->lent = 0;
    world->listed = true;
    end_listing(folder);
    return NULL;
}

static int32_t give_entries(void *caller, const value_t *given, uint64_t *nbytes) {
    uint32_t size = (uint32_t)given[2].i64;
    uint8_t *target = place(caller, (uint32_t)given[1].i64, size), *result = place(caller, (uint32_t)given[4].i64, 4);
    if (!target || !result) return FAULT;
    uint32_t used = (uint32_t)write_listing((uint32_t)given[0].i64, (uint64_t)given[3].i64, target, size);
    memcpy(result, &used, 4);
    *nbytes = used;
    return SUCCESS;
}

enum news { NO_NEWS, MAKES_CHECKPOINTS, MADE_CHECKPOINT };

static enum news news_of(const char *path) {
    return !path ? NO_NEWS : !strcmp(path, CHECKPOINT_NAME) ? MADE_CHECKPOINT : !strcmp(path, MAKES_CHECKPOINTS_NAME) ? MAKES_CHECKPOINTS : NO_NEWS;
}

/* Follows what a call that succeeded has done; tells what that may be news of. */
static enum news follow(void *caller, const struct call *call, const value_t *given, uint64_t *nbytes) {
    uint32_t file = (uint32_t)given[0].i64;
    const uint8_t *result = NULL;
    char *path = NULL;
    enum news news = NO_NEWS;
    switch (call->action) {
    case MOVES:
        result = place(caller, (uint32_t)given[strlen(call->types) - 1].i64, 4);
        *nbytes = result ? number_at(result, 4) : 0;
        break;
    case STATS_FILE:
        fix_stat(place(caller, (uint32_t)given[1].i64, STAT_BYTES), path_of_file(file));
        break;
    case STATS_PATH:
        path = path_at(caller, file, given[2].i64, given[3].i64);
        fix_stat(place(caller, (uint32_t)given[4].i64, STAT_BYTES), path);
        break;
    case OPENS:
        if ((result = place(caller, (uint32_t)given[8].i64, 4)))
            file_opened((uint32_t)number_at(result, 4), path_at(caller, file, given[2].i64, given[3].i64));
        break;
    case CLOSES:
        news = news_of(path_of_file(file));
        file_closed(file);
        break;
    case RENUMBERS:
        file_renumbered(file, (uint32_t)given[1].i64);
        break;
    case RENAMES:
        path = path_at(caller, given[3].i64, given[4].i64, given[5].i64);
        news = news_of(path);
        break;
    default: break;
    }
    free(path);
    return news;
}

/* A module is asked for a checkpoint after as many instructions on every computer, and what its start takes is a tenth at most. */
static void take_start(struct world *world) {
    uint64_t used = atomic_load(&world->run->fuel) - world->began;
    world->announced = true;
    world->due = 10 * used > world->run->least ? 10 * used : world->run->least;
    remove_file(TIME_TO_CHECKPOINT);
}

static void *leave_call(void *given, void *caller, value_t *values, size_t count) {
    (void)count;
    struct world *world = given;
    const struct call *call = &calls[values[0].i32];
    int32_t error = values[1].i32;
    uint64_t nbytes = 0;
    enum news news = error ? NO_NEWS : follow(caller, call, values + 2, &nbytes);
    if (call->action == LISTS) error = world->listing_error ? world->listing_error : give_entries(caller, values + 2, &nbytes);
    /* Before the first look at the fuel there were: two entries, the arguments, a number, two calls. */
    charge(world, api.wasmtime_caller_context(caller), world->fuel_left + strlen(call->types) + 5, nbytes);
    if (news == MAKES_CHECKPOINTS && !world->announced) take_start(world);
    if (news == MADE_CHECKPOINT && is_due(world)) {
        world->run->slept = world->slept;
        world->run->drawn = world->drawn;
        if ((world->again = note_checkpoint())) return api.wasmtime_trap_new("checkpoint", 10);
    }
    values[0].i32 = error;
    return NULL;
}

static char *text_of_types(const char *types) {
    char *text = text_of("");
    for (; *types; types++) text = text_of("%s i%d", text, *types == 'I' ? 64 : 32);
    return text_of("(param%s) (result i32)", text);
}

/* The module that programs import: its functions stand in a table, which is filled later. */
static char *front_text(void) {
    char *text = text_of("(module (table (export \"table\") %d funcref)", (int)CALLS);
    for (int i = 0; i < CALLS; i++) {
        char *types = text_of_types(calls[i].types), *arguments = text_of("");
        for (size_t k = 0; k < strlen(calls[i].types); k++) arguments = text_of("%s local.get %d", arguments, (int)k);
        text = text_of("%s (func (export \"%s\") %s%s i32.const %d call_indirect %s)", text, calls[i].name, types, arguments, i,
                       types);
    }
    return text_of("%s)", text);
}

/* Lists a folder into the memory that is lent, in as many calls as it takes. */
static char *listing_text(int i) {
    return text_of("(loop $more local.get 0 local.get 3 call $next_entry local.tee 6 i64.const 0 i64.ge_s if"
                   " local.get 0 local.get 0 i32.const 0 call $lent_bytes local.get 6 call $lent_bytes call $w%d call $take_entries"
                   " br $more end) i32.const 0", i);
}

/* The module that fills the table: it has the memory of the program, and calls the runtime's functions. */
static char *back_text(void) {
    char *imports = text_of("(module (import \"cobblestone\" \"table\" (table %d funcref))"
                            " (import \"cobblestone\" \"memory\" (memory 0)) (import \"cobblestone\" \"enter\" (func $enter))"
                            " (import \"cobblestone\" \"next_entry\" (func $next_entry (param i32 i64) (result i64)))"
                            " (import \"cobblestone\" \"lent_bytes\" (func $lent_bytes (result i32)))"
                            " (import \"cobblestone\" \"take_entries\" (func $take_entries (param i32 i32)))"
                            " (import \"cobblestone\" \"leave\" (func $leave (param i32 i32 i64 i64 i64 i64 i64 i64 i64 i64 i64)"
                            " (result i32)))", (int)CALLS);
    char *functions = text_of(" (export \"memory\" (memory 0))"), *table = text_of("(elem (i32.const 0) func");
    for (int i = 0; i < CALLS; i++) {
        const char *kinds = calls[i].types;
        size_t count = strlen(kinds);
        char *types = text_of_types(kinds), *given = text_of(""), *told = text_of("");
        for (size_t k = 0; k < MOST_ARGUMENTS; k++) {
            if (k < count) given = text_of("%s local.get %d", given, (int)k);
            if (k < count) told = text_of("%s local.get %d%s", told, (int)k, kinds[k] == 'i' ? " i64.extend_i32_u" : "");
            else told = text_of("%s i64.const 0", told);
        }
        imports = text_of("%s (import \"%s\" \"%s\" (func $w%d %s))", imports, WASI, calls[i].name, i, types);
        functions = text_of("%s (func $f%d %s (local i32 i64) call $enter i32.const %d %s%s call $leave)", functions, i, types, i,
                            calls[i].action == LISTS ? listing_text(i) : text_of("%s call $w%d", given, i), told);
        table = text_of("%s $f%d", table, i);
    }
    return text_of("%s%s%s))", imports, functions, table);
}

/* ---- compiled code, kept beside the module */

static void digest_of(const char *data, size_t size, uint8_t digest[32]) {
    struct sha256 hash;
    sha256_begin(&hash);
    sha256_add(&hash, data, size);
    sha256_end(&hash, digest);
}

/* Loads what an earlier job has compiled.  A power cut may have left a torn file: its end must be the hash of the rest. */
static void *load_compiled(void *engine, const char *path) {
    size_t size = 0;
    uint8_t digest[32];
    void *module = NULL;
    char *data = read_whole(path, MOST_MODULE_BYTES, &size);
    if (data && size > sizeof digest) {
        digest_of(data, size - sizeof digest, digest);
        if (memcmp(digest, data + size - sizeof digest, sizeof digest)
            || api.wasmtime_module_deserialize(engine, (const uint8_t *)data, size - sizeof digest, &module))
            module = NULL; /* torn, or compiled for another processor */
    }
    free(data);
    return module;
}

/* Failing is no harm: the next job compiles again. */
static bool keep_compiled(void *module, const char *path) {
    bytes_t code;
    uint8_t digest[32];
    if (api.wasmtime_module_serialize(module, &code)) return false;
    const char *temporary = text_of("%s.%.0f.tmp", path, monotonic_seconds() * 1000);
    FILE *file = fopen(temporary, "wb");
    bool kept = false;
    if (file) {
        digest_of(code.data, code.size, digest);
        bool good = fwrite(code.data, 1, code.size, file) == code.size && fwrite(digest, 1, sizeof digest, file) == sizeof digest;
        kept = write_safely(file) && good && move_file(temporary, path);
        if (!kept) remove_file(temporary);
    }
    api.wasm_byte_vec_delete(&code);
    return kept;
}

static const char *compile_anew(void *engine, const char *path, void **module) {
    size_t size = 0;
    char *code = read_whole(path, MOST_MODULE_BYTES, &size);
    if (!code) return text_of("the module %s cannot be read", path);
    void *error = api.wasmtime_module_new(engine, (const uint8_t *)code, size, module);
    free(code);
    return error ? text_of("the module cannot be used: %s", error_text(error)) : NULL;
}

static const char *compile(void *engine, const struct run *run, void **module) {
    *module = run->compiled ? load_compiled(engine, run->compiled) : NULL;
    if (!*module) *module = load_compiled(engine, run->cache);
    if (*module) return NULL;
    const char *problem = compile_anew(engine, run->module, module);
    if (!problem) keep_compiled(*module, run->cache);
    return problem;
}

/* ---- the run */

static bool gives_one_nan(const char *path) {
    static const char mark[] = "\0asm\1\0\0\0\0\x14\x13" "cobblestone:one_nan";
    char head[sizeof mark - 1];
    FILE *file = fopen(path, "rb");
    bool given = file && fread(head, 1, sizeof head, file) == sizeof head && !memcmp(head, mark, sizeof head);
    if (file) fclose(file);
    return given;
}

/* For a module and this processor; with a triple, for all processors of that kind of the last fifteen years. */
static void *new_engine(const char *module, const char *triple) {
    static const char *const usual[] = {"has_sse3", "has_ssse3", "has_sse41", "has_sse42", "has_popcnt"}; /* x86-64-v2 */
    void *config = api.wasm_config_new();
    if (triple && api.wasmtime_config_target_set(config, triple)) return NULL;
    for (size_t i = 0; triple && !strncmp(triple, "x86_64-", 7) && i < sizeof usual / sizeof *usual; i++)
        api.wasmtime_config_cranelift_flag_enable(config, usual[i]);
    api.wasmtime_config_consume_fuel_set(config, true);
    api.wasmtime_config_cranelift_nan_canonicalization_set(config, !gives_one_nan(module));
    api.wasmtime_config_wasm_relaxed_simd_set(config, false);
    api.wasmtime_config_wasm_threads_set(config, false);
    api.wasmtime_config_parallel_compilation_set(config, false); /* the client has counted one processor for this job */
    api.wasmtime_config_memory_init_cow_set(config, false); /* where systems can do it, to fill the memory would not be counted */
    api.wasmtime_config_max_wasm_stack_set(config, STACK_BYTES);
    api.wasmtime_config_async_stack_size_set(config, 2 * STACK_BYTES);
    return api.wasm_engine_new_with_config(config);
}

static void *new_wasi(struct run *run) {
    void *wasi = api.wasi_config_new();
    bool good = api.wasi_config_set_argv(wasi, run->nwords, run->words)
             && api.wasi_config_set_env(wasi, run->nvalues, run->names, run->values)
             && api.wasi_config_set_stdout_file(wasi, STDOUT_FILE)
             && api.wasi_config_set_stderr_file(wasi, STDERR_FILE)
             && api.wasi_config_preopen_dir(wasi, ROOM, ".", true);
    return good ? wasi : NULL;
}

static void finish(struct run *run, enum end end, const char *problem) {
    run->end = end;
    run->problem = problem;
}

/* Runs a call to its end; false if the run ends with it. */
static bool complete(struct world *world, void *context, void *call, void **trap, void **error) {
    struct run *run = world->run;
    while (!api.wasmtime_call_future_poll(call)) {
        atomic_store(&run->fuel, fuel_used(world, context));
        wait_while_suspended(run);
    }
    api.wasmtime_call_future_delete(call);
    atomic_store(&run->fuel, fuel_used(world, context));
    uint8_t code = 0;
    bytes_t message;
    if (*error) {
        if (api.wasmtime_error_exit_status(*error, &run->status)) finish(run, ENDED_ITSELF, NULL);
        else finish(run, TRAPPED, error_text(*error));
    } else if (*trap && world->again) {
        api.wasm_trap_delete(*trap);
    } else if (*trap) {
        bool spent = api.wasmtime_trap_code(*trap, &code) && code == OUT_OF_FUEL_CODE;
        api.wasm_trap_message(*trap, &message);
        finish(run, spent ? OUT_OF_FUEL : TRAPPED, line_of(message));
    }
    return !*error && !*trap;
}

static bool instantiate(struct world *world, void *context, void *linker, void *module, instance_t *instance) {
    void *trap = NULL, *error = NULL;
    void *call = api.wasmtime_linker_instantiate_async(linker, context, module, instance, &trap, &error);
    return complete(world, context, call, &trap, &error);
}

/* Makes an instance of a module of ours, which does not count; false if the run ends with it. */
static bool instantiate_text(struct world *world, void *engine, void *context, void *linker, const char *text,
                             instance_t *instance) {
    bytes_t code;
    void *module, *error = api.wasmtime_wat2wasm(text, strlen(text), &code);
    if (!error) error = api.wasmtime_module_new(engine, (const uint8_t *)code.data, code.size, &module);
    if (error) return finish(world->run, REFUSED, error_text(error)), false;
    uint64_t used = fuel_used(world, context);
    return instantiate(world, context, linker, module, instance)
        && !api.wasmtime_context_set_fuel(context, world->fuel_limit - used);
}

/* The functions that programs import stand in `linker`, what they rest on in `back`. */
static void *define_functions(void *linker, void *back, struct world *world) {
    void *error = api.wasmtime_linker_define_wasi(linker);
    if (!error) error = api.wasmtime_linker_define_wasi(back);
    api.wasmtime_linker_allow_shadowing(linker, true);
    if (!error) error = define(linker, world, WASI, "clock_res_get", "ii", 'i', clock_res_get);
    if (!error) error = define(linker, world, WASI, "clock_time_get", "iIi", 'i', clock_time_get);
    if (!error) error = define(linker, world, WASI, "random_get", "ii", 'i', random_get);
    if (!error) error = define(linker, world, WASI, "poll_oneoff", "iiii", 'i', poll_oneoff);
    if (!error) error = define(linker, world, WASI, "path_link", "iiiiiii", 'i', no_links);
    if (!error) error = define(linker, world, WASI, "path_symlink", "iiiii", 'i', no_links);
    if (!error) error = define(back, world, OWN, "enter", "", 0, enter);
    if (!error) error = define(back, world, OWN, "next_entry", "iI", 'I', next_entry);
    if (!error) error = define(back, world, OWN, "lent_bytes", "", 'i', lent_bytes);
    if (!error) error = define(back, world, OWN, "take_entries", "ii", 0, take_entries);
    return error ? error : define(back, world, OWN, "leave", "iiIIIIIIIII", 'i', leave_call);
}

/* Makes the program's instance, between the two modules of ours; false if the run ends with it. */
static bool instantiate_all(struct world *world, void *engine, void *context, void *linker, void *back, void *module,
                            instance_t *instance) {
    void *error;
    instance_t front, behind;
    external_t table, memory;
    if ((error = define_functions(linker, back, world))) return finish(world->run, REFUSED, error_text(error)), false;
    if (!instantiate_text(world, engine, context, back, front_text(), &front)) return false;
    if ((error = api.wasmtime_linker_define_instance(linker, context, WASI, strlen(WASI), &front)))
        return finish(world->run, REFUSED, error_text(error)), false;
    if (!instantiate(world, context, linker, module, instance)) return false;
    if (!api.wasmtime_instance_export_get(context, &front, "table", 5, &table)
        || !api.wasmtime_instance_export_get(context, instance, "memory", 6, &memory) || memory.kind != MEMORY_KIND)
        return finish(world->run, REFUSED, "the module has no memory of the name \"memory\""), false;
    if ((error = api.wasmtime_linker_define(back, context, OWN, strlen(OWN), "table", 5, &table))
        || (error = api.wasmtime_linker_define(back, context, OWN, strlen(OWN), "memory", 6, &memory)))
        return finish(world->run, REFUSED, error_text(error)), false;
    return instantiate_text(world, engine, context, back, back_text(), &behind);
}

static void note_memory(struct run *run, void *context, instance_t *instance) {
    external_t memory;
    if (!api.wasmtime_instance_export_get(context, instance, "memory", 6, &memory) || memory.kind != MEMORY_KIND) return;
    double nbytes = (double)api.wasmtime_memory_data_size(context, &memory.of.memory);
    if (nbytes > run->memory) run->memory = nbytes;
}

/* Runs the program once, from its start to its end or to a checkpoint. */
static void run_once(struct world *world, void *engine, void *store, void *linker, void *back, void *module) {
    struct run *run = world->run;
    void *context = api.wasmtime_store_context(store), *trap = NULL, *error;
    int64_t most = run->memory_bound > 0 && run->memory_bound < 1e15 ? (int64_t)run->memory_bound : -1;
    api.wasmtime_store_limiter(store, most, 10000000, 3, 101, 1); /* two instances and a table of ours */
    void *wasi = new_wasi(run);
    if (!wasi) return finish(run, REFUSED, "the slot's files cannot be opened");
    if ((error = api.wasmtime_context_set_wasi(context, wasi))
        || (error = api.wasmtime_context_set_fuel(context, world->fuel_limit - world->began))
        || (error = api.wasmtime_context_fuel_async_yield_interval(context, SLICE)))
        return finish(run, REFUSED, error_text(error));

    instance_t instance;
    external_t start;
    atomic_store(&run->running, true);
    if (!instantiate_all(world, engine, context, linker, back, module, &instance)) return;
    if (!api.wasmtime_instance_export_get(context, &instance, "_start", 6, &start) || start.kind != FUNCTION_KIND)
        return finish(run, REFUSED, "the module has no function _start");
    void *call = api.wasmtime_func_call_async(context, &start.of.function, NULL, 0, NULL, 0, &trap, &error);
    bool whole = complete(world, context, call, &trap, &error);
    note_memory(run, context, &instance);
    if (whole) finish(run, ENDED_ITSELF, NULL);
}

/* Each checkpoint is the end of an instance and the beginning of the next, as it would be after an interruption: so the same
 * instructions are executed, and counted, however often there is one. */
static void host(struct run *run) {
    static struct world world;
    void *module;
    const char *problem = load(run->library);
    if (problem) return finish(run, REFUSED, problem);
    void *engine = new_engine(run->module, NULL);
    if ((problem = compile(engine, run, &module))) return finish(run, REFUSED, problem);
    world.run = run;
    world.fuel_limit = run->fuel_bound ? run->fuel_bound - run->fuel_before : MOST_FUEL;
    world.slept = run->slept;
    world.drawn = run->drawn;
    do {
        void *linker = api.wasmtime_linker_new(engine), *back = api.wasmtime_linker_new(engine);
        void *store = api.wasmtime_store_new(engine, NULL, NULL);
        world.again = world.announced = false;
        world.due = run->least;
        run_once(&world, engine, store, linker, back, module);
        api.wasmtime_linker_delete(linker);
        api.wasmtime_linker_delete(back);
        api.wasmtime_store_delete(store);
        world.began = atomic_load(&run->fuel);
        if (world.again) {
            forget_open_files();
            remove_file(TIME_TO_CHECKPOINT);
            hand_over_error_output();
        }
    } while (world.again);
}

void engine_run(void *given) {
    struct run *run = given;
    host(run);
    atomic_store(&run->ended, true);
}

const char *engine_compile(const char *triple, const char *library, const char *path, const char *target) {
    void *module, *engine;
    const char *problem = load(library);
    if (problem) return problem;
    if (!(engine = new_engine(path, triple))) return text_of("%s is no kind of computer that the runtime knows", triple);
    if ((problem = compile_anew(engine, path, &module))) return problem;
    return keep_compiled(module, target) ? NULL : text_of("%s cannot be written", target);
}
