#define _GNU_SOURCE
#include "connection.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "context.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int server = -1;         /* the socket; -1 before the first call */
static int memory_file = -1;    /* the device's memory */
static pid_t owner;             /* the process that opened it: a child after fork must not use it */
static int lost;                /* the server has ended */
static CUresult sticky;
static struct hello_reply device;

static const char NOT_INITIALIZED[] = "cuInit was not called, or this is a child of the process that called it";

static void *memory_base(void) {
    return (void *)(uintptr_t)device.base;
}

/* Sends all bytes; returns 0, or -1 if the server has ended. MSG_NOSIGNAL: that must not end the program. */
static int send_all(const void *bytes, size_t count) {
    const char *next = bytes;
    while (count) {
        ssize_t sent = send(server, next, count, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return -1;
        next += sent;
        count -= (size_t)sent;
    }
    return 0;
}

static int receive_all(void *bytes, size_t count) {
    char *next = bytes;
    while (count) {
        ssize_t received = recv(server, next, count, 0);
        if (received < 0 && errno == EINTR)
            continue;
        if (received <= 0)
            return -1;
        next += received;
        count -= (size_t)received;
    }
    return 0;
}

static CUresult server_lost(void) {
    if (!lost)
        report("the CUDA server has ended");
    lost = 1;
    sticky = CUDA_ERROR_UNKNOWN;
    return CUDA_ERROR_UNKNOWN;
}

/* Sends one request and receives its reply; the lock is held. */
static CUresult exchange_locked(const struct exchange *exchange, uint32_t context) {
    struct request_header header = {exchange->call, context, exchange->data_bytes};
    if (lost)
        return CUDA_ERROR_UNKNOWN;
    if (send_all(&header, sizeof header) || send_all(exchange->fields, exchange->fields_bytes) ||
        send_all(exchange->data, exchange->data_bytes))
        return server_lost();

    struct reply_header reply;
    if (receive_all(&reply, sizeof reply))
        return server_lost();
    if (reply.result == CUDA_SUCCESS && receive_all(exchange->reply, exchange->reply_bytes))
        return server_lost();
    char *data = malloc(reply.data_bytes + 1);
    if (!data)
        return server_lost(); /* the rest of the reply cannot be read: the connection is unusable */
    if (receive_all(data, reply.data_bytes)) {
        free(data);
        return server_lost();
    }
    data[reply.data_bytes] = 0;
    if (exchange->answer) {
        *exchange->answer = data;
        if (exchange->answer_bytes)
            *exchange->answer_bytes = reply.data_bytes;
    } else
        free(data);
    sticky = reply.sticky;
    return reply.result;
}

/* Connects to the server and maps the device's memory; the lock is held. */
static CUresult open_locked(void) {
    const char *name = getenv(SOCKET_VARIABLE);
    if (!name || !*name) {
        report("no CUDA server: run the program with `python -m sim.cuda -- PROGRAM`");
        return CUDA_ERROR_NO_DEVICE;
    }
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(name);
    if (length + 1 > sizeof address.sun_path) {
        report("%s is too long for the name of a socket", SOCKET_VARIABLE);
        return CUDA_ERROR_NO_DEVICE;
    }
    memcpy(address.sun_path + 1, name, length); /* the leading 0 selects the abstract name space */
    server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (server < 0 || connect(server, (struct sockaddr *)&address,
                              (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length))) {
        report("no CUDA server answers at %s=%s", SOCKET_VARIABLE, name);
        if (server >= 0)
            close(server);
        server = -1;
        return CUDA_ERROR_NO_DEVICE;
    }

    struct request_header header = {CALL_HELLO, 0, 0};
    struct hello_request hello = {PROTOCOL_VERSION, (uint32_t)getpid()};
    struct reply_header reply;
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {&reply, sizeof reply};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    int memory = -1;
    if (send_all(&header, sizeof header) || send_all(&hello, sizeof hello) ||
        recvmsg(server, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL) != sizeof reply || reply.result != CUDA_SUCCESS ||
        receive_all(&device, sizeof device) || !CMSG_FIRSTHDR(&message)) {
        report("the CUDA server at %s refused the connection", name);
        close(server);
        server = -1;
        return CUDA_ERROR_NO_DEVICE;
    }
    memcpy(&memory, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof memory);
    void *mapped = mmap(memory_base(), device.size, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, memory, 0);
    if (mapped != memory_base()) {
        close(memory);
        report("this process has no room for the device's memory at %p", memory_base());
        if (mapped != MAP_FAILED)
            munmap(mapped, device.size);
        close(server);
        server = -1;
        return CUDA_ERROR_NO_DEVICE;
    }
    memory_file = memory;
    owner = getpid();
    return CUDA_SUCCESS;
}

CUresult connection_open(void) {
    pthread_mutex_lock(&lock);
    CUresult result = CUDA_SUCCESS;
    if (server < 0)
        result = open_locked();
    else if (owner != getpid())
        result = refused(CUDA_ERROR_NOT_INITIALIZED, "cuInit", "this is a child of the process that called it");
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult connection_state(void) {
    if (server < 0 || owner != getpid())
        return CUDA_ERROR_NOT_INITIALIZED;
    return sticky;
}

CUresult initialized_for(const char *function) {
    CUresult state = connection_state();
    return state == CUDA_ERROR_NOT_INITIALIZED ? refused(state, function, NOT_INITIALIZED) : state;
}

CUresult exchange_for(const char *function, const struct exchange *exchange) {
    if (server < 0 || owner != getpid())
        return refused(CUDA_ERROR_NOT_INITIALIZED, function, NOT_INITIALIZED);
    uint32_t context = current_context_number();
    pthread_mutex_lock(&lock);
    CUresult result = exchange_locked(exchange, context);
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult sticky_error(void) {
    return sticky;
}

void clear_sticky_error(void) {
    if (!lost)
        sticky = CUDA_SUCCESS;
}

uint32_t device_clock_khz(void) {
    return device.clock_khz;
}

int is_device_address(const void *address) {
    uint64_t number = (uint64_t)(uintptr_t)address;
    return server >= 0 && number >= device.base && number - device.base < device.size;
}

void write_device(void *to, const void *from, size_t bytes) {
    uint64_t offset = (uint64_t)(uintptr_t)to - device.base;
    size_t done = 0;
    ssize_t part;
    while (done < bytes && (part = pwrite(memory_file, (const char *)from + done, bytes - done,
                                          (off_t)(offset + done))) > 0)
        done += (size_t)part;
    memcpy((char *)to + done, (const char *)from + done, bytes - done);
}

CUresult refuse(const char *function, const char *why) {
    enum { MOST = 64 };
    static const char *said[MOST];
    static int count;
    pthread_mutex_lock(&lock);
    int known = 0;
    for (int i = 0; i < count; i++)
        known |= said[i] == function;
    if (!known && count < MOST) {
        said[count++] = function;
        report("%s is not supported%s%s", function, *why ? ": " : "", why);
    }
    pthread_mutex_unlock(&lock);
    return CUDA_ERROR_NOT_SUPPORTED;
}
