/* Dhrystone: a fixed mix of integer work on records, strings, calls and branches, timed by the caller.
 *
 * The mix is that of R. P. Weicker, "Dhrystone: a synthetic systems programming benchmark", Communications of the ACM 27 (1984)
 * 1013-1030, in its second version: per pass three assignments through a chain of records, two comparisons of strings of
 * 30 letters, eight procedures and three functions, integer division and multiplication, and accesses to a vector and a
 * matrix.  Nothing of it may be computed before the run: the procedures are not inlined, and their results are returned.
 */

#include <string.h>

#define OUT_OF_LINE __attribute__((noinline))
#define LETTERS 31

enum choice { FIRST, SECOND, THIRD, FOURTH, FIFTH };

struct record {
    struct record *next;
    enum choice kind;
    enum choice value;
    int number;
    char text[LETTERS];
};

static struct record storage[2];
static struct record *head = &storage[0];
static int global_number, global_flag, vector[50], matrix[50][50];
static char first_letter, second_letter;

static OUT_OF_LINE enum choice compare_letters(char one, char other) {
    char copy = one;
    if (copy != other) return FIRST;
    first_letter = copy;
    return SECOND;
}

static OUT_OF_LINE int is_later(const char *one, const char *other) {
    int index = 2;
    char letter = 'A';
    while (index <= 2) {
        if (compare_letters(one[index], other[index + 1]) == FIRST) {
            letter = 'A';
            index++;
        }
    }
    if (letter >= 'W' && letter < 'Z') index = 7;
    if (letter == 'R') return 1;
    if (strcmp(one, other) > 0) {
        global_number = index + 7;
        return 1;
    }
    return 0;
}

static OUT_OF_LINE int is_third(enum choice value) { return value == THIRD; }

static OUT_OF_LINE void add_three(int one, int other, int *sum) { *sum = one + 2 + other; }

static OUT_OF_LINE void choose(enum choice value, enum choice *chosen) {
    *chosen = is_third(value) ? value : FOURTH;
    switch (value) {
    case FIRST: *chosen = FIRST; break;
    case SECOND: *chosen = global_number > 100 ? FIRST : FOURTH; break;
    case THIRD: *chosen = SECOND; break;
    case FOURTH: break;
    case FIFTH: *chosen = THIRD; break;
    }
}

static OUT_OF_LINE void last_record(struct record **found) {
    if (head) *found = head->next;
    add_three(10, global_number, &head->number);
}

static OUT_OF_LINE void change_record(struct record *record) {
    struct record *next = record->next;
    *next = *head;
    record->number = 5;
    next->number = record->number;
    next->next = record->next;
    last_record(&next->next);
    if (next->kind == FIRST) {
        next->number = 6;
        choose(record->value, &next->value);
        next->next = head->next;
        add_three(next->number, 10, &next->number);
    } else {
        *record = *record->next;
    }
}

static OUT_OF_LINE void step_number(int *number) {
    int local = *number + 10;
    for (;;) {
        if (first_letter == 'A') {
            local--;
            *number = local - global_number;
            return;
        }
        local++;
    }
}

static OUT_OF_LINE void set_flags(void) {
    global_flag |= first_letter == 'A';
    second_letter = 'B';
}

static OUT_OF_LINE void set_letters(void) {
    first_letter = 'A';
    global_flag = 0;
}

static OUT_OF_LINE void fill_arrays(int *line, int (*lines)[50], int index, int number) {
    int at = index + 5;
    line[at] = number;
    line[at + 1] = line[at];
    line[at + 30] = at;
    for (int column = at; column <= at + 1; column++) lines[at][column] = at;
    lines[at][at - 1]++;
    lines[at + 20][at] = line[at];
    global_number = 5;
}

/* Do this many passes; a sum of what they have computed. */
__attribute__((export_name("dhrystone"))) int dhrystone(int passes) {
    char first[LETTERS], second[LETTERS];
    int one = 0, two = 0, three = 0;
    head->next = &storage[1];
    head->kind = FIRST;
    head->value = THIRD;
    head->number = 40;
    strcpy(head->text, "DHRYSTONE PROGRAM, SOME STRING");
    strcpy(first, "DHRYSTONE PROGRAM, 1'ST STRING");
    vector[8] = 10;
    for (int pass = 1; pass <= passes; pass++) {
        enum choice chosen = SECOND;
        set_letters();
        set_flags();
        one = 2, two = 3;
        strcpy(second, "DHRYSTONE PROGRAM, 2'ND STRING");
        global_flag = !is_later(first, second);
        while (one < two) {
            three = 5 * one - two;
            add_three(one, two, &three);
            one++;
        }
        fill_arrays(vector, matrix, one, three);
        change_record(head);
        for (char letter = 'A'; letter <= second_letter; letter++) {
            if (chosen == compare_letters(letter, 'C')) {
                choose(FIRST, &chosen);
                strcpy(second, "DHRYSTONE PROGRAM, 3'RD STRING");
                two = pass;
                global_number = pass;
            }
        }
        two *= one;
        one = two / three;
        two = 7 * (two - three) - one;
        step_number(&one);
    }
    return one + two + three + vector[8] + matrix[8][7] + head->number + second[19];
}
