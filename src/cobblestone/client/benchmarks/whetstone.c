/* The Whetstone benchmark: a fixed mix of floating-point work, timed by the caller.
 *
 * The eleven modules, their constants and their weights are those of H. J. Curnow and B. A. Wichmann, "A synthetic benchmark",
 * The Computer Journal 19 (1976) 43-49; three of them (1, 5 and 10) have weight 0 today and are left out.  One unit of
 * work is 100,000 Whetstone instructions.  The results of all modules go into what is returned, so that no compiler can leave
 * one out.
 */

#include <math.h>

#define T 0.499975
#define T1 0.50025
#define T2 2.0

static double elements[4];
static double pair[2];
static int order[3];

static __attribute__((noinline)) void array_as_parameter(double *e) {
    for (int i = 0; i < 6; i++) {
        e[0] = (e[0] + e[1] + e[2] - e[3]) * T;
        e[1] = (e[0] + e[1] - e[2] + e[3]) * T;
        e[2] = (e[0] - e[1] + e[2] + e[3]) * T;
        e[3] = (-e[0] + e[1] + e[2] + e[3]) / T2;
    }
}

static __attribute__((noinline)) void rotate_elements(void) {
    elements[order[0]] = elements[order[1]];
    elements[order[1]] = elements[order[2]];
    elements[order[2]] = elements[order[0]];
}

static __attribute__((noinline)) void two_results(double x, double y, double *z) {
    double first = T * (x + y);
    *z = (first + T * (first + y)) / T2;
}

/* Do this many units of work; the sum of all modules' results. */
__attribute__((export_name("whetstone"))) double whetstone(int units) {
    double checksum = 0.0;
    for (int unit = 0; unit < units; unit++) {
        /* Module 2: array elements. */
        elements[0] = 1.0;
        elements[1] = elements[2] = elements[3] = -1.0;
        for (int i = 0; i < 12; i++) {
            elements[0] = (elements[0] + elements[1] + elements[2] - elements[3]) * T;
            elements[1] = (elements[0] + elements[1] - elements[2] + elements[3]) * T;
            elements[2] = (elements[0] - elements[1] + elements[2] + elements[3]) * T;
            elements[3] = (-elements[0] + elements[1] + elements[2] + elements[3]) * T;
        }
        checksum += elements[3];
        /* Module 3: an array as parameter. */
        for (int i = 0; i < 14; i++) array_as_parameter(elements);
        checksum += elements[3];
        /* Module 4: conditional jumps. */
        volatile int one = 1;
        int j = one;
        for (int i = 0; i < 345; i++) {
            j = j == 1 ? 2 : 3;
            j = j > 2 ? 0 : 1;
            j = j < 1 ? 1 : 0;
        }
        checksum += j;
        /* Module 6: integer arithmetic. */
        int k = 2, l = 3;
        j = one;
        for (int i = 0; i < 210; i++) {
            j = j * (k - j) * (l - k);
            k = l * k - (l - j) * k;
            l = (l - k) * (k + j);
            pair[(l - 2) & 1] = j + k + l;
            pair[(k - 2) & 1] = j * k * l;
        }
        checksum += pair[0] + pair[1];
        /* Module 7: trigonometric functions. */
        double x = 0.5, y = 0.5;
        for (int i = 0; i < 32; i++) {
            x = T * atan(T2 * sin(x) * cos(x) / (cos(x + y) + cos(x - y) - 1.0));
            y = T * atan(T2 * sin(y) * cos(y) / (cos(x + y) + cos(x - y) - 1.0));
        }
        checksum += y;
        /* Module 8: calls with a result by reference. */
        x = y = 1.0;
        double z = 1.0;
        for (int i = 0; i < 899; i++) two_results(x, y, &z);
        checksum += z;
        /* Module 9: references to array elements. */
        order[0] = 0, order[1] = 1, order[2] = 2;
        elements[0] = 1.0, elements[1] = 2.0, elements[2] = 3.0;
        for (int i = 0; i < 616; i++) rotate_elements();
        checksum += elements[2];
        /* Module 11: standard functions. */
        x = 0.75;
        for (int i = 0; i < 93; i++) x = sqrt(exp(log(x) / T1));
        checksum += x;
    }
    return checksum;
}
