/* libcudart: the runtime's functions, implemented by the driver's. Compiled programs register their kernels and
 * variables before main; a module is loaded when the first of its kernels or variables is used. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "refusal.h"
#include "runtime_abi.h"

#define EXPORT __attribute__((visibility("default")))

typedef int cudaError_t;
typedef struct function *CUfunction;
typedef struct module *CUmodule;
typedef struct stream *cudaStream_t;
typedef struct event *cudaEvent_t;
typedef struct context *CUcontext;

/* Results of the runtime that the driver does not have, or has under another number. */
enum {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorInvalidPitchValue = 12,
    cudaErrorInvalidSymbol = 13,
    cudaErrorInvalidMemcpyDirection = 21,
    cudaErrorInsufficientDriver = 35,
    cudaErrorMissingConfiguration = 52,
    cudaErrorInvalidDeviceFunction = 98,
    cudaErrorInvalidDevice = 101,
    cudaErrorNotSupported = 801,
};
enum { COPY_HOST_TO_HOST, COPY_HOST_TO_DEVICE, COPY_DEVICE_TO_HOST, COPY_DEVICE_TO_DEVICE, COPY_DEFAULT };

/* The driver's functions that are used here. */
CUresult cuInit(unsigned);
CUresult cuDriverGetVersion(int *);
CUresult cuDeviceGetCount(int *);
CUresult cuDeviceGetName(char *, int, CUdevice);
CUresult cuDeviceGetUuid_v2(CUuuid *, CUdevice);
CUresult cuDeviceGetAttribute(int *, int, CUdevice);
CUresult cuDeviceTotalMem_v2(size_t *, CUdevice);
CUresult cuDeviceGetPCIBusId(char *, int, CUdevice);
CUresult cuDevicePrimaryCtxRetain(CUcontext *, CUdevice);
CUresult cuDevicePrimaryCtxReset_v2(CUdevice);
CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice, unsigned);
CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned *, int *);
CUresult cuCtxGetCurrent(CUcontext *);
CUresult cuCtxSetCurrent(CUcontext);
CUresult cuCtxSynchronize(void);
CUresult cuCtxSetLimit(int, size_t);
CUresult cuCtxGetLimit(size_t *, int);
CUresult cuGetErrorName(CUresult, const char **);
CUresult cuGetErrorString(CUresult, const char **);
CUresult cuModuleLoadData(CUmodule *, const void *);
CUresult cuModuleUnload(CUmodule);
CUresult cuModuleGetFunction(CUfunction *, CUmodule, const char *);
CUresult cuModuleGetGlobal_v2(CUdeviceptr *, size_t *, CUmodule, const char *);
CUresult cuFuncGetAttribute(int *, int, CUfunction);
CUresult cuFuncSetAttribute(CUfunction, int, int);
CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, cudaStream_t,
                        void **, void **);
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *, CUfunction, int, size_t, unsigned);
CUresult cuMemAlloc_v2(CUdeviceptr *, size_t);
CUresult cuMemAllocPitch_v2(CUdeviceptr *, size_t *, size_t, size_t, unsigned);
CUresult cuMemAllocManaged(CUdeviceptr *, size_t, unsigned);
CUresult cuMemHostAlloc(void **, size_t, unsigned);
CUresult cuMemFreeHost(void *);
CUresult cuMemFree_v2(CUdeviceptr);
CUresult cuMemHostRegister_v2(void *, size_t, unsigned);
CUresult cuMemHostUnregister(void *);
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *, void *, unsigned);
CUresult cuMemHostGetFlags(unsigned *, void *);
CUresult cuMemGetInfo_v2(size_t *, size_t *);
CUresult cuMemcpyAsync(CUdeviceptr, CUdeviceptr, size_t, cudaStream_t);
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *, cudaStream_t);
CUresult cuMemsetD8Async(CUdeviceptr, unsigned char, size_t, cudaStream_t);
CUresult cuMemsetD2D8Async(CUdeviceptr, size_t, unsigned char, size_t, size_t, cudaStream_t);
CUresult cuPointerGetAttribute(void *, int, CUdeviceptr);
CUresult cuMemPrefetchAsync(CUdeviceptr, size_t, CUdevice, cudaStream_t);
CUresult cuMemAdvise(CUdeviceptr, size_t, int, CUdevice);
CUresult cuStreamCreateWithPriority(cudaStream_t *, unsigned, int);
CUresult cuStreamDestroy_v2(cudaStream_t);
CUresult cuStreamSynchronize(cudaStream_t);
CUresult cuStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned);
CUresult cuStreamAddCallback(cudaStream_t, void (*)(cudaStream_t, CUresult, void *), void *, unsigned);
CUresult cuLaunchHostFunc(cudaStream_t, void (*)(void *), void *);
CUresult cuEventCreate(cudaEvent_t *, unsigned);
CUresult cuEventDestroy_v2(cudaEvent_t);
CUresult cuEventRecord(cudaEvent_t, cudaStream_t);
CUresult cuEventQuery(cudaEvent_t);
CUresult cuEventElapsedTime(float *, cudaEvent_t, cudaEvent_t);

