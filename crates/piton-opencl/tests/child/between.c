/* A library of OpenCL's in front of the system's. Its devices claim to have cl_khr_priority_hints, which pocl has not: it
 * refuses what the extension refuses, remembers which priorities queues were asked for with, and hands the rest on. And a
 * fill ends with whatever code a test wants, though it was done: pocl knows no failure that the process survives. What the
 * library does not export is found in the one behind it. */

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EXTENSIONS 0x1030
#define PRIORITY 0x1096
#define EXECUTION_STATUS 0x11D3
#define FAILED_IN_LIST -14
#define INVALID_VALUE -30
#define INVALID_QUEUE_PROPERTIES -35

static const char CLAIMED[] = "cl_khr_fp64 cl_khr_priority_hints";
static unsigned asked;
/* What the next fill ends with, and those that have: their events are kept, so that no other gets the address of one. */
static int wanted;
static struct { void *event; int code; } failed[16];
static size_t failures;

static void *behind(const char *name) {
    return dlsym(dlopen("libOpenCL.so.1", RTLD_NOW), name);
}

/* The priorities asked for since the last call, as a set of the extension's bits. */
unsigned piton_asked(void) {
    unsigned all = asked;
    asked = 0;
    return all;
}

/* The next fill ends with this code. For one thread, before it fills. */
void piton_fail_next_fill(int code) {
    wanted = code;
}

static int code_of(void *event) {
    for (size_t i = 0; i < __atomic_load_n(&failures, __ATOMIC_ACQUIRE); i++)
        if (failed[i].event == event) return failed[i].code;
    return 0;
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

int clEnqueueSVMMemFill(void *queue, void *to, const void *pattern, size_t pattern_bytes, size_t bytes, unsigned count,
                        void *const *list, void **event) {
    int (*next)(void *, void *, const void *, size_t, size_t, unsigned, void *const *, void **) =
        behind("clEnqueueSVMMemFill");
    int (*retain)(void *) = behind("clRetainEvent");
    int code = next(queue, to, pattern, pattern_bytes, bytes, count, list, event);
    if (code == 0 && wanted && event && failures < 16) {
        retain(*event);
        failed[failures].event = *event;
        failed[failures].code = wanted;
        wanted = 0;
        __atomic_store_n(&failures, failures + 1, __ATOMIC_RELEASE);
    }
    return code;
}

int clGetEventInfo(void *event, unsigned what, size_t room, void *value, size_t *size) {
    int (*next)(void *, unsigned, size_t, void *, size_t *) = behind("clGetEventInfo");
    int code = next(event, what, room, value, size), failure = code_of(event);
    if (code == 0 && failure && what == EXECUTION_STATUS && value && *(int *)value == 0) *(int *)value = failure;
    return code;
}

int clWaitForEvents(unsigned count, void *const *list) {
    int (*next)(unsigned, void *const *) = behind("clWaitForEvents");
    int code = next(count, list);
    for (unsigned i = 0; code == 0 && i < count; i++)
        if (code_of(list[i])) code = FAILED_IN_LIST;
    return code;
}
