/* Variables: what the environment of a process says of the job that it is part of. An environment
 * has passwords and keys, too: only the variables of a list leave the process that reads it. */
#include "daemon/proc/variables.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"

#define ENVIRONMENT_SIZE (128 << 10) /* what comes behind that is not looked at */

/* Of Slurm, PBS and LSF, of torchrun, Open MPI and MPICH, and of Kubernetes. */
static const char *const variables[] = {
	"SLURM_JOB_ID",
	"SLURM_JOBID",
	"SLURM_STEP_ID",
	"SLURM_STEPID",
	"SLURM_PROCID",
	"SLURM_LOCALID",
	"SLURM_NTASKS",
	"PBS_JOBID",
	"LSB_JOBID",
	"RANK",
	"LOCAL_RANK",
	"WORLD_SIZE",
	"MASTER_ADDR",
	"MASTER_PORT",
	"TORCHELASTIC_RUN_ID",
	"PMI_RANK",
	"PMI_SIZE",
	"PMIX_RANK",
	"MPI_LOCALRANKID",
	"OMPI_COMM_WORLD_RANK",
	"OMPI_COMM_WORLD_SIZE",
	"OMPI_COMM_WORLD_LOCAL_RANK",
	"POD_NAME",
	"POD_NAMESPACE",
	"NAMESPACE",
	"HOSTNAME",
	"KUBERNETES_SERVICE_HOST",
};

static bool is_wanted(const char *variable)
{
	size_t size = strcspn(variable, "=");

	for (size_t i = 0; i < ARRAY_SIZE(variables); i++)
		if (strncmp(variables[i], variable, size) == 0 && !variables[i][size])
			return true;
	return false;
}

size_t variables_choose(const char *environment, size_t size, char *ret, size_t room)
{
	size_t used = 0, length;

	for (const char *end = environment + size; environment < end; environment += length + 1) {
		length = strnlen(environment, (size_t)(end - environment));
		/* One that is cut off, or would be two lines, is none. */
		if (environment + length == end || memchr(environment, '\n', length) ||
		    used + length + 1 >= room || !is_wanted(environment))
			continue;
		memcpy(ret + used, environment, length);
		used += length;
		ret[used++] = '\n';
	}
	ret[used] = '\0';
	return used;
}

int variables_read(int fd, char *ret, size_t room)
{
	_cleanup_(freep) char *environment = malloc(ENVIRONMENT_SIZE);
	size_t size = 0;
	ssize_t n = 1;

	if (!environment)
		return -ENOMEM;
	while (n > 0 && size < ENVIRONMENT_SIZE) {
		n = read(fd, environment + size, ENVIRONMENT_SIZE - size);
		if (n < 0)
			return -errno;
		size += (size_t)n;
	}
	return (int)variables_choose(environment, size, ret, room);
}
