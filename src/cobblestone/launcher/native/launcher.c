/* What is to be run, the client's orders, and the end.  See launcher.h; the same job as ../cobblestone_runtime.py does for commands.
 *
 * The slot holds the signed description `cobblestone_wasm.txt`, one entry a line, values percent-encoded:
 *
 *   bundle NAME SHA256    open name of an archive with Python, which runs the words; in place of library and module
 *   library NAME          open name of the WebAssembly runtime's library
 *   module NAME SHA256    open name of the module
 *   checkpoint N          after how many instructions a module is asked for a checkpoint
 *   native SHA256         one for each file of native code, of any platform: the library, the module in compiled form
 *   word WORD             one for each word of the command, the module's own name first; with placeholders
 *   file NAME SHA256      a file of the app, which the module shall see
 *   stdout NAME           output that receives what the module prints
 *   optional NAME         an output that may be missing
 *   set NAME=VALUE        a variable of the module's environment
 *
 * The job's options come from the project's server and nobody has signed them: they fill in the description and name files.
 * Nor has anybody signed a job's inputs, which may have any name.  So what is run is held against the description: native code above
 * all, which is looked for in a folder of the project's where the client puts no files, or by its hash.
 *
 *   --input NAME=OPEN_NAME   --output NAME=OPEN_NAME   --arg NAME=VALUE
 *
 * `--compile TRIPLE LIBRARY MODULE TARGET`, without a client, makes the compiled form of a module, for the app's maker to send along.
 *
 * On POSIX a bundle's Python takes the place of this process, with the launcher in Python, ../cobblestone_runtime.py, and the job's
 * options; on Windows its words run beside it, in the room, and this program is the launcher.
 *
 * Exit status: that of the module; 134 for one that failed (a trap); 194 aborted; 196 disk bound; 197 more instructions than the
 * job's bound; 206 the job cannot be run as described; 208 an output is missing.
 */
#include "launcher.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define DESCRIPTION "cobblestone_wasm.txt"
#define STATE ROOM ".state"
#define PROGRESS ROOM "/cobblestone_progress"
#define CHECKPOINT ROOM "/" CHECKPOINT_NAME
#define MAKES_CHECKPOINTS ROOM "/" MAKES_CHECKPOINTS_NAME
#define TRICKLE_FILE "trickle_up.xml"
#define COMPILED "compiled_module"
#define COMPILED_FOLDER "cobblestone_compiled"
#define COMPILED_SUFFIX ".cwasm50"

enum {
    MOST_TEXT = 1 << 20, MOST_ENTRIES = 2000, LONGEST_NAME = 200, CHANNEL_BYTES = 1024, STDERR_TAIL = 60000,
    MOST_TRICKLE = 61000,
    POLL_MS = 100, LOCK_RETRY_SECONDS = 60, KEEP_RETRY_SECONDS = 600,
    CONTROL = 0, HEARTBEAT = 4, STATUS = 5, TRICKLE_UP = 6, TRICKLE_DOWN = 7,
    TRAP_STATUS = 134, ABORTED = 194, DISK_BOUND = 196, TIME_BOUND = 197, BAD_DESCRIPTION = 206, OUTPUT_MISSING = 208,
};
static const double STATUS_SECONDS = 0.5, WATCH_SECONDS = 2, LOCK_WAIT_SECONDS = 35, QUIT_GRACE_SECONDS = 8,
                    TRICKLE_WAIT_SECONDS = 10;

struct pair { char *name, *value; };
struct list { struct pair items[MOST_ENTRIES]; size_t count; };

static struct list words, files, natives, optional_outputs, variables; /* of the description */
static struct list inputs, outputs, arguments;                 /* of the job */
static char *library_name, *module_name, *module_digest, *bundle_name, *bundle_digest, *stdout_name;
static const char *what = "module";

static struct {
    double client_pid, cpu_time, checkpoint_period, ncpus, memory_bound, disk_bound, fpops_est, fpops_bound;
    char workunit[300], object[300];
} job;

static struct run run = {.least = 50000000000u};
static volatile uint8_t *segment;
static double cpu_before, next_status, next_watch, next_disk, next_trickle;
static _Atomic double checkpoint_cpu, last_checkpoint; /* of a module, its own thread notes them */
static atomic_uint checkpoints;
static unsigned kept; /* number of a module's last checkpoint */
static bool quitting;
static char checkpoint_mark[100];

/* ---- texts */

void say(const char *format, ...) {
    va_list values;
    va_start(values, format);
    fputs("cobblestone: ", stderr);
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
    fflush(stderr);
    va_end(values);
}

void *reserve(size_t size) {
    void *memory = calloc(size ? size : 1, 1);
    if (memory) return memory;
    say("this computer has no memory left for %.0f MB", (double)size / 1e6);
    leave(BAD_DESCRIPTION);
}

