/* op_name.h: the PyTorch op that a stack is in, from the names of its functions. */
#ifndef TS_OP_NAME_H
#define TS_OP_NAME_H

#include <stdbool.h>
#include <stddef.h>

#define OP_NAME_MAX 128

/* Zeroed: none. */
struct op_name {
	char name[OP_NAME_MAX]; /* innermost, as in at::_ops::NAME::call */
	char node[OP_NAME_MAX]; /* of autograd, if the op is part of backward */
};

/* Takes the functions of a stack, from the innermost outwards. True: the others tell no more. */
bool op_name_add(struct op_name *op, const char *function);
/* Whether a function is the op that makes nodes of this class: at::_ops::sum_dim_IntList::call and
 * SumBackward1. Also where the class is not named after an op. */
bool op_name_makes(const char *function, const char *node);
/* "mm", "AddmmBackward0: mm", "AddmmBackward0", or `none`. */
void op_name_text(const struct op_name *op, const char *none, char *text, size_t size);

#endif