/* The last error of each thread, which cudaGetLastError resets. */
static __thread cudaError_t last_error;

static cudaError_t keep(cudaError_t result) {
    if (result != cudaSuccess)
        last_error = result;
    return result;
}

static CUdeviceptr address_of(const void *place) {
    return (CUdeviceptr)(uintptr_t)place;
}

/* The primary context is created at the first call that needs one. */
static cudaError_t begin(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static CUcontext primary;
    CUresult result = cuInit(0);
    CUcontext current = NULL;
    if (result != cudaSuccess || (result = cuCtxGetCurrent(&current)) != cudaSuccess || current)
        return result;
    pthread_mutex_lock(&lock);
    if (!primary)
        result = cuDevicePrimaryCtxRetain(&primary, 0);
    pthread_mutex_unlock(&lock);
    return result == cudaSuccess ? cuCtxSetCurrent(primary) : result;
}

/* The body of most functions: a call of the driver, once there is a context. */
#define WITH_CONTEXT(CALL)                       \
    do {                                         \
        cudaError_t begun = begin();             \
        return keep(begun ? begun : (CALL));     \
    } while (0)

/* Registration by compiled programs. */

struct image { /* an image of a program, and its module once it is loaded */
    const void *content;
    CUmodule module;
    struct image *next;
};

struct registered { /* a kernel or a variable, with the address by which the program refers to it */
    const void *host;
    char *name;
    struct image *image;
    CUfunction function;
    struct registered *next;
};

static struct registered *kernels, *variables;
static struct image *images;
static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;

EXPORT void **__cudaRegisterFatBinary(void *content) {
    struct image *image = calloc(1, sizeof *image);
    if (image) {
        image->content = content;
        pthread_mutex_lock(&registry_lock);
        image->next = images;
        images = image;
        pthread_mutex_unlock(&registry_lock);
    }
    return (void **)image;
}

EXPORT void __cudaRegisterFatBinaryEnd(void **handle) {
    (void)handle;
}

EXPORT void __cudaUnregisterFatBinary(void **handle) {
    struct image *image = (struct image *)handle;
    if (image && image->module)
        cuModuleUnload(image->module);
    if (image)
        image->module = NULL;
}

static void add(struct registered **list, void **handle, const void *host, const char *name) {
    struct registered *made = calloc(1, sizeof *made);
    if (!made)
        return;
    *made = (struct registered){host, strdup(name), (struct image *)handle, NULL, *list};
    *list = made;
}

EXPORT void __cudaRegisterFunction(void **handle, const char *host, char *device_name, const char *name, int limit,
                                   void *thread, void *block, void *block_size, void *grid_size, int *warp_size) {
    (void)device_name, (void)limit, (void)thread, (void)block, (void)block_size, (void)grid_size, (void)warp_size;
    add(&kernels, handle, host, name);
}

EXPORT void __cudaRegisterVar(void **handle, char *host, char *device_address, const char *name, int external,
                              size_t bytes, int constant, int global) {
    (void)device_address, (void)external, (void)bytes, (void)constant, (void)global;
    add(&variables, handle, host, name);
}

/* A managed variable: the program reads its address from `*host`, so that its module is loaded at once. */
static cudaError_t symbol_address_for(const char *caller, CUdeviceptr *address, size_t *bytes, const void *symbol);
#define symbol_address(...) symbol_address_for(__func__, __VA_ARGS__)

EXPORT void __cudaRegisterManagedVar(void **handle, void **host, char *device_address, const char *name, int external,
                                     size_t bytes, int constant, int global) {
    (void)device_address, (void)external, (void)bytes, (void)constant, (void)global;
    add(&variables, handle, host, name);
}

EXPORT char __cudaInitModule(void **handle) {
    for (struct registered *one = variables; one; one = one->next)
        if (one->image == (struct image *)handle) {
            CUdeviceptr address;
            if (symbol_address(&address, NULL, one->host) == cudaSuccess)
                *(CUdeviceptr *)(uintptr_t)one->host = address;
        }
    return 1;
}

