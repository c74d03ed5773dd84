/* Identity: the first variable of each list that is set counts; the control group knows less, but
 * is there for every process. */
#include "client/ship/identity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"

#define KEYS_MAX 6

struct keys {
	const char *key[KEYS_MAX];
};

static const struct keys rank_keys = { { "RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
					 "SLURM_PROCID" } };
static const struct keys world_keys = { { "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
					  "SLURM_NTASKS" } };
static const struct keys local_keys = { { "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
					  "MPI_LOCALRANKID", "SLURM_LOCALID" } };
static const struct keys slurm_job_keys = { { "SLURM_JOB_ID", "SLURM_JOBID" } };
static const struct keys slurm_step_keys = { { "SLURM_STEP_ID", "SLURM_STEPID" } };
static const struct keys job_keys = { { "TORCHELASTIC_RUN_ID", "PBS_JOBID", "LSB_JOBID" } };
static const struct keys address_keys = { { "MASTER_ADDR" } };
static const struct keys port_keys = { { "MASTER_PORT" } };
static const struct keys pod_keys = { { "POD_NAME", "HOSTNAME" } };
static const struct keys namespace_keys = { { "POD_NAMESPACE", "NAMESPACE" } };

/* NULL: it is not set. */
static const char *value_of(const char *environment, const char *key)
{
	size_t size = strlen(key);

	for (const char *line = environment; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, size) == 0 && line[size] == '=')
			return line + size + 1;
	}
	return NULL;
}

static void take_text(const char *environment, const struct keys *keys,
		      char ret[IDENTITY_TEXT_BYTES])
{
	for (size_t i = 0; i < KEYS_MAX && keys->key[i] && !*ret; i++) {
		const char *value = value_of(environment, keys->key[i]);

		if (value)
			snprintf(ret, IDENTITY_TEXT_BYTES, "%.*s", (int)strcspn(value, "\n"),
				 value);
	}
}

static int32_t take_number(const char *environment, const struct keys *keys)
{
	char text[IDENTITY_TEXT_BYTES] = "", *end;
	long number;

	take_text(environment, keys, text);
	number = strtol(text, &end, 10);
	return *text && !*end && number >= 0 && number <= INT32_MAX ? (int32_t)number : -1;
}

/* What stands behind the word in the path, up to what cannot be part of a name. */
static void take_part(const char *cgroup, const char *word, char ret[IDENTITY_TEXT_BYTES])
{
	const char *at = strstr(cgroup, word);

	if (!at || *ret)
		return;
	at += strlen(word);
	snprintf(ret, IDENTITY_TEXT_BYTES, "%.*s", (int)strcspn(at, "/."), at);
}

/* A pod of a Job, a StatefulSet or a ReplicaSet has its owner's name, and a number or random
 * letters behind it, with a dash between. */
static void take_owner(const char *pod, char ret[IDENTITY_TEXT_BYTES])
{
	const char *dash = strrchr(pod, '-');

	snprintf(ret, IDENTITY_TEXT_BYTES, "%.*s", dash ? (int)(dash - pod) : (int)strlen(pod),
		 pod);
}

/* torchrun has one id for all jobs that are given none. */
static void take_job(const char *environment, struct identity *identity)
{
	char address[IDENTITY_TEXT_BYTES] = "", port[IDENTITY_TEXT_BYTES] = "";

	snprintf(identity->job, sizeof(identity->job), "%s", identity->slurm_job);
	if (!*identity->job && *identity->pod)
		take_owner(identity->pod, identity->job);
	take_text(environment, &job_keys, identity->job);
	if (strcmp(identity->job, "none") == 0)
		identity->job[0] = '\0';
	take_text(environment, &address_keys, address);
	take_text(environment, &port_keys, port);
	if (!*identity->job && *address)
		snprintf(identity->job, sizeof(identity->job), "%.*s:%.*s",
			 IDENTITY_TEXT_BYTES / 2 - 1, address, IDENTITY_TEXT_BYTES / 2 - 2, port);
}

void identity_find(const char *cgroup, const char *environment, struct identity *ret)
{
	int32_t world = take_number(environment, &world_keys);

	*ret = (struct identity){ .rank = take_number(environment, &rank_keys),
				  .local_rank = take_number(environment, &local_keys),
				  .world_size = world > 0 ? world : 0 };
	take_text(environment, &slurm_job_keys, ret->slurm_job);
	take_text(environment, &slurm_step_keys, ret->slurm_step);
	take_part(cgroup, "/job_", ret->slurm_job);
	take_part(cgroup, "/step_", ret->slurm_step);
	/* What is a pod's name in a pod is elsewhere that of the host. */
	if (strstr(cgroup, "kubepods") || value_of(environment, "KUBERNETES_SERVICE_HOST")) {
		take_text(environment, &pod_keys, ret->pod);
		take_text(environment, &namespace_keys, ret->name_space);
	}
	take_job(environment, ret);
}
