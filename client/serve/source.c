/* Source: a connection of its own for each request to the daemon, one for all to a recording. */
#include "client/serve/source.h"

#include <errno.h>

void source_init(struct source *source, const struct options *options)
{
	*source = (struct source){ .options = *options };
	source->options.page = true;
	pthread_mutex_init(&source->lock, NULL);
}

void source_done(struct source *source)
{
	source->file = link_free(source->file);
	pthread_mutex_destroy(&source->lock);
}

int source_take(struct source *source, struct link **ret)
{
	int r;

	if (!source->options.file)
		return link_open(&source->options, ret);
	pthread_mutex_lock(&source->lock);
	r = source->file ? 0 : link_open(&source->options, &source->file);
	if (r < 0)
		pthread_mutex_unlock(&source->lock);
	else
		*ret = source->file;
	return r;
}

/* What was refused leaves a link as it was; anything else may have left replies in it. */
void source_give(struct source *source, struct link *link, int result)
{
	bool whole = result >= 0 || result == -EINVAL || result == -ENOENT ||
		     result == -EREMOTEIO || result == -E2BIG;

	if (!source->options.file) {
		link_free(link);
		return;
	}
	if (!whole)
		source->file = link_free(source->file);
	pthread_mutex_unlock(&source->lock);
}
