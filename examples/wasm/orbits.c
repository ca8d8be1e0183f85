/* How round is the Earth's orbit?  orbits INPUT OUTPUT
 *
 * The Sun and its planets as points that attract each other, from their places and speeds on 1 January 2000.  The orbits
 * change slowly: in ten thousands of years that of the Earth becomes rounder and longer again, which goes with the ice ages.
 *
 * The integrator is the symplectic one of fourth order of Forest and Ruth (1990, Physica D 43, 105) and Yoshida (1990,
 * Physics Letters A 150, 262).  It needs sums, products, divisions and square roots only, whose bits IEEE 754 fixes, so that
 * all computers get the same ones.  (A compiler must not put a product and a sum into one step: -ffp-contract=off.)
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cobblestone.h>

#define STATE "state"
#define DAYS_PER_YEAR 365.25
#define METRES_PER_AU 149597870699.6262

enum { MOST_BODIES = 16, MOST_SAMPLES = 20000, STEPS_BETWEEN_LOOKS = 5000, SAMPLED = 4 };

struct body { char name[16]; double gm, place[3], speed[3]; }; /* au^3/day^2, au, au/day */

/* All that the rest of the computation depends on. */
static struct {
    long step, samples;
    struct body bodies[MOST_BODIES];
    double eccentricities[MOST_SAMPLES][SAMPLED];
} state;

static double years, step_days, sample_years, shift_metres;
static int bodies;

static _Noreturn void fail(const char *what, const char *which) {
    fprintf(stderr, "orbits: %s %s%s%s\n", what, which, errno ? ": " : "", errno ? strerror(errno) : "");
    exit(1);
}

static void read_input(const char *path) {
    char line[400], key[16];
    FILE *file = fopen(path, "r");
    if (!file) fail("cannot read", path);
    while (fgets(line, sizeof line, file)) {
        struct body *body = &state.bodies[bodies];
        double value;
        if (*line == '#' || sscanf(line, "%15s", key) != 1) continue;
        if (sscanf(line, "%15s %lf %lf %lf %lf %lf %lf %lf", body->name, &body->gm, &body->place[0], &body->place[1],
                   &body->place[2], &body->speed[0], &body->speed[1], &body->speed[2]) == 8) {
            if (++bodies == MOST_BODIES) fail("too many bodies in", path);
        } else if (sscanf(line, "%*s %lf", &value) == 1) {
            if (!strcmp(key, "years")) years = value;
            else if (!strcmp(key, "step_days")) step_days = value;
            else if (!strcmp(key, "sample_years")) sample_years = value;
            else if (!strcmp(key, "shift_metres")) shift_metres = value;
            else fail("unknown word in the input:", key);
        } else {
            fail("a line of the input cannot be read:", line);
        }
    }
    fclose(file);
    errno = 0;
    if (bodies <= SAMPLED || !(step_days > 0) || !(years > 0) || !(sample_years >= step_days / DAYS_PER_YEAR)
        || years / sample_years >= MOST_SAMPLES)
        fail("years, step_days, sample_years or the bodies make no sense in", path);
    state.bodies[3].place[0] += shift_metres / METRES_PER_AU; /* the Earth */
}

static void drift(double days) {
    for (int i = 0; i < bodies; i++)
        for (int k = 0; k < 3; k++) state.bodies[i].place[k] += days * state.bodies[i].speed[k];
}

static void kick(double days) {
    for (int i = 0; i < bodies; i++)
        for (int j = i + 1; j < bodies; j++) {
            struct body *a = &state.bodies[i], *b = &state.bodies[j];
            double x = b->place[0] - a->place[0], y = b->place[1] - a->place[1], z = b->place[2] - a->place[2];
            double square = x * x + y * y + z * z, factor = days / (square * sqrt(square));
            double on_a = b->gm * factor, on_b = a->gm * factor;
            a->speed[0] += x * on_a, a->speed[1] += y * on_a, a->speed[2] += z * on_a;
            b->speed[0] -= x * on_b, b->speed[1] -= y * on_b, b->speed[2] -= z * on_b;
        }
}

