// SPDX-License-Identifier: GPL-2.0
/* Registered memory, and what is in it. */
#include "mrverbs.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t pattern(uint64_t seed, uint64_t index)
{
	uint64_t x = seed * 0x9e3779b97f4a7c15ULL + index * 0xd1342543de82ef95ULL;

	x ^= x >> 29;
	x *= 0xbf58476d1ce4e5b9ULL;
	return x ^ x >> 32;
}

void fill(void *p, size_t len, uint64_t seed)
{
	uint8_t *dst = p;
	size_t i;

	for (i = 0; i < len; i += 8) {
		uint64_t word = pattern(seed, i / 8);

		memcpy(dst + i, &word, len - i < 8 ? len - i : 8);
	}
}

void check(const void *p, size_t len, uint64_t seed, const char *what)
{
	const uint8_t *got = p;
	size_t i, j;

	for (i = 0; i < len; i += 8) {
		uint64_t word = pattern(seed, i / 8);
		size_t n = len - i < 8 ? len - i : 8;
		uint8_t want[8];

		if (!memcmp(got + i, &word, n))
			continue;
		memcpy(want, &word, 8);
		for (j = 0; got[i + j] == want[j]; j++)
			;
		FAIL("%s: byte %zu of %zu is %02x, should be %02x", what, i + j,
		     len, got[i + j], want[j]);
	}
}

void check_byte(const void *p, size_t len, uint8_t byte, const char *what)
{
	const uint8_t *got = p;
	size_t i;

	for (i = 0; i < len; i++)
		CHECK(got[i] == byte, "%s: byte %zu of %zu is %02x, should be %02x",
		      what, i, len, got[i], byte);
}

#define GUARD_BYTE	0x5a

void buf_new(struct buf *buf, struct host *host, size_t len, int access)
{
	size_t page = sysconf(_SC_PAGESIZE);

	buf->len = len;
	buf->map_len = (len + 2 * GUARD + page - 1) / page * page;
	buf->map = mmap(NULL, buf->map_len, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(buf->map != MAP_FAILED, "mmap of %zu bytes: %m", buf->map_len);
	buf->p = buf->map + GUARD;
	memset(buf->map, GUARD_BYTE, GUARD);
	memset(buf->p + len, GUARD_BYTE, buf->map_len - GUARD - len);
	buf->mr = ibv_reg_mr(host->pd, buf->map, buf->map_len, access);
	CHECK(buf->mr, "ibv_reg_mr of %zu bytes on %s: %m", buf->map_len, host->name);
}

void buf_check_guards(const struct buf *buf, const char *what)
{
	size_t i;

	for (i = 0; i < GUARD; i++)
		CHECK(buf->map[i] == GUARD_BYTE, "%s: byte -%zu before the buffer was written",
		      what, GUARD - i);
	for (i = GUARD + buf->len; i < buf->map_len; i++)
		CHECK(buf->map[i] == GUARD_BYTE, "%s: byte %zu of a buffer of %zu was written",
		      what, i - GUARD, buf->len);
}

void buf_free(struct buf *buf)
{
	OK(ibv_dereg_mr(buf->mr));
	munmap(buf->map, buf->map_len);
	memset(buf, 0, sizeof(*buf));
}
