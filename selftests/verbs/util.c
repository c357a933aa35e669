// SPDX-License-Identifier: GPL-2.0
/* Waiting, devices and what they tell. */
#include "mrverbs.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

void no_more_mappings(void)
{
	/* Less than is mapped already; what is there stays. */
	struct rlimit limit = { 1 << 20, 1 << 20 };

	CHECK(!setrlimit(RLIMIT_AS, &limit), "setrlimit: %m");
}

long long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000LL + ts.tv_nsec / 1000000;
}

void sleep_ms(int ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000L };

	nanosleep(&ts, NULL);
}

static bool gid_fits(const struct ibv_gid_entry *entry, bool ipv6)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	bool is_v4 = !memcmp(entry->gid.raw, mapped, sizeof(mapped));
	bool is_link_local = entry->gid.raw[0] == 0xfe && (entry->gid.raw[1] & 0xc0) == 0x80;

	if (entry->gid_type != IBV_GID_TYPE_ROCE_V2)
		return false;
	return ipv6 ? !is_v4 && !is_link_local : is_v4;
}

void host_open(struct host *host, const char *name, bool ipv6)
{
	struct ibv_device **list;
	int i, n;

	memset(host, 0, sizeof(*host));
	host->name = name;
	list = ibv_get_device_list(&n);
	CHECK(list, "ibv_get_device_list: %m");
	for (i = 0; i < n; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			break;
	CHECK(i < n, "no device %s among %d", name, n);
	host->ctx = ibv_open_device(list[i]);
	CHECK(host->ctx, "ibv_open_device(%s): %m", name);
	ibv_free_device_list(list);

	OK(ibv_query_device(host->ctx, &host->attr));
	OK(ibv_query_port(host->ctx, 1, &host->port));
	host->gid_index = -1;
	for (i = 0; i < host->port.gid_tbl_len && host->gid_index < 0; i++) {
		struct ibv_gid_entry entry;

		if (ibv_query_gid_ex(host->ctx, 1, i, &entry, 0) || !gid_fits(&entry, ipv6))
			continue;
		host->gid_index = i;
		host->gid = entry.gid;
	}
	CHECK(host->gid_index >= 0, "%s has no RoCE v2 GID of an %s address", name,
	      ipv6 ? "IPv6" : "IPv4");
	host->pd = ibv_alloc_pd(host->ctx);
	CHECK(host->pd, "ibv_alloc_pd on %s: %m", name);
}

void host_close(struct host *host)
{
	OK(ibv_dealloc_pd(host->pd));
	OK(ibv_close_device(host->ctx));
}

void env_open(struct env *env, const char *a, const char *b, bool ipv6)
{
	host_open(&env->a, a, ipv6);
	host_open(&env->b, b, ipv6);
}

/* The tests say what they made; by hand, metaroce is meant. */
bool is_metaroce(void)
{
	const char *type = getenv("RDMA_TYPE");

	return !type || !strcmp(type, "metaroce");
}

int async_event_wait(struct host *host, int ms, struct ibv_async_event *event)
{
	struct pollfd pfd = { .fd = host->ctx->async_fd, .events = POLLIN };

	if (poll(&pfd, 1, ms) <= 0)
		return 0;
	OK(ibv_get_async_event(host->ctx, event));
	return 1;
}

void async_event_expect(struct host *host, enum ibv_event_type type, const void *of)
{
	struct ibv_async_event event;

	CHECK(async_event_wait(host, WAIT_MS, &event), "no event \"%s\"",
	      ibv_event_type_str(type));
	CHECK_EQ(event.event_type, type, "event");
	CHECK(event.element.qp == of, "event of another object");
	ibv_ack_async_event(&event);
}

unsigned long long counter(struct host *host, const char *name)
{
	unsigned long long value;
	char path[256];
	FILE *file;
	int n;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/hw_counters/%s",
		 host->name, name);
	/* Values are kept for some milliseconds. */
	sleep_ms(30);
	file = fopen(path, "r");
	CHECK(file, "%s: %m", path);
	n = fscanf(file, "%llu", &value);
	fclose(file);
	CHECK(n == 1, "nothing in %s", path);
	return value;
}
