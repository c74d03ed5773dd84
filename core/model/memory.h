/* memory.h: what is allocated, by process, space and address. */
#ifndef TS_CORE_MEMORY_H
#define TS_CORE_MEMORY_H

#include "core/base/list.h"
#include "core/base/map.h"
#include "core/base/set.h"
#include "core/model/account.h"
#include "core/model/core.h"

struct call;
struct context;
struct process;

/* There may be millions, so what all of an account have in common is there. */
struct allocation {
	struct set_node node;	/* by its address, while it has handles */
	struct list in_context; /* a mapping: in the process */
	struct account *account;
	uint64_t id, address, bytes, start_ns, stack_id;
	uint32_t tid;
	union {
		uint32_t handles;
		uint32_t rounding; /* of a block: bytes beyond what was asked for, and 1; 0: unknown
				    */
	};
	uint32_t changed; /* its place in core's changed allocations and 1, 0: nothing to report */
	uint16_t fn;
	bool told, gone;
};

/* But of blocks of a framework, of which there are most. */
struct allocation_more {
	struct allocation common;
	uint64_t end_ns; /* of the call that made it */
	union {
		uint64_t context;
		struct allocation *physical; /* of a mapping: what it shows */
	};
	uint32_t mappings; /* of it, while which it lives */
};

static inline bool allocation_is_block(const struct allocation *allocation)
{
	return allocation->account->kind == MEMORY_TENSOR;
}

/* Of one that is no block. */
static inline struct allocation_more *allocation_more(const struct allocation *allocation)
{
	return (struct allocation_more *)allocation;
}

/* A block has one, from its first report to its last. */
static inline uint32_t allocation_handles(const struct allocation *allocation)
{
	return allocation_is_block(allocation) ? 1 : allocation->handles;
}

/* 0: unknown. */
static inline uint64_t allocation_requested_bytes(const struct allocation *allocation)
{
	return allocation_is_block(allocation) && allocation->rounding
		       ? allocation->bytes - (allocation->rounding - 1)
		       : 0;
}

/* A block is there when it is reported. */
static inline uint64_t allocation_end_ns(const struct allocation *allocation)
{
	return allocation_is_block(allocation) ? allocation->start_ns
					       : allocation_more(allocation)->end_ns;
}

/* What its account's history has of it. */
static inline struct account_block memory_block(const struct allocation *allocation)
{
	return (struct account_block){ allocation->account, allocation->bytes, allocation->start_ns,
				       allocation->stack_id, allocation->fn };
}

void memory_alloc(struct call *call);
void memory_import(struct call *call);
void memory_free(struct call *call);

void memory_init(struct core *core);

/* NULL: none. */
struct allocation *memory_find(const struct core *core, uint32_t process, uint8_t kind,
			       uint64_t address);
/* Reported with the next number; `physical`: what a mapping shows, else NULL. NULL: a limit was
 * reached, and is counted. */
struct allocation *memory_make(struct call *call, const struct core_allocation *row,
			       struct allocation *physical);
struct core_allocation memory_row_of(const struct allocation *allocation);
struct core_memory memory_sums_of(const struct account *account);
/* What its row says has changed. */
void memory_changed(struct core *core, struct allocation *allocation);
/* Its size becomes known only now. */
void memory_resize(struct core *core, struct allocation *allocation, uint64_t bytes);
/* The program has one more handle, possibly after having had none. */
void memory_retain(struct call *call, struct allocation *allocation, uint64_t handle);
/* It is no longer live. */
void memory_end(struct core *core, struct allocation *allocation);
/* What the call describes, without its kind yet. */
struct core_allocation memory_row(const struct call *call);

int memory_restore(struct core *core, struct process *process, const struct core_allocation *row);
int memory_restore_peak(struct core *core, struct process *process, const struct core_memory *row);
/* A call frees everything in a context. */
void memory_end_context(struct core *core, struct context *context, uint64_t time_ns);
/* The process, or its address space, is gone. */
void memory_end_process(struct core *core, struct process *process);
void memory_checkpoint(struct core *core);
/* Reports the accounts of an ending process. */
void memory_tell_accounts(struct core *core, struct process *process);
/* Frees the memory for core_free. */
void memory_release_all(struct core *core);

#endif
