/* Modules, kernels, launches, and the linker. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "connection.h"
#include "context.h"
#include "objects.h"

static pthread_mutex_t functions_lock = PTHREAD_MUTEX_INITIALIZER;
static CUfunction all_functions;

/* Images. A program passes a pointer without a size: text ends at a 0, other images have their size in their headers.
 * */

static const uint32_t FATBIN_WRAPPER = 0x466243b1, FATBIN = 0xba55ed50;

static uint32_t word_at(const unsigned char *bytes, size_t offset) {
    uint32_t word;
    memcpy(&word, bytes + offset, sizeof word);
    return word;
}

static uint64_t long_at(const unsigned char *bytes, size_t offset) {
    uint64_t word;
    memcpy(&word, bytes + offset, sizeof word);
    return word;
}

static uint16_t short_at(const unsigned char *bytes, size_t offset) {
    uint16_t word;
    memcpy(&word, bytes + offset, sizeof word);
    return word;
}

/* The end of an ELF file: of its section headers, segments' headers, or of the last of its sections. */
static size_t elf_size(const unsigned char *image) {
    size_t end = 64;
    uint64_t sections = long_at(image, 0x28), segments = long_at(image, 0x20);
    size_t section_size = short_at(image, 0x3a), section_count = short_at(image, 0x3c);
    size_t segment_size = short_at(image, 0x36), segment_count = short_at(image, 0x38);
    if (sections + section_size * section_count > end)
        end = sections + section_size * section_count;
    if (segments + segment_size * segment_count > end)
        end = segments + segment_size * segment_count;
    for (size_t i = 0; i < section_count; i++) {
        const unsigned char *section = image + sections + i * section_size;
        int has_content = word_at(section, 4) != 8; /* SHT_NOBITS */
        uint64_t stop = long_at(section, 0x18) + long_at(section, 0x20);
        if (has_content && stop > end)
            end = stop;
    }
    return end;
}

/* Finds the image to which a pointer refers, without a wrapper, and its size. */
static const void *image_of(const void *pointer, size_t *bytes) {
    const unsigned char *image = pointer;
    if (word_at(image, 0) == FATBIN_WRAPPER)
        image = (const unsigned char *)(uintptr_t)long_at(image, 8);
    if (word_at(image, 0) == FATBIN)
        *bytes = short_at(image, 6) + long_at(image, 8);
    else if (!memcmp(image, "\177ELF", 4))
        *bytes = elf_size(image);
    else
        *bytes = strlen((const char *)image);
    return image;
}

/* The supported options of the compiler: the limit of registers, the level of optimisation, and the buffers for
 * messages. */
struct jit_options {
    uint32_t max_registers, level;
    char *error_log, *info_log;
    size_t error_bytes, info_bytes;
    void **error_size, **info_size;
};

static const uint32_t HIGHEST_LEVEL = 4;

/* Applies the given options to `found`. */
static void add_options(struct jit_options *found, unsigned count, const int *options, void **values) {
    for (unsigned i = 0; i < count; i++)
        switch (options[i]) {
        case CU_JIT_MAX_REGISTERS:
            found->max_registers = (uint32_t)(uintptr_t)values[i];
            break;
        case CU_JIT_OPTIMIZATION_LEVEL:
            found->level = (uint32_t)(uintptr_t)values[i];
            break;
        case CU_JIT_ERROR_LOG_BUFFER:
            found->error_log = values[i];
            break;
        case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
            found->error_bytes = (size_t)(uint32_t)(uintptr_t)values[i];
            found->error_size = &values[i];
            break;
        case CU_JIT_INFO_LOG_BUFFER:
            found->info_log = values[i];
            break;
        case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
            found->info_bytes = (size_t)(uint32_t)(uintptr_t)values[i];
            found->info_size = &values[i];
            break;
        }
}

static struct jit_options read_options(unsigned count, const int *options, void **values) {
    struct jit_options found = {.level = HIGHEST_LEVEL};
    add_options(&found, count, options, values);
    return found;
}