EXPORT void __cudaRegisterTexture(void **handle, const void *host, const void **address, const char *name, int dimensions,
                                  int normalized, int external) {
    (void)handle, (void)host, (void)address, (void)dimensions, (void)normalized, (void)external;
    report("texture %s is not supported: there are no textures", name);
}

EXPORT void __cudaRegisterSurface(void **handle, const void *host, const void **address, const char *name, int dimensions,
                                  int external) {
    (void)handle, (void)host, (void)address, (void)dimensions, (void)external;
    report("surface %s is not supported: there are no surfaces", name);
}

static struct registered *find(struct registered *list, const void *host) {
    while (list && list->host != host)
        list = list->next;
    return list;
}

static cudaError_t load(struct image *image) {
    pthread_mutex_lock(&registry_lock);
    cudaError_t result = image->module ? cudaSuccess : cuModuleLoadData(&image->module, image->content);
    pthread_mutex_unlock(&registry_lock);
    return result;
}

static cudaError_t kernel_at_for(const char *caller, CUfunction *function, const void *host) {
    cudaError_t result = begin();
    struct registered *found = find(kernels, host);
    if (result != cudaSuccess)
        return result;
    if (!found)
        return refused(cudaErrorInvalidDeviceFunction, caller, "no kernel is registered at %p", host);
    if ((result = load(found->image)) != cudaSuccess)
        return result;
    if (!found->function && (result = cuModuleGetFunction(&found->function, found->image->module, found->name)))
        return result == CUDA_ERROR_NOT_FOUND ? cudaErrorInvalidDeviceFunction : result;
    *function = found->function;
    return cudaSuccess;
}
#define kernel_at(...) kernel_at_for(__func__, __VA_ARGS__)

static cudaError_t symbol_address_for(const char *caller, CUdeviceptr *address, size_t *bytes, const void *symbol) {
    cudaError_t result = begin();
    struct registered *found = find(variables, symbol);
    if (result != cudaSuccess)
        return result;
    if (!found)
        return refused(cudaErrorInvalidSymbol, caller, "no variable is registered at %p", symbol);
    if ((result = load(found->image)) != cudaSuccess)
        return result;
    return cuModuleGetGlobal_v2(address, bytes, found->image->module, found->name);
}

/* Launches. */

static __thread struct {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
    int pushed;
} configuration;

EXPORT unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
    configuration.grid = grid, configuration.block = block;
    configuration.shared = shared, configuration.stream = stream;
    configuration.pushed = 1;
    return 0;
}

EXPORT cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
    if (!configuration.pushed)
        return keep(REFUSED(cudaErrorMissingConfiguration, "a launch has no grid and block"));
    *grid = configuration.grid, *block = configuration.block;
    *shared = configuration.shared;
    *(cudaStream_t *)stream = configuration.stream;
    configuration.pushed = 0;
    return cudaSuccess;
}

EXPORT cudaError_t cudaLaunchKernel(const void *host, dim3 grid, dim3 block, void **arguments, size_t shared,
                                    cudaStream_t stream) {
    CUfunction function;
    cudaError_t result = kernel_at(&function, host);
    if (result != cudaSuccess)
        return keep(result);
    result = cuLaunchKernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned)shared, stream,
                            arguments, NULL);
    return keep(result == CUDA_ERROR_INVALID_VALUE ? cudaErrorInvalidConfiguration : result);
}

EXPORT cudaError_t cudaLaunchKernel_ptsz(const void *host, dim3 grid, dim3 block, void **arguments, size_t shared,
                                         cudaStream_t stream) {
    return cudaLaunchKernel(host, grid, block, arguments, shared, stream);
}

EXPORT cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*function)(void *), void *data) {
    WITH_CONTEXT(cuLaunchHostFunc(stream, function, data));
}

EXPORT cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, const void *host) {
    CUfunction function;
    cudaError_t result = kernel_at(&function, host);
    int values[10];
    for (int i = 0; i < 10 && result == cudaSuccess; i++)
        result = cuFuncGetAttribute(&values[i], i, function);
    if (result == cudaSuccess)
        *attributes = (cudaFuncAttributes){(size_t)values[1], (size_t)values[2], (size_t)values[3], values[0], values[4],
                                           values[5], values[6], values[7], values[8], values[9]};
    return keep(result);
}

EXPORT cudaError_t cudaFuncSetAttribute(const void *host, int attribute, int value) {
    CUfunction function;
    cudaError_t result = kernel_at(&function, host);
    return keep(result ? result : cuFuncSetAttribute(function, attribute, value));
}

EXPORT cudaError_t cudaFuncSetCacheConfig(const void *host, int preference) {
    CUfunction function;
    (void)preference;
    return keep(kernel_at(&function, host));
}

