/* Contexts, and which of them is current in a thread. */
#pragma once
#include "cuda_abi.h"

typedef struct context *CUcontext;

/* The server's number of the current context; 0: none is current. */
uint32_t current_context_number(void);

/* Returns the state of the connection, CUDA_ERROR_INVALID_CONTEXT if no context is current, or the sticky error; most
 * functions call it first. Reports the first two. */
CUresult ready_for(const char *function);
#define ready() ready_for(__func__)
