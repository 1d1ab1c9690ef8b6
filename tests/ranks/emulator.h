// A GPU that stands in: what a kernel takes for granted, NVRTC and the driver, for g++.
//
// Threads of a block are coroutines, which meet at shuffles and barriers as those of warps and blocks do.
// A source includes this file, and then for each kernel its text between `#define rank_rows NAME` and
// KERNEL(NAME), in a namespace of its own. The driver launches the kernel of the dtype that NVRTC was
// asked for: the first three are those of float32, bfloat16 and float16.
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

extern "C" {
// order: of the threads, 0 forward, 1 backward, else random. rough: functions are as far off as a GPU's.
// only: the kernel that is launched whatever was compiled. answer: of the driver, in place of a launch.
struct { int order, rough, only, answer, launches; } state = {0, 0, -1, 0, 0};
char options[256];
extern char __start_shared_memory[], __stop_shared_memory[];
}

namespace gpu {

struct Index { unsigned x; } thread, block, size;
struct Thread { ucontext_t context; bool done; long shuffles, barriers; };
struct Warp { long turn[2]; int count[2], distance[2]; uint32_t value[2][32]; };
std::vector<Thread> threads;
std::vector<Warp> warps;
ucontext_t scheduler;
long barrier_turn;
int waiting, live;
const char* fault;
void (*body)();
void** given;

void give_way() { swapcontext(&threads[thread.x].context, &scheduler); }

void refuse(const char* text) {
    fault = text;
    threads[thread.x].done = true;
    give_way();
}

// The value of another lane, once all 32 have come to this shuffle. Two turns are kept: a lane may be at
// the next one before another has read its value of this one.
template <class T> T shuffle_xor(unsigned mask, T value, int distance) {
    static_assert(sizeof(T) == 4);
    Warp& warp = warps[thread.x / 32];
    const long turn = threads[thread.x].shuffles++;
    const int slot = turn % 2, lane = thread.x % 32;
    if (mask != ~0u) refuse("a shuffle of a part of the warp");
    if (warp.turn[slot] != turn) {
        warp.turn[slot] = turn;
        warp.count[slot] = 0;
        warp.distance[slot] = distance;
    }
    if (warp.distance[slot] != distance) refuse("lanes of a warp are at different shuffles");
    memcpy(&warp.value[slot][lane], &value, 4);
    warp.count[slot]++;
    while (warp.count[slot] < 32) give_way();
    memcpy(&value, &warp.value[slot][lane ^ distance], 4);
    return value;
}

void barrier() {
    const long turn = threads[thread.x].barriers++;
    if (barrier_turn != turn) { barrier_turn = turn; waiting = 0; }
    waiting++;
    while (barrier_turn == turn && waiting < live) give_way();
}

void enter() {
    body();
    threads[thread.x].done = true;
    live--;
    give_way();
}

// All blocks, one after the other; what went wrong, or null.
const char* launch(void (*run)(), unsigned blocks, unsigned count) {
    const size_t stack = 1 << 16;
    static std::vector<char> stacks(stack * 1024);
    if (count % 32 || count > 1024) return "a block is of whole warps and at most 1024 threads";
    body = run;
    size.x = count;
    fault = nullptr;
    std::mt19937 random(state.order);
    std::vector<unsigned> order(count);
    for (unsigned i = 0; i < count; i++) order[i] = state.order == 1 ? count - 1 - i : i;
    for (block.x = 0; block.x < blocks && !fault; block.x++) {
        memset(__start_shared_memory, 0xff, __stop_shared_memory - __start_shared_memory);
        threads.assign(count, Thread{});
        warps.assign(count / 32, Warp{{-1, -1}, {0, 0}, {0, 0}, {}});
        barrier_turn = -1;
        live = count;
        for (unsigned i = 0; i < count; i++) {
            getcontext(&threads[i].context);
            threads[i].context.uc_stack = {&stacks[i * stack], 0, stack};
            makecontext(&threads[i].context, enter, 0);
        }
        // rounds over the threads; two in which none came any further are the end
        for (int idle = 0; live && !fault && idle < 2;) {
            if (state.order > 1) std::shuffle(order.begin(), order.end(), random);
            bool steps = false;
            for (unsigned i : order) {
                if (threads[i].done || fault) continue;
                const long met = threads[i].shuffles + threads[i].barriers;
                thread.x = i;
                swapcontext(&scheduler, &threads[i].context);
                steps |= threads[i].shuffles + threads[i].barriers != met || threads[i].done;
            }
            idle = steps ? 0 : idle + 1;
            if (idle == 2) fault = "threads wait for others that never come";
        }
    }
    return fault;
}

// Off by up to `most` units in the last place, always the same for the same number.
float off(double exact, float at, int most) {
    float value = (float)exact;
    if (!state.rough || value == 0 || !std::isfinite(value) || at == 0) return value;
    uint32_t bits;
    memcpy(&bits, &at, 4);
    bits = (bits ^ bits >> 15) * 2654435769u;
    const int steps = int((bits >> 8) % (2 * most + 1)) - most;
    for (int i = 0; i < std::abs(steps); i++) value = std::nextafterf(value, steps > 0 ? INFINITY : -INFINITY);
    return value;
}
float exp_of(float x) { return off(std::exp((double)x), x, 2); }
float log_of(float x) { return off(std::log((double)x), x, 1); }
float log1p_of(float x) { return off(std::log1p((double)x), x, 1); }
float bits_as_float(uint32_t bits) { float x; memcpy(&x, &bits, 4); return x; }
float half_as_float(unsigned short u) {
    const int exponent = u >> 10 & 31, digits = u & 1023;
    const double size = exponent == 31 ? (digits ? NAN : INFINITY)
                                       : std::ldexp(exponent ? 1024 + digits : digits, std::max(exponent, 1) - 25);
    return (float)(u >> 15 ? -size : size);
}

std::vector<void (*)()> kernels;
template <class T> T& argument(int i) { return *(T*)given[i]; }

}  // namespace gpu