/* Writes the compiler's messages, and their size in bytes, to the program's buffers. */
static void write_logs(const struct jit_options *options, CUresult result, const char *log) {
    const char *error = result == CUDA_SUCCESS ? "" : log, *info = result == CUDA_SUCCESS ? log : "";
    size_t written = 0;
    if (options->error_log && options->error_bytes)
        written = (size_t)snprintf(options->error_log, options->error_bytes, "%s", error);
    if (options->error_size)
        *options->error_size = (void *)(uintptr_t)(written < options->error_bytes ? written : options->error_bytes);
    written = 0;
    if (options->info_log && options->info_bytes)
        written = (size_t)snprintf(options->info_log, options->info_bytes, "%s", info);
    if (options->info_size)
        *options->info_size = (void *)(uintptr_t)(written < options->info_bytes ? written : options->info_bytes);
}

static CUresult load(CUmodule *module, const void *image, size_t bytes, const struct jit_options *options) {
    struct module_load_request request = {options->max_registers, options->level};
    struct module_load_reply reply;
    char *log = NULL;
    CUresult result = exchange_for("cuModuleLoadData", &(struct exchange){
        .call = CALL_MODULE_LOAD, .fields = &request, .fields_bytes = sizeof request, .reply = &reply,
        .reply_bytes = sizeof reply, .data = image, .data_bytes = bytes, .answer = &log});
    if (log)
        write_logs(options, result, log);
    free(log);
    if (result != CUDA_SUCCESS)
        return result;
    if (!(*module = calloc(1, sizeof **module)))
        return refused(CUDA_ERROR_OUT_OF_MEMORY, "cuModuleLoadData", NO_HOST_MEMORY);
    (*module)->number = reply.module;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, int *options, void **values) {
    CUresult state = ready();
    if (state != CUDA_SUCCESS)
        return state;
    if (!module || !image)
        return REFUSED(CUDA_ERROR_INVALID_VALUE, "the %s is NULL", image ? "place for the module" : "image");
    struct jit_options found = read_options(count, options, values);
    size_t bytes;
    image = image_of(image, &bytes);
    return load(module, image, bytes, &found);
}

EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    return cuModuleLoadDataEx(module, image, 0, NULL, NULL);
}

EXPORT CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image) {
    return cuModuleLoadDataEx(module, image, 0, NULL, NULL);
}

/* Returns the content of a file, terminated by a 0; NULL if it cannot be read. */
static char *read_file(const char *path, size_t *bytes) {
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    size_t room = 1 << 16, used = 0;
    char *content = malloc(room + 1);
    while (content) {
        size_t got = fread(content + used, 1, room - used, file);
        used += got;
        if (!got)
            break;
        if (used == room) {
            char *larger = realloc(content, 2 * room + 1);
            if (!larger)
                free(content);
            content = larger;
            room *= 2;
        }
    }
    fclose(file);
    if (content)
        content[used] = 0;
    *bytes = used;
    return content;
}

static const char NOT_READ[] = "%s: %s";
static const char NO_MODULE[] = "the module is NULL", NO_KERNEL[] = "the kernel is NULL";

static CUresult load_file(const char *function, CUmodule *module, const char *path, unsigned count, int *options,
                          void **values) {
    CUresult state = ready_for(function);
    if (state != CUDA_SUCCESS)
        return state;
    size_t bytes;
    char *content = read_file(path, &bytes);
    if (!content)
        return refused(CUDA_ERROR_FILE_NOT_FOUND, function, NOT_READ, path, strerror(errno));
    struct jit_options found = read_options(count, options, values);
    CUresult result = load(module, content, bytes, &found);
    free(content);
    return result;
}

EXPORT CUresult cuModuleLoad(CUmodule *module, const char *path) {
    return load_file(__func__, module, path, 0, NULL, NULL);
}

static void forget_functions(CUmodule module) {
    pthread_mutex_lock(&functions_lock);
    for (CUfunction *link = &all_functions; *link;) {
        CUfunction one = *link;
        if (one->module != module) {
            link = &one->next;
            continue;
        }
        *link = one->next;
        free(one->parameters);
        free(one);
    }
    pthread_mutex_unlock(&functions_lock);
}

