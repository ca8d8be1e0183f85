/* Linux and macOS. */
#ifndef _WIN32
#define _DEFAULT_SOURCE
#define _DARWIN_C_SOURCE
#include "launcher.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MOST_FOLDERS 64
#define SETTLED_TIME 946684800 /* 1 January 2000 */

static pid_t parent;
static volatile sig_atomic_t signalled;

double monotonic_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

double cpu_seconds(void) {
    struct rusage used;
    if (getrusage(RUSAGE_SELF, &used)) return 0;
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec)
         + (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

void sleep_ms(unsigned milliseconds) {
    struct timespec pause = {milliseconds / 1000, (long)(milliseconds % 1000) * 1000000};
    nanosleep(&pause, NULL);
}

volatile uint8_t *map_segment(const char *object_name) {
    (void)object_name;
    int file = open("boinc_mmap_file", O_RDWR | O_CLOEXEC);
    if (file < 0) return NULL;
    struct stat about;
    void *memory = MAP_FAILED;
    if (!fstat(file, &about) && about.st_size >= SEGMENT_BYTES)
        memory = mmap(NULL, SEGMENT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return memory == MAP_FAILED ? NULL : memory;
}

intptr_t take_lock(const char *path) {
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (file >= 0 && !fcntl(file, F_SETLK, &lock)) return file;
    if (file >= 0) close(file);
    return -1;
}

void drop_lock(intptr_t lock) { close((int)lock); }

void watch_parent(void) { parent = getppid(); }

bool client_is_gone(long pid) {
    if (getppid() != parent) return true;
    return pid > 1 && kill((pid_t)pid, 0) && errno == ESRCH;
}

static void note_signal(int number) { signalled = number; }

void listen_to_signals(void) {
    struct sigaction action = {.sa_handler = note_signal};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
}

bool asked_to_end(void) { return signalled; }

void open_error_output(void) {} /* the client has connected it */

struct start { void (*body)(void *); void *argument; };

static void *thread_body(void *given) {
    struct start *start = given;
    start->body(start->argument);
    return NULL;
}

bool start_thread(void (*body)(void *), void *argument) {
    static struct start start;
    start.body = body;
    start.argument = argument;
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 8 << 20); /* macOS gives 512 KB, too little for the compiler */
    return !pthread_create(&thread, &attributes, thread_body, &start);
}

void *load_library(const char *path, char *problem, size_t size) {
    char whole[4096];
    if (!realpath(path, whole)) { /* a bare name would be looked for elsewhere */
        snprintf(problem, size, "%s", strerror(errno));
        return NULL;
    }
    void *library = dlopen(whole, RTLD_NOW | RTLD_LOCAL);
    if (!library) snprintf(problem, size, "%s", dlerror());
    return library;
}

void *library_function(void *library, const char *name) { return dlsym(library, name); }

bool make_folder(const char *path) { return !mkdir(path, 0755) || is_folder(path); }

bool is_folder(const char *path) {
    struct stat about;
    return !lstat(path, &about) && S_ISDIR(about.st_mode);
}

bool remove_folder(const char *path) { return !rmdir(path); }

bool is_plain_file(const char *path) {
    struct stat about;
    return !lstat(path, &about) && S_ISREG(about.st_mode);
}

bool move_file(const char *from, const char *to) { return !rename(from, to); }

bool remove_file(const char *path) { return !unlink(path); }

bool create_empty(const char *path) {
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    return file >= 0 && !close(file);
}

long read_untrusted(const char *path, char *buffer, size_t size) {
    int file = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) return -1;
    struct stat about;
    long count = !fstat(file, &about) && S_ISREG(about.st_mode) ? (long)read(file, buffer, size) : -1;
    close(file);
    return count;
}

bool write_safely(FILE *file) {
    bool good = !fflush(file) && !ferror(file) && !fsync(fileno(file));
    return !fclose(file) && good;
}

bool settle_file(FILE *file, const char *path, bool executable) {
    const struct timespec times[2] = {{.tv_sec = SETTLED_TIME}, {.tv_sec = SETTLED_TIME}};
    (void)path;
    bool good = !fflush(file) && !ferror(file) && !fchmod(fileno(file), executable ? 0755 : 0644) && !futimens(fileno(file), times);
    return !fclose(file) && good;
}

bool is_settled(const char *path, double size) {
    struct stat about;
    return !lstat(path, &about) && S_ISREG(about.st_mode) && about.st_mtime == SETTLED_TIME && (double)about.st_size == size;
}

void settle_all(void) { sync(); }

void visit_files(const char *folder, void (*visit)(const char *folder, const char *name)) {
    DIR *opened = opendir(folder);
    if (!opened) return;
    for (struct dirent *entry; (entry = readdir(opened));) visit(folder, entry->d_name);
    closedir(opened);
}

double folder_bytes(const char *path, int depth) {
    if (depth > MOST_FOLDERS) return INFINITY;
    DIR *folder = opendir(path);
    if (!folder) return 0;
    double total = 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        struct stat about;
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        if (fstatat(dirfd(folder), entry->d_name, &about, AT_SYMLINK_NOFOLLOW)) continue;
        if (S_ISDIR(about.st_mode)) {
            char inner[4096];
            if (snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name) >= (int)sizeof inner) total = INFINITY;
            else total += folder_bytes(inner, depth + 1);
        } else {
            total += (double)about.st_size;
        }
    }
    closedir(folder);
    return total;
}

const bool becomes_command = true;
const char *const interpreter = "bin/python3";

bool start_command(struct run *run) {
    for (size_t i = 0; i < run->nvalues; i++) setenv(run->names[i], run->values[i], 1);
    execv(run->module, run->words);
    run->problem = strerror(errno);
    return false;
}

void end_command(void) {} /* what takes our place ends what it has started */

_Noreturn void leave(int status) {
    fflush(stderr);
    _exit(status);
}

#endif
