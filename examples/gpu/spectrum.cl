// The two kernels of spectrum.c: both have one work-item for each shuffle, so neighbours read neighbouring words of memory.

uint mixed(uint bits)
{
    bits = (bits ^ (bits >> 16)) * 0x85EBCA6Bu;
    bits = (bits ^ (bits >> 13)) * 0xC2B2AE35u;
    return bits ^ (bits >> 16);
}

// Column r of `series` becomes shuffle first + r of the values.
kernel void shuffle_series(constant float *values, int n, uint seed, uint first, global float *series)
{
    size_t r = get_global_id(0), round = get_global_size(0);
    uint state = mixed(seed + 0x9E3779B9u * (first + (uint)r + 1));
    for (int k = 0; k < n; k++)
        series[k * round + r] = values[k];
    for (uint last = n - 1; last > 0; last--) {
        uint other = mul_hi(mixed(state + 0x9E3779B9u * last), last + 1);
        float kept = series[other * round + r];
        series[other * round + r] = series[last * round + r];
        series[last * round + r] = kept;
    }
}

// Eight frequencies at a time: their cosines and sines lie in turn in a vector of sixteen.
kernel void highest_power(global const float *series, int n, global const float16 *waves, int vectors, global float *maxima)
{
    size_t r = get_global_id(0), round = get_global_size(0);
    float highest = 0;
    for (int v = 0; v < vectors; v++) {
        float16 sum = 0;
        for (int k = 0; k < n; k++)
            sum += series[k * round + r] * waves[v * n + k];
        sum *= sum;
        float8 eight = sum.even + sum.odd;
        float4 four = fmax(eight.lo, eight.hi);
        float2 two = fmax(four.lo, four.hi);
        highest = fmax(highest, fmax(two.x, two.y));
    }
    maxima[r] = highest;
}