EXPORT CUresult cuModuleUnload(CUmodule module) {
    if (!module)
        return REFUSED(CUDA_ERROR_INVALID_HANDLE, NO_MODULE);
    struct module_unload_request request = {module->number};
    CUresult result = connection_exchange(
        &(struct exchange){.call = CALL_MODULE_UNLOAD, .fields = &request, .fields_bytes = sizeof request});
    forget_functions(module);
    free(module);
    return result;
}

EXPORT CUresult cuModuleGetLoadingMode(int *mode) {
    *mode = 1; /* CU_MODULE_EAGER_LOADING */
    return CUDA_SUCCESS;
}

/* A kernel that was requested before; a module has one handle for each. */
static CUfunction known_function(CUmodule module, const char *name) {
    pthread_mutex_lock(&functions_lock);
    CUfunction one = all_functions;
    while (one && (one->module != module || strcmp(one->name, name)))
        one = one->next;
    pthread_mutex_unlock(&functions_lock);
    return one;
}

EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    CUresult state = ready();
    if (state != CUDA_SUCCESS)
        return state;
    if (!function || !module || !name)
        return REFUSED(CUDA_ERROR_INVALID_VALUE, "the %s is NULL",
                       !module ? "module" : name ? "place for the kernel" : "name");
    if ((*function = known_function(module, name)))
        return CUDA_SUCCESS;

    struct module_function_request request = {module->number};
    struct module_function_reply reply;
    char *answer = NULL;
    CUresult result = connection_exchange(&(struct exchange){
        .call = CALL_MODULE_FUNCTION, .fields = &request, .fields_bytes = sizeof request, .reply = &reply,
        .reply_bytes = sizeof reply, .data = name, .data_bytes = strlen(name), .answer = &answer});
    if (result != CUDA_SUCCESS) {
        free(answer);
        return result;
    }
    CUfunction made = calloc(1, sizeof *made + strlen(name) + 1);
    struct parameter *parameters = calloc(reply.parameters + 1, sizeof *parameters);
    if (!made || !parameters) {
        free(made), free(parameters), free(answer);
        return REFUSED(CUDA_ERROR_OUT_OF_MEMORY, NO_HOST_MEMORY);
    }
    strcpy(made->name, name);
    memcpy(parameters, answer, reply.parameters * sizeof *parameters);
    free(answer);
    made->module = module;
    made->info = reply;
    made->parameters = parameters;
    for (uint32_t i = 0; i < reply.parameters; i++)
        if (parameters[i].offset + parameters[i].size > made->parameter_bytes)
            made->parameter_bytes = parameters[i].offset + parameters[i].size;
    pthread_mutex_lock(&functions_lock);
    made->next = all_functions;
    all_functions = made;
    pthread_mutex_unlock(&functions_lock);
    *function = made;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name) {
    CUresult state = ready();
    if (state != CUDA_SUCCESS)
        return state;
    if (!module || !name)
        return REFUSED(CUDA_ERROR_INVALID_VALUE, "the %s is NULL", module ? "name" : "module");
    struct module_global_request request = {module->number};
    struct module_global_reply reply;
    CUresult result = connection_exchange(&(struct exchange){
        .call = CALL_MODULE_GLOBAL, .fields = &request, .fields_bytes = sizeof request, .reply = &reply,
        .reply_bytes = sizeof reply, .data = name, .data_bytes = strlen(name)});
    if (result != CUDA_SUCCESS)
        return result;
    if (address)
        *address = reply.address;
    if (bytes)
        *bytes = reply.size;
    return CUDA_SUCCESS;
}

static CUresult function_names(CUmodule module, unsigned *count, char **names) {
    struct module_functions_request request = {module->number};
    struct module_functions_reply reply;
    CUresult result = exchange_for("cuModuleEnumerateFunctions", &(struct exchange){
        .call = CALL_MODULE_FUNCTIONS, .fields = &request, .fields_bytes = sizeof request, .reply = &reply,
        .reply_bytes = sizeof reply, .answer = names});
    *count = result == CUDA_SUCCESS ? reply.count : 0;
    return result;
}

