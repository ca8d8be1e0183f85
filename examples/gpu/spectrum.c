// The same as spectrum.py in C:  spectrum_cpu INPUT OUTPUT,  spectrum_opencl INPUT OUTPUT [GPU_TYPE NUMBER]
//
// Compiled with -DOPENCL the rounds of shuffles are computed by spectrum.cl on an OpenCL device: number NUMBER among those whose
// maker is GPU_TYPE (NVIDIA, ATI, intel_gpu, as the launcher fills {gpu_type}; another word, or none: of any maker and kind).

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUND = 4096, WIDTH = 16 }; // shuffles in a round: well below a second on a GPU; floats in a vector
static const double PI = 3.14159265358979323846;
static const double CHECKPOINT_SECONDS = 60;

static volatile sig_atomic_t quitting = 0;

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "spectrum: %s: %s\n", what, why);
    exit(1);
}

static void *space(size_t count, size_t size)
{
    void *found = calloc(count, size);
    if (!found)
        fail("memory", "not enough");
    return found;
}

// ---------------------------------------------------------------- the job

struct job {
    double seed, first, shuffles, lowest, step, frequencies, values;
    int n, vectors;
    double *years, *series;
    float *values32; // n, mean 0 and sum of squares 1
    float *waves;    // [vectors][n][WIDTH]: cosine and sine of eight frequencies in turn
    double power, period;
};

static void read_job(struct job *job, const char *path)
{
    FILE *file = fopen(path, "r");
    if (!file)
        fail(path, strerror(errno));
    double *numbers[] = {&job->seed, &job->first, &job->shuffles, &job->lowest, &job->step, &job->frequencies, &job->values};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (fscanf(file, "%*s %lf", numbers[i]) != 1)
            fail(path, "not written by make_inputs.py");
    if (!(job->shuffles >= 1 && job->shuffles <= 1e9 && job->frequencies >= 1 && job->frequencies <= 1e6 && job->values >= 4 &&
          job->values <= 1e4))
        fail(path, "its numbers are beyond all bounds");
    job->n = (int)job->values;
    job->years = space(job->n, sizeof(double));
    job->series = space(job->n, sizeof(double));
    for (int i = 0; i < job->n; i++)
        if (fscanf(file, "%lf %lf", &job->years[i], &job->series[i]) != 2)
            fail(path, "it ends too early");
    fclose(file);
}