char *text_of(const char *format, ...) {
    va_list values, again;
    va_start(values, format);
    va_copy(again, values);
    int size = vsnprintf(NULL, 0, format, values);
    char *text = reserve((size_t)size + 1);
    vsnprintf(text, (size_t)size + 1, format, again);
    va_end(values);
    va_end(again);
    return text;
}

char *read_whole(const char *path, size_t most, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    size_t room = 65536;
    char *data = reserve(room + 1);
    for (*size = 0;;) {
        *size += fread(data + *size, 1, room - *size, file);
        if (*size < room) break;
        if (room >= most || !(data = realloc(data, (room *= 2) + 1))) {
            say("%s is larger than %.0f MB", path, (double)most / 1e6);
            leave(BAD_DESCRIPTION);
        }
    }
    fclose(file);
    data[*size] = 0;
    return data;
}

_Noreturn void refuse(const char *problem) {
    say("%s", problem);
    leave(BAD_DESCRIPTION);
}

static int digit(char letter) {
    return letter >= '0' && letter <= '9' ? letter - '0'
         : letter >= 'a' && letter <= 'f' ? letter - 'a' + 10
         : letter >= 'A' && letter <= 'F' ? letter - 'A' + 10 : -1;
}

/* Decodes %XX in place. */
static char *decode(char *text) {
    char *to = text;
    for (char *from = text; *from; from++) {
        if (*from == '%' && digit(from[1]) >= 0 && digit(from[2]) >= 0) {
            *to++ = (char)(16 * digit(from[1]) + digit(from[2]));
            from += 2;
        } else {
            *to++ = *from;
        }
    }
    *to = 0;
    return text;
}

static void add(struct list *list, char *name, char *value) {
    if (list->count == MOST_ENTRIES) refuse("the description or the job has too many entries");
    list->items[list->count++] = (struct pair){name, value};
}

static char *find(const struct list *list, const char *name, size_t size) {
    for (size_t i = 0; i < list->count; i++)
        if (strlen(list->items[i].name) == size && !memcmp(list->items[i].name, name, size)) return list->items[i].value;
    return NULL;
}

static bool is_input(const char *name) {
    for (size_t i = 0; i < inputs.count; i++)
        if (!strcmp(inputs.items[i].value, name)) return true;
    return false;
}

/* Names of files have no folders: nothing outside the slot can be meant. */
static const char *checked_name(const char *name) {
    if (!*name || *name == '.' || strlen(name) > LONGEST_NAME || strpbrk(name, "/\\:*?\"<>|"))
        refuse(text_of("%s is not the name of a file in the slot", name));
    return name;
}

/* ---- what is to be run */

static void read_entry(char *line) {
    char *key = line, *value = strchr(line, ' ');
    if (!value) refuse(text_of(DESCRIPTION ": a line without a value: %.60s", line));
    *value++ = 0;
    char *second = strchr(value, !strcmp(key, "set") ? '=' : ' ');
    if (second) *second++ = 0;
    decode(value);
    if (second) decode(second);
    if (!strcmp(key, "library")) library_name = (char *)checked_name(value);
    else if (!strcmp(key, "module") && second) module_name = (char *)checked_name(value), module_digest = second;
    else if (!strcmp(key, "bundle") && second) bundle_name = (char *)checked_name(value), bundle_digest = second;
    else if (!strcmp(key, "checkpoint")) run.least = strtoull(value, NULL, 10);
    else if (!strcmp(key, "native")) add(&natives, value, value);
    else if (!strcmp(key, "stdout")) stdout_name = value;
    else if (!strcmp(key, "word")) add(&words, value, value);
    else if (!strcmp(key, "file") && second) add(&files, (char *)checked_name(value), second);
    else if (!strcmp(key, "optional")) add(&optional_outputs, value, value);
    else if (!strcmp(key, "set") && second) add(&variables, value, second);
    else refuse(text_of(DESCRIPTION ": unknown or incomplete entry %.60s", key));
}

static void read_description(void) {
    size_t size = 0;
    char *text = read_whole(DESCRIPTION, MOST_TEXT, &size);
    if (!text) refuse(DESCRIPTION " is missing in the slot");
    for (char *line = text, *next; line && *line; line = next) {
        if ((next = strchr(line, '\n'))) *next++ = 0;
        if (*line) read_entry(line);
    }
    if ((!bundle_name && (!library_name || !module_name)) || !words.count) refuse(DESCRIPTION " lacks library, module or word");
    if (bundle_name) what = "command";
}