EXPORT CUresult cuModuleGetFunctionCount(unsigned *count, CUmodule module) {
    char *names = NULL;
    CUresult result = function_names(module, count, &names);
    free(names);
    return result;
}

EXPORT CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned most, CUmodule module) {
    char *names = NULL;
    unsigned count;
    CUresult result = function_names(module, &count, &names);
    const char *name = names;
    for (unsigned i = 0; i < count && i < most && result == CUDA_SUCCESS; i++, name += strlen(name) + 1)
        result = cuModuleGetFunction(&functions[i], module, name);
    free(names);
    return result;
}

/* Libraries: modules under another name. */

EXPORT CUresult cuLibraryLoadData(CUmodule *library, const void *image, int *options, void **values, unsigned count,
                                  int *library_options, void **library_values, unsigned library_count) {
    (void)library_options, (void)library_values, (void)library_count;
    return cuModuleLoadDataEx(library, image, count, options, values);
}

EXPORT CUresult cuLibraryLoadFromFile(CUmodule *library, const char *path, int *options, void **values, unsigned count,
                                      int *library_options, void **library_values, unsigned library_count) {
    (void)library_options, (void)library_values, (void)library_count;
    return load_file(__func__, library, path, count, options, values);
}

EXPORT CUresult cuLibraryUnload(CUmodule library) {
    return cuModuleUnload(library);
}

EXPORT CUresult cuLibraryGetKernel(CUfunction *kernel, CUmodule library, const char *name) {
    return cuModuleGetFunction(kernel, library, name);
}

EXPORT CUresult cuLibraryGetModule(CUmodule *module, CUmodule library) {
    *module = library;
    return ready();
}

EXPORT CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes, CUmodule library, const char *name) {
    return cuModuleGetGlobal_v2(address, bytes, library, name);
}

EXPORT CUresult cuLibraryGetManaged(CUdeviceptr *address, size_t *bytes, CUmodule library, const char *name) {
    return cuModuleGetGlobal_v2(address, bytes, library, name);
}

EXPORT CUresult cuLibraryGetKernelCount(unsigned *count, CUmodule library) {
    return cuModuleGetFunctionCount(count, library);
}

EXPORT CUresult cuLibraryEnumerateKernels(CUfunction *kernels, unsigned most, CUmodule library) {
    return cuModuleEnumerateFunctions(kernels, most, library);
}

EXPORT CUresult cuKernelGetFunction(CUfunction *function, CUfunction kernel) {
    *function = kernel;
    return kernel ? CUDA_SUCCESS : REFUSED(CUDA_ERROR_INVALID_HANDLE, NO_KERNEL);
}

EXPORT CUresult cuKernelGetLibrary(CUmodule *library, CUfunction kernel) {
    *library = kernel->module;
    return CUDA_SUCCESS;
}

/* Queries about a kernel. */

enum {
    FUNCTION_MAX_THREADS = 0, FUNCTION_SHARED = 1, FUNCTION_CONSTANT = 2, FUNCTION_LOCAL = 3, FUNCTION_REGISTERS = 4,
    FUNCTION_PTX_VERSION = 5, FUNCTION_BINARY_VERSION = 6, FUNCTION_CACHE_MODE = 7, FUNCTION_MAX_DYNAMIC_SHARED = 8,
    FUNCTION_SHARED_CARVEOUT = 9,
};

