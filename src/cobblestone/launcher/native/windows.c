/* Windows: 64 bits, 7 or later. */
#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include "launcher.h"

#include <io.h>
#include <math.h>
#include <windows.h>

#define MOST_FOLDERS 64
#define LONGEST_PATH 4096

enum { MOST_PROCESSES = 1000, LONGEST_LINE = 32767, COMMAND_POLL_MS = 50, START_TRIES = 5, START_PAUSE_MS = 1000 };

/* 1 January 2000; the file systems that count in local time count in steps of two seconds. */
static const FILETIME settled_time = {.dwHighDateTime = 29316075, .dwLowDateTime = 627916800u};

static HANDLE command, command_job; /* what runs beside us, and all that it starts */
static HANDLE frozen[MOST_PROCESSES];
static size_t n_frozen;

static double seconds(FILETIME time) {
    return (double)((uint64_t)time.dwHighDateTime << 32 | time.dwLowDateTime) / 1e7;
}

double monotonic_seconds(void) { return (double)GetTickCount64() / 1000; }

static double cpu_of(HANDLE process) {
    FILETIME created, ended, kernel, user;
    return process && GetProcessTimes(process, &created, &ended, &kernel, &user) ? seconds(kernel) + seconds(user) : 0;
}

double cpu_seconds(void) {
    JOBOBJECT_BASIC_ACCOUNTING_INFORMATION about = {0};
    if (command_job) QueryInformationJobObject(command_job, JobObjectBasicAccountingInformation, &about, sizeof about, NULL);
    double all = (double)(about.TotalUserTime.QuadPart + about.TotalKernelTime.QuadPart) / 1e7, first = cpu_of(command);
    return cpu_of(GetCurrentProcess()) + (all > first ? all : first);
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

intptr_t take_lock(const char *path) {
    HANDLE file = CreateFileA(path, GENERIC_WRITE, 0, NULL, OPEN_ALWAYS, FILE_ATTRIBUTE_NORMAL, NULL);
    return file == INVALID_HANDLE_VALUE ? -1 : (intptr_t)file;
}

void drop_lock(intptr_t lock) { CloseHandle((HANDLE)lock); }

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

bool make_folder(const char *path) { return CreateDirectoryA(path, NULL) || is_folder(path); }

bool remove_folder(const char *path) { return RemoveDirectoryA(path); }

bool is_folder(const char *path) {
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

bool settle_file(FILE *file, const char *path, bool executable) {
    (void)path, (void)executable;
    bool good = !fflush(file) && !ferror(file) && FlushFileBuffers((HANDLE)_get_osfhandle(_fileno(file)))
             && SetFileTime((HANDLE)_get_osfhandle(_fileno(file)), NULL, NULL, &settled_time);
    return !fclose(file) && good;
}

bool is_settled(const char *path, double size) {
    WIN32_FILE_ATTRIBUTE_DATA about;
    return is_plain_file(path) && GetFileAttributesExA(path, GetFileExInfoStandard, &about)
        && !CompareFileTime(&about.ftLastWriteTime, &settled_time)
        && (double)((uint64_t)about.nFileSizeHigh << 32 | about.nFileSizeLow) == size;
}

void settle_all(void) {}

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

/* ---- a command */

const bool becomes_command = false;
const char *const interpreter = "python.exe";

static wchar_t *wide_text(const char *text) {
    int size = MultiByteToWideChar(CP_UTF8, 0, text, -1, NULL, 0);
    wchar_t *wide = reserve((size_t)(size + 1) * sizeof *wide);
    MultiByteToWideChar(CP_UTF8, 0, text, -1, wide, size);
    return wide;
}

/* Adds a word to a command line so that the C library of the program takes it apart again as it was. */
static bool add_word(wchar_t *line, const wchar_t *word) {
    size_t at = wcslen(line), slashes = 0;
    if (at + 2 * wcslen(word) + 4 > LONGEST_LINE) return false;
    if (at) line[at++] = ' ';
    line[at++] = '"';
    for (;; slashes = 0, line[at++] = *word++) {
        for (; *word == '\\'; slashes++) line[at++] = *word++;
        for (; slashes && (!*word || *word == '"'); slashes--) line[at++] = '\\';
        if (!*word) break;
        if (*word == '"') line[at++] = '\\';
    }
    wcscpy(line + at, L"\"");
    return true;
}

/* The volunteer's own Python shall not change ours; otherwise the command sees the variables that we see. */
static void set_variables(const struct run *run, const wchar_t *room) {
    wchar_t *all = GetEnvironmentStringsW(), name[LONGEST_PATH];
    for (wchar_t *each = all; *each; each += wcslen(each) + 1) {
        swprintf(name, LONGEST_PATH, L"%.*ls", (int)wcscspn(each, L"="), each);
        if (!_wcsnicmp(name, L"PYTHON", 6)) SetEnvironmentVariableW(name, NULL);
    }
    FreeEnvironmentStringsW(all);
    for (size_t i = 0; i < run->nvalues; i++) SetEnvironmentVariableW(wide_text(run->names[i]), wide_text(run->values[i]));
    SetEnvironmentVariableW(L"COBBLESTONE_FOLDER", room);
}

static HANDLE for_command(const char *path, DWORD access, DWORD disposition) {
    SECURITY_ATTRIBUTES inherited = {.nLength = sizeof inherited, .bInheritHandle = TRUE};
    return CreateFileA(path, access, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, &inherited, disposition, 0, NULL);
}

/* Stops all processes of the command, also those that begin meanwhile. */
static void freeze(void) {
    static struct { JOBOBJECT_BASIC_PROCESS_ID_LIST list; ULONG_PTR more[MOST_PROCESSES]; } found;
    LONG (WINAPI *stop)(HANDLE) = (void *)GetProcAddress(GetModuleHandleA("ntdll.dll"), "NtSuspendProcess");
    for (size_t before = MOST_PROCESSES; before != n_frozen;) {
        before = n_frozen;
        memset(&found, 0, sizeof found);
        QueryInformationJobObject(command_job, JobObjectBasicProcessIdList, &found, sizeof found, NULL);
        for (size_t i = 0; i < found.list.NumberOfProcessIdsInList && n_frozen < MOST_PROCESSES; i++) {
            bool known = false;
            for (size_t k = 0; k < n_frozen && !known; k++) known = GetProcessId(frozen[k]) == found.list.ProcessIdList[i];
            HANDLE process = known ? NULL : OpenProcess(PROCESS_SUSPEND_RESUME | PROCESS_QUERY_INFORMATION, FALSE, (DWORD)found.list.ProcessIdList[i]);
            if (process) stop(frozen[n_frozen++] = process);
        }
    }
}

static void thaw(void) {
    LONG (WINAPI *go_on)(HANDLE) = (void *)GetProcAddress(GetModuleHandleA("ntdll.dll"), "NtResumeProcess");
    while (n_frozen) {
        go_on(frozen[--n_frozen]);
        CloseHandle(frozen[n_frozen]);
    }
}

static void command_body(void *given) {
    struct run *run = given;
    bool stopped = false;
    while (WaitForSingleObject(command, COMMAND_POLL_MS) != WAIT_OBJECT_0) {
        if (stopped == atomic_load(&run->suspended)) continue;
        if ((stopped = !stopped)) freeze();
        else thaw();
    }
    DWORD status = 0;
    GetExitCodeProcess(command, &status);
    TerminateJobObject(command_job, 1);
    run->status = (int)status;
    atomic_store(&run->ended, true);
}

bool start_command(struct run *run) {
    static wchar_t line[LONGEST_LINE], room[LONGEST_PATH], program[LONGEST_PATH];
    static char problem[100];
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits = {.BasicLimitInformation = {.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE}};
    STARTUPINFOW start = {.cb = sizeof start, .dwFlags = STARTF_USESTDHANDLES};
    PROCESS_INFORMATION process;
    run->problem = "its command line or a path is too long";
    if (!GetFullPathNameW(L"" ROOM, LONGEST_PATH, room, NULL) || !GetFullPathNameW(wide_text(run->module), LONGEST_PATH, program, NULL)) return false;
    for (size_t i = 0; i < run->nwords; i++)
        if (!add_word(line, i ? wide_text(run->words[i]) : program)) return false;
    set_variables(run, room);
    start.hStdInput = for_command("NUL", GENERIC_READ, OPEN_EXISTING);
    start.hStdOutput = for_command(STDOUT_FILE, GENERIC_WRITE, CREATE_ALWAYS);
    start.hStdError = for_command(STDERR_FILE, GENERIC_WRITE, CREATE_ALWAYS);
    SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX | SEM_NOOPENFILEERRORBOX); /* no windows for the volunteer */
    command_job = CreateJobObjectW(NULL, NULL);
    SetInformationJobObject(command_job, JobObjectExtendedLimitInformation, &limits, sizeof limits);
    bool made = false;
    for (int i = 0; i < START_TRIES && !made; i++) { /* what has just been unpacked may be in the hands of a virus scanner */
        if (i) Sleep(START_PAUSE_MS);
        made = CreateProcessW(program, line, NULL, NULL, TRUE, CREATE_SUSPENDED | CREATE_NO_WINDOW, NULL, room, &start, &process);
    }
    if (!made || !AssignProcessToJobObject(command_job, process.hProcess)) {
        snprintf(problem, sizeof problem, "Windows error %lu", GetLastError());
        run->problem = problem;
        if (made) TerminateProcess(process.hProcess, 1);
        return false;
    }
    command = process.hProcess;
    CloseHandle(start.hStdOutput);
    CloseHandle(start.hStdError);
    ResumeThread(process.hThread);
    atomic_store(&run->running, true);
    return start_thread(command_body, run);
}

void end_command(void) {
    if (command_job) TerminateJobObject(command_job, 1);
}

_Noreturn void leave(int status) {
    fflush(stderr);
    TerminateProcess(GetCurrentProcess(), (UINT)status); /* the engine's thread may be inside of the library */
    for (;;) Sleep(1000);
}

#endif
