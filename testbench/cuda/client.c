/* A CUDA program without any package: each check is named on the command line, prints `ok`, and ends with 0. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef uint64_t CUdeviceptr;
extern int cuInit(unsigned), cuDeviceGet(int *, int), cuDeviceGetCount(int *), cuDriverGetVersion(int *);
extern int cuDeviceGetAttribute(int *, int, int), cuCtxCreate_v2(void **, unsigned, int), cuCtxDestroy_v2(void *);
extern int cuCtxSynchronize(void), cuMemAlloc_v2(CUdeviceptr *, size_t), cuMemFree_v2(CUdeviceptr);
extern int cuMemcpyHtoD_v2(CUdeviceptr, const void *, size_t), cuMemcpyDtoH_v2(void *, CUdeviceptr, size_t);
extern int cuMemGetInfo_v2(size_t *, size_t *), cuModuleLoadData(void **, const void *), cuModuleUnload(void *);
extern int cuModuleGetFunction(void **, void *, const char *), cuModuleGetGlobal_v2(CUdeviceptr *, size_t *, void *, const char *);
extern int cuModuleLoadDataEx(void **, const void *, unsigned, int *, void **);
extern int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
extern int cuMemHostRegister_v2(void *, size_t, unsigned), cuMemHostGetDevicePointer_v2(CUdeviceptr *, void *, unsigned);
extern int cuMemAllocManaged(CUdeviceptr *, size_t, unsigned), cuMemsetD32_v2(CUdeviceptr, unsigned, size_t);
extern int cuStreamCreate(void **, unsigned), cuStreamBeginCapture_v2(void *, int), cuStreamEndCapture(void *, void **);
extern int cuGraphInstantiateWithFlags(void **, void *, unsigned long long), cuGraphLaunch(void *, void *);
extern int cuMemcpyDtoHAsync_v2(void *, CUdeviceptr, size_t, void *), cuTexRefCreate(void), cuGetErrorName(int, const char **);
extern int cuGetProcAddress_v2(const char *, void **, int, uint64_t, int *), cuFuncGetAttribute(int *, int, void *);
extern int cuLinkCreate_v2(unsigned, int *, void **, void **), cuLinkComplete(void *, void **, size_t *), cuLinkDestroy(void *);
extern int cuLinkAddFile_v2(void *, int, const char *, unsigned, int *, void **);
extern int cuCtxPopCurrent_v2(void **), cuMemAllocHost_v2(void **, size_t), cuMemFreeHost(void *);
extern int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *, void *, int, size_t);

/* add: out[i] = in[i] + step; bad, mangled and of 32 threads at most: stores to address 16; endless: a loop that never ends. */
static const char PROGRAM[] =
    ".version 4.3\n.target sm_50\n.address_size 64\n"
    ".visible .global .align 4 .u32 calls;\n"
    ".visible .entry add(.param .u64 in, .param .u64 out, .param .u32 step)\n{\n"
    ".reg .b32 %r<5>; .reg .b64 %d<6>; .reg .pred %p1;\n"
    "ld.param.u64 %d1, [in]; ld.param.u64 %d2, [out]; ld.param.u32 %r1, [step];\n"
    "mov.u32 %r2, %tid.x; mul.wide.u32 %d3, %r2, 4; add.u64 %d4, %d1, %d3; add.u64 %d5, %d2, %d3;\n"
    "ld.global.u32 %r3, [%d4]; add.u32 %r3, %r3, %r1; st.global.u32 [%d5], %r3;\n"
    "setp.eq.u32 %p1, %r2, 0; @%p1 red.global.add.u32 [calls], 1;\nret;\n}\n"
    ".visible .entry _Z3badv()\n.maxntid 32, 1, 1\n{\n.reg .b64 %d1;\nmov.u64 %d1, 16; st.global.u32 [%d1], 7;\nret;\n}\n"
    ".visible .entry endless()\n{\nL: bra L;\n}\n";