EXPORT CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction function) {
    if (!function || !value)
        return REFUSED(CUDA_ERROR_INVALID_VALUE, "the %s is NULL", function ? "place for the value" : "kernel");
    const struct module_function_reply *info = &function->info;
    switch (attribute) {
    case FUNCTION_MAX_THREADS:
        *value = (int)info->max_threads;
        return CUDA_SUCCESS;
    case FUNCTION_SHARED:
        *value = (int)info->shared;
        return CUDA_SUCCESS;
    case FUNCTION_CONSTANT:
        *value = (int)info->constant;
        return CUDA_SUCCESS;
    case FUNCTION_LOCAL:
        *value = (int)info->local;
        return CUDA_SUCCESS;
    case FUNCTION_REGISTERS:
        *value = (int)info->registers;
        return CUDA_SUCCESS;
    case FUNCTION_PTX_VERSION:
    case FUNCTION_BINARY_VERSION:
        *value = 50; /* 10 * major + minor */
        return CUDA_SUCCESS;
    case FUNCTION_CACHE_MODE:
        *value = 0;
        return CUDA_SUCCESS;
    case FUNCTION_MAX_DYNAMIC_SHARED:
        *value = function->max_dynamic_shared ? function->max_dynamic_shared : (48 << 10) - (int)info->shared;
        return CUDA_SUCCESS;
    case FUNCTION_SHARED_CARVEOUT:
        *value = function->shared_carveout ? function->shared_carveout : -1;
        return CUDA_SUCCESS;
    default:
        if (attribute < 0)
            return REFUSED(CUDA_ERROR_INVALID_VALUE, "attribute %d does not exist", attribute);
        *value = 0;
        return CUDA_SUCCESS;
    }
}

EXPORT CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value) {
    if (!function)
        return REFUSED(CUDA_ERROR_INVALID_HANDLE, NO_KERNEL);
    if (attribute == FUNCTION_SHARED_CARVEOUT) {
        function->shared_carveout = value;
        return CUDA_SUCCESS;
    }
    if (attribute != FUNCTION_MAX_DYNAMIC_SHARED)
        return REFUSED(CUDA_ERROR_INVALID_VALUE, "attribute %d can't be set", attribute);
    struct set_shared_request request = {function->info.function, (uint32_t)value};
    CUresult result = connection_exchange(
        &(struct exchange){.call = CALL_SET_SHARED, .fields = &request, .fields_bytes = sizeof request});
    if (result == CUDA_SUCCESS)
        function->max_dynamic_shared = value;
    return result;
}

EXPORT CUresult cuKernelGetAttribute(int *value, int attribute, CUfunction kernel, CUdevice device) {
    CHECK_DEVICE(device);
    return cuFuncGetAttribute(value, attribute, kernel);
}

EXPORT CUresult cuKernelSetAttribute(int attribute, int value, CUfunction kernel, CUdevice device) {
    CHECK_DEVICE(device);
    return cuFuncSetAttribute(kernel, attribute, value);
}

EXPORT CUresult cuFuncGetName(const char **name, CUfunction function) {
    *name = function->name;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuKernelGetName(const char **name, CUfunction kernel) {
    return cuFuncGetName(name, kernel);
}

EXPORT CUresult cuFuncGetModule(CUmodule *module, CUfunction function) {
    *module = function->module;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *size) {
    if (index >= function->info.parameters)
        return REFUSED(CUDA_ERROR_INVALID_VALUE, "%s has %u parameters, none of number %zu", function->name,
                       function->info.parameters, index);
    *offset = function->parameters[index].offset;
    if (size)
        *size = function->parameters[index].size;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuKernelGetParamInfo(CUfunction kernel, size_t index, size_t *offset, size_t *size) {
    return cuFuncGetParamInfo(kernel, index, offset, size);
}

EXPORT CUresult cuFuncSetCacheConfig(CUfunction function, int preference) {
    (void)function, (void)preference;
    return ready();
}

EXPORT CUresult cuKernelSetCacheConfig(CUfunction kernel, int preference, CUdevice device) {
    (void)device;
    return cuFuncSetCacheConfig(kernel, preference);
}

EXPORT CUresult cuFuncSetSharedMemConfig(CUfunction function, int preference) {
    (void)function, (void)preference;
    return ready();
}

/* Occupancy. */

EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function, int threads,
                                                                     size_t dynamic_shared, unsigned flags) {
    (void)flags;
    if (!function)
        return REFUSED(CUDA_ERROR_INVALID_VALUE, NO_KERNEL);
    if (threads <= 0)
        return REFUSED(CUDA_ERROR_INVALID_VALUE, "a block of %d threads", threads);
    struct occupancy_request request = {function->info.function, (uint32_t)threads, (uint32_t)dynamic_shared};
    struct occupancy_reply reply;
    CUresult result = SIMPLE_CALL(CALL_OCCUPANCY, request, reply);
    if (result == CUDA_SUCCESS)
        *blocks = (int)reply.blocks;
    return result;
}

EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads,
                                                            size_t dynamic_shared) {
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, dynamic_shared, 0);
}

