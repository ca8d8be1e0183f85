/* Windows: 64 bits, 7 or later. */
#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include "launcher.h"

#include <io.h>
#include <math.h>
#include <windows.h>

#define MOST_FOLDERS 64
#define LONGEST_PATH 4096

static double seconds(FILETIME time) {
    return (double)((uint64_t)time.dwHighDateTime << 32 | time.dwLowDateTime) / 1e7;
}

double monotonic_seconds(void) { return (double)GetTickCount64() / 1000; }

double cpu_seconds(void) {
    FILETIME created, ended, kernel, user;
    if (!GetProcessTimes(GetCurrentProcess(), &created, &ended, &kernel, &user)) return 0;
    return seconds(kernel) + seconds(user);
}

void sleep_ms(unsigned milliseconds) { Sleep(milliseconds); }

volatile uint8_t *map_segment(const char *object_name) {
    static const char *const spaces[] = {"Global\\", ""}; /* the first when the client is a service */
    for (int i = 0; i < 2 && *object_name; i++) {
        char name[300];
        snprintf(name, sizeof name, "%sshm_%s", spaces[i], object_name);
        HANDLE section = OpenFileMappingA(FILE_MAP_READ | FILE_MAP_WRITE, FALSE, name);
        if (section) return MapViewOfFile(section, FILE_MAP_READ | FILE_MAP_WRITE, 0, 0, SEGMENT_BYTES);
    }
    return NULL;
}

bool take_lock(const char *path) {
    return CreateFileA(path, GENERIC_WRITE, 0, NULL, OPEN_ALWAYS, FILE_ATTRIBUTE_NORMAL, NULL) != INVALID_HANDLE_VALUE;
}

void watch_parent(void) {} /* Windows keeps no parents: the client's process is all there is to watch */

bool client_is_gone(long pid) {
    if (pid <= 0) return false;
    HANDLE client = OpenProcess(SYNCHRONIZE, FALSE, (DWORD)pid);
    if (!client) return GetLastError() == ERROR_INVALID_PARAMETER; /* otherwise it lives, as another user */
    bool gone = WaitForSingleObject(client, 0) == WAIT_OBJECT_0;
    CloseHandle(client);
    return gone;
}

void listen_to_signals(void) {}

bool asked_to_end(void) { return false; }

void open_error_output(void) { /* the client lets no handles be inherited */
    if (freopen("stderr.txt", "ab", stderr)) setvbuf(stderr, NULL, _IONBF, 0);
}

struct start { void (*body)(void *); void *argument; };

static DWORD WINAPI thread_body(void *given) {
    struct start *start = given;
    start->body(start->argument);
    return 0;
}

bool start_thread(void (*body)(void *), void *argument) {
    static struct start start;
    start.body = body;
    start.argument = argument;
    return CreateThread(NULL, 8 << 20, thread_body, &start, STACK_SIZE_PARAM_IS_A_RESERVATION, NULL) != NULL;
}

void *load_library(const char *path, char *problem, size_t size) {
    wchar_t wide[LONGEST_PATH], whole[LONGEST_PATH]; /* the folder above the slot may have any letters */
    if (!MultiByteToWideChar(CP_UTF8, 0, path, -1, wide, LONGEST_PATH)
        || !GetFullPathNameW(wide, LONGEST_PATH, whole, NULL)) {
        snprintf(problem, size, "its path is too long");
        return NULL;
    }
    SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX | SEM_NOOPENFILEERRORBOX); /* no windows for the volunteer */
    HMODULE library = LoadLibraryExW(whole, NULL, LOAD_WITH_ALTERED_SEARCH_PATH);
    if (!library) snprintf(problem, size, "Windows error %lu", GetLastError());
    return library;
}

void *library_function(void *library, const char *name) { return (void *)GetProcAddress(library, name); }

bool make_folder(const char *path) {
    if (CreateDirectoryA(path, NULL)) return true;
    DWORD found = GetFileAttributesA(path);
    return found != INVALID_FILE_ATTRIBUTES && found & FILE_ATTRIBUTE_DIRECTORY && !(found & FILE_ATTRIBUTE_REPARSE_POINT);
}

bool is_plain_file(const char *path) {
    DWORD found = GetFileAttributesA(path);
    return found != INVALID_FILE_ATTRIBUTES && !(found & (FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_REPARSE_POINT));
}

bool move_file(const char *from, const char *to) { return MoveFileExA(from, to, MOVEFILE_REPLACE_EXISTING); }

bool remove_file(const char *path) { return DeleteFileA(path); }

bool create_empty(const char *path) {
    HANDLE file = CreateFileA(path, GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_DELETE, NULL, CREATE_NEW, FILE_ATTRIBUTE_NORMAL, NULL);
    return file != INVALID_HANDLE_VALUE && CloseHandle(file);
}

long read_untrusted(const char *path, char *buffer, size_t size) {
    HANDLE file = CreateFileA(path, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, OPEN_EXISTING,
                              FILE_FLAG_OPEN_REPARSE_POINT, NULL);
    if (file == INVALID_HANDLE_VALUE) return -1;
    DWORD count = 0;
    bool good = GetFileType(file) == FILE_TYPE_DISK && ReadFile(file, buffer, (DWORD)size, &count, NULL);
    CloseHandle(file);
    return good ? (long)count : -1;
}

bool write_safely(FILE *file) {
    bool good = !fflush(file) && !ferror(file) && FlushFileBuffers((HANDLE)_get_osfhandle(_fileno(file)));
    return !fclose(file) && good;
}

void visit_files(const char *folder, void (*visit)(const char *folder, const char *name)) {
    char pattern[LONGEST_PATH];
    WIN32_FIND_DATAA entry;
    snprintf(pattern, sizeof pattern, "%s\\*", folder);
    HANDLE search = FindFirstFileA(pattern, &entry);
    if (search == INVALID_HANDLE_VALUE) return;
    do visit(folder, entry.cFileName);
    while (FindNextFileA(search, &entry));
    FindClose(search);
}

static double folder_bytes_wide(const wchar_t *path, int depth) {
    wchar_t inner[LONGEST_PATH];
    WIN32_FIND_DATAW entry;
    double total = 0;
    if (depth > MOST_FOLDERS || wcslen(path) > LONGEST_PATH - MAX_PATH - 4) return INFINITY;
    swprintf(inner, LONGEST_PATH, L"%ls\\*", path);
    HANDLE search = FindFirstFileW(inner, &entry);
    if (search == INVALID_HANDLE_VALUE) return 0;
    do {
        if (!wcscmp(entry.cFileName, L".") || !wcscmp(entry.cFileName, L"..")) continue;
        if (entry.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) continue;
        if (entry.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) {
            swprintf(inner, LONGEST_PATH, L"%ls\\%ls", path, entry.cFileName);
            total += folder_bytes_wide(inner, depth + 1);
        } else {
            total += (double)((uint64_t)entry.nFileSizeHigh << 32 | entry.nFileSizeLow);
        }
    } while (FindNextFileW(search, &entry));
    FindClose(search);
    return total;
}

double folder_bytes(const char *path, int depth) {
    wchar_t wide[LONGEST_PATH];
    return MultiByteToWideChar(CP_UTF8, 0, path, -1, wide, LONGEST_PATH) ? folder_bytes_wide(wide, depth) : 0;
}

_Noreturn void leave(int status) {
    fflush(stderr);
    TerminateProcess(GetCurrentProcess(), (UINT)status); /* the engine's thread may be inside of the library */
    for (;;) Sleep(1000);
}

#endif
