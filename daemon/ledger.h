/* ledger.h: which calls of which process are not seen now, since when and why.
 *
 * Whoever knows that calls begin to be missed opens an entry, and closes it when they are seen
 * again. What is open is told before each answer as lasting until then, so that nothing is missed
 * without a word because it goes on. All of it belongs to the loop.
 */
#ifndef TS_LEDGER_H
#define TS_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/list.h"
#include "core/base/map.h"
#include "core/model/loss_row.h"

/* Who holds an entry open. */
enum ledger_by {
	LEDGER_LINKS, /* probes of one process, of each library that it maps */
	LEDGER_COPY,  /* the same, of all that map it */
	LEDGER_PRICE,
	LEDGER_FLOOD,
	LEDGER_REFUSED, /* what it maps cannot have probes */
	LEDGER_EXACT,	/* was held at its start, and probes came too late */
	LEDGER_BYS
};

struct ledger_entry {
	struct list link;
	uint32_t pid; /* 0: of all processes */
	enum loss_reason reason;
	uint64_t since_ns;
	uint32_t holders[LEDGER_BYS];
	bool certain; /* not links alone say so: see `tell` */
	bool told;
	bool announced;
	bool child; /* of a process that maps the same */
};

struct ledger {
	struct list entries;
	struct map by_key;
	/* It has lasted until then, and ends if it is the `last` time. False: it is not told, as it
	 * does not matter so far. */
	bool (*tell)(void *data, const struct ledger_entry *entry, uint64_t until_ns, bool last);
	void *data;
};

void ledger_init(struct ledger *ledger,
		 bool (*tell)(void *data, const struct ledger_entry *entry, uint64_t until_ns,
			      bool last),
		 void *data);
void ledger_release(struct ledger *ledger);

/* Links and copies count, the others may repeat it. NULL: no memory. */
struct ledger_entry *ledger_open(struct ledger *ledger, uint32_t pid, enum loss_reason reason,
				 enum ledger_by by, uint64_t since_ns);
/* What is over. */
void ledger_past(struct ledger *ledger, uint32_t pid, enum loss_reason reason, uint64_t since_ns,
		 uint64_t until_ns);
/* Harmless if it is not open. */
void ledger_close(struct ledger *ledger, uint32_t pid, enum loss_reason reason, enum ledger_by by,
		  uint64_t until_ns);
/* Nothing was missed after all. */
void ledger_drop(struct ledger *ledger, uint32_t pid, enum loss_reason reason, enum ledger_by by);
/* It runs another program: what it had from its parent it never used. */
void ledger_forget_child(struct ledger *ledger, uint32_t pid);
/* It has ended then: closes all of it, whoever holds it. */
void ledger_end(struct ledger *ledger, uint32_t pid, uint64_t until_ns);
/* `tell` neither opens nor closes any meanwhile; where one ends, it may. */
void ledger_tell(struct ledger *ledger, uint64_t until_ns);

#endif
