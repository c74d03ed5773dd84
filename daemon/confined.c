/* Confined: what the daemon and its helpers give up once those have started that need it: the
 * broker, the openers and who forks more of them. All that they read comes from others, so they are
 * what would be taken over. */
#include <grp.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/log.h"
#include "daemon/api/peer.h"
#include "daemon/daemon_internal.h"
#include "daemon/helper/confine.h"

#define RIGHT(name) (1ull << (name))

/* Of openers, and of helpers that attach: the memory and files of other processes. */
#define FOR_PROCESSES                                                                              \
	(RIGHT(CAP_SYS_PTRACE) | RIGHT(CAP_DAC_READ_SEARCH) | RIGHT(CAP_CHECKPOINT_RESTORE))

/* What may still be done with maps and links that the broker has handed over. */
static const uint16_t commands[] = {
	BPF_MAP_LOOKUP_ELEM,	BPF_MAP_UPDATE_ELEM,
	BPF_MAP_DELETE_ELEM,	BPF_MAP_GET_NEXT_KEY,
	BPF_OBJ_GET_INFO_BY_FD, BPF_MAP_LOOKUP_BATCH,
	BPF_ITER_CREATE,	BPF_MAP_LOOKUP_AND_DELETE_ELEM,
};

static const uint16_t calls[] = {
	SYS_acct,
	SYS_add_key,
	SYS_adjtimex,
	SYS_chroot,
	SYS_clock_adjtime,
	SYS_clock_settime,
	SYS_delete_module,
	SYS_execve,
	SYS_execveat,
	SYS_finit_module,
	SYS_fsconfig,
	SYS_fsmount,
	SYS_fsopen,
	SYS_fspick,
	SYS_init_module,
	SYS_io_uring_enter,
	SYS_io_uring_register,
	SYS_io_uring_setup,
	SYS_ioperm,
	SYS_iopl,
	SYS_kexec_file_load,
	SYS_kexec_load,
	SYS_keyctl,
	SYS_mknod,
	SYS_mknodat,
	SYS_mount,
	SYS_mount_setattr,
	SYS_move_mount,
	SYS_open_by_handle_at,
	SYS_open_tree,
	SYS_perf_event_open,
	SYS_personality,
	SYS_pivot_root,
	SYS_quotactl,
	SYS_reboot,
	SYS_request_key,
	SYS_setdomainname,
	SYS_setfsgid,
	SYS_setfsuid,
	SYS_setgid,
	SYS_setgroups,
	SYS_sethostname,
	SYS_setns,
	SYS_setregid,
	SYS_setresgid,
	SYS_setresuid,
	SYS_setreuid,
	SYS_settimeofday,
	SYS_setuid,
	SYS_swapoff,
	SYS_swapon,
	SYS_syslog,
	SYS_umount2,
	SYS_unshare,
	SYS_userfaultfd,
};

/* Before, a kernel whose administrator keeps bpf(2) from users wants CAP_BPF for every look into a
 * map. */
static bool maps_need_right(void)
{
	struct utsname name;
	int major = 0, minor = 0;

	uname(&name);
	return sscanf(name.release, "%d.%d", &major, &minor) != 2 || major < 5 ||
	       (major == 5 && minor < 19);
}

static uint64_t for_maps(void)
{
	return maps_need_right() ? RIGHT(CAP_BPF) : 0;
}

/* What helpers call that look into processes, and what they use: libc, libdw and BPF's iterators.
 * Those that name lines give up more. */
static const uint16_t helper_calls[] = {
	CONFINE_READER, SYS_capget,    SYS_capset, SYS_fstatfs,	   SYS_getppid, SYS_nanosleep,
	SYS_pidfd_open, SYS_poll,      SYS_ppoll,  SYS_readlinkat, SYS_readv,	SYS_recvfrom,
	SYS_sendto,	SYS_setrlimit, SYS_statfs, SYS_statx,	   SYS_sysinfo,
};

/* Where /proc shows nobody the processes of others, who looks at all of them needs a right. */
static uint64_t for_hidden(void)
{
	_cleanup_(freep) char *line = NULL;
	FILE *mounts = fopen("/proc/self/mountinfo", "re");
	bool hidden = false;
	size_t room = 0;

	while (mounts && getline(&line, &room, mounts) > 0) {
		const char *option = strstr(line, "hidepid=");

		if (strstr(line, " /proc ") && strstr(line, " - proc "))
			hidden = option && !strchr("0o", option[strlen("hidepid=")]);
	}
	if (mounts)
		fclose(mounts);
	return hidden ? RIGHT(CAP_SYS_PTRACE) : 0;
}

/* The state directory, or the database in it, of another user. */
static bool writes_for_another(const struct daemon *daemon)
{
	const char *paths[] = { daemon->config->state_dir, daemon->database };
	struct stat status;

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		if (stat(paths[i], &status) == 0 && status.st_uid != 0)
			return true;
	return false;
}

/* What the unit has by its settings a daemon that root starts by hand gives itself: memory that it
 * may lock, for perf's rings, and the group that its socket gets. Where it may not, and for files
 * of another user, and to have threads that hurry, it keeps the right. */
static uint64_t for_root(const struct daemon *daemon)
{
	const struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };
	const struct peer_rule rule = peer_rule_of(daemon->config->control_group);
	uint64_t kept = RIGHT(CAP_SYS_NICE);

	if (geteuid() != 0)
		return 0;
	if (setrlimit(RLIMIT_MEMLOCK, &all) < 0)
		kept |= RIGHT(CAP_IPC_LOCK);
	if (rule.has_group && getegid() != rule.group && setgroups(1, &rule.group) < 0)
		kept |= RIGHT(CAP_CHOWN);
	return writes_for_another(daemon) ? kept | RIGHT(CAP_DAC_OVERRIDE) : kept;
}

int daemon_confine(struct daemon *daemon)
{
	int r;

	daemon->kept_rights = for_root(daemon);
	r = confine_rights_but(FOR_PROCESSES | daemon->kept_rights | for_maps());
	if (r == 0)
		r = confine_bpf(commands, ARRAY_SIZE(commands));
	if (r == 0)
		r = confine_to_itself();
	if (r == 0)
		r = confine_without(calls, ARRAY_SIZE(calls));
	return r < 0 ? log_error_errno(r, "Cannot give up rights that are not needed") : 0;
}

int daemon_confine_wholly(const struct daemon *daemon)
{
	uint64_t hidden = for_hidden();
	int r = confine_rights_but(hidden | daemon->kept_rights | for_maps());

	if (hidden)
		log_warning("/proc is mounted with hidepid: tracesmithd keeps CAP_SYS_PTRACE, "
			    "without which it would see no processes");
	return r < 0 ? log_error_errno(r, "Cannot give up rights that are not needed") : 0;
}

int daemon_confine_helper(void)
{
	int r = confine_rights_but(for_hidden() | for_maps());

	if (r == 0)
		r = confine_opening();
	return r < 0 ? r : confine_calls(helper_calls, ARRAY_SIZE(helper_calls));
}