/* The block size with which the most threads run at a time; the largest of those. */
EXPORT CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction function,
                                                          size_t (*shared_of)(int), size_t dynamic_shared, int limit,
                                                          unsigned flags) {
    enum { WARP = 32 };
    if (!function)
        return REFUSED(CUDA_ERROR_INVALID_VALUE, NO_KERNEL);
    if (limit < 0)
        return REFUSED(CUDA_ERROR_INVALID_VALUE, "a limit of %d threads", limit);
    int most = (int)function->info.max_threads, best = 0;
    if (limit && limit < most)
        most = limit;
    for (int threads = most; threads > 0; threads = (threads - 1) / WARP * WARP) {
        int blocks;
        size_t shared = shared_of ? shared_of(threads) : dynamic_shared;
        CUresult result =
            cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, function, threads, shared, flags);
        if (result != CUDA_SUCCESS)
            return result;
        if (blocks * threads > best) {
            best = blocks * threads;
            *block = threads;
            *grid = blocks;
        }
    }
    if (!best)
        return REFUSED(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "the machine is too small for a block of %s", function->name);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction function, size_t (*shared_of)(int),
                                                 size_t dynamic_shared, int limit) {
    return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, function, shared_of, dynamic_shared, limit, 0);
}

EXPORT CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction function, int blocks, int threads) {
    (void)threads;
    if (blocks < 1)
        return REFUSED(CUDA_ERROR_INVALID_VALUE, "%d blocks", blocks);
    *bytes = ((48u << 10) / (unsigned)blocks) - function->info.shared;
    return CUDA_SUCCESS;
}

/* Launches. */

static const char LAUNCH[] = "cuLaunchKernel";

CUresult gather_parameters(struct launch *launch, void **pointers, void **extra) {
    CUfunction function = launch->function;
    launch->parameters = calloc(1, function->parameter_bytes + 1);
    if (!launch->parameters)
        return refused(CUDA_ERROR_OUT_OF_MEMORY, LAUNCH, NO_HOST_MEMORY);
    if (pointers)
        for (uint32_t i = 0; i < function->info.parameters; i++)
            memcpy(launch->parameters + function->parameters[i].offset, pointers[i], function->parameters[i].size);
    else if (extra) {
        const void *block = NULL;
        size_t bytes = 0;
        for (; *extra != CU_LAUNCH_PARAM_END; extra += 2)
            if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
                block = extra[1];
            else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
                bytes = *(size_t *)extra[1];
            else
                return refused(CUDA_ERROR_INVALID_VALUE, LAUNCH, "extra has a word %p", *extra);
        if (bytes > function->parameter_bytes)
            bytes = function->parameter_bytes; /* packed structures end in padding */
        if (block)
            memcpy(launch->parameters, block, bytes);
    } else if (function->info.parameters)
        return refused(CUDA_ERROR_INVALID_VALUE, LAUNCH, "%s has %u parameters, and none are given", function->name,
                       function->info.parameters);
    return CUDA_SUCCESS;
}

/* What kernels print appears on the program's standard output, in order with what the program prints itself. */
static void print_output(const char *output, size_t bytes) {
    fwrite(output, 1, bytes, stdout);
    fflush(stdout);
}

