/* The module, in wasmtime 50: loading, compiling, the world that it sees, and the count of its instructions.
 *
 * Same input, same bytes on every computer: NaN has one form (a module that was rewritten for it says so in its first section; of
 * others the runtime looks after each operation, which takes some times longer), threads and relaxed SIMD are off, the clock
 * counts the module's own instructions (one nanosecond each), to sleep moves that clock, and random bytes come from a seed of the job.
 *
 * The call is an asynchronous one: after every SLICE instructions the engine returns to the thread, which then publishes the count
 * and, while the job is suspended, waits.  So the client's orders need no signals and no stopped threads, on any system.
 *
 * Declarations follow the C API of wasmtime 50 (`wasmtime.h`; facts only), which is loaded at run time.
 */
#include "launcher.h"

#include <stdlib.h>
#include <string.h>

#define SLICE 20000000u
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
    F(void, wasmtime_store_limiter, (void *, int64_t, int64_t, int64_t, int64_t, int64_t)) \
    F(void *, wasmtime_context_set_fuel, (void *, uint64_t)) \
    F(void *, wasmtime_context_get_fuel, (void *, uint64_t *)) \
    F(void *, wasmtime_context_fuel_async_yield_interval, (void *, uint64_t)) \
    F(void *, wasmtime_context_set_wasi, (void *, void *)) \
    F(void *, wasmtime_module_new, (void *, const uint8_t *, size_t, void **)) \
    F(void *, wasmtime_module_serialize, (void *, bytes_t *)) \
    F(void *, wasmtime_module_deserialize, (void *, const uint8_t *, size_t, void **)) \
    F(void *, wasmtime_linker_new, (void *)) \
    F(void, wasmtime_linker_allow_shadowing, (void *, bool)) \
    F(void *, wasmtime_linker_define_wasi, (void *)) \
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
    uint64_t fuel_limit;    /* of this start */
    uint64_t slept;         /* ns */
    uint64_t random_blocks;
    uint8_t random[32];
    size_t random_left;
};

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

enum { SUCCESS = 0, FAULT = 21, INVALID = 28, EVENT_BYTES = 32, SUBSCRIPTION_BYTES = 48, MOST_SUBSCRIPTIONS = 4096 };

static void *answer(value_t *values, int32_t error) {
    values[0].i32 = error;
    return NULL;
}

static void *clock_res_get(void *given, void *caller, value_t *values, size_t count) {
    (void)given, (void)count;
    uint64_t resolution = 1;
    uint8_t *target = place(caller, (uint32_t)values[1].i32, 8);
    if (target) memcpy(target, &resolution, 8);
    return answer(values, target ? SUCCESS : FAULT);
}

static void *clock_time_get(void *given, void *caller, value_t *values, size_t count) {
    (void)count;
    uint64_t now = time_of(given, api.wasmtime_caller_context(caller));
    uint8_t *target = place(caller, (uint32_t)values[2].i32, 8);
    if (target) memcpy(target, &now, 8);
    return answer(values, target ? SUCCESS : FAULT);
}

static void *random_get(void *given, void *caller, value_t *values, size_t count) {
    (void)count;
    struct world *world = given;
    uint32_t size = (uint32_t)values[1].i32;
    uint8_t *target = place(caller, (uint32_t)values[0].i32, size);
    if (!target) return answer(values, FAULT);
    for (uint32_t i = 0; i < size; i++) {
        if (!world->random_left) {
            struct sha256 hash;
            sha256_begin(&hash);
            sha256_add(&hash, world->run->seed, sizeof world->run->seed);
            sha256_add(&hash, &world->random_blocks, sizeof world->random_blocks);
            sha256_end(&hash, world->random);
            world->random_blocks++;
            world->random_left = sizeof world->random;
        }
        target[i] = world->random[sizeof world->random - world->random_left--];
    }
    return answer(values, SUCCESS);
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
    if (!wanted || wanted > MOST_SUBSCRIPTIONS) return answer(values, INVALID);
    const uint8_t *in = place(caller, (uint32_t)values[0].i32, (uint64_t)wanted * SUBSCRIPTION_BYTES);
    uint8_t *out = place(caller, (uint32_t)values[1].i32, (uint64_t)wanted * EVENT_BYTES);
    uint8_t *number = place(caller, (uint32_t)values[3].i32, 4);
    if (!in || !out || !number) return answer(values, FAULT);
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
    return answer(values, SUCCESS);
}