static void read_options(int count, char **given) {
    static const struct { const char *option; struct list *list; } kinds[] = {
        {"--input", &inputs}, {"--output", &outputs}, {"--arg", &arguments}};
    char *passed = "";
    for (int i = 1; i < count; i += 2) {
        struct list *list = NULL;
        for (int k = 0; k < 3; k++)
            if (!strcmp(given[i], kinds[k].option)) list = kinds[k].list;
        if (!list) refuse(text_of("unknown option %.60s; known are --input, --output, --arg", given[i]));
        char *name = i + 1 < count ? text_of("%s", given[i + 1]) : "", *value = strchr(name, '=');
        if (!value || value == name) refuse(text_of("%s needs NAME=VALUE", given[i]));
        *value++ = 0;
        decode(value);
        if (find(list, name, strlen(name))) refuse(text_of("%s %.60s is given twice", given[i], name));
        if (list != &arguments) checked_name(value);
        else passed = text_of("%s%s ", passed, given[i + 1]);
        add(list, name, value);
    }
    if (bundle_name) add(&variables, "COBBLESTONE_ARGUMENTS", passed);
}

/* Puts the job's values for the placeholders of one word. */
static char *expand(const char *word) {
    char *result = text_of("%s", "");
    while (*word) {
        const char *end = word + 1, *name, *value = NULL;
        if ((*word == '{' || *word == '}') && word[1] == *word) {
            value = *word == '{' ? "{" : "}";
            end = word + 2;
        } else if (*word == '{') {
            if (!(end = strchr(word, '}'))) refuse(text_of("the command has %s with a brace that stands alone", word));
            size_t size = (size_t)(end++ - ++word);
            name = memchr(word, ':', size);
            size_t kind = name ? (size_t)(name - word) : size, rest = name ? size - kind - 1 : 0;
            const struct list *list = kind == 5 && !memcmp(word, "input", 5)    ? &inputs
                                      : kind == 6 && !memcmp(word, "output", 6) ? &outputs
                                      : kind == 3 && !memcmp(word, "arg", 3)    ? &arguments : NULL;
            if (list) value = name ? find(list, name + 1, rest) : list->count ? list->items[0].value : NULL;
            else if (size == 5 && !memcmp(word, "ncpus", 5)) value = text_of("%.0f", bundle_name ? job.ncpus : 1);
            else if (size == 17 && !memcmp(word, "checkpoint_period", 17)) value = text_of("%.15g", bundle_name ? job.checkpoint_period : 60); /* modules: the same for all */
            if (!value) refuse(text_of("the command uses {%.*s}, which this job does not have", (int)size, word));
        } else {
            end = word + strcspn(word, "{}") + (*word == '}');
            value = text_of("%.*s", (int)(end - word), word);
        }
        result = text_of("%s%s", result, value);
        word = end;
    }
    return result;
}

static void expand_words(void) {
    run.words = reserve((words.count + inputs.count * words.count + 1) * sizeof *run.words);
    for (size_t i = 0; i < words.count; i++) {
        if (strcmp(words.items[i].name, "{inputs}")) {
            run.words[run.nwords++] = expand(words.items[i].name);
            continue;
        }
        for (size_t k = 0; k < inputs.count; k++) run.words[run.nwords++] = inputs.items[k].value;
    }
}

static void take_environment(void) {
    run.names = reserve(variables.count * sizeof *run.names);
    run.values = reserve(variables.count * sizeof *run.values);
    for (size_t i = 0; i < variables.count; i++) {
        run.names[i] = variables.items[i].name;
        run.values[i] = bundle_name ? expand(variables.items[i].value) : variables.items[i].value;
    }
    run.nvalues = variables.count;
}

/* ---- the client's description of the job, which also holds the volunteer's key: nothing of it is passed on */

static const char *element(const char *text, const char *name, char *value, size_t size) {
    char *open = text_of("<%s>", name);
    const char *start = strstr(text, open), *end = start ? strchr(start += strlen(open), '<') : NULL;
    snprintf(value, size, "%.*s", end ? (int)(end - start) : 0, end ? start : "");
    free(open);
    return value;
}

static double number(const char *text, const char *name) {
    char value[100];
    double found = strtod(element(text, name, value, sizeof value), NULL);
    return found >= 0 && found < 1e300 ? found : 0;
}

static void read_init_data(void) {
    size_t size = 0;
    char *text = read_whole("init_data.xml", 16 * MOST_TEXT, &size);
    if (!text) refuse("there is no init_data.xml here: this program is started by the BOINC client");
    job.client_pid = number(text, "client_pid");
    job.cpu_time = number(text, "wu_cpu_time");
    job.checkpoint_period = number(text, "checkpoint_period");
    job.ncpus = ceil(number(text, "ncpus"));
    job.memory_bound = number(text, "rsc_memory_bound");
    job.disk_bound = number(text, "rsc_disk_bound");
    job.fpops_est = number(text, "rsc_fpops_est");
    job.fpops_bound = number(text, "rsc_fpops_bound");
    if (job.checkpoint_period <= 0) job.checkpoint_period = 300;
    if (job.ncpus < 1) job.ncpus = 1;
    element(text, "wu_name", job.workunit, sizeof job.workunit);
    element(text, "comm_obj_name", job.object, sizeof job.object);
    free(text);
}

