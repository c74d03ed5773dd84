/* Owned: who closes a link gives it to the remover, which holds it until it is off. */
#include "daemon/probe/owned.h"

#include <stdlib.h>

#include "core/base/list.h"

struct owned_link *owned_new(void)
{
	struct owned_link *owned = calloc(1, sizeof(*owned));

	if (owned)
		owned->holders = 1;
	return owned;
}

struct owned_link *owned_unref(struct owned_link *owned)
{
	if (owned && atomic_fetch_sub(&owned->holders, 1) == 1)
		free(owned);
	return NULL;
}

static bool owned_take_off(struct removal *removal)
{
	struct owned_link *owned = list_item(removal, struct owned_link, removal);

	if (probe_link_is_held(owned->link))
		return false;
	owned->link = probe_link_free(owned->link);
	atomic_store(&owned->closed, true);
	owned_unref(owned);
	return true;
}

struct owned_link *owned_close(struct remover *remover, struct owned_link *owned)
{
	atomic_fetch_add(&owned->holders, 1);
	remover_add(remover, &owned->removal, owned_take_off);
	return owned;
}

void owned_drop(struct remover *remover, struct owned_link *owned)
{
	if (owned)
		owned_unref(owned_close(remover, owned));
}

bool owned_is_closing(const struct owned_link *owned)
{
	return owned && !atomic_load(&owned->closed);
}