EXPORT cudaError_t cudaFuncSetSharedMemConfig(const void *host, int preference) {
    return cudaFuncSetCacheConfig(host, preference);
}

EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *host, int threads,
                                                                          size_t shared, unsigned flags) {
    CUfunction function;
    cudaError_t result = kernel_at(&function, host);
    return keep(result ? result
                       : cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared, flags));
}

EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *host, int threads,
                                                                 size_t shared) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, host, threads, shared, 0);
}

/* The device. */

EXPORT cudaError_t cudaDriverGetVersion(int *version) {
    return keep(cuDriverGetVersion(version));
}

EXPORT cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = RUNTIME_MAJOR == 11 ? 11080 : 12090;
    return cudaSuccess;
}

EXPORT cudaError_t cudaGetDeviceCount(int *count) {
    cudaError_t result = begin();
    return keep(result ? (*count = 0, result) : cuDeviceGetCount(count));
}

EXPORT cudaError_t cudaGetDevice(int *device) {
    *device = 0;
    return cudaSuccess;
}

EXPORT cudaError_t cudaSetDevice(int device) {
    if (device)
        return keep(REFUSED(cudaErrorInvalidDevice, ONE_DEVICE, device));
    return keep(begin());
}

EXPORT cudaError_t cudaSetValidDevices(int *devices, int count) {
    return keep(count && devices[0] ? REFUSED(cudaErrorInvalidDevice, ONE_DEVICE, devices[0]) : cudaSuccess);
}

EXPORT cudaError_t cudaChooseDevice(int *device, const void *wanted) {
    (void)wanted;
    return cudaGetDevice(device);
}

EXPORT cudaError_t cudaSetDeviceFlags(unsigned flags) {
    return keep(cuDevicePrimaryCtxSetFlags_v2(0, flags));
}

EXPORT cudaError_t cudaGetDeviceFlags(unsigned *flags) {
    int active;
    return keep(cuDevicePrimaryCtxGetState(0, flags, &active));
}

#if RUNTIME_MAJOR >= 12
EXPORT cudaError_t cudaInitDevice(int device, unsigned flags, unsigned more) {
    (void)flags, (void)more;
    return cudaSetDevice(device);
}
#endif

EXPORT cudaError_t cudaDeviceGetAttribute(int *value, int attribute, int device) {
    WITH_CONTEXT(cuDeviceGetAttribute(value, attribute, device));
}

EXPORT cudaError_t cudaDeviceGetPCIBusId(char *text, int bytes, int device) {
    WITH_CONTEXT(cuDeviceGetPCIBusId(text, bytes, device));
}

EXPORT cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
    (void)device, (void)peer;
    *can = 0;
    return cudaSuccess;
}

EXPORT cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    if (least)
        *least = 0;
    if (greatest)
        *greatest = 0;
    return cudaSuccess;
}

EXPORT cudaError_t cudaDeviceSynchronize(void) {
    WITH_CONTEXT(cuCtxSynchronize());
}

EXPORT cudaError_t cudaThreadSynchronize(void) {
    return cudaDeviceSynchronize();
}

EXPORT cudaError_t cudaDeviceReset(void) {
    for (struct image *image = images; image; image = image->next)
        image->module = NULL;
    for (struct registered *one = kernels; one; one = one->next)
        one->function = NULL;
    last_error = cudaSuccess;
    return keep(cuDevicePrimaryCtxReset_v2(0));
}

EXPORT cudaError_t cudaThreadExit(void) {
    return cudaDeviceReset();
}

EXPORT cudaError_t cudaDeviceSetLimit(int limit, size_t value) {
    WITH_CONTEXT(cuCtxSetLimit(limit, value));
}

EXPORT cudaError_t cudaDeviceGetLimit(size_t *value, int limit) {
    WITH_CONTEXT(cuCtxGetLimit(value, limit));
}

EXPORT cudaError_t cudaDeviceSetCacheConfig(int preference) {
    (void)preference;
    return keep(begin());
}

EXPORT cudaError_t cudaDeviceGetCacheConfig(int *preference) {
    *preference = 0;
    return keep(begin());
}

EXPORT cudaError_t cudaDeviceSetSharedMemConfig(int preference) {
    (void)preference;
    return keep(begin());
}

EXPORT cudaError_t cudaDeviceGetSharedMemConfig(int *preference) {
    *preference = 1;
    return keep(begin());
}