static void check(int result, int wanted, const char *what) {
    if (result != wanted) {
        const char *name = "?";
        cuGetErrorName(result, &name);
        printf("%s: %d (%s), expected %d\n", what, result, name, wanted);
        exit(1);
    }
}
#define IS(WANTED, CALL) check(CALL, WANTED, #CALL)

static void *context, *module;

static void *begin(const char *kernel) {
    void *function;
    IS(0, cuInit(0));
    IS(0, cuCtxCreate_v2(&context, 0, 0));
    IS(0, cuModuleLoadData(&module, PROGRAM));
    IS(0, cuModuleGetFunction(&function, module, kernel));
    return function;
}

static void launch(void *function, CUdeviceptr in, CUdeviceptr out, unsigned step) {
    void *parameters[] = {&in, &out, &step};
    IS(0, cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL));
}

static void expect(const unsigned *words, unsigned first) {
    for (unsigned i = 0; i < 32; i++)
        if (words[i] != first + i) {
            printf("word %u is %u, not %u\n", i, words[i], first + i);
            exit(1);
        }
}

static unsigned numbers[32];

static void add(void) {
    void *function = begin("add");
    CUdeviceptr in, out, calls;
    size_t bytes, before, after, total;
    unsigned words[32], count;
    for (unsigned i = 0; i < 32; i++)
        numbers[i] = i;
    IS(0, cuMemGetInfo_v2(&before, &total));
    IS(0, cuMemAlloc_v2(&in, sizeof numbers));
    IS(0, cuMemAlloc_v2(&out, sizeof numbers));
    IS(0, cuMemcpyHtoD_v2(in, numbers, sizeof numbers));
    launch(function, in, out, 5);
    IS(0, cuMemcpyDtoH_v2(words, out, sizeof words));
    expect(words, 5);
    IS(0, cuModuleGetGlobal_v2(&calls, &bytes, module, "calls"));
    IS(0, cuMemcpyDtoH_v2(&count, calls, 4));
    check((int)count, 1, "launches that were counted");
    check((int)bytes, 4, "bytes of the variable");
    IS(1, cuMemcpyDtoH_v2(words, out + 4, sizeof words)); /* runs off the allocation */
    IS(0, cuMemFree_v2(in));
    IS(0, cuMemFree_v2(out));
    IS(1, cuMemFree_v2(out));
    IS(0, cuMemGetInfo_v2(&after, &total));
    check(before == after, 1, "all memory is free again");
}