static void one_step(void) {
    static const double outer = 1.3512071919596578, inner = -1.7024143839193153; /* 1 / (2 - cbrt(2)), 1 - 2 outer */
    drift(outer / 2 * step_days);
    kick(outer * step_days);
    drift((outer + inner) / 2 * step_days);
    kick(inner * step_days);
    drift((outer + inner) / 2 * step_days);
    kick(outer * step_days);
    drift(outer / 2 * step_days);
}

/* Eccentricity of a planet's orbit around the Sun, the first body: the length of the Laplace-Runge-Lenz vector. */
static double eccentricity(const struct body *planet) {
    const struct body *sun = state.bodies;
    double r[3], v[3], mu = sun->gm + planet->gm, rv = 0, rr = 0, vv = 0, sum = 0;
    for (int k = 0; k < 3; k++) {
        r[k] = planet->place[k] - sun->place[k];
        v[k] = planet->speed[k] - sun->speed[k];
        rv += r[k] * v[k], rr += r[k] * r[k], vv += v[k] * v[k];
    }
    for (int k = 0; k < 3; k++) {
        double e = ((vv - mu / sqrt(rr)) * r[k] - rv * v[k]) / mu;
        sum += e * e;
    }
    return sqrt(sum);
}

/* Energy of the whole, in units that do not matter: how well it keeps tells how good the steps are. */
static double energy(void) {
    double sum = 0;
    for (int i = 0; i < bodies; i++) {
        const struct body *a = &state.bodies[i];
        for (int k = 0; k < 3; k++) sum += a->gm * a->speed[k] * a->speed[k] / 2;
        for (int j = i + 1; j < bodies; j++) {
            double square = 0;
            for (int k = 0; k < 3; k++) square += (a->place[k] - state.bodies[j].place[k]) * (a->place[k] - state.bodies[j].place[k]);
            sum -= a->gm * state.bodies[j].gm / sqrt(square);
        }
    }
    return sum;
}

static void save_state(void) {
    FILE *file = fopen(STATE ".new", "wb");
    if (!file || fwrite(&state, sizeof state, 1, file) != 1 || fclose(file) || rename(STATE ".new", STATE))
        fail("cannot write", STATE);
}

static void load_state(void) {
    FILE *file = fopen(STATE, "rb");
    errno = 0;
    if (!file) return;
    if (fread(&state, sizeof state, 1, file) != 1) fail("cannot read", STATE);
    fclose(file);
}

static void write_output(const char *path, double before) {
    FILE *file = fopen(path, "w");
    if (!file) fail("cannot write", path);
    fprintf(file, "# shift %.17g m, energy changed by %.1e of itself\nyear", shift_metres, energy() / before - 1);
    for (int p = 1; p <= SAMPLED; p++) fprintf(file, " %s", state.bodies[p].name);
    for (long s = 0; s < state.samples; s++) {
        fprintf(file, "\n%.17g", (double)s * sample_years);
        for (int p = 0; p < SAMPLED; p++) fprintf(file, " %.17g", state.eccentricities[s][p]);
    }
    fprintf(file, "\n");
    for (int i = 0; i < bodies; i++)
        fprintf(file, "# %s at %.17g %.17g %.17g\n", state.bodies[i].name, state.bodies[i].place[0], state.bodies[i].place[1],
                state.bodies[i].place[2]);
    if (ferror(file) | fclose(file)) fail("cannot write", path);
}

int main(int count, char **words) {
    if (count != 3) fail("usage: orbits INPUT OUTPUT", "");
    read_input(words[1]);
    const double before = energy();
    const long steps = (long)(years * DAYS_PER_YEAR / step_days), every = (long)(sample_years * DAYS_PER_YEAR / step_days);
    load_state(); /* if there is one: the job was interrupted */
    for (; state.step <= steps; state.step++) {
        if (state.step % every == 0 && state.samples < MOST_SAMPLES) {
            for (int p = 0; p < SAMPLED; p++) state.eccentricities[state.samples][p] = eccentricity(&state.bodies[p + 1]);
            state.samples++;
        }
        one_step();
        if ((state.step + 1) % STEPS_BETWEEN_LOOKS) continue;
        cobblestone_progress((double)state.step / (double)steps);
        if (cobblestone_time_to_checkpoint()) {
            state.step++; /* this one is done */
            save_state();
            state.step--;
            cobblestone_checkpoint();
        }
    }
    write_output(words[2], before);
    remove(STATE);
    return 0;
}