#define KERNEL(NAME)                                                                                      \
    void run() {                                                                                          \
        using gpu::argument;                                                                              \
        NAME(argument<Score*>(0), argument<long long>(1), argument<int>(2), argument<long long*>(3),      \
             argument<long long*>(4), argument<long long*>(5), argument<float*>(6));                      \
    }                                                                                                     \
    const bool there = (gpu::kernels.push_back(run), true);

extern "C" {
int nvrtcCreateProgram(void** program, const char*, const char*, int, const char**, const char**) {
    *program = options;
    return 0;
}
int nvrtcCompileProgram(void*, int count, const char** words) {
    for (int i = 0, at = 0; i < count; i++) at += snprintf(options + at, 100, "%s ", words[i]);
    return strstr(options, "sm_00") ? 5 : 0;  // a card that is not known
}
int nvrtcGetCUBINSize(void*, size_t* size) { *size = 4; return 0; }
int nvrtcGetCUBIN(void*, char* image) { memcpy(image, "\x7f" "ELF", 4); return 0; }
int cuModuleLoadData(void** module, const void* image) {
    *module = options;
    return memcmp(image, "\x7f" "ELF", 4) ? 200 : 0;
}
int cuModuleGetFunction(void** function, void*, const char* name) {
    const int kind = strstr(options, "bfloat16") ? 1 : strstr(options, "float16") ? 2 : 0;
    *function = &gpu::kernels[kind];
    return strcmp(name, "rank_rows") ? 500 : 0;
}
int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void*, void** arguments, void** extra) {
    if (gy != 1 || gz != 1 || by != 1 || bz != 1 || shared || extra) return 1;
    if (state.answer) return state.answer;
    state.launches++;
    gpu::given = arguments;
    void (*run)() = state.only < 0 ? *(void (**)())function : gpu::kernels[state.only];
    const char* fault = gpu::launch(run, gx, bx);
    if (fault) fprintf(stderr, "%s\n", fault);
    return fault ? 700 : 0;
}
}

using std::min;
#define threadIdx gpu::thread
#define blockIdx gpu::block
#define blockDim gpu::size
#define __global__
#define __device__ static inline
#define __launch_bounds__(...)
#define __align__ alignas
#define __shared__ static __attribute__((section("shared_memory")))
#define __shfl_xor_sync gpu::shuffle_xor
#define __syncthreads gpu::barrier
#define __uint_as_float gpu::bits_as_float
#define expf gpu::exp_of
#define logf gpu::log_of
#define log1pf gpu::log1p_of
#define asm(...) x = gpu::half_as_float(u)  // the one instruction that rank.cu writes out
