/* Machine: from /etc and /proc. */
#include "client/ship/machine.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

static void read_line(const char *path, char *ret, size_t size)
{
	FILE *in = fopen(path, "re");

	ret[0] = '\0';
	if (in && fgets(ret, (int)size, in))
		ret[strcspn(ret, "\n")] = '\0';
	if (in)
		fclose(in);
}

/* "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159 …" */
static void read_driver(char *ret, size_t size)
{
	char line[256];
	const char *at;

	read_line("/proc/driver/nvidia/version", line, sizeof(line));
	at = strstr(line, "Module");
	at = at ? at + strcspn(at, "0123456789") : "";
	snprintf(ret, size, "%.*s", (int)strspn(at, "0123456789."), at);
}

void machine_read(struct machine *ret)
{
	struct utsname name = { 0 };

	*ret = (struct machine){ .cpus = sysconf(_SC_NPROCESSORS_CONF) };
	read_line("/etc/machine-id", ret->id, sizeof(ret->id));
	read_driver(ret->driver, sizeof(ret->driver));
	uname(&name);
	snprintf(ret->kernel, sizeof(ret->kernel), "%s", name.release);
}