/* ---- the slot */

/* Where a file really is: a link of the client's is a file with one line. */
static const char *real_path(const char *name) {
    char head[4200] = "", path[4100] = "";
    FILE *file = fopen(name, "rb");
    if (!file) refuse(text_of("the app's file %s is missing in the slot", name));
    head[fread(head, 1, sizeof head - 1, file)] = 0;
    fclose(file);
    if (strncmp(head, "<soft_link>", 11)) return name;
    return text_of("%s", element(head, "soft_link", path, sizeof path));
}

static bool is_there(const char *path) {
    FILE *file = fopen(path, "rb");
    return file && !fclose(file);
}

static const char *digest_of_file(const char *path, char text[65]) {
    uint8_t digest[32], block[65536];
    struct sha256 hash;
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    sha256_begin(&hash);
    for (size_t size; (size = fread(block, 1, sizeof block, file));) sha256_add(&hash, block, size);
    fclose(file);
    sha256_end(&hash, digest);
    for (int i = 0; i < 32; i++) snprintf(text + 2 * i, 3, "%02x", digest[i]);
    return text;
}

void check_file(const char *path, const char *expected) {
    char text[65];
    if (!digest_of_file(path, text)) refuse(text_of("the app's file %s is missing in the slot", path));
    if (strcmp(text, expected)) refuse(text_of("the app's file %s differs from the one that the project signed", path));
}

static bool is_signed_code(const char *path) {
    char text[65];
    return digest_of_file(path, text) && find(&natives, text, 64);
}

/* Moves a file into the room; after a restart the client may have put a fresh copy beside the one that the module works with. */
static void bring_in(const char *name) {
    const char *inside = text_of(ROOM "/%s", name);
    if (is_plain_file(inside)) remove_file(name);
    else if (!move_file(name, inside)) refuse(text_of("the file %s is missing in the slot, or cannot be moved", name));
}

bool is_passing(const char *name) {
    size_t size = strlen(name);
    return !strcmp(name, TIME_TO_CHECKPOINT_NAME) || !strncmp(name, TRICKLE_NAME, strlen(TRICKLE_NAME)) || find(&files, name, size)
        || is_input(name);
}

/* Removes what was compiled for modules that the client has deleted since, with their versions. */
static void forget_compiled(const char *folder, const char *name) {
    size_t size = strlen(name), end = strlen(COMPILED_SUFFIX);
    if (size > end && !strcmp(name + size - end, COMPILED_SUFFIX) && !is_plain_file(text_of("%s/../%.*s", folder, (int)(size - end), name)))
        remove_file(text_of("%s/%s", folder, name));
}

/* Beside the module, in a folder: the client puts files of any name there that a server likes, but none into folders.  Files
 * of a project have another name when their content is another. */
static void choose_cache(void) {
    const char *slash = strrchr(run.module, '/'), *name = slash ? slash + 1 : run.module;
    char *folder = text_of("%.*s" COMPILED_FOLDER, slash ? (int)(slash + 1 - run.module) : 0, run.module);
    run.cache = text_of("%s/%s" COMPILED_SUFFIX, folder, name);
    if (make_folder(folder) && !is_plain_file(run.cache)) visit_files(folder, forget_compiled);
}

static void furnish(void) {
    if (bundle_name && becomes_command) return;
    if (!make_folder(ROOM)) refuse("the folder " ROOM " cannot be made in the slot");
    for (size_t i = 0; i < files.count; i++) {
        if (is_plain_file(files.items[i].name)) check_file(files.items[i].name, files.items[i].value);
        bring_in(files.items[i].name);
    }
    for (size_t i = 0; i < inputs.count; i++) bring_in(inputs.items[i].value);
    if (bundle_name) return;
    run.library = real_path(library_name);
    run.module = real_path(module_name);
    check_file(run.module, module_digest);
    if (!is_signed_code(run.library)) refuse("the WebAssembly runtime is missing, or differs from those that the project signed");
    if (is_there(COMPILED) && is_signed_code(real_path(COMPILED))) run.compiled = real_path(COMPILED);
    choose_cache();
}

static double cpu_total(void) { return cpu_before + cpu_seconds(); }

static uint64_t fuel_total(void) { return run.fuel_before + atomic_load(&run.fuel); }

