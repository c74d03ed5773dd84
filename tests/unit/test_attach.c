/* Attaching: programs that run, and must not notice. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <elf.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "tests/unit/attach_fixture.h"

#define CYCLES		20
#define WAITS_CYCLES_MS 150 /* in a call of 400 ms */

static void refuses(struct victim *victim, bool seccomp, int error, const char *word)
{
	struct attach_request request = { .pid = victim->pid,
					  .library = fixture_library(),
					  .seccomp = seccomp };
	struct attach_result result;
	char why[ATTACH_WHY_MAX] = "", number[16];

	assert_int_equal(attach_run(&request, &result, why), error);
	snprintf(number, sizeof(number), "%d", victim->pid);
	if (!strstr(why, word) || !strstr(why, number))
		fail_msg("'%s' does not say '%s'", why, word);
}

/* Attaches, hears the library, sends it away and unloads it. */
static void cycle(struct victim *victim, struct attach_result *ret)
{
	char why[ATTACH_WHY_MAX];
	int r = victim_attach(victim, ENTRY_STARTS, ret, why);

	if (r < 0)
		fail_msg("attach: %s", why);
	assert_true(fixture_hears(ret->socket, TS_MESSAGE_HELLO));
	assert_true(fixture_dismiss(ret->socket));
	close(ret->socket);
	r = attach_unload(victim->pid, 0, ret->handle, why);
	if (r < 0)
		fail_msg("unload: %s", why);
}

static void cycles_leave_nothing(const char *mode, const char *alone, bool threads_change)
{
	struct victim victim = victim_start(mode, alone);
	struct residue before, after;
	struct attach_result result;

	cycle(&victim, &result); /* the C library keeps a thread's stack */
	before = residue_of(victim.pid);
	for (int i = 0; i < CYCLES; i++)
		cycle(&victim, &result);
	after = residue_of(victim.pid);
	assert_int_equal(after.ours, 0);
	if (!threads_change) {
		assert_int_equal(after.threads, before.threads);
		assert_int_equal(after.descriptors, before.descriptors);
	}
	/* Stacks and arenas that the C library keeps come and go; a leak comes each time. */
	assert_true(after.mappings < before.mappings + CYCLES / 2);
	assert_true(after.descriptors < before.descriptors + CYCLES / 2);
	assert_int_equal(victim_end(&victim), 0);
}

static void a_program_of_one_sleeping_thread_is_as_it_was(void **state)
{
	cycles_leave_nothing("read", NULL, false);
}

static void a_program_of_one_computing_thread_keeps_its_registers(void **state)
{
	cycles_leave_nothing("vectors", "alone", false);
}

static void computing_threads_keep_their_registers(void **state)
{
	cycles_leave_nothing("vectors", NULL, false);
}

static void a_thread_that_allocates_all_the_time_is_left_in_peace(void **state)
{
	cycles_leave_nothing("malloc", "alone", true);
}

static void a_thread_that_forks_all_the_time_is_left_in_peace(void **state)
{
	cycles_leave_nothing("fork", NULL, true);
}

static void no_signal_of_a_storm_is_lost(void **state)
{
	cycles_leave_nothing("signals", "alone", true);
	cycles_leave_nothing("signals", NULL, false);
}

static void a_program_that_does_everything_is_as_it_was(void **state)
{
	cycles_leave_nothing("chaos", NULL, true);
}

/* The library comes and goes some times while the call waits. */
static void call_waits_on(const char *name, int signal)
{
	struct victim victim = victim_start(name, NULL);
	struct attach_result result;
	uint64_t end = fixture_now_ms() + WAITS_CYCLES_MS;
	int status, count = 0;

	do
		cycle(&victim, &result);
	while (++count < 3 && fixture_now_ms() < end);
	if (signal)
		kill(victim.pid, signal);
	status = victim_end(&victim);
	if (status)
		fail_msg("%s: %d", name, status);
}

