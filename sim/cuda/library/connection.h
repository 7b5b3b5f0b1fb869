/* The connection of this process to the server, the device's memory, and the errors of both. */
#pragma once
#include "cuda_abi.h"
#include "protocol.h"
#include "refusal.h"

/* A request and its reply. `fields` and `reply` are the structs of protocol.h. `data` is sent with the request.
 * `answer` receives the reply's data, allocated, unless it is NULL: the caller frees it. */
struct exchange {
    uint32_t call;
    const void *fields;
    size_t fields_bytes;
    void *reply;
    size_t reply_bytes;
    const void *data;
    size_t data_bytes;
    char **answer;
    size_t *answer_bytes;
};

/* Connects once; CUDA_ERROR_NO_DEVICE without a server. Every function of the library calls it first. */
CUresult connection_open(void);

/* Returns CUDA_SUCCESS, or why no function can be called: not initialized, a child after fork, a sticky error. */
CUresult connection_state(void);

/* Likewise, and reports a missing initialization. A sticky error was reported when it happened. */
CUresult initialized_for(const char *function);
#define initialized() initialized_for(__func__)

/* Sends a request with the thread's current context and waits for its reply. The server reports what it refuses. */
CUresult exchange_for(const char *function, const struct exchange *exchange);
#define connection_exchange(...) exchange_for(__func__, __VA_ARGS__)

/* Returns the permanent error of the current context, or CUDA_SUCCESS. */
CUresult sticky_error(void);
void clear_sticky_error(void);

/* The device's clock, in kHz. */
uint32_t device_clock_khz(void);

/* Whether an address lies in the device's memory, which is mapped here at the device's own addresses. */
int is_device_address(const void *address);

/* Copies from the host to the device by a write to the memory's file: pages that nobody has written need not be mapped
 * and filled with zeros first, which takes half of the time of a memcpy. What the system does not write is copied. */
void write_device(void *to, const void *from, size_t bytes);

/* Reports once for each name that a function is not supported, and why; returns CUDA_ERROR_NOT_SUPPORTED. */
CUresult refuse(const char *function, const char *why);

/* A call without data. */
#define SIMPLE_CALL(NAME, FIELDS, REPLY)                                                                      \
    connection_exchange(&(struct exchange){.call = NAME, .fields = &(FIELDS), .fields_bytes = sizeof(FIELDS), \
                                           .reply = &(REPLY), .reply_bytes = sizeof(REPLY)})
