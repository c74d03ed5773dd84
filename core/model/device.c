/* Device: see device.h. */
#include "core/model/device.h"

#include <errno.h>
#include <stdlib.h>

int device_size_add(struct list *sizes, int16_t ordinal, uint64_t bytes)
{
	struct device_size *size;

	list_for_each(size, sizes, link)
		if (size->ordinal == ordinal)
			return 0;
	size = malloc(sizeof(*size));
	if (!size)
		return -ENOMEM;
	size->ordinal = ordinal;
	size->bytes = bytes;
	list_append(sizes, &size->link);
	return 1;
}

void device_size_forget_all(struct list *sizes)
{
	struct device_size *size;

	list_for_each(size, sizes, link)
		free(size);
	list_init(sizes);
}