/* Fields and the attributes that they are; those of type size_t and of type int. */
#define FIELD(NAME, ATTRIBUTE) {offsetof(cudaDeviceProp, NAME), ATTRIBUTE}
static const struct field {
    size_t offset;
    int attribute;
} LONG_FIELDS[] = {FIELD(sharedMemPerBlock, 8), FIELD(memPitch, 11), FIELD(totalConstMem, 9),
                   FIELD(textureAlignment, 14), FIELD(texturePitchAlignment, 51), FIELD(surfaceAlignment, 30),
                   FIELD(sharedMemPerMultiprocessor, 81), FIELD(sharedMemPerBlockOptin, 97),
                   FIELD(reservedSharedMemPerBlock, 111)},
  FIELDS[] = {FIELD(regsPerBlock, 12), FIELD(warpSize, 10), FIELD(maxThreadsPerBlock, 1), FIELD(maxThreadsDim[0], 2),
              FIELD(maxThreadsDim[1], 3), FIELD(maxThreadsDim[2], 4), FIELD(maxGridSize[0], 5),
              FIELD(maxGridSize[1], 6), FIELD(maxGridSize[2], 7), FIELD(clockRate, 13), FIELD(major, 75),
              FIELD(minor, 76), FIELD(deviceOverlap, 15), FIELD(multiProcessorCount, 16),
              FIELD(kernelExecTimeoutEnabled, 17), FIELD(integrated, 18), FIELD(canMapHostMemory, 19),
              FIELD(computeMode, 20), FIELD(concurrentKernels, 31), FIELD(ECCEnabled, 32), FIELD(pciBusID, 33),
              FIELD(pciDeviceID, 34), FIELD(pciDomainID, 50), FIELD(tccDriver, 35), FIELD(asyncEngineCount, 40),
              FIELD(unifiedAddressing, 41), FIELD(memoryClockRate, 36), FIELD(memoryBusWidth, 37),
              FIELD(l2CacheSize, 38), FIELD(maxThreadsPerMultiProcessor, 39), FIELD(streamPrioritiesSupported, 78),
              FIELD(globalL1CacheSupported, 79), FIELD(localL1CacheSupported, 80), FIELD(regsPerMultiprocessor, 82),
              FIELD(managedMemory, 83), FIELD(isMultiGpuBoard, 84), FIELD(multiGpuBoardGroupID, 85),
              FIELD(hostNativeAtomicSupported, 86), FIELD(singleToDoublePrecisionPerfRatio, 87),
              FIELD(pageableMemoryAccess, 88), FIELD(concurrentManagedAccess, 89),
              FIELD(computePreemptionSupported, 90), FIELD(canUseHostPointerForRegisteredMem, 91),
              FIELD(cooperativeLaunch, 95), FIELD(cooperativeMultiDeviceLaunch, 96),
              FIELD(maxBlocksPerMultiProcessor, 106)};

static cudaError_t common_properties(cudaDeviceProp *properties, int device) {
    int value;
    cudaError_t result = begin();
    memset(properties, 0, sizeof *properties);
    if (!result)
        result = cuDeviceGetName(properties->name, sizeof properties->name, device);
    if (!result)
        result = cuDeviceGetUuid_v2(&properties->uuid, device);
    if (!result)
        result = cuDeviceTotalMem_v2(&properties->totalGlobalMem, device);
    for (size_t i = 0; i < sizeof LONG_FIELDS / sizeof *LONG_FIELDS && !result; i++) {
        result = cuDeviceGetAttribute(&value, LONG_FIELDS[i].attribute, device);
        *(size_t *)((char *)properties + LONG_FIELDS[i].offset) = (size_t)value;
    }
    for (size_t i = 0; i < sizeof FIELDS / sizeof *FIELDS && !result; i++) {
        result = cuDeviceGetAttribute(&value, FIELDS[i].attribute, device);
        *(int *)((char *)properties + FIELDS[i].offset) = value;
    }
    return keep(result);
}

EXPORT cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device) {
    return common_properties(properties, device);
}

#if RUNTIME_MAJOR >= 12
EXPORT cudaError_t cudaGetDeviceProperties_v2(cudaDeviceProp_v12 *properties, int device) {
    memset(properties, 0, sizeof *properties);
    properties->hostRegisterSupported = 1;
    return common_properties(&properties->common, device);
}
#endif

/* Errors. */

EXPORT cudaError_t cudaGetLastError(void) {
    cudaError_t result = last_error;
    last_error = cudaSuccess;
    return result;
}

EXPORT cudaError_t cudaPeekAtLastError(void) {
    return last_error;
}

/* The runtime's own names where they are not the driver's. */
static const struct own_error {
    int number;
    const char *name, *text;
} OWN_ERRORS[] = {
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "the machine does not take a launch of this shape"},
    {cudaErrorInvalidSymbol, "cudaErrorInvalidSymbol", "there is no such variable"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection", "a copy has no such direction"},
    {cudaErrorMissingConfiguration, "cudaErrorMissingConfiguration", "a launch has no grid and block"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "there is no such kernel"},
};

