/* list.h: doubly linked rings of nodes embedded in the things they link. A node in no list points
 * to itself. */
#ifndef TS_LIST_H
#define TS_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *next, *prev;
};

static inline void list_init(struct list *list)
{
	list->next = list->prev = list;
}

static inline bool list_empty(const struct list *list)
{
	return list->next == list;
}

/* Of a node: whether it is in a list. */
static inline bool list_linked(const struct list *node)
{
	return node->next != node;
}

static inline void list_insert_after(struct list *position, struct list *node)
{
	node->prev = position;
	node->next = position->next;
	position->next->prev = node;
	position->next = node;
}

static inline void list_append(struct list *list, struct list *node)
{
	list_insert_after(list->prev, node);
}

static inline void list_prepend(struct list *list, struct list *node)
{
	list_insert_after(list, node);
}

/* Moves all of `from` to the end of `list`. */
static inline void list_append_all(struct list *list, struct list *from)
{
	if (list_empty(from))
		return;
	from->next->prev = list->prev;
	from->prev->next = list;
	list->prev->next = from->next;
	list->prev = from->prev;
	list_init(from);
}

/* Harmless for a node that is in no list. */
static inline void list_remove(struct list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	list_init(node);
}

#define list_item(node, type, member) ((type *)((char *)(node)-offsetof(type, member)))
#define list_first(head, type, member)                                                             \
	(list_empty(head) ? NULL : list_item((head)->next, type, member))
#define list_last(head, type, member)                                                              \
	(list_empty(head) ? NULL : list_item((head)->prev, type, member))

/* The body may remove the item itself, and no other. */
#define list_for_each(item, head, member)                                                          \
	for (struct list *item##_node = (head)->next, *item##_next;                                \
	     item##_node != (head) &&                                                              \
	     (item##_next = item##_node->next,                                                     \
	     item = list_item(item##_node, __typeof__(*item), member), 1);                         \
	     item##_node = item##_next)

#endif