static void calls_with_a_time_wait_that_long(void **state)
{
	static const char *const names[] = { "nanosleep", "clock_nanosleep", "poll",	  "ppoll",
					     "select",	  "futex",	     "condition", "wait4" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		call_waits_on(names[i], 0);
}

/* The kernel does not tell how long they waited: they may wait longer, and never end early. */
static void calls_that_the_kernel_would_end_wait_on(void **state)
{
	static const char *const names[] = { "epoll_time", "recv_time", "sigtimedwait" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		call_waits_on(names[i], 0);
}

static void calls_that_wait_for_data_get_it(void **state)
{
	call_waits_on("read", 0);
	call_waits_on("recv", 0);
	call_waits_on("epoll", 0);
}

static void calls_that_wait_for_a_signal_get_it(void **state)
{
	call_waits_on("pause", SIGUSR1);
	call_waits_on("sigsuspend", SIGUSR1);
	call_waits_on("epoll_signal", SIGUSR1);
}

static void victim_waits(const struct victim *victim, long number)
{
	char path[64], text[64];
	long found = -1;

	snprintf(path, sizeof(path), "/proc/%d/syscall", victim->pid);
	while (found != number) {
		FILE *file = fopen(path, "re");

		found = file && fgets(text, sizeof(text), file) ? atol(text) : -1;
		if (file)
			fclose(file);
	}
}

/* A tracer that is the parent as well would take the exit status away: another process attaches. */
static pid_t attach_elsewhere(const struct victim *victim, uint32_t entry_does)
{
	pid_t daemon = fork();

	if (!daemon) {
		struct attach_result result;
		char why[ATTACH_WHY_MAX];
		int r = victim_attach(victim, entry_does, &result, why);

		if (r < 0 && r != -ESRCH)
			fprintf(stderr, "%s\n", why);
		_exit(-r);
	}
	return daemon;
}

static int elsewhere_end(pid_t daemon)
{
	int status;

	waitpid(daemon, &status, 0);
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -1000;
}

/* In the middle of an attach: the call must neither wait on nor miss its handler. */
static void a_signal_during_the_stop_ends_the_call(void **state)
{
	static const char *const names[] = { "pause", "sigsuspend", "epoll_signal" };
	static const long numbers[] = { SYS_pause, SYS_rt_sigsuspend, SYS_epoll_wait };

	for (int i = 0; i < 60; i++) {
		struct victim victim = victim_start(names[i % 3], NULL);
		pid_t daemon;
		int r;

		victim_waits(&victim, numbers[i % 3]);
		daemon = attach_elsewhere(&victim, ENTRY_STARTS);
		usleep((useconds_t)(i * 70));
		kill(victim.pid, SIGUSR1);
		r = elsewhere_end(daemon);
		assert_true(r == 0 || r == -ESRCH);
		assert_int_equal(victim_end(&victim), 0);
	}
}

static void what_is_not_there_is_refused(void **state)
{
	struct victim victim = { .pid = 4194303 };
	struct attach_request request = { .started_ticks = 1 };
	char why[ATTACH_WHY_MAX];
	int status;

	refuses(&victim, false, -ESRCH, "no process");
	victim.pid = fork();
	if (!victim.pid)
		_exit(0);
	while (waitid(P_PID, (id_t)victim.pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT) < 0)
		;
	refuses(&victim, false, -ESRCH, "has ended");
	waitpid(victim.pid, &status, 0);
	victim.pid = 2;
	refuses(&victim, false, -ENOEXEC, "kernel");
	victim.pid = getpid();
	refuses(&victim, false, -EPERM, "itself");
	victim.pid = 1;
	refuses(&victim, false, -EPERM, "first");
	request.pid = getppid();
	assert_int_equal(attach_check(&request, why), -ESRCH);
	assert_non_null(strstr(why, "another one has its number"));
}

static void a_program_without_cuda_is_refused(void **state)
{
	struct victim victim = { .pid = fork() };
	char path[64], exe[64];

	if (!victim.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl("/bin/sleep", "sleep", "60", NULL);
		_exit(1);
	}
	snprintf(path, sizeof(path), "/proc/%d/exe", victim.pid);
	do
		memset(exe, 0, sizeof(exe));
	while (readlink(path, exe, sizeof(exe) - 1) < 0 || !strstr(exe, "sleep"));
	refuses(&victim, false, -ENODEV, "CUDA");
	kill(victim.pid, SIGKILL);
	waitpid(victim.pid, NULL, 0);
}

static void a_static_program_is_refused(void **state)
{
	struct victim victim = victim_start_as(ATTACH_STATIC, "read", NULL, NULL);

	refuses(&victim, false, -ENOEXEC, "statically");
	assert_int_equal(victim_end(&victim), 0);
}

/* A copy of the program whose interpreter has another name. */
static void a_musl_program_is_refused(void **state)
{
	char musl[64], command[1024];
	struct victim victim;

	snprintf(musl, sizeof(musl), "/tmp/.ld-musl-x86-64.%06d", getpid() % 1000000);
	snprintf(command, sizeof(command),
		 "cp /lib64/ld-linux-x86-64.so.2 %s && sed "
		 "'s,/lib64/ld-linux-x86-64.so.2,%s,' %s > %s.bin && "
		 "chmod 755 %s.bin",
		 musl, musl, ATTACH_TARGET, musl, musl);
	assert_int_equal(strlen(musl), strlen("/lib64/ld-linux-x86-64.so.2"));
	assert_int_equal(system(command), 0);
	snprintf(command, sizeof(command), "%s.bin", musl);
	victim = victim_start_as(command, "read", NULL, NULL);
	refuses(&victim, false, -ENOEXEC, "musl");
	assert_int_equal(victim_end(&victim), 0);
	unlink(command);
	unlink(musl);
}

/* Does nothing but pause(), in 32-bit code: push $29; pop %eax; int $0x80; jmp. */
static void a_32_bit_program_is_refused(void **state)
{
	static const struct {
		Elf32_Ehdr header;
		Elf32_Phdr segment;
		uint8_t code[16];
	} program = {
		{ .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS32, ELFDATA2LSB, EV_CURRENT },
		  .e_type = ET_EXEC,
		  .e_machine = EM_386,
		  .e_version = EV_CURRENT,
		  .e_entry = 0x8048000 + sizeof(Elf32_Ehdr) + sizeof(Elf32_Phdr),
		  .e_phoff = sizeof(Elf32_Ehdr),
		  .e_ehsize = sizeof(Elf32_Ehdr),
		  .e_phentsize = sizeof(Elf32_Phdr),
		  .e_phnum = 1 },
		{ .p_type = PT_LOAD,
		  .p_vaddr = 0x8048000,
		  .p_filesz = sizeof(program),
		  .p_memsz = sizeof(program),
		  .p_flags = PF_R | PF_X,
		  .p_align = 4096 },
		{ 0x6a, 29, 0x58, 0xcd, 0x80, 0xeb, 0xf9 },
	};
	struct victim victim;
	char path[64], exe[64] = "", link[64];
	int fd;

	snprintf(path, sizeof(path), "/tmp/test_attach32.%d", getpid());
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0755);
	assert_int_equal(write(fd, &program, sizeof(program)), sizeof(program));
	close(fd);
	victim.pid = fork();
	if (!victim.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl(path, path, NULL);
		_exit(127);
	}
	snprintf(link, sizeof(link), "/proc/%d/exe", victim.pid);
	while (strcmp(exe, path) && waitpid(victim.pid, NULL, WNOHANG) == 0) {
		ssize_t n = readlink(link, exe, sizeof(exe) - 1);

		exe[n > 0 ? n : 0] = '\0';
	}
	unlink(path);
	if (strcmp(exe, path)) {
		fprintf(stderr, "this kernel runs no 32-bit programs\n");
		return;
	}
	refuses(&victim, false, -ENOEXEC, "32-bit");
	kill(victim.pid, SIGKILL);
	waitpid(victim.pid, NULL, 0);
}

