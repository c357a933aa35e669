// SPDX-License-Identifier: GPL-2.0
/*
 * mrverbs: tests of the verbs between two devices of this machine.
 *
 *   mrverbs test [-6] [-k PART_OF_NAME] [-x PART_OF_NAME] DEVICE_A DEVICE_B GROUP...
 *   mrverbs list
 *   mrverbs soak|flood|hold|member|stall|migrate|info|scale|cm_... ... for the shell tests
 *
 * Prints KTAP. Each test runs in a child process, so that it can be stopped,
 * and so that what it leaves behind is cleaned up by the kernel.
 */
#include "mrverbs.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int wait_ms = 60000;

static struct test *tests;
static int n_tests;

void test_end(int result, const char *file, int line, const char *fmt, ...)
{
	const char *name = strrchr(file, '/');
	va_list args;

	printf("# %s:%d: ", name ? name + 1 : file, line);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
	_exit(result);
}

void test_add(const char *group, void (*fn)(struct env *, const struct test *), int seconds,
	      long arg0, long arg1, const char *fmt, ...)
{
	struct test *test;
	va_list args;

	tests = realloc(tests, (n_tests + 1) * sizeof(*tests));
	if (!tests)
		abort();
	test = &tests[n_tests++];
	*test = (struct test){
		.group = group, .fn = fn, .arg = { arg0, arg1 },
		.seconds = seconds ? seconds : TEST_S,
	};
	va_start(args, fmt);
	vsnprintf(test->name, sizeof(test->name), fmt, args);
	va_end(args);
}

static void add_all(void)
{
	tests_data();
	tests_data_edge();
	tests_order();
	tests_error_remote();
	tests_error_local();
	tests_error_rnr();
	tests_error_peer();
	tests_error_state();
	tests_qp_state();
	tests_qp_create();
	tests_cq();
	tests_mr();
	tests_many();
	tests_abuse_ring();
	tests_abuse_flood();
	tests_abuse_call();
	tests_atomic();
	tests_mw();
	tests_srq_use();
	tests_srq_event();
	tests_srq_resize();
	tests_srq_bounds();
	tests_odp();
	tests_odp_dirty();
	tests_dmabuf();
	tests_ud_data();
	tests_ud_drop();
	tests_ud_error();
	tests_ud_ah();
	tests_ud_srq();
	tests_ud_multicast();
	tests_ud_odp();
	tests_uc();
	tests_rereg();
	tests_cq_change();
	tests_ex();
	tests_dv();
	tests_dv_device();
	tests_dv_order();
	tests_migrate();
	tests_changing();
}

static bool selected(const struct test *test, const char *part, const char *without,
		     char **groups, int n)
{
	int i;

	if ((part && !strstr(test->name, part)) || (without && strstr(test->name, without)))
		return false;
	for (i = 0; i < n; i++)
		if (!strcmp(groups[i], test->group))
			return true;
	return false;
}

/* Waits for the child up to its watchdog. */
static int child_result(pid_t pid, int seconds)
{
	long long stop = now_ms() + seconds * 1000LL;
	int status;

	for (;;) {
		pid_t ret = waitpid(pid, &status, WNOHANG);

		if (ret == pid)
			break;
		if (now_ms() > stop) {
			printf("# not finished after %d s, killed\n", seconds);
			kill(pid, SIGKILL);
			for (stop = now_ms() + 60000; now_ms() < stop; sleep_ms(50))
				if (waitpid(pid, &status, WNOHANG) == pid)
					return KSFT_FAIL;
			printf("Bail out! process %d cannot be killed\n", pid);
			exit(KSFT_FAIL);
		}
		sleep_ms(2);
	}
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	printf("# killed by signal %d (%s)\n", WTERMSIG(status), strsignal(WTERMSIG(status)));
	return KSFT_FAIL;
}

static int run_one(const struct test *test, const char *a, const char *b, bool ipv6)
{
	struct env env;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid < 0) {
		printf("# fork: %s\n", strerror(errno));
		return KSFT_FAIL;
	}
	if (!pid) {
		env_open(&env, a, b, ipv6);
		test->fn(&env, test);
		fflush(stdout);
		_exit(KSFT_PASS);
	}
	/* Whoever waits longer for what should happen at once has a slow machine. */
	return child_result(pid, test->seconds * (wait_ms > 60000 ? wait_ms / 60000 : 1));
}

static int cmd_test(int argc, char **argv)
{
	int opt, i, planned = 0, number = 0, pass = 0, fail = 0, skip = 0;
	const char *part = NULL, *without = NULL;
	bool ipv6 = false;
	char **groups;
	int n_groups;

	while ((opt = getopt(argc, argv, "6k:x:")) != -1) {
		switch (opt) {
		case '6':
			ipv6 = true;
			break;
		case 'k':
			part = optarg;
			break;
		case 'x':
			without = optarg;
			break;
		default:
			return KSFT_FAIL;
		}
	}
	groups = argv + optind + 2;
	n_groups = argc - optind - 2;
	if (n_groups < 1) {
		fprintf(stderr, "test: two devices and a group, please\n");
		return KSFT_FAIL;
	}
	for (i = 0; i < n_tests; i++)
		planned += selected(&tests[i], part, without, groups, n_groups);
	printf("TAP version 13\n1..%d\n", planned);
	if (!planned) {
		printf("# no test of that name\n");
		return KSFT_FAIL;
	}
	for (i = 0; i < n_tests; i++) {
		const struct test *test = &tests[i];
		int result;

		if (!selected(test, part, without, groups, n_groups))
			continue;
		result = run_one(test, argv[optind], argv[optind + 1], ipv6);
		number++;
		switch (result) {
		case KSFT_PASS:
			printf("ok %d %s: %s\n", number, test->group, test->name);
			pass++;
			break;
		case KSFT_SKIP:
			printf("ok %d %s: %s # SKIP\n", number, test->group, test->name);
			skip++;
			break;
		default:
			printf("not ok %d %s: %s\n", number, test->group, test->name);
			fail++;
		}
	}
	printf("# Totals: pass:%d fail:%d xfail:0 xpass:0 skip:%d error:0\n", pass, fail, skip);
	return fail ? KSFT_FAIL : KSFT_PASS;
}

static int cmd_list(int argc, char **argv)
{
	int i;

	(void)argc;
	(void)argv;
	for (i = 0; i < n_tests; i++)
		printf("%s: %s\n", tests[i].group, tests[i].name);
	return KSFT_PASS;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(int argc, char **argv);
	} commands[] = {
		{ "test", cmd_test }, { "list", cmd_list }, { "soak", cmd_soak },
		{ "flood", cmd_flood }, { "hold", cmd_hold }, { "info", cmd_info },
		{ "member", cmd_member }, { "stall", cmd_stall },
		{ "cm_serve", cmd_cm_serve }, { "cm_connect", cmd_cm_connect },
		{ "scale", cmd_scale }, { "migrate", cmd_migrate },
	};
	size_t i;

	if (getenv("MRVERBS_WAIT"))
		wait_ms = atoi(getenv("MRVERBS_WAIT")) * 1000;
	add_all();
	for (i = 0; argc > 1 && i < ARRAY_SIZE(commands); i++)
		if (!strcmp(argv[1], commands[i].name))
			return commands[i].run(argc - 1, argv + 1);
	fprintf(stderr, "usage: %s", argv[0]);
	for (i = 0; i < ARRAY_SIZE(commands); i++)
		fprintf(stderr, "%s%s", i ? "|" : " ", commands[i].name);
	fprintf(stderr, " ...\n");
	return KSFT_FAIL;
}
