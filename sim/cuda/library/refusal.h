/* What the libraries print on stderr. A refused call has one line with its name and the reason, as the server prints it. */
#pragma once
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 1, 0))) static inline void print_line(const char *format, va_list values) {
    char line[512];
    vsnprintf(line, sizeof line, format, values);
    fprintf(stderr, "warpstack: %s\n", line); /* at once, since the server may print, too */
}

/* Prints a line that is about no single call. */
__attribute__((format(printf, 1, 2))) static inline void report(const char *format, ...) {
    va_list values;
    va_start(values, format);
    print_line(format, values);
    va_end(values);
}

/* Reports why a call is refused, and returns its result. The version at the end of a name is left out: cuMemAlloc_v2 is
 * called cuMemAlloc. */
__attribute__((format(printf, 3, 4))) static inline int refused(int result, const char *function, const char *format, ...) {
    char reason[384];
    size_t length = strlen(function);
    if (length > 3 && function[length - 3] == '_' && function[length - 2] == 'v')
        length -= 3;
    va_list values;
    va_start(values, format);
    vsnprintf(reason, sizeof reason, format, values);
    va_end(values);
    report("%.*s: %s", (int)length, function, reason);
    return result;
}

/* Likewise, for the calling function. */
#define REFUSED(RESULT, ...) refused(RESULT, __func__, __VA_ARGS__)

#define NO_HOST_MEMORY "this process has no memory left"
#define ONE_DEVICE "there is one device, number 0, not %d"

#define CHECK_DEVICE(NUMBER)                                                \
    do {                                                                    \
        if (NUMBER)                                                         \
            return REFUSED(CUDA_ERROR_INVALID_DEVICE, ONE_DEVICE, NUMBER);  \
    } while (0)