/* Puts a function of ours in the place of WASI's; `types` has a letter for each argument: i for 32 bits, I for 64. */
static void *replace(void *linker, struct world *world, const char *name, const char *types, host_function_t function) {
    void *arguments[8], *result = api.wasm_valtype_new(0);
    size_t count = strlen(types);
    pointers_t from, to;
    for (size_t i = 0; i < count; i++) arguments[i] = api.wasm_valtype_new(types[i] == 'I');
    api.wasm_valtype_vec_new(&from, count, arguments);
    api.wasm_valtype_vec_new(&to, 1, &result);
    static const char module[] = "wasi_snapshot_preview1";
    return api.wasmtime_linker_define_func_unchecked(linker, module, sizeof module - 1, name, strlen(name),
                                                     api.wasm_functype_new(&from, &to), function, world, NULL);
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
        while (atomic_load(&run->suspended)) sleep_ms(50);
    }
    api.wasmtime_call_future_delete(call);
    atomic_store(&run->fuel, fuel_used(world, context));
    uint8_t code = 0;
    bytes_t message;
    if (*error) {
        if (api.wasmtime_error_exit_status(*error, &run->status)) finish(run, ENDED_ITSELF, NULL);
        else finish(run, TRAPPED, error_text(*error));
    } else if (*trap) {
        bool spent = api.wasmtime_trap_code(*trap, &code) && code == OUT_OF_FUEL_CODE;
        api.wasm_trap_message(*trap, &message);
        finish(run, spent ? OUT_OF_FUEL : TRAPPED, line_of(message));
    }
    return !*error && !*trap;
}

static const char *define_world(void *linker, struct world *world) {
    void *error = api.wasmtime_linker_define_wasi(linker);
    api.wasmtime_linker_allow_shadowing(linker, true);
    if (!error) error = replace(linker, world, "clock_res_get", "ii", clock_res_get);
    if (!error) error = replace(linker, world, "clock_time_get", "iIi", clock_time_get);
    if (!error) error = replace(linker, world, "random_get", "ii", random_get);
    if (!error) error = replace(linker, world, "poll_oneoff", "iiii", poll_oneoff);
    return error ? error_text(error) : NULL;
}

static void note_memory(struct run *run, void *context, instance_t *instance) {
    external_t memory;
    if (api.wasmtime_instance_export_get(context, instance, "memory", 6, &memory) && memory.kind == MEMORY_KIND)
        run->memory = (double)api.wasmtime_memory_data_size(context, &memory.of.memory);
}

static void host(struct run *run) {
    static struct world world;
    void *module, *trap = NULL, *error = NULL;
    const char *problem = load(run->library);
    if (problem) return finish(run, REFUSED, problem);
    void *engine = new_engine(run->module, NULL);
    if ((problem = compile(engine, run, &module))) return finish(run, REFUSED, problem);

    void *store = api.wasmtime_store_new(engine, NULL, NULL);
    void *context = api.wasmtime_store_context(store);
    int64_t most = run->memory_bound > 0 && run->memory_bound < 1e15 ? (int64_t)run->memory_bound : -1;
    api.wasmtime_store_limiter(store, most, 10000000, 1, 100, 1);
    world.run = run;
    world.fuel_limit = run->fuel_bound ? run->fuel_bound - run->fuel_before : MOST_FUEL;
    void *wasi = new_wasi(run), *linker = api.wasmtime_linker_new(engine);
    if (!wasi) return finish(run, REFUSED, "the slot's files cannot be opened");
    if ((error = api.wasmtime_context_set_wasi(context, wasi)) || (error = api.wasmtime_context_set_fuel(context, world.fuel_limit))
        || (error = api.wasmtime_context_fuel_async_yield_interval(context, SLICE)))
        return finish(run, REFUSED, error_text(error));
    if ((problem = define_world(linker, &world))) return finish(run, REFUSED, problem);

    instance_t instance;
    external_t start;
    atomic_store(&run->running, true);
    void *call = api.wasmtime_linker_instantiate_async(linker, context, module, &instance, &trap, &error);
    if (!complete(&world, context, call, &trap, &error)) return;
    if (!api.wasmtime_instance_export_get(context, &instance, "_start", 6, &start) || start.kind != FUNCTION_KIND)
        return finish(run, REFUSED, "the module has no function _start");
    call = api.wasmtime_func_call_async(context, &start.of.function, NULL, 0, NULL, 0, &trap, &error);
    bool whole = complete(&world, context, call, &trap, &error);
    note_memory(run, context, &instance);
    if (whole) finish(run, ENDED_ITSELF, NULL);
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