CUresult launch_now(const struct launch *launch) {
    struct launch_request request = {.function = launch->function->info.function,
                                     .dynamic_shared = launch->dynamic_shared,
                                     .cooperative = launch->cooperative};
    memcpy(request.grid, launch->grid, sizeof request.grid);
    memcpy(request.block, launch->block, sizeof request.block);
    struct launch_reply reply;
    char *output = NULL;
    size_t output_bytes = 0;
    registered_to_device();
    CUresult result = exchange_for(LAUNCH, &(struct exchange){
        .call = CALL_LAUNCH, .fields = &request, .fields_bytes = sizeof request, .reply = &reply,
        .reply_bytes = sizeof reply, .data = launch->parameters, .data_bytes = launch->function->parameter_bytes,
        .answer = &output, .answer_bytes = &output_bytes});
    if (result == CUDA_SUCCESS) {
        registered_from_device();
        print_output(output, output_bytes);
    }
    free(output);
    return result;
}

static CUresult launch_in_stream(CUfunction function, const uint32_t grid[3], const uint32_t block[3], uint32_t shared,
                                 uint32_t cooperative, CUstream stream, void **pointers, void **extra) {
    CUresult state = ready_for(LAUNCH);
    if (state != CUDA_SUCCESS)
        return state;
    if (!function)
        return refused(CUDA_ERROR_INVALID_HANDLE, LAUNCH, NO_KERNEL);
    struct launch launch = {function, {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, shared, cooperative,
                            NULL};
    CUresult result = gather_parameters(&launch, pointers, extra);
    if (result == CUDA_SUCCESS) {
        CUgraph graph = capture_of(stream);
        result = graph ? record_kernel(graph, &launch) : launch_now(&launch);
    }
    free(launch.parameters);
    return result;
}

EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                               unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void **pointers,
                               void **extra) {
    return launch_in_stream(function, (uint32_t[]){grid_x, grid_y, grid_z}, (uint32_t[]){block_x, block_y, block_z},
                            shared, 0, stream, pointers, extra);
}

EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **pointers, void **extra) {
    /* Attributes request clusters, priorities and the like; those that would change the results do not exist on sm_50.
     * */
    return launch_in_stream(function, (uint32_t[]){config->gridDimX, config->gridDimY, config->gridDimZ},
                            (uint32_t[]){config->blockDimX, config->blockDimY, config->blockDimZ},
                            config->sharedMemBytes, 0, config->hStream, pointers, extra);
}

EXPORT CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                          unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                                          CUstream stream, void **pointers) {
    (void)function, (void)grid_x, (void)grid_y, (void)grid_z, (void)block_x, (void)block_y, (void)block_z;
    (void)shared, (void)stream, (void)pointers;
    return refuse("cuLaunchCooperativeKernel", "sm_50 has no cooperative launch");
}

/* The oldest way to launch: shape and parameters are set one by one. */
static __thread struct {
    CUfunction function;
    uint32_t block[3], shared;
    unsigned char parameters[4096];
} set;

static void set_function(CUfunction function) {
    if (set.function == function)
        return;
    memset(&set, 0, sizeof set);
    set.function = function;
    set.block[0] = set.block[1] = set.block[2] = 1;
}

