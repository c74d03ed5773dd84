/* frame.h: one frame of a stack, once it has names. */
#ifndef TS_FRAME_OF_STACK_H
#define TS_FRAME_OF_STACK_H

#include <stdbool.h>
#include <stdint.h>

/* A stack as it is stored: what was walked (TS_STACK_FRAMES_MAX), with the functions that the
 * compiler put into others and the frames of interpreters. */
#define FRAMES_MAX 384

/* number, identifier, name. The numbers are stored. */
#define FRAME_KINDS(X)                                                                             \
	X(0, NATIVE, "native")                                                                     \
	X(1, PYTHON, "python")                                                                     \
	X(2, GPU, "gpu")                                                                           \
	X(3, BACKWARD, "backward") /* no frame: inside are those of PyTorch's backward pass */

enum frame_kind {
#define X(number, identifier, name) FRAME_##identifier = (number),
	FRAME_KINDS(X)
#undef X
};

/* The second is of a node that was made before the launch behind it. */
#define FRAME_BACKWARD_NAME   "[backward]"
#define FRAME_BACKWARD_BEFORE "[backward, before]"

/* NULL and 0 are unknown. */
struct frame {
	uint64_t address;	       /* 0: it has none of its own */
	uint64_t offset;	       /* of it in the module */
	const char *module, *function; /* the mapped file; demangled */
	const char *file;	       /* of the source */
	uint32_t line;
	uint8_t kind; /* enum frame_kind */
	bool inlined; /* compiled into the next frame, and at its address */
};

/* Code that is not the user's own, unless a recording or the settings say otherwise: parts of the
 * paths of mapped and of Python files, as core/base/glob.h has them. The last one found in a path
 * counts; one with an exclamation mark makes it the user's. What torch.compile() writes for a
 * function of the user's stays his, since it has the lines of the kernels, but the code that
 * launches a kernel does not. */
#define FRAME_LIBRARY_CODE                                                                         \
	"/python3. !/site-packages/ !/dist-packages/ /bin/python libpython <frozen "               \
	"-packages/torch/ -packages/triton/ libtorch libc10 libtriton libcuda.so libcudart "       \
	"libcublas libcudnn libcufft libcurand libcusolver libcusparse libnccl libnvrtc "          \
	"libnvJitLink libcupti libtracesmith libc.so libm.so libpthread libstdc++ libgcc_s "       \
	"libgomp libffi /ld-linux [vdso] <string> <eval_with_key> __triton_launcher "              \
	"/.triton/cache/ /torchinductor_*/triton/"
/* The row of `setting` that has others. */
#define FRAME_SETTING "library_code"

#endif
