/* Drops: a row for each process, and when there are too many, one for all others. */
#include "core/store/drops.h"

static struct drop *drops_of(struct drops *drops, uint32_t process)
{
	if (drops->last < drops->count && drops->of[drops->last].process == process)
		return &drops->of[drops->last];
	for (uint32_t i = 0; i < drops->count; i++)
		if (drops->of[i].process == process)
			return &drops->of[drops->last = i];
	/* One row is left for whom there is none. */
	if (process && drops->count >= DROPS_MAX - 1)
		return drops_of(drops, 0);
	drops->last = drops->count++;
	drops->of[drops->last] = (struct drop){ .process = process };
	return &drops->of[drops->last];
}

static void widen(uint64_t *first_ns, uint64_t *last_ns, bool any, uint64_t from_ns, uint64_t to_ns)
{
	if (!any || from_ns < *first_ns)
		*first_ns = from_ns;
	if (!any || to_ns > *last_ns)
		*last_ns = to_ns;
}

static void drops_add_one(struct drops *drops, const struct drop *more)
{
	struct drop *drop = drops_of(drops, more->process);

	if (more->ops)
		widen(&drop->first_ns, &drop->last_ns, drop->ops, more->first_ns, more->last_ns);
	if (more->rows)
		widen(&drop->rows_first_ns, &drop->rows_last_ns, drop->rows, more->rows_first_ns,
		      more->rows_last_ns);
	drop->ops += more->ops;
	drop->rows += more->rows;
	drops->ops += more->ops;
	drops->rows += more->rows;
}

void drops_add_ops(struct drops *drops, const struct op *op, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		drops_add_one(drops, &(struct drop){
					     .process = op[i].process,
					     .ops = 1,
					     .first_ns = op[i].start_ns,
					     .last_ns = op[i].start_ns,
				     });
}

void drops_add_rows(struct drops *drops, uint32_t process, uint64_t rows, uint64_t time_ns)
{
	if (rows)
		drops_add_one(drops, &(struct drop){
					     .process = process,
					     .rows = rows,
					     .rows_first_ns = time_ns,
					     .rows_last_ns = time_ns,
				     });
}

void drops_add(struct drops *drops, const struct drops *more)
{
	for (uint32_t i = 0; i < more->count; i++)
		drops_add_one(drops, &more->of[i]);
}

void drops_move_ops(struct drops *from, uint64_t ops, struct drops *to)
{
	for (uint32_t i = 0; i < from->count && ops; i++) {
		struct drop *drop = &from->of[i], moved = *drop;

		moved.ops = ops < drop->ops ? ops : drop->ops;
		moved.rows = 0;
		drops_add_one(to, &moved);
		drop->ops -= moved.ops;
		from->ops -= moved.ops;
		ops -= moved.ops;
	}
}
