/* ABI check: compiled against our header, and against NVIDIA's where there is one; it compiles
 * only if layouts, numbers and signatures are the same in both. Nothing runs. */
#include <cuda.h>

#include <stddef.h>

#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), "size of " #type);
#define MEMBER(type, member, offset, bytes)                                                        \
	_Static_assert(offsetof(type, member) == (offset), "offset of " #type "." #member);        \
	_Static_assert(sizeof(((type *)0)->member) == (bytes), "size of " #type "." #member);
#define NUMBER(name, value) _Static_assert((int)(name) == (value), "value of " #name);
#include "abi_facts.def"

/* A declaration that differs from the header's is an error. */
#define F(since, name, need, params, args, call) CUresult name params;
#define S(since, name, need, params, args, call)                                                   \
	CUresult name params;                                                                      \
	CUresult name##_ptsz params;
#define D(since, name, need, params, args, call)                                                   \
	CUresult name params;                                                                      \
	CUresult name##_ptds params;
#include "api.def"
