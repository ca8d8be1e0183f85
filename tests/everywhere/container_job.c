/* A job in a container: counts to the number in its input, a hundredth of a second each, and says what it sees of the computer. */
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t ended;

static void end(int number) {
    (void)number;
    ended = 1;
}

static void write_file(const char *name, long value) {
    char temporary[100];
    snprintf(temporary, sizeof temporary, "%s.new", name);
    FILE *file = fopen(temporary, "w");
    if (!file) return;
    fprintf(file, "%ld\n", value);
    fclose(file);
    rename(temporary, name);
}

static int reaches_network(void) {
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = inet_addr("192.0.2.1")};
    int probe = socket(AF_INET, SOCK_DGRAM, 0);
    return connect(probe, (struct sockaddr *)&peer, sizeof peer) == 0;
}

int main(int n_words, char **words) {
    long n = 0, done = 0, megabytes = n_words > 3 ? atol(words[3]) : 0;
    struct timespec pause = {0, 10000000};
    FILE *file = fopen(words[1], "r");
    if (!file || fscanf(file, "%ld", &n) != 1) return 2;
    signal(SIGTERM, end);
    volatile char *memory = malloc((megabytes << 20) + 1);
    for (long i = 0; i < megabytes << 20; i += 1024) memory[i] = 1;
    if ((file = fopen("state", "r"))) fscanf(file, "%ld", &done), write_file("continued", done);
    for (; done < n; done++) {
        nanosleep(&pause, NULL);
        write_file("seen", done);
        if (ended) {
            write_file("state", done);
            write_file("cobblestone_checkpoint", done);
            return 9;
        }
    }
    file = fopen(words[2], "w");
    fprintf(file, "counted %ld, network %d, own root %d, home of others %d\n", done, reaches_network(),
            fopen("/new", "w") != NULL, access("/home", F_OK) == 0);
    fprintf(stderr, "all is counted\n");
    return fclose(file);
}