static bool save_state(unsigned number) {
    FILE *file = fopen(STATE ".tmp", "wb");
    if (!file) return false;
    fprintf(file, "%.17g %" PRIu64 " %" PRIu64 " %" PRIu64 " %u %s\n", checkpoint_cpu, fuel_total(), run.slept, run.drawn, number,
            checkpoint_mark);
    if (write_safely(file) && move_file(STATE ".tmp", STATE)) return true;
    return remove_file(STATE ".tmp"), false;
}

/* What a module did after its last checkpoint is undone: it does that again, to the instruction. */
static void load_state(void) {
    size_t size = 0;
    char *text = read_whole(STATE, 1000, &size);
    double cpu = 0;
    uint64_t fuel = 0, slept = 0, drawn = 0;
    if (text && sscanf(text, "%lf %" SCNu64 " %" SCNu64 " %" SCNu64 " %u %99[^\n]", &cpu, &fuel, &slept, &drawn, &kept, checkpoint_mark) < 5)
        cpu = 0, fuel = slept = drawn = kept = 0;
    cpu_before = checkpoint_cpu = cpu > job.cpu_time && cpu < 1e10 ? cpu : job.cpu_time;
    run.fuel_before = fuel;
    run.slept = slept;
    run.drawn = drawn;
    if (!*checkpoint_mark) remove_file(PROGRESS); /* the module starts from the beginning */
    remove_file(TIME_TO_CHECKPOINT);
    if (!bundle_name && text) restore_folder(kept);
    else if (!bundle_name && !save_state(0)) refuse("the slot cannot be written to");
}

/* ---- messages: eight channels of a flag and a text that ends with a zero; the flag is written last */

static bool receive(int channel, char text[CHANNEL_BYTES]) {
    volatile uint8_t *from = segment + channel * CHANNEL_BYTES;
    *text = 0;
    if (!segment || !*from) return false;
    atomic_thread_fence(memory_order_acquire);
    for (int i = 0; i < CHANNEL_BYTES - 1; i++) text[i] = (char)from[i + 1];
    text[CHANNEL_BYTES - 1] = 0;
    atomic_thread_fence(memory_order_release);
    *from = 0;
    return true;
}

static void send(int channel, const char *text, bool overwrite) {
    volatile uint8_t *to = segment + channel * CHANNEL_BYTES;
    if (!segment || (*to && !overwrite)) return;
    *to = 0;
    size_t size = strlen(text) + 1;
    for (size_t i = 0; i < size && i < CHANNEL_BYTES - 1; i++) to[i + 1] = (uint8_t)text[i];
    atomic_thread_fence(memory_order_release);
    *to = 1;
}

/* What the module says, else what its instructions are of the estimate: 1 is never reached before the end. */
static double fraction_done(void) {
    char text[100] = "";
    if (read_untrusted(PROGRESS, text, sizeof text - 1) > 0) {
        double said = strtod(text, NULL);
        if (said > 0) return said < 1 ? said : 1;
    }
    double part = job.fpops_est > 0 ? (double)fuel_total() / job.fpops_est : 0;
    return part < 0.9 ? part : fmin(1 - 0.09 / part, 0.999999); /* the largest below 1 with the digits that are sent */
}

/* The count of instructions travels as the integer operations that the family's clients report. */
static void report(bool final) {
    char text[CHANNEL_BYTES], counted[100] = "";
    if (!bundle_name) snprintf(counted, sizeof counted, "<intops_cumulative>%" PRIu64 "</intops_cumulative>\n", fuel_total());
    snprintf(text, sizeof text,
             "<current_cpu_time>%e</current_cpu_time>\n<checkpoint_cpu_time>%e</checkpoint_cpu_time>\n"
             "<fraction_done>%e</fraction_done>\n%s",
             cpu_total(), checkpoint_cpu, fraction_done(), counted);
    send(STATUS, text, final); /* at the end the last one often lies there still; the client reads once more after our exit */
}

/* ---- trickles: messages of the module to the project */

static char oldest[LONGEST_NAME];

static void note_trickle(const char *folder, const char *name) {
    (void)folder;
    size_t start = strlen(TRICKLE_NAME), size = strlen(name);
    if (size >= sizeof oldest || strncmp(name, TRICKLE_NAME, start) || strspn(name + start, "0123456789_") != size - start) return;
    if (!*oldest || strcmp(name, oldest) < 0) strcpy(oldest, name);
}

/* A text with an end of the client's own element would make its request to the server unreadable. */
static bool is_trickle(const char *text, long size) {
    return size > 0 && size < MOST_TRICKLE && strlen(text) == (size_t)size && !strncmp(text, "<variety>", 9)
        && !strstr(text, "</msg_from_host");
}