/* The driver's name in the runtime's spelling: CUDA_ERROR_ILLEGAL_ADDRESS is cudaErrorIllegalAddress. */
static const char *runtime_name(const char *driver_name) {
    static __thread char name[96];
    static const char PREFIX[] = "CUDA_";
    size_t used = (size_t)snprintf(name, sizeof name, "cuda");
    int upper = 1;
    for (const char *at = driver_name + sizeof PREFIX - 1; *at && used + 1 < sizeof name; at++) {
        if (*at == '_') {
            upper = 1;
            continue;
        }
        name[used++] = upper || *at < 'A' || *at > 'Z' ? *at : (char)(*at - 'A' + 'a');
        upper = 0;
    }
    name[used] = 0;
    return name;
}

static const struct own_error *own_error(cudaError_t error) {
    for (size_t i = 0; i < sizeof OWN_ERRORS / sizeof *OWN_ERRORS; i++)
        if (OWN_ERRORS[i].number == error)
            return &OWN_ERRORS[i];
    return NULL;
}

/* Names with an irregular spelling in the runtime. */
static const struct {
    int number;
    const char *name;
} SPELLINGS[] = {{2, "cudaErrorMemoryAllocation"},    {3, "cudaErrorInitializationError"},
                 {4, "cudaErrorCudartUnloading"},     {200, "cudaErrorInvalidKernelImage"},
                 {201, "cudaErrorDeviceUninitialized"}, {209, "cudaErrorNoKernelImageForDevice"},
                 {218, "cudaErrorInvalidPtx"},        {400, "cudaErrorInvalidResourceHandle"},
                 {500, "cudaErrorSymbolNotFound"},    {701, "cudaErrorLaunchOutOfResources"},
                 {702, "cudaErrorLaunchTimeout"},     {719, "cudaErrorLaunchFailure"}};

EXPORT const char *cudaGetErrorName(cudaError_t error) {
    const struct own_error *own = own_error(error);
    const char *name = NULL;
    if (own)
        return own->name;
    for (size_t i = 0; i < sizeof SPELLINGS / sizeof *SPELLINGS; i++)
        if (SPELLINGS[i].number == error)
            return SPELLINGS[i].name;
    return cuGetErrorName(error, &name) == cudaSuccess ? runtime_name(name) : "unrecognized error code";
}

EXPORT const char *cudaGetErrorString(cudaError_t error) {
    const struct own_error *own = own_error(error);
    const char *text = NULL;
    if (own)
        return own->text;
    return cuGetErrorString(error, &text) == cudaSuccess ? text : "unrecognized error code";
}

/* Memory. */

EXPORT cudaError_t cudaMalloc(void **place, size_t bytes) {
    if (!bytes) {
        *place = NULL;
        return cudaSuccess;
    }
    WITH_CONTEXT(cuMemAlloc_v2((CUdeviceptr *)place, bytes));
}

EXPORT cudaError_t cudaMallocAsync(void **place, size_t bytes, cudaStream_t stream) {
    (void)stream;
    return cudaMalloc(place, bytes);
}

EXPORT cudaError_t cudaMallocPitch(void **place, size_t *pitch, size_t width, size_t height) {
    WITH_CONTEXT(cuMemAllocPitch_v2((CUdeviceptr *)place, pitch, width, height, 4));
}

EXPORT cudaError_t cudaMallocManaged(void **place, size_t bytes, unsigned flags) {
    WITH_CONTEXT(cuMemAllocManaged((CUdeviceptr *)place, bytes, flags));
}

EXPORT cudaError_t cudaHostAlloc(void **place, size_t bytes, unsigned flags) {
    WITH_CONTEXT(cuMemHostAlloc(place, bytes, flags));
}

EXPORT cudaError_t cudaMallocHost(void **place, size_t bytes) {
    return cudaHostAlloc(place, bytes, 0);
}

EXPORT cudaError_t cudaFree(void *place) {
    WITH_CONTEXT(cuMemFree_v2(address_of(place)));
}

EXPORT cudaError_t cudaFreeAsync(void *place, cudaStream_t stream) {
    (void)stream;
    return cudaFree(place);
}

EXPORT cudaError_t cudaFreeHost(void *place) {
    WITH_CONTEXT(cuMemFreeHost(place));
}

EXPORT cudaError_t cudaHostRegister(void *place, size_t bytes, unsigned flags) {
    WITH_CONTEXT(cuMemHostRegister_v2(place, bytes, flags));
}