static void errors(void) {
    CUdeviceptr place;
    void *function = begin("_Z3badv");
    IS(0, cuMemAlloc_v2(&place, 4));
    IS(0, cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
    IS(700, cuCtxSynchronize());
    IS(700, cuMemAlloc_v2(&place, 4)); /* for good */
    IS(0, cuCtxDestroy_v2(context));
    IS(0, cuCtxCreate_v2(&context, 0, 0));
    IS(0, cuMemAlloc_v2(&place, 4));
}

static void shapes(void) {
    int value, blocks;
    void *function = begin("_Z3badv");
    IS(0, cuFuncGetAttribute(&value, 0, function));
    check(value, 32, "the most threads of a block");
    IS(1, cuLaunchKernel(function, 1, 1, 1, (unsigned)value + 32, 1, 1, 0, NULL, NULL, NULL));
    IS(1, cuLaunchKernel(function, 1, 1, 1, 2048, 1, 1, 0, NULL, NULL, NULL));
    IS(1, cuLaunchKernel(function, 0, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
    IS(1, cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 1 << 20, NULL, NULL, NULL));
    IS(500, cuModuleGetFunction(&function, module, "nobody"));
    IS(0, cuModuleGetFunction(&function, module, "add"));
    IS(0, cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 32, 0));
    check(blocks > 0, 1, "a block fits");
    IS(0, cuCtxSynchronize()); /* none of these is for good */
}

static void memory(void) {
    CUdeviceptr place, copy;
    unsigned words[32];
    void *function = begin("add");
    IS(2, cuMemAlloc_v2(&place, (size_t)1 << 50));
    IS(0, cuMemAllocManaged(&place, sizeof numbers, 1));
    unsigned *managed = (unsigned *)(uintptr_t)place; /* one address for both */
    for (unsigned i = 0; i < 32; i++)
        managed[i] = i;
    launch(function, place, place, 7);
    expect(managed, 7);
    IS(0, cuMemHostRegister_v2(words, sizeof words, 2));
    IS(712, cuMemHostRegister_v2(words, sizeof words, 2));
    IS(0, cuMemHostGetDevicePointer_v2(&copy, words, 0));
    launch(function, place, copy, 3);
    expect(words, 10);
    IS(0, cuMemsetD32_v2(place, 9, 32));
    check((int)managed[31], 9, "the last word that was set");
}

static void owners(void) {
    CUdeviceptr place;
    void *host, *function = begin("add");
    check(function != NULL, 1, "the kernel");
    IS(0, cuMemAlloc_v2(&place, 64));
    IS(0, cuMemAllocHost_v2(&host, 64));
    IS(0, cuCtxPopCurrent_v2(NULL));
    IS(201, cuMemAlloc_v2(&place, 64)); /* whose would it be? */
    IS(0, cuMemFree_v2(place));         /* an address says whose it is */
    IS(0, cuMemFreeHost(host));
    IS(0, cuModuleUnload(module));
    IS(1, cuMemFree_v2(place));
}

static void full(void) {
    enum { MOST = 64, BYTES = 64 << 20 };
    CUdeviceptr place[MOST];
    size_t available, total;
    void *function = begin("add");
    int count = 0, result;
    while (count < MOST && !(result = cuMemAlloc_v2(&place[count], BYTES)))
        count++;
    check(result, 2, "no memory is left");
    for (int i = 0; i < count; i++)
        IS(0, cuMemFree_v2(place[i]));
    IS(0, cuMemGetInfo_v2(&available, &total));
    check(count, (int)(available / BYTES), "what fitted in");
    IS(0, cuMemAlloc_v2(&place[0], sizeof numbers));
    launch(function, place[0], place[0], 1); /* it is no error for good */
}

static void graphs(void) {
    void *function = begin("add"), *stream, *graph, *exec;
    unsigned words[32];
    CUdeviceptr place, step = 1;
    IS(0, cuMemAlloc_v2(&place, sizeof numbers));
    for (unsigned i = 0; i < 32; i++)
        numbers[i] = i;
    IS(0, cuMemcpyHtoD_v2(place, numbers, sizeof numbers));
    IS(0, cuStreamCreate(&stream, 0));
    IS(0, cuStreamBeginCapture_v2(stream, 0));
    void *parameters[] = {&place, &place, &step};
    IS(0, cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL));
    IS(0, cuMemcpyDtoHAsync_v2(words, place, sizeof words, stream));
    IS(0, cuStreamEndCapture(stream, &graph));
    IS(0, cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 3; i++)
        IS(0, cuGraphLaunch(exec, stream));
    expect(words, 3);
}

static void names(void) {
    void *function;
    int status, count, version;
    IS(3, cuDeviceGetCount(&count)); /* not initialized */
    IS(0, cuInit(0));
    IS(0, cuDeviceGetCount(&count));
    IS(0, cuDriverGetVersion(&version));
    IS(801, cuTexRefCreate());
    IS(0, cuGetProcAddress_v2("cuMemAlloc", &function, 12000, 0, &status));
    check(function == (void *)cuMemAlloc_v2 && status == 0, 1, "cuMemAlloc is its second version");
    IS(0, cuGetProcAddress_v2("cuNothing", &function, 12000, 0, &status));
    check(status, 1, "an unknown name is not found");
}

static void forked(void) {
    CUdeviceptr place;
    begin("add");
    pid_t child = fork();
    if (!child)
        _exit(cuMemAlloc_v2(&place, 4) == 3 ? 0 : 1);
    int status;
    waitpid(child, &status, 0);
    check(status, 0, "the child is told that it is not initialized");
    IS(0, cuMemAlloc_v2(&place, 4));
}

