/* Op_name: ops are called through at::_ops::NAME::call or ::redispatch, the nodes of autograd
 * through torch::autograd::generated::NODE::apply, or without "generated" if they were written by
 * hand. */
#include "core/store/op_name.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define OPS	  "at::_ops::"
#define AUTOGRAD  "torch::autograd::"
#define GENERATED "generated::"
#define APPLY	  "::apply("
#define BACKWARD  "Backward"

static bool take(char name[OP_NAME_MAX], const char *from, const char *to)
{
	size_t size = (size_t)(to - from);

	if (size == 0 || size >= OP_NAME_MAX || memchr(from, ':', size) || memchr(from, '(', size))
		return false;
	memcpy(name, from, size);
	name[size] = '\0';
	return true;
}

bool op_name_add(struct op_name *op, const char *function)
{
	const char *from = strstr(function, OPS), *to;

	if (from && !op->name[0]) {
		from += strlen(OPS);
		to = strstr(from, "::");
		if (to)
			take(op->name, from, to);
	}
	from = strstr(function, AUTOGRAD);
	to = from ? strstr(from, APPLY) : NULL;
	if (!to)
		return false;
	from += strlen(AUTOGRAD);
	if (strncmp(from, GENERATED, strlen(GENERATED)) == 0)
		from += strlen(GENERATED);
	return take(op->node, from, to);
}

/* Underscores are not in the name of a class, and what follows the op's is its overload. */
static bool is_named_after(const char *op, const char *node, size_t size)
{
	while (size > 0 && *op && *op != ':') {
		if (*op != '_') {
			if (tolower((unsigned char)*op) != tolower((unsigned char)*node))
				return false;
			node++;
			size--;
		}
		op++;
	}
	return size == 0 && (*op == '_' || *op == ':');
}

bool op_name_makes(const char *function, const char *node)
{
	const char *op = strstr(function, OPS), *end = strstr(node, BACKWARD);

	return !end || end == node ||
	       (op && is_named_after(op + strlen(OPS), node, (size_t)(end - node)));
}

void op_name_text(const struct op_name *op, const char *none, char *text, size_t size)
{
	if (!op->name[0] && !op->node[0])
		snprintf(text, size, "%s", none);
	else
		snprintf(text, size, "%s%s%s", op->node, op->name[0] && op->node[0] ? ": " : "",
			 op->name);
}