EXPORT cudaError_t cudaHostUnregister(void *place) {
    WITH_CONTEXT(cuMemHostUnregister(place));
}

EXPORT cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned flags) {
    WITH_CONTEXT(cuMemHostGetDevicePointer_v2((CUdeviceptr *)device, host, flags));
}

EXPORT cudaError_t cudaHostGetFlags(unsigned *flags, void *place) {
    WITH_CONTEXT(cuMemHostGetFlags(flags, place));
}

EXPORT cudaError_t cudaMemGetInfo(size_t *available, size_t *total) {
    WITH_CONTEXT(cuMemGetInfo_v2(available, total));
}

static const char BEYOND_VARIABLE[] = "%zu bytes at offset %zu of a variable of %zu bytes";

/* A copy determines both sides from the addresses; a direction is only checked. */
EXPORT cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, int direction, cudaStream_t stream) {
    if (direction < COPY_HOST_TO_HOST || direction > COPY_DEFAULT)
        return keep(REFUSED(cudaErrorInvalidMemcpyDirection, "direction %d does not exist", direction));
    WITH_CONTEXT(cuMemcpyAsync(address_of(to), address_of(from), bytes, stream));
}

EXPORT cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, int direction) {
    return cudaMemcpyAsync(to, from, bytes, direction, NULL);
}

EXPORT cudaError_t cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t bytes) {
    (void)to_device, (void)from_device;
    return cudaMemcpy(to, from, bytes, COPY_DEFAULT);
}

EXPORT cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                                     size_t height, int direction, cudaStream_t stream) {
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED, .srcDevice = address_of(from), .srcPitch = from_pitch,
                          .dstMemoryType = CU_MEMORYTYPE_UNIFIED, .dstDevice = address_of(to), .dstPitch = to_pitch,
                          .WidthInBytes = width, .Height = height};
    if (direction < COPY_HOST_TO_HOST || direction > COPY_DEFAULT)
        return keep(REFUSED(cudaErrorInvalidMemcpyDirection, "direction %d does not exist", direction));
    if (width > to_pitch || width > from_pitch)
        return keep(REFUSED(cudaErrorInvalidPitchValue, "rows of %zu bytes with pitches of %zu and %zu", width, to_pitch,
                            from_pitch));
    WITH_CONTEXT(cuMemcpy2DAsync_v2(&copy, stream));
}

EXPORT cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                                size_t height, int direction) {
    return cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, direction, NULL);
}

EXPORT cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *from, size_t bytes, size_t offset,
                                           int direction, cudaStream_t stream) {
    CUdeviceptr address;
    size_t size;
    cudaError_t result = symbol_address(&address, &size, symbol);
    if (result == cudaSuccess && offset + bytes > size)
        result = REFUSED(cudaErrorInvalidValue, BEYOND_VARIABLE, bytes, offset, size);
    return result ? keep(result)
                  : cudaMemcpyAsync((void *)(uintptr_t)(address + offset), from, bytes, direction, stream);
}

EXPORT cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t offset, int direction) {
    return cudaMemcpyToSymbolAsync(symbol, from, bytes, offset, direction, NULL);
}

EXPORT cudaError_t cudaMemcpyFromSymbolAsync(void *to, const void *symbol, size_t bytes, size_t offset, int direction,
                                             cudaStream_t stream) {
    CUdeviceptr address;
    size_t size;
    cudaError_t result = symbol_address(&address, &size, symbol);
    if (result == cudaSuccess && offset + bytes > size)
        result = REFUSED(cudaErrorInvalidValue, BEYOND_VARIABLE, bytes, offset, size);
    return result ? keep(result)
                  : cudaMemcpyAsync(to, (const void *)(uintptr_t)(address + offset), bytes, direction, stream);
}

EXPORT cudaError_t cudaMemcpyFromSymbol(void *to, const void *symbol, size_t bytes, size_t offset, int direction) {
    return cudaMemcpyFromSymbolAsync(to, symbol, bytes, offset, direction, NULL);
}

EXPORT cudaError_t cudaGetSymbolAddress(void **place, const void *symbol) {
    return keep(symbol_address((CUdeviceptr *)place, NULL, symbol));
}

EXPORT cudaError_t cudaGetSymbolSize(size_t *bytes, const void *symbol) {
    CUdeviceptr address;
    return keep(symbol_address(&address, bytes, symbol));
}

EXPORT cudaError_t cudaMemsetAsync(void *place, int value, size_t bytes, cudaStream_t stream) {
    WITH_CONTEXT(cuMemsetD8Async(address_of(place), (unsigned char)value, bytes, stream));
}

EXPORT cudaError_t cudaMemset(void *place, int value, size_t bytes) {
    return cudaMemsetAsync(place, value, bytes, NULL);
}