EXPORT CUresult cuFuncSetBlockShape(CUfunction function, int x, int y, int z) {
    set_function(function);
    set.block[0] = (uint32_t)x, set.block[1] = (uint32_t)y, set.block[2] = (uint32_t)z;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncSetSharedSize(CUfunction function, unsigned bytes) {
    set_function(function);
    set.shared = bytes;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuParamSetSize(CUfunction function, unsigned bytes) {
    set_function(function);
    if (bytes > sizeof set.parameters)
        return REFUSED(CUDA_ERROR_INVALID_VALUE, "%u bytes, there can be %zu", bytes, sizeof set.parameters);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuParamSetv(CUfunction function, int offset, void *value, unsigned bytes) {
    set_function(function);
    if (offset < 0 || (size_t)offset + bytes > sizeof set.parameters)
        return REFUSED(CUDA_ERROR_INVALID_VALUE, "%u bytes at offset %d, there can be %zu", bytes, offset,
                       sizeof set.parameters);
    memcpy(set.parameters + offset, value, bytes);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuParamSeti(CUfunction function, int offset, unsigned value) {
    return cuParamSetv(function, offset, &value, sizeof value);
}

EXPORT CUresult cuParamSetf(CUfunction function, int offset, float value) {
    return cuParamSetv(function, offset, &value, sizeof value);
}

EXPORT CUresult cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream) {
    set_function(function);
    size_t bytes = sizeof set.parameters;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, set.parameters, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    return launch_in_stream(function, (uint32_t[]){(uint32_t)width, (uint32_t)height, 1}, set.block, set.shared, 0,
                            stream, NULL, extra);
}

EXPORT CUresult cuLaunchGrid(CUfunction function, int width, int height) {
    return cuLaunchGridAsync(function, width, height, NULL);
}

EXPORT CUresult cuLaunch(CUfunction function) {
    return cuLaunchGridAsync(function, 1, 1, NULL);
}

/* The linker: inputs are kept, and compiled and linked when the program asks for the whole. An input's own limit of
 * registers and level of optimisation go before those of the whole. What the compiler says goes into the logs of the
 * whole, as the program need not keep those of an input for so long; they stay empty. */
typedef struct link {
    struct jit_options options;
    unsigned char *inputs; /* each as its header and its content */
    size_t input_bytes;
    char *image;
} *CUlinkState;

EXPORT CUresult cuLinkCreate_v2(unsigned count, int *options, void **values, CUlinkState *state) {
    CUresult result = ready();
    if (result != CUDA_SUCCESS)
        return result;
    if (!(*state = calloc(1, sizeof **state)))
        return REFUSED(CUDA_ERROR_OUT_OF_MEMORY, NO_HOST_MEMORY);
    (*state)->options = read_options(count, options, values);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLinkAddData_v2(CUlinkState state, int kind, void *data, size_t bytes, const char *name, unsigned count,
                                 int *options, void **values) {
    (void)kind, (void)name;
    struct jit_options own = {.max_registers = state->options.max_registers, .level = state->options.level};
    add_options(&own, count, options, values);
    struct {
        uint64_t bytes;
        uint32_t max_registers, level;
    } header = {bytes, own.max_registers, own.level};
    unsigned char *larger = realloc(state->inputs, state->input_bytes + sizeof header + bytes);
    if (!larger)
        return REFUSED(CUDA_ERROR_OUT_OF_MEMORY, NO_HOST_MEMORY);
    memcpy(larger + state->input_bytes, &header, sizeof header);
    memcpy(larger + state->input_bytes + sizeof header, data, bytes);
    state->inputs = larger;
    state->input_bytes += sizeof header + bytes;
    write_logs(&own, CUDA_SUCCESS, "");
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLinkAddFile_v2(CUlinkState state, int kind, const char *path, unsigned count, int *options,
                                 void **values) {
    size_t bytes;
    char *content = read_file(path, &bytes);
    if (!content)
        return REFUSED(CUDA_ERROR_FILE_NOT_FOUND, NOT_READ, path, strerror(errno));
    CUresult result = cuLinkAddData_v2(state, kind, content, bytes, path, count, options, values);
    free(content);
    return result;
}

EXPORT CUresult cuLinkComplete(CUlinkState state, void **image, size_t *bytes) {
    char *answer = NULL;
    size_t answer_bytes = 0;
    CUresult result = connection_exchange(&(struct exchange){
        .call = CALL_LINK, .data = state->inputs, .data_bytes = state->input_bytes, .answer = &answer,
        .answer_bytes = &answer_bytes});
    write_logs(&state->options, result, result == CUDA_SUCCESS || !answer ? "" : answer);
    if (result != CUDA_SUCCESS) {
        free(answer);
        return result;
    }
    free(state->image);
    state->image = answer;
    *image = answer;
    if (bytes)
        *bytes = answer_bytes;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLinkDestroy(CUlinkState state) {
    if (!state)
        return REFUSED(CUDA_ERROR_INVALID_HANDLE, "the link is NULL");
    free(state->inputs);
    free(state->image);
    free(state);
    return CUDA_SUCCESS;
}
