/* The device, versions, names of errors, and how programs find functions. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "connection.h"
#include "context.h"
#include "objects.h"
#include "results.h"
#include "symbols.h"

enum { DRIVER_VERSION = 12090 }; /* 1000 * major + 10 * minor of the CUDA version of these functions */
static const char DEVICE_NAME[] = "Warpstack sm_50";

EXPORT CUresult cuInit(unsigned flags) {
    return flags ? REFUSED(CUDA_ERROR_INVALID_VALUE, "flags are %#x, not 0", flags) : connection_open();
}

EXPORT CUresult cuDriverGetVersion(int *version) {
    if (!version)
        return REFUSED(CUDA_ERROR_INVALID_VALUE, "the place for the version is NULL");
    *version = DRIVER_VERSION;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetCount(int *count) {
    CUresult state = initialized();
    if (state == CUDA_SUCCESS)
        *count = 1;
    return state;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int number) {
    CUresult state = initialized();
    if (state == CUDA_ERROR_NOT_INITIALIZED)
        return state;
    CHECK_DEVICE(number);
    *device = 0;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetName(char *name, int bytes, CUdevice device) {
    CHECK_DEVICE(device);
    if (bytes <= 0)
        return REFUSED(CUDA_ERROR_INVALID_VALUE, "a name does not fit into %d bytes", bytes);
    snprintf(name, (size_t)bytes, "%s", DEVICE_NAME);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
    CHECK_DEVICE(device);
    memcpy(uuid->bytes, "warpstack\0\0\0\0\0\0\0", sizeof uuid->bytes);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
    return cuDeviceGetUuid_v2(uuid, device);
}

EXPORT CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
    CHECK_DEVICE(device);
    struct device_attribute_request request = {(uint32_t)attribute};
    struct device_attribute_reply reply;
    CUresult result = SIMPLE_CALL(CALL_DEVICE_ATTRIBUTE, request, reply);
    if (result == CUDA_SUCCESS)
        *value = reply.value;
    return result;
}

EXPORT CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device) {
    CUresult result = cuDeviceGetAttribute(major, ATTRIBUTE_COMPUTE_MAJOR, device);
    return result == CUDA_SUCCESS ? cuDeviceGetAttribute(minor, ATTRIBUTE_COMPUTE_MINOR, device) : result;
}