/* Hands the oldest message to the client, which takes one at a time; false when there is none left. */
static bool send_trickle(void) {
    static char text[MOST_TRICKLE + 1];
    if (!segment) return false;
    if (is_plain_file(TRICKLE_FILE) || segment[TRICKLE_UP * CHANNEL_BYTES]) return true;
    *oldest = 0;
    visit_files(ROOM, note_trickle);
    if (!*oldest) return false;
    const char *path = text_of(ROOM "/%s", oldest);
    long size = read_untrusted(path, text, MOST_TRICKLE);
    text[size > 0 ? size : 0] = 0;
    FILE *file = is_trickle(text, size) ? fopen(TRICKLE_FILE ".tmp", "wb") : NULL;
    if (!file) {
        say("a trickle of the %s cannot be sent: %.60s", what, oldest);
    } else if ((fputs(text, file) >= 0) & write_safely(file) && move_file(TRICKLE_FILE ".tmp", TRICKLE_FILE)) {
        send(TRICKLE_UP, "<have_new_trickle_up/>\n", false);
    }
    return remove_file(path);
}

/* ---- while the module runs */

/* Of a module: called by its own thread, at the very instruction. */
bool note_checkpoint(void) {
    char mark[100] = "";
    if (read_untrusted(CHECKPOINT, mark, sizeof mark - 1) <= 0) return false;
    mark[strcspn(mark, "\r\n")] = 0;
    if (!*mark || !strcmp(mark, checkpoint_mark)) return false;
    strcpy(checkpoint_mark, mark);
    checkpoint_cpu = cpu_total();
    bool saved = (bundle_name || keep_folder(kept + 1)) && save_state(kept + 1);
    if (!bundle_name && !saved) try_later("the checkpoint cannot be kept", KEEP_RETRY_SECONDS);
    if (!bundle_name) forget_kept(kept++);
    last_checkpoint = monotonic_seconds();
    atomic_fetch_add(&checkpoints, 1);
    return true;
}

static void ask_for_checkpoint(double now) {
    if (quitting || now - last_checkpoint >= job.checkpoint_period) create_empty(TIME_TO_CHECKPOINT);
}

enum order { GO_ON, QUIT, ABORT, DISK };

static enum order obey_client(void) {
    char text[CHANNEL_BYTES];
    receive(HEARTBEAT, text);
    receive(TRICKLE_DOWN, text);
    if (!receive(CONTROL, text)) return GO_ON;
    if (strstr(text, "<abort/>")) return ABORT;
    if (strstr(text, "<quit/>")) return QUIT;
    if (strstr(text, "<suspend/>")) {
        report(false);
        atomic_store(&run.suspended, true);
    } else if (strstr(text, "<resume/>")) {
        atomic_store(&run.suspended, false);
    } else if (strstr(text, "<reread_app_info/>")) {
        read_init_data();
    }
    return GO_ON;
}

static bool disk_exceeded(void) {
    double began = monotonic_seconds(), used = folder_bytes(".", 0), now = monotonic_seconds();
    next_disk = now + (now - began) * 20 + WATCH_SECONDS; /* a million files are not counted all the time */
    if (job.disk_bound <= 0 || used <= job.disk_bound) return false;
    if (isinf(used)) say("the job has nested folders so deeply that its disk use cannot be counted");
    else say("the job uses %.0f MB of disk, its bound is %.0f MB", used / 1e6, job.disk_bound / 1e6);
    return true;
}

static enum order tick(void) {
    double now = monotonic_seconds();
    if (asked_to_end()) return QUIT;
    enum order order = obey_client();
    if (order != GO_ON) return order;
    if (now >= next_watch) {
        next_watch = now + WATCH_SECONDS;
        if (client_is_gone((long)job.client_pid)) {
            say("the client has ended; the job stops and continues when the client is back");
            return QUIT;
        }
    }
    if (now >= next_disk && disk_exceeded()) return DISK;
    if (now >= next_trickle) {
        send_trickle();
        next_trickle = monotonic_seconds() + STATUS_SECONDS + 20 * (monotonic_seconds() - now); /* there may be a million files */
    }
    if (bundle_name) {
        ask_for_checkpoint(now);
        note_checkpoint();
    }
    if (now >= next_status) {
        next_status = now + STATUS_SECONDS;
        if (!atomic_load(&run.suspended)) report(false);
    }
    return GO_ON;
}

/* ---- the end */

/* Appends the end of the module's error output to ours.  A NUL would cut off what follows it, and ]]> the client's report. */
void hand_over_error_output(void) {
    static char tail[STDERR_TAIL];
    FILE *file = fopen(STDERR_FILE, "rb");
    if (!file) return;
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    fseek(file, size > STDERR_TAIL ? size - STDERR_TAIL : 0, SEEK_SET);
    size_t count = fread(tail, 1, sizeof tail, file);
    fclose(file);
    if (size > STDERR_TAIL) say("error output of the %s, the last %d of %ld bytes:", what, STDERR_TAIL, size);
    for (size_t i = 0; i < count; i++) {
        if (!tail[i]) continue;
        fputc(tail[i], stderr);
        if (i + 2 < count && tail[i] == ']' && tail[i + 1] == ']' && tail[i + 2] == '>') {
            fputs("] >", stderr);
            i += 2;
        }
    }
    if (count && tail[count - 1] != '\n') fputc('\n', stderr);
    fflush(stderr);
    remove_file(STDERR_FILE);
}

