/* Count primes, twin primes and the largest gap between primes in an interval.  A native BOINC app: it speaks to the
 * client itself, through the BOINC API.
 *
 * input:   two numbers, FIRST and LAST; the interval is FIRST <= p < LAST
 * output:  primes and twins (p and p + 2) in it, and the largest gap from a prime in it to the next prime
 *
 * The gap and the twin of the last prime may reach beyond LAST, so neighbouring intervals add up exactly.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <boinc/boinc_api.h>

#define MAX_LAST UINT64_C(1000000000000000) /* its square root, 31.6 million, bounds the table of small primes */
#define SPAN UINT64_C(2000000)              /* numbers in one segment; even, as only odd ones are kept */
#define STATE_FILE "gaps_state"

/* All that a checkpoint must hold. */
struct state {
    uint64_t first, last; /* the interval, to recognise a state of another job */
    uint64_t next;        /* where the next segment begins; odd */
    uint64_t primes, twins;
    uint64_t largest, largest_after;
    uint64_t previous;    /* last prime found in the interval, 0 if none */
};

static void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("gaps: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    boinc_finish(1); /* does not return */
    exit(1);
}

static void *allocate(size_t count, size_t size) {
    void *memory = calloc(count, size);
    if (!memory) fail("out of memory");
    return memory;
}

/* The client puts files elsewhere, unless it was told to copy them; the API knows where. */
static FILE *open_file(const char *name, const char *mode) {
    char path[1024];
    if (boinc_resolve_filename(name, path, sizeof path)) fail("cannot find the place of %s", name);
    FILE *file = fopen(path, mode);
    if (!file) fail("cannot open %s: %s", path, strerror(errno));
    return file;
}

static void read_input(struct state *state) {
    FILE *file = open_file("input", "r");
    int found = fscanf(file, "%" SCNu64 " %" SCNu64, &state->first, &state->last);
    fclose(file);
    if (found != 2) fail("the input must hold two whole numbers, FIRST and LAST");
    if (state->first >= state->last || state->last > MAX_LAST)
        fail("FIRST must be below LAST, and LAST at most %" PRIu64, MAX_LAST);
    state->next = state->first < 3 ? 3 : state->first | 1;
    state->previous = state->first <= 2 && state->last > 2 ? 2 : 0;
    state->primes = state->previous == 2;
}

static int read_checkpoint(struct state *state) {
    struct state saved;
    FILE *file = fopen(STATE_FILE, "rb");
    if (!file) return 0;
    int usable = fread(&saved, sizeof saved, 1, file) == 1 && saved.first == state->first && saved.last == state->last;
    fclose(file);
    if (usable) *state = saved;
    return usable;
}

/* A new file replaces the old one in one step, so a crash leaves one or the other. */
static void write_checkpoint(const struct state *state) {
    FILE *file = fopen(STATE_FILE ".tmp", "wb");
    int written = file && fwrite(state, sizeof *state, 1, file) == 1;
    if (file && fclose(file)) written = 0;
    if (!written || rename(STATE_FILE ".tmp", STATE_FILE)) fail("cannot write the checkpoint: %s", strerror(errno));
}

/* Odd primes up to the square root of `highest`; the last entry is 0. */
static uint32_t *small_primes(uint64_t highest) {
    uint32_t root = 3;
    while ((uint64_t)root * root <= highest) root++;
    char *composite = allocate(root + 1, 1);
    uint32_t count = 0;
    for (uint32_t p = 3; p <= root; p += 2) {
        if (composite[p]) continue;
        count++;
        for (uint64_t multiple = (uint64_t)p * p; multiple <= root; multiple += 2 * p) composite[multiple] = 1;
    }
    uint32_t *primes = allocate(count + 1, sizeof *primes);
    uint32_t position = 0;
    for (uint32_t p = 3; p <= root; p += 2)
        if (!composite[p]) primes[position++] = p;
    free(composite);
    return primes;
}

/* Mark the composite odd numbers from `low` (odd) on: entry i stands for low + 2 i. */
static void sieve(char *composite, uint64_t low, const uint32_t *primes) {
    memset(composite, 0, SPAN / 2);
    for (; *primes; primes++) {
        uint64_t p = *primes, start = p * p;
        if (start >= low + SPAN) break;
        if (start < low) {
            start = (low + p - 1) / p * p;
            if (start % 2 == 0) start += p;
        }
        for (uint64_t i = (start - low) / 2; i < SPAN / 2; i += p) composite[i] = 1;
    }
}

/* Take a prime into account, as the successor of the one before.  Returns 0 when it closes the interval. */
static int take(struct state *state, uint64_t prime) {
    if (state->previous) {
        uint64_t gap = prime - state->previous;
        if (gap == 2) state->twins++;
        if (gap > state->largest) {
            state->largest = gap;
            state->largest_after = state->previous;
        }
    }
    if (prime >= state->last) return 0;
    state->primes++;
    state->previous = prime;
    return 1;
}

static void search(struct state *state) {
    /* Gaps below 10^15 are shorter than 1000: the prime after the interval lies within this distance. */
    uint32_t *primes = small_primes(state->last + SPAN + 1000);
    char *composite = allocate(SPAN / 2, 1);
    int inside = 1;
    while (inside) {
        if (state->next >= state->last && !state->previous) break; /* no prime in the interval at all */
        sieve(composite, state->next, primes);
        for (uint64_t i = 0; i < SPAN / 2 && inside; i++)
            if (!composite[i]) inside = take(state, state->next + 2 * i);
        state->next += SPAN;
        double done = (double)(state->next - state->first) / (double)(state->last - state->first);
        boinc_fraction_done(done < 1 ? done : 1);
        if (inside && boinc_time_to_checkpoint()) {
            write_checkpoint(state);
            boinc_checkpoint_completed();
        }
    }
    free(composite);
    free(primes);
}

int main(void) {
    struct state state = {0};
    if (boinc_init()) return 1;
    read_input(&state);
    if (read_checkpoint(&state)) fprintf(stderr, "gaps: continuing at %" PRIu64 "\n", state.next);
    search(&state);
    FILE *file = open_file("output", "w");
    fprintf(file, "interval %" PRIu64 " %" PRIu64 "\nprimes %" PRIu64 "\ntwins %" PRIu64 "\n", state.first, state.last,
            state.primes, state.twins);
    fprintf(file, "largest_gap %" PRIu64 " after %" PRIu64 "\n", state.largest, state.largest_after);
    if (fclose(file)) fail("cannot write the output: %s", strerror(errno));
    remove(STATE_FILE); /* there may be none */
    return boinc_finish(0);
}
