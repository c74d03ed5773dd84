/* internal.h: between the daemon and its helpers. */
#ifndef TS_HELPER_INTERNAL_H
#define TS_HELPER_INTERNAL_H

#include <stdint.h>

struct helper_kind;

/* In front of each message, of a request (its kind) or an answer. */
struct helper_head {
	uint32_t kind;
	uint32_t more; /* 0: the last message; it has the result and nothing else */
	int32_t result;
	uint32_t reserved;
};

const struct helper_kind *helper_kind(uint32_t kind);

#endif