static _Noreturn void stop(enum order order) {
    double deadline = monotonic_seconds() + QUIT_GRACE_SECONDS;
    unsigned before = atomic_load(&checkpoints);
    quitting = true;
    atomic_store(&run.suspended, false);
    while (order == QUIT && bundle_name && atomic_load(&run.running) && is_plain_file(MAKES_CHECKPOINTS)
           && monotonic_seconds() < deadline && !atomic_load(&run.ended)) {
        char text[CHANNEL_BYTES];
        ask_for_checkpoint(0);
        note_checkpoint();
        if (atomic_load(&checkpoints) != before) break;
        if (receive(CONTROL, text) && strstr(text, "<abort/>")) order = ABORT;
        sleep_ms(POLL_MS / 2);
    }
    report(true);
    end_command();
    hand_over_error_output();
    leave(order == QUIT ? 0 : order == ABORT ? ABORTED : DISK_BOUND); /* 0 without a finish file: to be continued */
}

static int hand_over_outputs(void) {
    int status = 0;
    if (stdout_name) {
        const char *name = expand(stdout_name);
        if (!add_kept_output(kept) || !move_file(STDOUT_FILE, checked_name(name))) refuse(text_of("what the %s printed cannot be moved to its output", what));
    }
    for (size_t i = 0; i < outputs.count; i++) {
        const char *name = outputs.items[i].name, *path = outputs.items[i].value, *inside = text_of(ROOM "/%s", path);
        if (is_plain_file(inside) && move_file(inside, path)) continue;
        if (is_plain_file(path) && stdout_name && !strcmp(expand(stdout_name), path)) continue;
        if (find(&optional_outputs, name, strlen(name)) || find(&optional_outputs, path, strlen(path))) continue;
        say("the %s ended with exit status 0 but did not write its output %s (%s)", what, name, path);
        status = OUTPUT_MISSING;
    }
    return status;
}

static int ended(void) {
    if (bundle_name) note_checkpoint();
    for (double deadline = monotonic_seconds() + TRICKLE_WAIT_SECONDS; send_trickle() && monotonic_seconds() < deadline;)
        sleep_ms(POLL_MS);
    hand_over_error_output();
    if (run.end == REFUSED) refuse(run.problem);
    if (!bundle_name) say("%" PRIu64 " instructions counted, %.1f MB of memory", fuel_total(), run.memory / 1e6);
    if (run.end == OUT_OF_FUEL) {
        say("the module ran for more than %.3g instructions, the bound of the job (rsc_fpops_bound)", job.fpops_bound);
        return TIME_BOUND;
    }
    if (run.end == TRAPPED) {
        say("the module failed: %s", run.problem);
        if (job.memory_bound > 0 && run.memory > 0.9 * job.memory_bound)
            say("its memory is near the job's bound of %.0f MB", job.memory_bound / 1e6);
        return TRAP_STATUS;
    }
    if (run.status) {
        say(run.status >= 0 ? "the %s ended with exit status %d" : "the %s failed: 0x%08X", what, run.status);
        return run.status;
    }
    return hand_over_outputs();
}

_Noreturn void try_later(const char *problem, int seconds) {
    say("%s; trying again in %d s", problem, seconds);
    FILE *file = fopen("boinc_temporary_exit", "wb");
    if (file) {
        fprintf(file, "%d\n%s\n\n", seconds, problem);
        write_safely(file);
    }
    leave(0);
}

static void lock_slot(void) {
    double deadline = monotonic_seconds() + LOCK_WAIT_SECONDS;
    while (take_lock("boinc_lockfile") < 0) {
        if (client_is_gone((long)job.client_pid)) leave(0);
        if (monotonic_seconds() > deadline) try_later("another process works in this slot", LOCK_RETRY_SECONDS);
        sleep_ms(2 * POLL_MS);
    }
}

/* Replicas of a job get the same random bytes: the seed is the workunit's name. */
static void prepare_run(void) {
    struct sha256 hash;
    sha256_begin(&hash);
    sha256_add(&hash, job.workunit, strlen(job.workunit));
    sha256_end(&hash, run.seed);
    run.memory_bound = job.memory_bound;
    run.fuel_bound = job.fpops_bound > 0 && job.fpops_bound < 4e18 ? (uint64_t)job.fpops_bound : 0;
    if (run.fuel_bound && run.fuel_before >= run.fuel_bound) run.fuel_before = run.fuel_bound - 1;
    expand_words();
    take_environment();
}