EXPORT cudaError_t cudaMemset2DAsync(void *place, size_t pitch, int value, size_t width, size_t height,
                                     cudaStream_t stream) {
    WITH_CONTEXT(cuMemsetD2D8Async(address_of(place), pitch, (unsigned char)value, width, height, stream));
}

EXPORT cudaError_t cudaMemset2D(void *place, size_t pitch, int value, size_t width, size_t height) {
    return cudaMemset2DAsync(place, pitch, value, width, height, NULL);
}

EXPORT cudaError_t cudaMemPrefetchAsync(const void *place, size_t bytes, int device, cudaStream_t stream) {
    WITH_CONTEXT(cuMemPrefetchAsync(address_of(place), bytes, device, stream));
}

EXPORT cudaError_t cudaMemAdvise(const void *place, size_t bytes, int advice, int device) {
    WITH_CONTEXT(cuMemAdvise(address_of(place), bytes, advice, device));
}

EXPORT cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *place) {
    enum { UNREGISTERED = 0, HOST = 1, DEVICE = 2, MANAGED = 3 };
    enum { ATTRIBUTE_MEMORY_TYPE = 2, ATTRIBUTE_IS_MANAGED = 8 };
    unsigned type = 0;
    int managed = 0;
    cudaError_t result = begin();
    *attributes = (cudaPointerAttributes){UNREGISTERED, 0, NULL, (void *)(uintptr_t)place};
    if (result != cudaSuccess)
        return keep(result);
    if (cuPointerGetAttribute(&type, ATTRIBUTE_MEMORY_TYPE, address_of(place)) != cudaSuccess)
        return cudaSuccess; /* memory that CUDA does not manage is no error since CUDA 11 */
    cuPointerGetAttribute(&managed, ATTRIBUTE_IS_MANAGED, address_of(place));
    attributes->type = managed ? MANAGED : type == CU_MEMORYTYPE_HOST ? HOST : DEVICE;
    attributes->devicePointer = (void *)(uintptr_t)place;
    attributes->hostPointer = attributes->type == DEVICE ? NULL : (void *)(uintptr_t)place;
    return cudaSuccess;
}

/* Streams and events. */

EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority) {
    WITH_CONTEXT(cuStreamCreateWithPriority(stream, flags, priority));
}

EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    return cudaStreamCreateWithPriority(stream, flags, 0);
}

EXPORT cudaError_t cudaStreamCreate(cudaStream_t *stream) {
    return cudaStreamCreateWithPriority(stream, 0, 0);
}

EXPORT cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    WITH_CONTEXT(cuStreamDestroy_v2(stream));
}

EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    WITH_CONTEXT(cuStreamSynchronize(stream));
}

EXPORT cudaError_t cudaStreamQuery(cudaStream_t stream) {
    return cudaStreamSynchronize(stream);
}

EXPORT cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    WITH_CONTEXT(cuStreamWaitEvent(stream, event, flags));
}

EXPORT cudaError_t cudaStreamAddCallback(cudaStream_t stream, void (*function)(cudaStream_t, cudaError_t, void *),
                                         void *data, unsigned flags) {
    WITH_CONTEXT(cuStreamAddCallback(stream, function, data, flags));
}

EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    WITH_CONTEXT(cuEventCreate(event, flags));
}

EXPORT cudaError_t cudaEventCreate(cudaEvent_t *event) {
    return cudaEventCreateWithFlags(event, 0);
}

EXPORT cudaError_t cudaEventDestroy(cudaEvent_t event) {
    WITH_CONTEXT(cuEventDestroy_v2(event));
}

EXPORT cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    WITH_CONTEXT(cuEventRecord(event, stream));
}

EXPORT cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
    (void)flags;
    return cudaEventRecord(event, stream);
}

EXPORT cudaError_t cudaEventQuery(cudaEvent_t event) {
    WITH_CONTEXT(cuEventQuery(event));
}

EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    return cudaEventQuery(event);
}

EXPORT cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end) {
    WITH_CONTEXT(cuEventElapsedTime(milliseconds, start, end));
}

/* Profilers: the server's options select what is measured. */

EXPORT cudaError_t cudaProfilerStart(void) {
    return cudaSuccess;
}

EXPORT cudaError_t cudaProfilerStop(void) {
    return cudaSuccess;
}

/* Reports once for each name that a function is not supported. */
static cudaError_t refuse(const char *function, int *said) {
    if (!__atomic_exchange_n(said, 1, __ATOMIC_RELAXED))
        report("%s is not supported", function);
    return keep(cudaErrorNotSupported);
}