EXPORT CUresult cuDeviceGetProperties(CUdevprop *properties, CUdevice device) {
    int *const values[] = {&properties->maxThreadsPerBlock, &properties->maxThreadsDim[0],
                           &properties->maxThreadsDim[1],   &properties->maxThreadsDim[2],
                           &properties->maxGridSize[0],     &properties->maxGridSize[1],
                           &properties->maxGridSize[2],     &properties->sharedMemPerBlock,
                           &properties->totalConstantMemory, &properties->SIMDWidth,
                           &properties->memPitch,           &properties->regsPerBlock,
                           &properties->clockRate,          &properties->textureAlign};
    /* The attributes 1 to 14 are these fields in this order. */
    for (int i = 0; i < (int)(sizeof values / sizeof *values); i++) {
        CUresult result = cuDeviceGetAttribute(values[i], i + 1, device);
        if (result != CUDA_SUCCESS)
            return result;
    }
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetInfo_v2(size_t *available, size_t *total) {
    CUresult state = ready();
    if (state != CUDA_SUCCESS)
        return state;
    struct memory_info_reply reply;
    CUresult result = connection_exchange(
        &(struct exchange){.call = CALL_MEMORY_INFO, .reply = &reply, .reply_bytes = sizeof reply});
    if (result == CUDA_SUCCESS) {
        if (available)
            *available = reply.free;
        if (total)
            *total = reply.total;
    }
    return result;
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    CHECK_DEVICE(device);
    struct memory_info_reply reply;
    CUresult result = connection_exchange(
        &(struct exchange){.call = CALL_MEMORY_INFO, .reply = &reply, .reply_bytes = sizeof reply});
    if (result == CUDA_SUCCESS)
        *bytes = reply.total;
    return result;
}

static const char PCI_ADDRESS[] = "0000:00:00.0";

EXPORT CUresult cuDeviceGetPCIBusId(char *text, int bytes, CUdevice device) {
    CHECK_DEVICE(device);
    snprintf(text, (size_t)bytes, "%s", PCI_ADDRESS);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *text) {
    if (strcmp(text, PCI_ADDRESS))
        return REFUSED(CUDA_ERROR_INVALID_DEVICE, "there is one device, at %s, not at %s", PCI_ADDRESS, text);
    *device = 0;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
    CHECK_DEVICE(device);
    CHECK_DEVICE(peer);
    *can = 0;
    return CUDA_SUCCESS;
}

/* Errors. */

static const struct result_text *text_of(CUresult result) {
    for (size_t i = 0; i < sizeof RESULTS / sizeof *RESULTS; i++)
        if (RESULTS[i].number == result)
            return &RESULTS[i];
    return NULL;
}

EXPORT CUresult cuGetErrorName(CUresult result, const char **name) {
    const struct result_text *found = text_of(result);
    *name = found ? found->name : NULL;
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGetErrorString(CUresult result, const char **text) {
    const struct result_text *found = text_of(result);
    *text = found ? found->text : NULL;
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Functions by name. */

/* A table that NVIDIA's compilers (NVRTC, nvJitLink) request, but do not need. */
static const unsigned char COMPILERS_TABLE[16] = {0xda, 0x91, 0x51, 0xd3, 0x3a, 0xe6, 0xcc, 0x41,
                                                  0xa5, 0xc0, 0x4f, 0x26, 0xd5, 0x33, 0xe3, 0x28};

EXPORT CUresult cuGetExportTable(const void **table, const void *identifier) {
    *table = NULL;
    if (!memcmp(identifier, COMPILERS_TABLE, sizeof COMPILERS_TABLE))
        return CUDA_ERROR_NOT_FOUND;
    refuse("cuGetExportTable", "NVIDIA's own runtime library asks for it; link programs with `--cudart shared`, so that "
                               "they take the runtime library of this project");
    return CUDA_ERROR_NOT_FOUND;
}

/* Returns the function of a name in a version of CUDA: of the symbols of that name the newest that is not newer. */
EXPORT CUresult cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status) {
    enum { FOUND = 0, NOT_FOUND = 1, VERSION_NOT_SUFFICIENT = 2, PER_THREAD_STREAM = 2 };
    const char *symbol = NULL;
    int newest = 0, known = 0;
    if (!name || !function)
        return REFUSED(CUDA_ERROR_INVALID_VALUE, "the %s is NULL", name ? "place for the function" : "name");
    for (size_t i = 0; i < sizeof SYMBOLS / sizeof *SYMBOLS; i++) {
        const struct symbol_version *one = &SYMBOLS[i];
        if (strcmp(one->name, name))
            continue;
        known = 1;
        size_t length = strlen(one->symbol);
        int per_thread = length > 5 && (!strcmp(one->symbol + length - 5, "_ptds") ||
                                        !strcmp(one->symbol + length - 5, "_ptsz"));
        if (per_thread && !(flags & PER_THREAD_STREAM))
            continue;
        if (one->version <= version && one->version >= newest) {
            newest = one->version;
            symbol = one->symbol;
        }
    }
    *function = symbol ? dlsym(RTLD_DEFAULT, symbol) : NULL;
    if (symbol && !*function) {
        /* The library may have been opened so that others do not see its names. */
        Dl_info here;
        void *self = dladdr((void *)cuInit, &here) ? dlopen(here.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
        if (self) {
            *function = dlsym(self, symbol);
            dlclose(self);
        }
    }
    if (status)
        *status = *function ? FOUND : known ? VERSION_NOT_SUFFICIENT : NOT_FOUND;
    return *function || status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

EXPORT CUresult cuGetProcAddress(const char *name, void **function, int version, uint64_t flags) {
    return cuGetProcAddress_v2(name, function, version, flags, NULL);
}

/* Profilers: the server's options select what is measured. */

EXPORT CUresult cuProfilerStart(void) {
    return CUDA_SUCCESS;
}

EXPORT CUresult cuProfilerStop(void) {
    return CUDA_SUCCESS;
}

EXPORT CUresult cuProfilerInitialize(const char *configuration, const char *output, int mode) {
    (void)configuration, (void)output, (void)mode;
    return REFUSED(CUDA_ERROR_PROFILER_DISABLED, "python -m sim.cuda has an option --profile");
}
