/* The client's side of a job on Windows, for tests: the named section, the start of the program, messages both ways.
 *
 *     client_side.exe PROGRAM SLOT COMMAND_LINE STEP...
 *
 * Steps: `send=TEXT` leaves a message on the control channel, `status` waits for a message of the status channel and prints it,
 * `working` waits for one that counts instructions, `silence` prints one and then waits for five seconds without any, `heartbeat`
 * leaves the client's, `sleep=MS` waits, `beat=FILE` waits until a file of the slot has grown, `still=FILE` fails if it grows within two seconds, `kill` ends the program as a power cut does, `end` waits for the program's end and prints its exit status.  What does not come within five minutes ends
 * this program with 1.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

enum { CHANNEL = 1024, CONTROL = 0, HEARTBEAT = 4, STATUS = 5, LIMIT_MS = 1800000 };
static volatile uint8_t *segment;
static HANDLE program;

static void fail(const char *what) {
    printf("waited for %s; Windows error %lu\n", what, GetLastError());
    if (program) TerminateProcess(program, 1);
    exit(1);
}

static void send_text(int channel, const char *text) {
    volatile uint8_t *to = segment + channel * CHANNEL;
    for (int waited = 0; *to; waited += 20, Sleep(20))
        if (waited > LIMIT_MS) fail(text);
    for (size_t i = 0; i <= strlen(text); i++) to[i + 1] = (uint8_t)text[i];
    *to = 1;
}

static bool take_status(char *text) {
    volatile uint8_t *from = segment + STATUS * CHANNEL;
    if (!*from) return false;
    for (int i = 0; i < CHANNEL - 1; i++) text[i] = (char)from[i + 1];
    *from = 0;
    return true;
}

static double instructions(const char *text) {
    const char *found = strstr(text, "<intops_cumulative>");
    return found ? atof(found + strlen("<intops_cumulative>")) : 0;
}

static void await_status(double least, char *text) {
    for (int waited = 0;; waited += 20, Sleep(20)) {
        if (take_status(text) && instructions(text) >= least) return;
        if (waited > LIMIT_MS || WaitForSingleObject(program, 0) == WAIT_OBJECT_0) fail("a status");
    }
}

/* Prints the last status before, and fails if another one comes within five seconds: so long stands a suspended job still. */
static void await_silence(void) {
    char text[CHANNEL] = "";
    await_status(0, text);
    printf("%s", text);
    Sleep(1000);
    take_status(text); /* of the moment of suspension, if the one before lay there still */
    for (int waited = 0; waited < 5000; waited += 20, Sleep(20))
        if (take_status(text)) fail("silence");
}

static long size_of(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) return 0;
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    fclose(file);
    return size;
}

static void await_beat(const char *path) {
    long before = size_of(path);
    for (int waited = 0; size_of(path) <= before; waited += 20, Sleep(20))
        if (waited > LIMIT_MS || WaitForSingleObject(program, 0) == WAIT_OBJECT_0) fail(path);
}

static void await_stillness(const char *path) {
    long before = size_of(path);
    Sleep(2000);
    if (size_of(path) != before) fail("stillness");
}

static void step(const char *word) {
    char text[CHANNEL] = "";
    DWORD status;
    if (!strncmp(word, "send=", 5)) send_text(CONTROL, word + 5);
    else if (!strncmp(word, "sleep=", 6)) Sleep((DWORD)atoi(word + 6));
    else if (!strncmp(word, "beat=", 5)) await_beat(word + 5);
    else if (!strncmp(word, "still=", 6)) await_stillness(word + 6);
    else if (!strcmp(word, "kill")) TerminateProcess(program, 9);
    else if (!strcmp(word, "heartbeat")) send_text(HEARTBEAT, "<heartbeat/>");
    else if (!strcmp(word, "working")) await_status(1, text);
    else if (!strcmp(word, "silence")) await_silence();
    else if (!strcmp(word, "status")) {
        await_status(0, text);
        printf("%s", text);
    } else if (!strcmp(word, "end")) {
        if (WaitForSingleObject(program, LIMIT_MS) != WAIT_OBJECT_0) fail("the end");
        GetExitCodeProcess(program, &status);
        if (take_status(text)) printf("%s", text);
        printf("ended with %lu\n", status);
    } else fail(word);
    fflush(stdout);
}

static wchar_t *wide(const char *text) {
    int size = MultiByteToWideChar(CP_ACP, 0, text, -1, NULL, 0);
    wchar_t *copy = calloc((size_t)size, sizeof *copy);
    MultiByteToWideChar(CP_ACP, 0, text, -1, copy, size);
    return copy;
}

int main(int count, char **given) {
    if (count < 4) return 2;
    HANDLE section = CreateFileMappingA(INVALID_HANDLE_VALUE, NULL, PAGE_READWRITE, 0, 8 * CHANNEL, "shm_boinc_0");
    segment = section ? MapViewOfFile(section, FILE_MAP_ALL_ACCESS, 0, 0, 0) : NULL;
    if (!segment) fail("the section");
    STARTUPINFOW start = {.cb = sizeof start};
    PROCESS_INFORMATION process;
    wchar_t line[8000];
    swprintf(line, 8000, L"\"%ls\" %ls", wide(given[1]), wide(given[3]));
    if (!CreateProcessW(NULL, line, NULL, NULL, FALSE, CREATE_NEW_PROCESS_GROUP | CREATE_NO_WINDOW | IDLE_PRIORITY_CLASS, NULL,
                        wide(given[2]), &start, &process))
        fail("the start");
    program = process.hProcess;
    if (!SetCurrentDirectoryW(wide(given[2]))) fail("the slot");
    for (int i = 4; i < count; i++) step(given[i]);
    return 0;
}