static void endless(void) {
    void *function = begin("endless");
    puts("begins");
    fflush(stdout);
    IS(0, cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
    IS(702, cuCtxSynchronize());
}

static void dies(void) {
    CUdeviceptr place;
    void *function = begin("add");
    IS(0, cuMemAlloc_v2(&place, 1 << 20));
    launch(function, place, place, 1);
    abort();
}

static void many(int count) {
    void *function = begin("add");
    CUdeviceptr place;
    IS(0, cuMemAllocManaged(&place, sizeof numbers, 1));
    for (int i = 0; i < count; i++)
        launch(function, place, place, 1);
    check((int)((unsigned *)(uintptr_t)place)[31], count, "what all launches have added");
}

/* Links files, and prints the number that the kernel `one` stores. `level` is that of optimisation; a file may have the
 * most registers in front of it, as in 16:FILE. */
static void link_files(int level, int count, char **paths) {
    enum { MAX_REGISTERS = 0, ERROR_LOG = 5, ERROR_LOG_BYTES = 6, OPTIMIZATION_LEVEL = 7 };
    char log[4096] = "";
    int options[] = {OPTIMIZATION_LEVEL, ERROR_LOG, ERROR_LOG_BYTES};
    void *values[] = {(void *)(uintptr_t)level, log, (void *)sizeof log}, *state, *image, *function;
    CUdeviceptr place;
    unsigned number;
    IS(0, cuInit(0));
    IS(0, cuCtxCreate_v2(&context, 0, 0));
    IS(0, cuLinkCreate_v2(3, options, values, &state));
    for (int i = 0; i < count; i++) {
        char *colon = strchr(paths[i], ':'), own_log[64] = "none";
        if (!colon) {
            IS(0, cuLinkAddFile_v2(state, 0, paths[i], 0, NULL, NULL));
            continue;
        }
        int own_options[] = {MAX_REGISTERS, ERROR_LOG, ERROR_LOG_BYTES};
        void *own_values[] = {(void *)strtoul(paths[i], NULL, 10), own_log, (void *)sizeof own_log};
        IS(0, cuLinkAddFile_v2(state, 0, colon + 1, 3, own_options, own_values));
        check((int)strlen(own_log) + (int)(uintptr_t)own_values[2], 0, "bytes of the input's own log");
    }
    int result = cuLinkComplete(state, &image, NULL);
    if (result) {
        printf("%d: %s\n", result, log);
        exit(1);
    }
    IS(0, cuModuleLoadData(&module, image));
    IS(0, cuLinkDestroy(state));
    IS(0, cuModuleGetFunction(&function, module, "one"));
    IS(0, cuMemAlloc_v2(&place, sizeof number));
    void *parameters[] = {&place};
    IS(0, cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
    IS(0, cuMemcpyDtoH_v2(&number, place, sizeof number));
    printf("%u\n", number);
}

static void *found(const char *name) {
    void *function;
    int status;
    check(cuGetProcAddress_v2(name, &function, 12090, 0, &status), 0, name);
    check(function != NULL, 1, name);
    return function;
}

/* Runs an image of NVRTC as cuda.core does it: every function by its name, the image as a library, its kernel from the
 * list of all, a launch with a configuration. The kernel `divisors` stores the greatest common divisors of two arrays. */
static void run_library(const char *path) {
    enum { COUNT = 40, ERROR_LOG = 5, ERROR_LOG_BYTES = 6, MAX_REGISTERS = 0 };
    struct {
        unsigned grid[3], block[3], shared;
        void *stream, *attributes;
        unsigned attribute_count;
    } shape = {{2, 1, 1}, {32, 1, 1}, 0, NULL, NULL, 0};
    int (*load_library)(void **, const void *, int *, void **, unsigned, int *, void **, unsigned) =
        found("cuLibraryLoadData");
    int (*load_file)(void **, const char *, int *, void **, unsigned, int *, void **, unsigned) =
        found("cuLibraryLoadFromFile");
    int (*kernel_count)(unsigned *, void *) = found("cuLibraryGetKernelCount");
    int (*kernels)(void **, unsigned, void *) = found("cuLibraryEnumerateKernels");
    int (*kernel_name)(const char **, void *) = found("cuKernelGetName");
    int (*kernel_of)(void **, void *, const char *) = found("cuLibraryGetKernel");
    int (*unload)(void *) = found("cuLibraryUnload");
    int (*launch_shaped)(void *, void *, void **, void **) = found("cuLaunchKernelEx");
    static char image[1 << 20];
    FILE *file = fopen(path, "rb");
    check(file && fread(image, 1, sizeof image - 1, file) > 0, 1, path);
    fclose(file);

    IS(0, cuInit(0));
    IS(0, cuCtxCreate_v2(&context, 0, 0));
    char log[256] = "none";
    int options[] = {ERROR_LOG, ERROR_LOG_BYTES};
    void *values[] = {log, (void *)sizeof log};
    void *library, *kernel, *again;
    unsigned number;
    const char *name;
    IS(0, load_library(&library, image, options, values, 2, NULL, NULL, 0));
    IS(0, kernel_count(&number, library));
    check((int)number, 1, "kernels");
    IS(0, kernels(&kernel, 1, library));
    IS(0, kernel_name(&name, kernel));
    check(strcmp(name, "divisors"), 0, name);
    IS(0, kernel_of(&again, library, "divisors"));
    check(kernel == again, 1, "one handle for a kernel");
    IS(500, kernel_of(&again, library, "_Z8divisorsPKj"));

    CUdeviceptr places[3];
    unsigned count = COUNT, given[2][COUNT], divisors[COUNT];
    for (unsigned i = 0; i < COUNT; i++)
        given[0][i] = 12 * (i + 1), given[1][i] = 18;
    for (int i = 0; i < 3; i++)
        IS(0, cuMemAlloc_v2(&places[i], sizeof divisors));
    for (int i = 0; i < 2; i++)
        IS(0, cuMemcpyHtoD_v2(places[i], given[i], sizeof divisors));
    void *parameters[] = {&places[0], &places[1], &places[2], &count};
    IS(0, launch_shaped(&shape, kernel, parameters, NULL));
    IS(0, cuMemcpyDtoH_v2(divisors, places[2], sizeof divisors));
    for (unsigned i = 0; i < COUNT; i++)
        check((int)divisors[i], (i + 1) % 3 ? 6 : 18 /* 12 * (i + 1) and 18 */, "a greatest common divisor");
    IS(0, unload(library));
    int limit_option[] = {MAX_REGISTERS};
    void *limit[] = {(void *)16};
    IS(0, load_file(&library, path, limit_option, limit, 1, NULL, NULL, 0));
    IS(0, kernel_of(&kernel, library, "divisors"));
    int registers;
    IS(0, cuFuncGetAttribute(&registers, 4, kernel));
    printf("%d registers\n", registers);
}

int main(int count, char **arguments) {
    static const struct {
        const char *name;
        void (*run)(void);
    } CHECKS[] = {{"add", add},       {"errors", errors}, {"shapes", shapes},   {"memory", memory}, {"graphs", graphs},
                  {"owners", owners}, {"full", full},     {"names", names},     {"fork", forked},   {"endless", endless},
                  {"dies", dies}};
    if (count > 3 && !strcmp(arguments[1], "link")) {
        link_files(atoi(arguments[2]), count - 3, arguments + 3);
        return puts("ok") < 0;
    }
    if (count > 2 && !strcmp(arguments[1], "library")) {
        run_library(arguments[2]);
        return puts("ok") < 0;
    }
    if (count > 2 && !strcmp(arguments[1], "many")) {
        many(atoi(arguments[2]));
        return puts("ok") < 0;
    }
    for (size_t i = 0; count > 1 && i < sizeof CHECKS / sizeof *CHECKS; i++)
        if (!strcmp(CHECKS[i].name, arguments[1])) {
            CHECKS[i].run();
            return puts("ok") < 0;
        }
    fprintf(stderr, "no such check\n");
    return 2;
}