static void a_traced_or_stopped_program_is_refused(void **state)
{
	struct victim victim = victim_start("read", NULL);
	siginfo_t info;

	assert_int_equal(ptrace(PTRACE_SEIZE, victim.pid, NULL, NULL), 0);
	refuses(&victim, false, -EPERM, "is traced by process");
	ptrace(PTRACE_INTERRUPT, victim.pid, NULL, NULL);
	waitpid(victim.pid, NULL, __WALL);
	ptrace(PTRACE_DETACH, victim.pid, NULL, NULL);
	kill(victim.pid, SIGSTOP);
	assert_int_equal(waitid(P_PID, (id_t)victim.pid, &info, WSTOPPED), 0);
	refuses(&victim, false, -EAGAIN, "kill -CONT");
	kill(victim.pid, SIGCONT);
	assert_int_equal(victim_end(&victim), 0);
}

static void filter_nothing(void)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = { 1, &allow };

	prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void filter_memfd(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void same_residue(struct victim *victim, const struct residue *before)
{
	struct residue after = residue_of(victim->pid);

	assert_int_equal(after.ours, 0);
	assert_int_equal(after.threads, before->threads);
	assert_int_equal(after.descriptors, before->descriptors);
	assert_int_equal(after.mappings, before->mappings);
}

static void a_seccomp_filter_is_refused_unless_asked_for(void **state)
{
	struct victim victim = victim_start_as(ATTACH_TARGET, "read", NULL, filter_nothing);
	struct attach_result result;

	refuses(&victim, false, -ENOEXEC, "seccomp");
	cycle(&victim, &result);
	assert_int_equal(victim_end(&victim), 0);
}

static void a_system_call_that_is_forbidden_rolls_back(void **state)
{
	struct victim victim = victim_start_as(ATTACH_TARGET, "read", NULL, filter_memfd);
	struct residue before = residue_of(victim.pid);

	refuses(&victim, true, -EIO, "memfd_create");
	same_residue(&victim, &before);
	assert_int_equal(victim_end(&victim), 0);
}

static void a_second_attach_is_refused_and_a_parked_library_started_again(void **state)
{
	struct victim victim = victim_start("read", NULL);
	struct attach_result first, second;
	char why[ATTACH_WHY_MAX];

	assert_int_equal(victim_attach(&victim, ENTRY_STARTS, &first, why), 0);
	assert_false(first.loaded_before);
	assert_true(fixture_hears(first.socket, TS_MESSAGE_HELLO));
	refuses(&victim, false, -EALREADY, "already");
	assert_true(fixture_dismiss(first.socket));
	close(first.socket);
	while (residue_of(victim.pid).threads > 1)
		fixture_rest();
	assert_int_equal(victim_attach(&victim, ENTRY_STARTS, &second, why), 0);
	assert_true(second.loaded_before);
	assert_int_equal(second.handle, first.handle);
	assert_true(fixture_hears(second.socket, TS_MESSAGE_HELLO));
	assert_true(fixture_dismiss(second.socket));
	close(second.socket);
	assert_int_equal(attach_unload(victim.pid, 0, second.handle, why), 0);
	assert_int_equal(residue_of(victim.pid).ours, 0);
	assert_int_equal(attach_unload(victim.pid, 0, second.handle, why), -ENOEXEC);
	assert_int_equal(victim_end(&victim), 0);
}

static void rolls_back(uint32_t entry_does, const char *word, bool warm)
{
	struct victim victim = victim_start("vectors", "alone");
	struct attach_result result;
	struct residue before;
	char why[ATTACH_WHY_MAX];

	if (warm)
		cycle(&victim, &result);
	before = residue_of(victim.pid);
	assert_int_equal(victim_attach(&victim, entry_does, &result, why), -EIO);
	if (!strstr(why, word))
		fail_msg("'%s' does not say '%s'", why, word);
	same_residue(&victim, &before);
	cycle(&victim, &result);
	assert_int_equal(victim_end(&victim), 0);
}

static void a_library_that_fails_is_taken_out(void **state)
{
	rolls_back(ENTRY_FAILS, "Cannot allocate memory", true);
}

static void a_call_that_hangs_is_taken_back(void **state)
{
	rolls_back(ENTRY_HANGS, "did not come back", true);
}

static void a_call_that_crashes_is_taken_back(void **state)
{
	rolls_back(ENTRY_CRASHES, "signal 11", true);
}

static void a_file_that_is_no_library_is_told(void **state)
{
	struct victim victim = victim_start("read", NULL);
	struct attach_result result;
	struct attach_request request = { .pid = victim.pid,
					  .library = open("/etc/passwd", O_RDONLY | O_CLOEXEC) };
	struct residue before;
	char why[ATTACH_WHY_MAX] = "";

	cycle(&victim, &result);
	before = residue_of(victim.pid);
	assert_int_equal(attach_run(&request, &result, why), -EIO);
	assert_non_null(strstr(why, "invalid ELF header"));
	same_residue(&victim, &before);
	close(request.library);
	assert_int_equal(victim_end(&victim), 0);
}

/* Its tracer is killed while it is inside the call: it finds its way back alone. */
static void a_program_survives_the_death_of_the_daemon(void **state)
{
	static const char *const modes[][2] = { { "vectors", "alone" },
						{ "read", NULL },
						{ "nanosleep", NULL } };

	for (int i = 0; i < 2; i++) {
		struct victim victim = victim_start(modes[i][0], modes[i][1]);
		pid_t daemon = attach_elsewhere(&victim, ENTRY_IS_SLOW);

		while (!residue_of(victim.pid).ours)
			fixture_rest();
		usleep(50000);
		kill(daemon, SIGKILL);
		waitpid(daemon, NULL, 0);
		while (residue_of(victim.pid).threads > 1)
			fixture_rest();
		usleep(500000); /* the call takes 300 ms, whoever waits for it */
		assert_int_equal(victim_end(&victim), 0);
	}
}

static void a_program_killed_in_the_middle_is_told_and_not_kept(void **state)
{
	for (int i = 0; i < 60; i++) {
		struct victim victim = victim_start(i % 2 ? "chaos" : "read", NULL);
		pid_t daemon = attach_elsewhere(&victim, ENTRY_STARTS);
		int r;

		usleep((useconds_t)(i * 100));
		kill(victim.pid, SIGKILL);
		r = elsewhere_end(daemon);
		assert_true(r == 0 || r == -ESRCH);
		assert_int_equal(victim_end(&victim), 1000 + SIGKILL);
	}
}

static bool with_proc;

/* Another file system, without the library, without the test's own files. */
static void other_mounts(void)
{
	char root[] = "/tmp/test_attach_root.XXXXXX", command[1024];

	if (unshare(CLONE_NEWNS) < 0 || !mkdtemp(root) ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("none", root, "tmpfs", 0, NULL) < 0)
		_exit(99);
	snprintf(command, sizeof(command),
		 "cd %s && mkdir -p proc lib64 lib/x86_64-linux-gnu && "
		 "cp -L /lib64/ld-linux-x86-64.so.2 lib64 && "
		 "cp -L /lib/x86_64-linux-gnu/libc.so.6 lib/x86_64-linux-gnu && "
		 "cp %s prog && cp %s . && if %s; then mount -t proc none proc; fi",
		 root, ATTACH_TARGET, fixture_cuda(), with_proc ? "true" : "false");
	if (system(command) || chroot(root) < 0 || chdir("/") < 0)
		_exit(98);
	execl("/prog", "prog", "/libcuda.so.1", "read", NULL);
	_exit(97);
}

static void remove_roots(void)
{
	assert_int_equal(system("rmdir /tmp/test_attach_root.* 2>/dev/null || true"), 0);
}

static void a_program_with_other_mounts_needs_none_of_ours(void **state)
{
	struct attach_result result;
	struct victim victim;

	with_proc = true;
	victim = victim_start_as(ATTACH_TARGET, "read", NULL, other_mounts);
	cycle(&victim, &result);
	assert_int_equal(victim_end(&victim), 0);
	remove_roots();
}

static void a_program_without_proc_is_refused(void **state)
{
	struct victim victim;

	with_proc = false;
	victim = victim_start_as(ATTACH_TARGET, "read", NULL, other_mounts);
	refuses(&victim, false, -ENOEXEC, "/proc");
	assert_int_equal(victim_end(&victim), 0);
	remove_roots();
}

static void a_program_in_a_pid_namespace_is_attached_to(void **state)
{
	struct victim outer;
	char path[64], text[32] = "";
	struct attach_result result;
	FILE *file;

	assert_int_equal(unshare(CLONE_NEWPID), 0);
	outer = victim_start("read", NULL);
	snprintf(path, sizeof(path), "/proc/self/ns/pid");
	setns(open(path, O_RDONLY | O_CLOEXEC), CLONE_NEWPID);
	snprintf(path, sizeof(path), "grep NSpid /proc/%d/status", outer.pid);
	file = popen(path, "r");
	assert_non_null(fgets(text, sizeof(text), file));
	pclose(file);
	assert_non_null(strstr(text, "\t1\n"));
	cycle(&outer, &result);
	assert_int_equal(victim_end(&outer), 0);
}

static bool ptrace_works(void)
{
	pid_t child = fork();
	bool works;

	if (!child) {
		pause();
		_exit(0);
	}
	works = getuid() == 0 && ptrace(PTRACE_SEIZE, child, NULL, NULL) == 0;
	kill(child, SIGKILL);
	waitpid(child, NULL, __WALL);
	return works;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_not_there_is_refused),
		cmocka_unit_test(a_program_without_cuda_is_refused),
		cmocka_unit_test(a_static_program_is_refused),
		cmocka_unit_test(a_musl_program_is_refused),
		cmocka_unit_test(a_32_bit_program_is_refused),
		cmocka_unit_test(a_traced_or_stopped_program_is_refused),
		cmocka_unit_test(a_seccomp_filter_is_refused_unless_asked_for),
		cmocka_unit_test(a_system_call_that_is_forbidden_rolls_back),
		cmocka_unit_test(a_program_of_one_sleeping_thread_is_as_it_was),
		cmocka_unit_test(a_program_of_one_computing_thread_keeps_its_registers),
		cmocka_unit_test(computing_threads_keep_their_registers),
		cmocka_unit_test(a_thread_that_allocates_all_the_time_is_left_in_peace),
		cmocka_unit_test(a_thread_that_forks_all_the_time_is_left_in_peace),
		cmocka_unit_test(no_signal_of_a_storm_is_lost),
		cmocka_unit_test(a_program_that_does_everything_is_as_it_was),
		cmocka_unit_test(calls_with_a_time_wait_that_long),
		cmocka_unit_test(calls_that_the_kernel_would_end_wait_on),
		cmocka_unit_test(calls_that_wait_for_data_get_it),
		cmocka_unit_test(calls_that_wait_for_a_signal_get_it),
		cmocka_unit_test(a_signal_during_the_stop_ends_the_call),
		cmocka_unit_test(a_second_attach_is_refused_and_a_parked_library_started_again),
		cmocka_unit_test(a_library_that_fails_is_taken_out),
		cmocka_unit_test(a_call_that_hangs_is_taken_back),
		cmocka_unit_test(a_call_that_crashes_is_taken_back),
		cmocka_unit_test(a_file_that_is_no_library_is_told),
		cmocka_unit_test(a_program_survives_the_death_of_the_daemon),
		cmocka_unit_test(a_program_killed_in_the_middle_is_told_and_not_kept),
		cmocka_unit_test(a_program_with_other_mounts_needs_none_of_ours),
		cmocka_unit_test(a_program_without_proc_is_refused),
		cmocka_unit_test(a_program_in_a_pid_namespace_is_attached_to),
	};
	int r;

	if (!ptrace_works()) {
		fprintf(stderr, "skipped: needs root and ptrace\n");
		return 77;
	}
	r = cmocka_run_group_tests(tests, NULL, NULL);
	fixture_end();
	return r;
}
