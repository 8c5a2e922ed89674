/* A library of OpenCL's in front of the system's, whose devices claim to have cl_khr_priority_hints: pocl has not. It
 * refuses what the extension refuses, remembers which priorities queues were asked for with, and hands the rest on. What it
 * does not export is found in the library behind it. */

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EXTENSIONS 0x1030
#define PRIORITY 0x1096
#define INVALID_VALUE -30
#define INVALID_QUEUE_PROPERTIES -35

static const char CLAIMED[] = "cl_khr_fp64 cl_khr_priority_hints";
static unsigned asked;

static void *behind(const char *name) {
    return dlsym(dlopen("libOpenCL.so.1", RTLD_NOW), name);
}

/* The priorities asked for since the last call, as a set of the extension's bits. */
unsigned piton_asked(void) {
    unsigned all = asked;
    asked = 0;
    return all;
}

int clGetDeviceInfo(void *device, unsigned what, size_t room, void *value, size_t *size) {
    int (*next)(void *, unsigned, size_t, void *, size_t *) = behind("clGetDeviceInfo");
    if (what != EXTENSIONS) return next(device, what, room, value, size);
    if (size) *size = sizeof CLAIMED;
    if (value && room < sizeof CLAIMED) return INVALID_VALUE;
    if (value) memcpy(value, CLAIMED, sizeof CLAIMED);
    return 0;
}

void *clCreateCommandQueueWithProperties(void *context, void *device, const uint64_t *properties, int *code) {
    void *(*next)(void *, void *, const uint64_t *, int *) = behind("clCreateCommandQueueWithProperties");
    uint64_t kept[16] = {0};
    size_t count = 0;
    for (; properties && *properties && count < 14; properties += 2) {
        if (properties[0] != PRIORITY) {
            kept[count++] = properties[0];
            kept[count++] = properties[1];
            continue;
        }
        if (properties[1] != 1 && properties[1] != 2 && properties[1] != 4) {
            *code = INVALID_QUEUE_PROPERTIES;
            return NULL;
        }
        asked |= (unsigned)properties[1];
    }
    return next(context, device, kept, code);
}