/* Obeys the client before the command runs.  A suspended job still unpacks, for others may wait for it. */
static void obey_meanwhile(void) {
    enum order order = tick();
    if (order != GO_ON) stop(order);
}

/* The command's first word is Python; the job's options go to the launcher in Python, where that takes over. */
static void prepare_command(int count, char **given) {
    run.module = text_of("%s/%s", unpack_bundle(real_path(bundle_name), bundle_digest, obey_meanwhile), interpreter);
    char **all = reserve((run.nwords + (size_t)count) * sizeof *all);
    memcpy(all, run.words, run.nwords * sizeof *all);
    run.words = all;
    run.words[0] = (char *)run.module;
    for (int i = 1; becomes_command && i < count; i++) run.words[run.nwords++] = given[i];
    for (obey_meanwhile(); atomic_load(&run.suspended); obey_meanwhile()) sleep_ms(POLL_MS);
}

static int compile_only(char **given) {
    if (is_plain_file("init_data.xml")) refuse("--compile is not for jobs");
    const char *problem = engine_compile(given[1], given[2], given[3], given[4]);
    if (problem) refuse(problem);
    return 0;
}

int main(int count, char **given) {
    if (count == 6 && !strcmp(given[1], "--compile")) return compile_only(given + 1);
    open_error_output();
    watch_parent();
    read_init_data();
    lock_slot();
    hand_over_error_output(); /* of a start that was killed */
    read_description();
    read_options(count, given);
    furnish();
    load_state();
    prepare_run();
    segment = map_segment(job.object);
    listen_to_signals();
    last_checkpoint = monotonic_seconds();
    if (bundle_name) prepare_command(count, given);
    if (!(bundle_name ? start_command(&run) : start_thread(engine_run, &run)))
        refuse(text_of("the job cannot be started: %s", run.problem ? run.problem : "there are no threads"));
    while (!atomic_load(&run.ended)) {
        enum order order = tick();
        if (order != GO_ON) stop(order);
        sleep_ms(POLL_MS);
    }
    int status = ended();
    report(true);
    if (!status) {
        FILE *file = fopen("boinc_finish_called.tmp", "wb"); /* last: it says that all is done */
        if (!file || fputs("0\n", file) < 0 || !write_safely(file) || !move_file("boinc_finish_called.tmp", "boinc_finish_called"))
            refuse("the finish file cannot be written");
    }
    leave(status);
}

/* ---- SHA-256 (FIPS 180-4) */

static uint32_t rotate(uint32_t value, int count) { return value >> count | value << (32 - count); }

static void add_block(struct sha256 *hash) {
    static const uint32_t constants[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
        0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
        0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
        0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
        0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
        0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
        0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
    uint32_t words_[64];
    for (int i = 0; i < 16; i++) {
        const uint8_t *b = hash->block + 4 * i;
        words_[i] = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
    }
    for (int i = 16; i < 64; i++) {
        uint32_t x = words_[i - 15], y = words_[i - 2];
        words_[i] = words_[i - 16] + (rotate(x, 7) ^ rotate(x, 18) ^ x >> 3) + words_[i - 7]
                  + (rotate(y, 17) ^ rotate(y, 19) ^ y >> 10);
    }
    const uint32_t *s = hash->state;
    uint32_t a = s[0], b = s[1], c = s[2], d = s[3], e = s[4], f = s[5], g = s[6], h = s[7];
    for (int i = 0; i < 64; i++) {
        uint32_t first = h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) + constants[i] + words_[i];
        uint32_t second = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + first;
        d = c, c = b, b = a, a = first + second;
    }
    const uint32_t mixed[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; i++) hash->state[i] += mixed[i];
}

void sha256_begin(struct sha256 *hash) {
    *hash = (struct sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void sha256_add(struct sha256 *hash, const void *data, size_t size) {
    for (const uint8_t *from = data; size;) {
        size_t used = hash->count % 64, part = size < 64 - used ? size : 64 - used;
        memcpy(hash->block + used, from, part);
        hash->count += part, from += part, size -= part;
        if (hash->count % 64 == 0) add_block(hash);
    }
}

void sha256_end(struct sha256 *hash, uint8_t digest[32]) {
    uint64_t bits = hash->count * 8;
    sha256_add(hash, "\x80", 1);
    while (hash->count % 64 != 56) sha256_add(hash, "", 1);
    for (int i = 7; i >= 0; i--) sha256_add(hash, &(uint8_t){(uint8_t)(bits >> 8 * i)}, 1);
    for (int i = 0; i < 32; i++) digest[i] = (uint8_t)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
}
