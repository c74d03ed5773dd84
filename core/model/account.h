/* account.h: what the allocations of one process on one device, of one kind, have in common, and
 * their sums. Pure: it knows nothing of the model. */
#ifndef TS_CORE_ACCOUNT_H
#define TS_CORE_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/list.h"
#include "core/leak/growth.h"

/* An account is its process's until that ends; then it goes with the last allocation that has not
 * been reported as gone. */
struct account {
	struct list link;    /* in the process */
	struct list changed; /* in a list of those to report */
	uint64_t live_bytes, live_count, peak_bytes;
	/* Of the live blocks of which it is known: what was asked for, and what they have beyond.
	 */
	uint64_t requested_bytes, rounding_bytes;
	uint64_t asked_ns;	 /* since then that should be known of each; 0: of none */
	struct growing *growing; /* of the process; NULL: its blocks are no leaks */
	uint32_t process;	 /* id */
	uint32_t user;		 /* who answers for it */
	uint32_t allocations;	 /* also those that are gone and not yet reported */
	int16_t device;
	uint8_t kind; /* enum memory_kind */
	bool orphan;  /* its process has ended */
};

/* A block, for the history of its stack. */
struct account_block {
	const struct account *account;
	uint64_t bytes, start_ns, stack_id;
	uint16_t fn;
};

/* The device that memory of a kind counts for: none for host memory. */
int16_t account_device(uint8_t kind, int16_t device);
/* That of a process, made when it is first asked for. NULL: no memory. */
struct account *account_get(struct list *accounts, struct growing *growing, int16_t device,
			    uint8_t kind);
/* What the process holds there, of the host or of the device depending on the kind. */
uint64_t account_live_bytes(const struct list *accounts, int16_t device, uint8_t kind);
/* Puts it into the list of those that have changed. */
void account_touch(struct account *account, struct list *changed);
/* Adds an allocation to the live ones, or takes it off. */
void account_credit(struct account *account, uint64_t bytes, struct list *changed);
void account_debit(struct account *account, uint64_t bytes, struct list *changed);
/* What was asked for of a live block becomes known, or goes with it. */
void account_ask(struct account *account, uint64_t requested_bytes, uint64_t rounding_bytes,
		 struct list *changed);
void account_unask(struct account *account, uint64_t requested_bytes, uint64_t rounding_bytes,
		   struct list *changed);
void account_born(struct growths *growths, struct account_block block);
void account_found(struct growths *growths, struct account_block block);
void account_gone(struct growths *growths, struct account_block block, uint64_t now_ns);
/* One of its allocations is forgotten. */
void account_leave(struct account *account);
/* Those of a process that is freed. */
void account_free_all(struct list *accounts);

#endif