static double product(const double *a, const double *b, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static void without_mean(double *values, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += values[i];
    for (int i = 0; i < n; i++)
        values[i] -= sum / n;
}

static void set_length_one(double *values, int n)
{
    double length = sqrt(product(values, values, n));
    for (int i = 0; i < n; i++)
        values[i] = length > 1e-6 ? values[i] / length : 0; // at the highest frequency the sine vanishes at all years
}

static void prepare(struct job *job)
{
    int n = job->n, count = (int)job->frequencies;
    without_mean(job->series, n);
    set_length_one(job->series, n);
    job->values32 = space(n, sizeof(float));
    for (int i = 0; i < n; i++)
        job->values32[i] = (float)job->series[i];
    job->vectors = (2 * count + WIDTH - 1) / WIDTH;
    job->waves = space((size_t)job->vectors * n * WIDTH, sizeof(float));
    double *wave[2] = {space(n, sizeof(double)), space(n, sizeof(double))};
    double middle = (job->years[0] + job->years[n - 1]) / 2;
    for (int f = 0; f < count; f++) {
        double frequency = job->lowest + job->step * f, power = 0;
        for (int part = 0; part < 2; part++) {
            for (int i = 0; i < n; i++) {
                double angle = 2 * PI * frequency * (job->years[i] - middle);
                wave[part][i] = part ? sin(angle) : cos(angle);
            }
            without_mean(wave[part], n);
            double overlap = part ? product(wave[0], wave[1], n) : 0;
            for (int i = 0; part && i < n; i++) // Gram-Schmidt
                wave[1][i] -= overlap * wave[0][i];
            set_length_one(wave[part], n);
            double height = product(wave[part], job->series, n);
            power += height * height;
            size_t column = 2 * (size_t)f + part;
            for (int i = 0; i < n; i++)
                job->waves[(column / WIDTH * n + i) * WIDTH + column % WIDTH] = (float)wave[part][i];
        }
        if (power > job->power) {
            job->power = power;
            job->period = 1 / frequency;
        }
    }
    free(wave[0]);
    free(wave[1]);
}

// ---------------------------------------------------------------- a round of shuffles, on an OpenCL device or here

#ifdef OPENCL
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

static cl_command_queue queue;
static cl_kernel shuffle_series, highest_power;
static cl_mem maxima_there;

static void check(cl_int status, const char *what)
{
    char text[40];
    snprintf(text, sizeof text, "OpenCL error %d", (int)status);
    if (status != CL_SUCCESS)
        fail(what, text);
}

static cl_device_id find_device(const char *type, int number)
{
    int given = !strcmp(type, "NVIDIA") || !strcmp(type, "ATI") || !strcmp(type, "intel_gpu");
    const char *maker = !strcmp(type, "ATI") ? "Advanced Micro Devices" : !strcmp(type, "intel_gpu") ? "Intel" : type;
    cl_platform_id platforms[16];
    cl_uint count = 0;
    if (clGetPlatformIDs(16, platforms, &count) != CL_SUCCESS)
        count = 0;
    for (cl_uint p = 0; p < count && p < 16; p++) {
        cl_device_id devices[16];
        cl_uint here = 0;
        if (clGetDeviceIDs(platforms[p], given ? CL_DEVICE_TYPE_GPU : CL_DEVICE_TYPE_ALL, 16, devices, &here) != CL_SUCCESS)
            continue;
        for (cl_uint d = 0; d < here && d < 16; d++) {
            char vendor[256] = "", name[256] = "";
            clGetDeviceInfo(devices[d], CL_DEVICE_VENDOR, sizeof vendor - 1, vendor, NULL);
            clGetDeviceInfo(devices[d], CL_DEVICE_NAME, sizeof name - 1, name, NULL);
            if (given && !strstr(vendor, maker))
                continue;
            if (number-- == 0) {
                fprintf(stderr, "spectrum: on %s\n", name);
                return devices[d];
            }
        }
    }
    fail("there is no such OpenCL device", type);
    return NULL;
}

static char *read_source(const char *path)
{
    char *text = space(1, 65536);
    FILE *file = fopen(path, "rb");
    if (!file || fread(text, 1, 65535, file) == 0)
        fail(path, "cannot be read");
    fclose(file);
    return text;
}

static void open_device(const struct job *job, const char *type, int number)
{
    cl_int status;
    cl_device_id device = find_device(type, number);
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
    check(status, "context");
    queue = clCreateCommandQueue(context, device, 0, &status);
    check(status, "queue");
    const char *source = read_source("spectrum.cl");
    cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &status);
    check(status, "program");
    status = clBuildProgram(program, 1, &device, "", NULL, NULL);
    if (status != CL_SUCCESS) {
        static char log[16384];
        clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof log - 1, log, NULL);
        fail("spectrum.cl does not compile", log);
    }
    shuffle_series = clCreateKernel(program, "shuffle_series", &status);
    check(status, "shuffle_series");
    highest_power = clCreateKernel(program, "highest_power", &status);
    check(status, "highest_power");

    cl_mem_flags copied = CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR;
    cl_int n = job->n, vectors = job->vectors;
    cl_uint seed = (cl_uint)job->seed;
    cl_mem values = clCreateBuffer(context, copied, n * sizeof(float), job->values32, &status);
    check(status, "values");
    cl_mem waves = clCreateBuffer(context, copied, (size_t)vectors * n * WIDTH * sizeof(float), job->waves, &status);
    check(status, "waves");
    cl_mem series = clCreateBuffer(context, CL_MEM_READ_WRITE, (size_t)ROUND * n * sizeof(float), NULL, &status);
    check(status, "series");
    maxima_there = clCreateBuffer(context, CL_MEM_WRITE_ONLY, ROUND * sizeof(float), NULL, &status);
    check(status, "maxima");
    check(clSetKernelArg(shuffle_series, 0, sizeof values, &values), "argument");
    check(clSetKernelArg(shuffle_series, 1, sizeof n, &n), "argument");
    check(clSetKernelArg(shuffle_series, 2, sizeof seed, &seed), "argument");
    check(clSetKernelArg(shuffle_series, 4, sizeof series, &series), "argument");
    check(clSetKernelArg(highest_power, 0, sizeof series, &series), "argument");
    check(clSetKernelArg(highest_power, 1, sizeof n, &n), "argument");
    check(clSetKernelArg(highest_power, 2, sizeof waves, &waves), "argument");
    check(clSetKernelArg(highest_power, 3, sizeof vectors, &vectors), "argument");
    check(clSetKernelArg(highest_power, 4, sizeof maxima_there, &maxima_there), "argument");
}

static void compute_round(const struct job *job, uint32_t first, size_t count, float *maxima)
{
    (void)job;
    cl_uint there = first;
    check(clSetKernelArg(shuffle_series, 3, sizeof there, &there), "argument");
    check(clEnqueueNDRangeKernel(queue, shuffle_series, 1, NULL, &count, NULL, 0, NULL, NULL), "shuffle_series");
    check(clEnqueueNDRangeKernel(queue, highest_power, 1, NULL, &count, NULL, 0, NULL, NULL), "highest_power");
    check(clEnqueueReadBuffer(queue, maxima_there, CL_TRUE, 0, count * sizeof(float), maxima, 0, NULL, NULL), "maxima");
}

