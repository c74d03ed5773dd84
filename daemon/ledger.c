/* Ledger: entries by process and reason. */
#include "daemon/ledger.h"

#include <stdlib.h>

void ledger_init(struct ledger *ledger,
		 bool (*tell)(void *data, const struct ledger_entry *entry, uint64_t until_ns,
			      bool last),
		 void *data)
{
	*ledger = (struct ledger){ .tell = tell, .data = data };
	list_init(&ledger->entries);
}

static struct map_key key_of(uint32_t pid, enum loss_reason reason)
{
	return (struct map_key){ pid, reason };
}

static void entry_unlink(struct ledger *ledger, struct ledger_entry *entry)
{
	map_remove(&ledger->by_key, key_of(entry->pid, entry->reason));
	list_remove(&entry->link);
}

static void entry_free(struct ledger *ledger, struct ledger_entry *entry)
{
	entry_unlink(ledger, entry);
	free(entry);
}

void ledger_release(struct ledger *ledger)
{
	struct ledger_entry *entry;

	list_for_each(entry, &ledger->entries, link)
		entry_free(ledger, entry);
	map_clear(&ledger->by_key);
}

static struct ledger_entry *entry_new(struct ledger *ledger, uint32_t pid, enum loss_reason reason,
				      uint64_t since_ns)
{
	struct ledger_entry *entry = calloc(1, sizeof(*entry));

	if (!entry || map_put(&ledger->by_key, key_of(pid, reason), entry) < 0) {
		free(entry);
		return NULL;
	}
	entry->pid = pid;
	entry->reason = reason;
	entry->since_ns = since_ns;
	list_append(&ledger->entries, &entry->link);
	return entry;
}

struct ledger_entry *ledger_open(struct ledger *ledger, uint32_t pid, enum loss_reason reason,
				 enum ledger_by by, uint64_t since_ns)
{
	struct ledger_entry *entry = map_get(&ledger->by_key, key_of(pid, reason));

	if (!entry)
		entry = entry_new(ledger, pid, reason, since_ns);
	if (!entry)
		return NULL;
	/* What has been told has its start. */
	if (!entry->told && since_ns < entry->since_ns)
		entry->since_ns = since_ns;
	entry->certain |= by != LEDGER_LINKS;
	if (by == LEDGER_LINKS || by == LEDGER_COPY)
		entry->holders[by]++;
	else
		entry->holders[by] = 1;
	return entry;
}

static bool entry_is_held(const struct ledger_entry *entry)
{
	for (enum ledger_by by = 0; by < LEDGER_BYS; by++)
		if (entry->holders[by])
			return true;
	return false;
}

static void entry_tell(struct ledger *ledger, struct ledger_entry *entry, uint64_t until_ns,
		       bool last)
{
	if (until_ns > entry->since_ns)
		entry->told |= ledger->tell(ledger->data, entry, until_ns, last);
}

/* It is not found any more by whatever that leads to. */
static void entry_end(struct ledger *ledger, struct ledger_entry *entry, uint64_t until_ns)
{
	entry_unlink(ledger, entry);
	entry_tell(ledger, entry, until_ns, true);
	free(entry);
}

/* NULL: somebody else holds it still, or nobody did. */
static struct ledger_entry *let_go(struct ledger *ledger, uint32_t pid, enum loss_reason reason,
				   enum ledger_by by)
{
	struct ledger_entry *entry = map_get(&ledger->by_key, key_of(pid, reason));

	if (!entry || !entry->holders[by])
		return NULL;
	entry->holders[by]--;
	return entry_is_held(entry) ? NULL : entry;
}

void ledger_close(struct ledger *ledger, uint32_t pid, enum loss_reason reason, enum ledger_by by,
		  uint64_t until_ns)
{
	struct ledger_entry *entry = let_go(ledger, pid, reason, by);

	if (entry)
		entry_end(ledger, entry, until_ns);
}

void ledger_past(struct ledger *ledger, uint32_t pid, enum loss_reason reason, uint64_t since_ns,
		 uint64_t until_ns)
{
	struct ledger_entry entry = {
		.pid = pid, .reason = reason, .since_ns = since_ns, .certain = true
	};

	entry_tell(ledger, &entry, until_ns, true);
}

void ledger_drop(struct ledger *ledger, uint32_t pid, enum loss_reason reason, enum ledger_by by)
{
	struct ledger_entry *entry = let_go(ledger, pid, reason, by);

	if (entry)
		entry_free(ledger, entry);
}

static struct ledger_entry *ledger_first_of(struct ledger *ledger, uint32_t pid)
{
	struct ledger_entry *entry;

	list_for_each(entry, &ledger->entries, link)
		if (entry->pid == pid)
			return entry;
	return NULL;
}

void ledger_end(struct ledger *ledger, uint32_t pid, uint64_t until_ns)
{
	struct ledger_entry *entry;

	while ((entry = ledger_first_of(ledger, pid)))
		entry_end(ledger, entry, until_ns);
}

void ledger_forget_child(struct ledger *ledger, uint32_t pid)
{
	struct ledger_entry *entry;

	list_for_each(entry, &ledger->entries, link)
		if (entry->pid == pid && entry->child && !entry->told)
			entry_free(ledger, entry);
}

void ledger_tell(struct ledger *ledger, uint64_t until_ns)
{
	struct ledger_entry *entry;

	list_for_each(entry, &ledger->entries, link)
		entry_tell(ledger, entry, until_ns, false);
}