#else

static const uint32_t GOLDEN = 0x9E3779B9u;

static uint32_t mixed(uint32_t bits)
{
    bits = (bits ^ (bits >> 16)) * 0x85EBCA6Bu;
    bits = (bits ^ (bits >> 13)) * 0xC2B2AE35u;
    return bits ^ (bits >> 16);
}

static void open_device(const struct job *job, const char *type, int number)
{
    (void)job, (void)type, (void)number;
}

static void compute_round(const struct job *job, uint32_t first, size_t count, float *maxima)
{
    int n = job->n;
    float *series = space(n, sizeof(float));
    for (size_t r = 0; r < count; r++) {
        uint32_t state = mixed((uint32_t)job->seed + GOLDEN * (first + (uint32_t)r + 1));
        memcpy(series, job->values32, n * sizeof(float));
        for (uint32_t last = n - 1; last > 0; last--) {
            uint32_t other = (uint32_t)((uint64_t)mixed(state + GOLDEN * last) * (last + 1) >> 32);
            float kept = series[other];
            series[other] = series[last];
            series[last] = kept;
        }
        maxima[r] = 0;
        for (int v = 0; v < job->vectors; v++) {
            float sums[WIDTH] = {0};
            for (int k = 0; k < n; k++)
                for (int w = 0; w < WIDTH; w++)
                    sums[w] += series[k] * job->waves[((size_t)v * n + k) * WIDTH + w];
            for (int w = 0; w < WIDTH; w += 2)
                maxima[r] = fmaxf(maxima[r], sums[w] * sums[w] + sums[w + 1] * sums[w + 1]);
        }
    }
    free(series);
}
#endif

// ---------------------------------------------------------------- checkpoints and messages to the launcher

static void replace(const char *path, const void *content, size_t size)
{
    char temporary[1100];
    snprintf(temporary, sizeof temporary, "%s.tmp", path);
    FILE *file = fopen(temporary, "wb");
    if (!file || fwrite(content, 1, size, file) != size || fclose(file) || rename(temporary, path))
        fail(path, strerror(errno));
}

static void tell(const char *name, double number)
{
    const char *folder = getenv("COBBLESTONE_FOLDER"); // of the launcher; see the head of cobblestone_runtime.py
    char path[1000], text[40];
    if (!folder)
        return;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    replace(path, text, (size_t)snprintf(text, sizeof text, "%.6f\n", number));
}

static void ask_to_quit(int number)
{
    (void)number;
    quitting = 1;
}

static int by_size(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void write_result(const struct job *job, float *maxima, size_t total, const char *path)
{
    char text[8192];
    qsort(maxima, total, sizeof(float), by_size);
    int used = snprintf(text, sizeof text, "shuffles %zu\npower %.6g\nperiod %.6g\n", total, job->power, job->period);
    for (size_t percent = 0; percent <= 100; percent++)
        used += snprintf(text + used, sizeof text - used, "percentile %zu %.6g\n", percent, maxima[(total - 1) * percent / 100]);
    replace(path, text, used);
}

int main(int count, char **words)
{
    if (count < 3)
        fail("usage", "spectrum INPUT OUTPUT [GPU_TYPE NUMBER]");
    signal(SIGTERM, ask_to_quit);
    struct job job = {0};
    read_job(&job, words[1]);
    prepare(&job);
    size_t total = (size_t)job.shuffles, done = 0;
    float *maxima = space(total + ROUND, sizeof(float));
    char state[1000];
    snprintf(state, sizeof state, "%s.checkpoint", words[2]);
    FILE *file = fopen(state, "rb");
    if (file) {
        done = fread(maxima, sizeof(float), total, file);
        fclose(file);
    }
    open_device(&job, count > 3 ? words[3] : "", count > 4 ? atoi(words[4]) : 0);
    time_t saved = time(NULL);
    while (done < total) {
        size_t now = total - done < ROUND ? total - done : ROUND;
        compute_round(&job, (uint32_t)job.first + (uint32_t)done, now, maxima + done);
        done += now;
        tell("cobblestone_progress", (double)done / total);
        if (done < total && (quitting || difftime(time(NULL), saved) >= CHECKPOINT_SECONDS)) {
            replace(state, maxima, done * sizeof(float));
            tell("cobblestone_checkpoint", (double)done);
            saved = time(NULL);
            if (quitting)
                return 1;
        }
    }
    write_result(&job, maxima, total, words[2]);
    remove(state);
    return 0;
}
